"""Transports: who carries the requests. Direct is the real network, fake is a function; recording writes down what
another one carries, replay plays it back."""

from vidgen_async.messages import Body, BytesBody, Delivery, Headers, Phase, Probe, Request, make_headers
from vidgen_async.transports.appending import AppendingTransport
from vidgen_async.transports.base import BufferedResponse, Response, Transport
from vidgen_async.transports.cassettes import on_cassette
from vidgen_async.transports.direct import DirectTransport
from vidgen_async.transports.fake import FakeTransport
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
