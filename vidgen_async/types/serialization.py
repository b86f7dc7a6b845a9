"""How values become JSON: :meth:`Serializable.to_dict`, of the fields of attrs classes.

Documented fields are complete, links such as ``video_url`` included: without its signature a link is useless. Fields
that are :data:`SECRET`, and secrets in what the service may fill with anything, are included only on request.
"""

import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from enum import Enum
from importlib import import_module
from math import isfinite
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import fields, has

from vidgen_async.redaction.messages import hide_in_json

_SECRECY = "secrecy"
#: The metadata of a field that is included only on request.
SECRET = {_SECRECY: "secret"}
#: The metadata of a field of unknown content: secrets in it are replaced by an ellipsis, unless they are requested.
MAY_CONTAIN_SECRETS = {_SECRECY: "may contain secrets"}


class Serializable:
    """A value that becomes JSON, with its attributes as names.

    FastAPI and pydantic serialize it as :meth:`to_dict`, and so do Celery and kombu. Other encoders accept the function
    ``Serializable.to_dict`` for what they do not know: ``json.dumps({"task": task}, default=Serializable.to_dict)``.
    """

    __slots__ = ()

    _computed: ClassVar[tuple[str, ...]] = ()
    """The properties that :meth:`to_dict` includes."""

    def to_dict(self, *, include_secrets: bool = False) -> dict[str, Any]:
        """Return the value as a dictionary that ``json.dumps`` accepts, for responses of a web application for example.

        The names are those of the attributes. All documented ones are present, those without a value as None; ``extra``
        contains the fields that the service description does not name, so that these never replace documented ones.
        Times are in ISO 8601 with their offset. An error has its ``kind`` and ``message``.

        A link to a video or an asset is complete, and opens without a key.

        Args:
            include_secrets: Include Idempotency-Keys and stored bodies, which are left out otherwise, and what looks
                like a secret in ``extra`` and in the service's texts (keys, tokens, signed links), which is ``"…"``
                otherwise.

        Raises:
            TypeError: As the ``default`` of an encoder, it was given a value of another type.
        """
        if not isinstance(self, Serializable):
            raise TypeError(f"Object of type {type(self).__name__} is not JSON serializable")
        return _fields_to_json(self, include_secrets=include_secrets)

    if not TYPE_CHECKING:  # otherwise type checkers would complete them
        __dict__ = property(to_dict)  # vars(value): FastAPI, in a handler without a return annotation
        __json__ = to_dict  # kombu, and so Celery

        @property
        def __pydantic_serializer__(self) -> Any:
            """What pydantic uses where a type is Any: FastAPI, in a handler that returns dict[str, Any]."""
            try:
                core = import_module("pydantic_core")
            except ImportError as error:  # a debugger asks for all attributes
                raise AttributeError(str(error)) from error
            return core.SchemaSerializer(core.core_schema.any_schema(serialization=_pydantic_serialization(core)))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        """Accept instances only, and serialize them as :meth:`to_dict`: for pydantic, also as a model of FastAPI."""
        core = import_module("pydantic_core")  # which asks
        return core.core_schema.custom_error_schema(
            core.core_schema.is_instance_schema(cls),
            "not_an_instance",
            custom_error_message=f"Input should be an instance of {cls.__name__}; JSON is not accepted",
            serialization=_pydantic_serialization(core),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls: Any, _schema: object, _handler: object) -> dict[str, Any]:
        """Name the fields of :meth:`to_dict`, which are always present."""
        names = [item.name for item in fields(cls) if item.metadata.get(_SECRECY) != SECRET[_SECRECY]]
        names += cls._computed
        return {"title": cls.__name__, "type": "object", "properties": {name: {} for name in names}, "required": names}

    def to_json(self, *, include_secrets: bool = False, indent: int | None = None) -> str:
        """Return :meth:`to_dict` as JSON text, in one line unless ``indent`` is given."""
        return json.dumps(self.to_dict(include_secrets=include_secrets), indent=indent, ensure_ascii=False)


def _pydantic_serialization(core: Any) -> Any:
    return core.core_schema.plain_serializer_function_ser_schema(Serializable.to_dict)


def to_json_value(value: Any, *, include_secrets: bool = False) -> Any:
    """Return the value as JSON has it: dictionaries, lists, texts, finite numbers, bools and None."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return value if value.isascii() else value.encode(errors="replace").decode()  # a lone surrogate is no text
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        # Names without lone surrogates; escaped, so that different ones stay different.
        names = (str(name).encode(errors="backslashreplace").decode() for name in value)
        items = (to_json_value(item, include_secrets=include_secrets) for item in value.values())
        return dict(zip(names, items, strict=True))
    if isinstance(value, list | tuple | AbstractSet):
        return [to_json_value(item, include_secrets=include_secrets) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return to_json_value(str(value))  # a name that is not UTF-8 has surrogates
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, BaseException):
        may_retry = getattr(value, "may_retry", False)  # what is no VidgenError is final
        return {"kind": kind_of(value), "message": to_json_value(str(value)), "may_retry": may_retry}
    return _fields_to_json(value, include_secrets=include_secrets) if has(type(value)) else value


def _fields_to_json(value: Any, *, include_secrets: bool) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for attribute in fields(type(value)):
        secrecy = None if include_secrets else attribute.metadata.get(_SECRECY)
        if secrecy == SECRET[_SECRECY]:
            continue
        item = to_json_value(getattr(value, attribute.name), include_secrets=include_secrets)
        document[attribute.name] = item if secrecy is None else hide_in_json(item)
    for name in getattr(value, "_computed", ()):
        document[name] = to_json_value(getattr(value, name), include_secrets=include_secrets)
    return document


def kind_of(error: BaseException) -> str:
    """Return the kind of an error for programs and dashboards: its class in snake_case, without its suffix, such as
    ``uncertain_create`` and ``task_failed``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).lower()
