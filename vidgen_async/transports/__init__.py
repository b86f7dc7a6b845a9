"""Transports: how requests are sent. ``DirectTransport`` is the network, ``FakeTransport`` a function;
``RecordingTransport`` records what another transport sends, ``ReplayTransport`` plays it back. The transports of
cassettes are imported when they are first used."""

import importlib
import typing

from vidgen_async.errors import ConfigurationError
from vidgen_async.transports.base import (
    CHANGED,
    BufferedResponse,
    Connection,
    Response,
    Transport,
    WrappingTransport,
    nothing_sent,
)
from vidgen_async.transports.direct.proxies import EnvironmentProxies, is_on_this_machine
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.transports.fake import FakeTransport
from vidgen_async.types.http import Body, BytesBody, Delivery, Headers, Phase, Request, make_headers

if typing.TYPE_CHECKING:
    from vidgen_async.cassette.modes import AppendingTransport, on_cassette
    from vidgen_async.cassette.recording import RecordingTransport
    from vidgen_async.cassette.replay import ReplayTransport

__all__ = [
    "AppendingTransport",
    "Body",
    "BufferedResponse",
    "BytesBody",
    "Connection",
    "Delivery",
    "DirectTransport",
    "EnvironmentProxies",
    "FakeTransport",
    "Headers",
    "Phase",
    "RecordingTransport",
    "ReplayTransport",
    "Request",
    "Response",
    "Transport",
    "WrappingTransport",
    "is_on_this_machine",
    "make_headers",
    "nothing_sent",
    "on_cassette",
]

_OF_CASSETTES = {
    "AppendingTransport": "modes",
    "RecordingTransport": "recording",
    "ReplayTransport": "replay",
    "on_cassette": "modes",
}


def __getattr__(name: str) -> object:
    if name == "Probe":  # which transports written for 0.1.0 import
        raise ConfigurationError(f"{__name__}.{name} was removed: {CHANGED}")
    if name not in _OF_CASSETTES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return getattr(importlib.import_module(f"vidgen_async.cassette.{_OF_CASSETTES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
