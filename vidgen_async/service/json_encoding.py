"""How requests are written as JSON, and why something cannot be."""

import json


def write_json(value: object) -> bytes:
    """The same bytes for equal values: keys sorted, no white space, numbers finite, text in UTF-8.

    Raises TypeError, ValueError or RecursionError for what JSON cannot hold.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.encode()


def why_not_json(value: object) -> str | None:
    """Why the value cannot be written; None when it can. It is not quoted."""
    try:
        write_json(value)
    except UnicodeError:
        return "cannot be written as JSON: it holds a lone surrogate"
    except (TypeError, ValueError, RecursionError) as error:
        return f"cannot be written as JSON: {error}"
    return None
