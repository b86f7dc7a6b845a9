"""Transports: who carries the requests. Direct is the real network, fake is a function; recording writes down what
another one carries, replay plays it back. Those of cassettes are loaded when they are first asked for."""

import importlib
import typing

from vidgen_async.messages import Body, BytesBody, Delivery, Headers, Phase, Probe, Request, make_headers
from vidgen_async.transports.base import BufferedResponse, Response, Transport
from vidgen_async.transports.direct import DirectTransport
from vidgen_async.transports.fake import FakeTransport

if typing.TYPE_CHECKING:
    from vidgen_async.transports.appending import AppendingTransport
    from vidgen_async.transports.cassettes import on_cassette
    from vidgen_async.transports.recording import RecordingTransport
    from vidgen_async.transports.replay import ReplayTransport

__all__ = [
    "AppendingTransport",
    "Body",
    "BufferedResponse",
    "BytesBody",
    "Delivery",
    "DirectTransport",
    "FakeTransport",
    "Headers",
    "Phase",
    "Probe",
    "RecordingTransport",
    "ReplayTransport",
    "Request",
    "Response",
    "Transport",
    "make_headers",
    "on_cassette",
]

_OF_CASSETTES = {
    "AppendingTransport": "appending",
    "RecordingTransport": "recording",
    "ReplayTransport": "replay",
    "on_cassette": "cassettes",
}


def __getattr__(name: str) -> object:
    module = _OF_CASSETTES.get(name)
    if module is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name)
    found = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
