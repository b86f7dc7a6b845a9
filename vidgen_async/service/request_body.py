"""The body of a create as JSON, and why something cannot be written as JSON."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from attrs import evolve

from vidgen_async.errors import InvalidRequestError
from vidgen_async.redaction.messages import is_plain_word
from vidgen_async.types.orders import OrderContent
from vidgen_async.types.resources import Extra, VideoRequest


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


#: Compatibility aliases in requests, and the fields that they stand for (section 9).
_ALIASES = {"seconds": "duration", "aspect_ratio": "ratio"}


def create_body(request: VideoRequest) -> bytes:
    """The body of a create: the documented fields that are set, then ``extra``; the same bytes for the same request.

    Keys are sorted, numbers must be finite and aliases (section 9) are sent under the name that they stand for, so that
    equal requests have equal digests. InvalidRequestError names what JSON cannot hold.
    """
    data = {name: value for name in VideoRequest.field_names() if (value := getattr(request, name)) is not None}
    if isinstance(request.extra, Mapping):
        data.update(request.extra)
    _replace_aliases(data)
    if isinstance(request.extra, Mapping):
        with suppress(TypeError, ValueError, RecursionError):
            return write_json(data)
    # Raised out here: as a cause the error would quote the request.
    problems = list(_not_json(data, request.extra))
    raise InvalidRequestError(f"the request was not sent: {'; '.join(problems)}", problems=problems)


def _replace_aliases(data: dict[str, Any]) -> None:
    """Put values under the names that the aliases stand for (section 9); two different values stay as they are."""
    for alias, name in _ALIASES.items():
        if alias in data and repr(data.get(name, data[alias])) == repr(data[alias]):  # 5 is not 5.0, and 1 is not true
            data[name] = data.pop(alias)


def is_same_request(one: OrderContent, other: OrderContent) -> bool:
    """Whether both ask for the same: also where one was stored with the alias of a field, and where the same local
    images were uploaded twice, so that they have different ids."""
    return one.body == other.body or _canonical(one) == _canonical(other)


def _canonical(content: OrderContent) -> bytes:
    data: dict[str, Any] = json.loads(content.body)
    _replace_aliases(data)
    if content.local_images:
        data["image_ids"] = content_of_images(content, data["image_ids"])
    return write_json(data)


def content_of_images(content: OrderContent, image_ids: Iterable[Any]) -> list[Any]:
    """The SHA-256 of each local image of the order, and the ids of all others, by which images are compared."""
    return [content.local_images.get(each, each) if isinstance(each, str) else each for each in image_ids]


def add_image_ids(request: VideoRequest, ids: Iterable[str]) -> VideoRequest:
    """The request with more images, after its own. InvalidRequestError if its own ``image_ids`` are no list, or are in
    ``extra``, which would replace the others."""
    if isinstance(request.extra, Mapping) and "image_ids" in request.extra:
        problem = "extra: image_ids in it would replace the ids of the local images: pass them as image_ids"
        raise InvalidRequestError(f"the request was not sent: {problem}", problems=[problem])
    own = () if request.image_ids is None else request.image_ids
    if not isinstance(own, tuple):
        problem = f"image_ids: must be a list, not {type(own).__name__}"
        raise InvalidRequestError(f"the request was not sent: {problem}", problems=[problem])
    return evolve(request, image_ids=(*own, *ids))


def _not_json(data: Mapping[str, Any], extra: Extra) -> Iterator[str]:
    if not isinstance(extra, Mapping):
        yield f"extra: must be an object, not {type(extra).__name__}"
    for name, value in data.items():
        if not isinstance(name, str):
            yield f"extra: its names must be strings, not {type(name).__name__}"
        elif (why := why_not_json(name) or why_not_json(value)) is not None:
            yield f"{name if name.isprintable() else 'extra'}: {why}"


def read_request(body: bytes) -> VideoRequest:
    """The request that :func:`create_body` wrote."""
    data = json.loads(body)
    known = {name: data.pop(name) for name in VideoRequest.field_names() if name in data}
    return VideoRequest(**{"model": "", "prompt": "", **known}, extra=data)


def model_of(body: bytes) -> str | None:
    """The model in the body of a create, if it is one plain word, as the service's are."""
    model = json.loads(body).get("model")
    return model if isinstance(model, str) and is_plain_word(model) else None


def prompt_of(body: bytes) -> str:
    """The prompt in the body of a create: what no message may show."""
    prompt = json.loads(body).get("prompt")
    return prompt if isinstance(prompt, str) else ""
