"""The error for a request that is not on the cassette: the most similar requests, and how they differ."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from yarl import URL

from vidgen_async.errors import CassetteMissError
from vidgen_async.redaction.secret_names import Kind, kind_of

NEAREST = 3
_LONGEST_VALUE = 60

#: Method, URL, body.
Key: TypeAlias = tuple[str, str, str]


def explain_miss(key: Key, op: str, path: Path, known: Iterable[Key]) -> CassetteMissError:
    """The error for a request with this key. It contains no prompt."""
    nearest = sorted(known, key=lambda other: -_likeness(key, other))[:NEAREST]
    lines = [f"{other[0]} {other[1]}: {'; '.join(_differences(key, other))}" for other in nearest]
    message = f"{path} has no interaction for {key[0]} {key[1]} ({op})"
    if lines:
        message += "; the nearest differ:" + "".join(f"\n  {line}" for line in lines) + "\n"
    else:
        message += ": it is empty. "
    return CassetteMissError(
        message.rstrip(), nearest=lines, advice="Record it again if the request is as it should be."
    )


def _likeness(one: Key, other: Key) -> float:
    (host, path, query), (other_host, other_path, other_query) = _split(one[1]), _split(other[1])
    common = sum(a == b for a, b in zip(path, other_path, strict=False))
    return (
        4.0 * (one[0] == other[0])
        + 2.0 * (host == other_host)
        + 8.0 * common / max(len(path), len(other_path), 1)
        + 2.0 * (query == other_query)
        + (one[2] == other[2])
    )


def _split(url: str) -> tuple[str, list[str], str]:
    """Scheme and host, the segments of the path, and the query."""
    address, _, query = url.partition("?")
    segments = address.split("/")
    return "/".join(segments[:3]), segments[3:], query


def _differences(here: Key, there: Key) -> Iterator[str]:
    if here[0] != there[0]:
        yield f"the method is {there[0]}"
    mine, theirs = _split(here[1]), _split(there[1])
    if mine[0] != theirs[0]:
        yield f"the host is {theirs[0]}, not {mine[0]}"
    if mine[1] != theirs[1]:
        yield f"the path is /{'/'.join(theirs[1])}"
    if mine[2] != theirs[2]:
        yield from _query_differences(mine[2], theirs[2])
    if here[2] != there[2]:
        yield from _body_differences(_body(here[2]), _body(there[2]))


def _query_differences(here: str, there: str) -> Iterator[str]:
    mine, theirs = (URL.build(query_string=query, encoded=True).query for query in (here, there))
    for name in sorted({*mine, *theirs}):
        if mine.getall(name, []) != theirs.getall(name, []):
            yield f"query {name} is {_show(theirs.get(name), name)}, not {_show(mine.get(name), name)}"


def _body(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text or None


def _body_differences(here: Any, there: Any, pointer: str = "", name: str = "") -> Iterator[str]:
    """``name`` is that of the field, also where its value is a list."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key in sorted({*here, *there}):
            if here.get(key) != there.get(key):
                yield from _body_differences(here.get(key), there.get(key), f"{pointer}/{key}", key)
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for at, (mine, theirs) in enumerate(zip(here, there, strict=True)):
            if mine != theirs:
                yield from _body_differences(mine, theirs, f"{pointer}/{at}", name)
    else:
        yield f"body {pointer or 'as a whole'} is {_show(there, name)}, not {_show(here, name)}"


def _show(value: Any, name: str) -> str:
    """A value, unless it is long or a prompt. A text without a name is a whole body, which may be a prompt."""
    if value is None:
        return "absent"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, str) and not value.startswith("sha256:") and (not name or kind_of(name) is Kind.PROMPT):
        return f"another text ({len(value)} characters)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
