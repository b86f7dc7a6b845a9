"""Transports: how requests are sent. ``DirectTransport`` is the network, ``FakeTransport`` a function;
``RecordingTransport`` records what another transport sends, ``ReplayTransport`` plays it back. The transports of
cassettes are imported when they are first used."""

import importlib
import typing

from vidgen_async.transports.base import BufferedResponse, Capabilities, Response, Transport, WrappingTransport
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.transports.fake import FakeTransport
from vidgen_async.types.http import Body, BytesBody, Delivery, Headers, Phase, Probe, Request, make_headers

if typing.TYPE_CHECKING:
    from vidgen_async.cassette.appending import AppendingTransport
    from vidgen_async.cassette.recording import RecordingTransport
    from vidgen_async.cassette.replay import ReplayTransport
    from vidgen_async.cassette.transport_factory import on_cassette

__all__ = [
    "AppendingTransport",
    "Body",
    "BufferedResponse",
    "BytesBody",
    "Capabilities",
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
    "WrappingTransport",
    "make_headers",
    "on_cassette",
]

_OF_CASSETTES = {
    "AppendingTransport": "appending",
    "RecordingTransport": "recording",
    "ReplayTransport": "replay",
    "on_cassette": "transport_factory",
}


def __getattr__(name: str) -> object:
    if name not in _OF_CASSETTES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name)
    return getattr(importlib.import_module(f"vidgen_async.cassette.{_OF_CASSETTES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
