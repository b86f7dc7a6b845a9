"""What may be the task id in the answer to a create that names none at its top level.

The description shows no more of the body of a 202 than that it carries the task id (4.4). What is found here is never
believed: it is asked for, and only the service's own answer about it counts.
"""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import unquote

from yarl import URL

from vidgen_async.service.codec import Answer, id_or_none
from vidgen_async.service.endpoints import LONGEST_TASK_ID

#: More values than this are no evidence of anything.
MOST_CANDIDATES = 4

_NAMES = ("id", "task_id", "taskId", "video_id", "videoId")
_WRAPPERS = ("data", "task", "video", "result")
_LISTS = ("videos", "data")
#: One path segment that needs no quoting.
_SEGMENT = re.compile(rf"[A-Za-z0-9_~:@-][A-Za-z0-9_.~:@-]{{0,{LONGEST_TASK_ID - 1}}}")
_LOCATION = re.compile(r".*/videos/([^/]+)")


def find_candidates(answer: Answer, request: bytes, excluded: Collection[str]) -> tuple[str, ...]:
    """The values of a complete 2xx that may be the task id, each once, in the order of the answer; none where there are
    more than :data:`MOST_CANDIDATES`. Nothing of the request itself and nothing of ``excluded`` is among them."""
    known = {*excluded, *map(str, _scalars(json.loads(request)))}
    values = (*_of_body(answer.body), *_of_location(answer))
    found = dict.fromkeys(value for value in values if _SEGMENT.fullmatch(value) and value not in known)
    return tuple(found) if len(found) <= MOST_CANDIDATES else ()


def _of_body(body: bytes) -> Iterator[str]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return
    if isinstance(data, str):
        yield data
    if not isinstance(data, dict):
        return
    yield from _named(data)
    for wrapper in _WRAPPERS:
        yield from _named(data.get(wrapper))
    for name in _LISTS:
        items = data.get(name)
        if isinstance(items, list) and len(items) == 1:
            yield from _named(items[0])


def _named(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        yield from filter(None, (id_or_none(data.get(name)) for name in _NAMES))


def _of_location(answer: Answer) -> Iterator[str]:
    for value in answer.headers.getall("Location", ()):
        try:
            url = answer.url.join(URL(value, encoded=True))
        except ValueError:
            continue
        match = _LOCATION.fullmatch(url.raw_path)
        if match is not None and url.origin() == answer.url.origin():
            yield unquote(match[1])


def _scalars(data: Any) -> Iterator[Any]:
    """Every value of a JSON document that is neither an object nor an array."""
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        for item in data:
            yield from _scalars(item)
    elif data is not None:
        yield data
