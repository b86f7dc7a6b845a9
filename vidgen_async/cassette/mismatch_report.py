"""The error for a request that is not on the cassette: the most similar requests, and how they differ."""

import json
from collections.abc import Iterable, Iterator
from operator import eq
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from vidgen_async.errors import CassetteMissError
from vidgen_async.redaction.secret_names import Kind, kind_of

NEAREST = 3
_LONGEST_VALUE = 60

#: Method, URL, body.
Key: TypeAlias = tuple[str, str, str]


def explain_miss(key: Key, op: str, path: Path, known: Iterable[Key]) -> CassetteMissError:
    """The error for a request with this key. It contains no prompt."""
    asked = _facts(key)

    def distance(other: tuple[Key, dict[str, str]]) -> tuple[int, int]:
        return len(asked.items() ^ other[1].items()), -sum(map(eq, key[1].split("/"), other[0][1].split("/")))

    nearest = sorted(((other, _facts(other)) for other in known), key=distance)[:NEAREST]
    lines = [f"{other[0]} {other[1]}: {'; '.join(_differences(asked, there))}" for other, there in nearest]
    message = f"{path} has no interaction for {key[0]} {key[1]} ({op})"
    if lines:
        message += "; the nearest differ:" + "".join(f"\n  {line}" for line in lines) + "\n"
    else:
        message += ": it is empty. "
    return CassetteMissError(
        message.rstrip(), nearest=lines, advice="Record it again if the request is as it should be."
    )


def _facts(key: Key) -> dict[str, str]:
    """What is compared of a request, by its description; each value as JSON."""
    method, url, body = key
    address, _, query = url.partition("?")
    scheme, _, rest = address.partition("//")
    host, _, path = rest.partition("/")
    facts = {"the method": method, "the host": f"{scheme}//{host}", "the path": f"/{path}"}
    for name, text in parse_qsl(query, keep_blank_values=True):
        facts[f"query {name}"] = facts.get(f"query {name}", "") + json.dumps(text, ensure_ascii=False)
    try:
        value = json.loads(body)
    except ValueError:
        value = body or None
    return facts | dict(_leaves(value, "body "))


def _leaves(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """The values in a body, with their JSON pointers."""
    if isinstance(value, dict | list) and value:
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(item, f"{place}/{name}")
    elif value is not None:
        yield place if "/" in place else "body as a whole", json.dumps(value, ensure_ascii=False)


def _differences(here: dict[str, str], there: dict[str, str]) -> Iterator[str]:
    for what in dict.fromkeys((*here, *there)):
        if here.get(what) != there.get(what):
            yield f"{what} is {_show(there.get(what), what)}, not {_show(here.get(what), what)}"


def _show(value: str | None, what: str) -> str:
    """A value, unless it is long or a prompt. A text without a name is a whole body, which may be a prompt."""
    if value is None:
        return "absent"
    if what == "body as a whole" or any(kind_of(name) is Kind.PROMPT for name in what.split("/")):
        return value if value.startswith('"sha256:') else f"another value ({len(value)} characters)"
    return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 1]}…"
