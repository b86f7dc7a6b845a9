"""How a message shows the value that is wrong: shortly, and without what may be secret in it."""

from vidgen_async.redaction.messages import excerpt


def show_value(value: object) -> str:
    """A text in quotes, shortened; a number as it is; of anything else the type."""
    if isinstance(value, str):
        return repr(excerpt(value, limit=80))
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 10**40 else "a number of very many digits"
    return f"<{type(value).__name__}>"
