"""Transports: who carries the requests. Direct is the real network; fake is a function."""

from vidgen_async.messages import Body, BytesBody, Delivery, Headers, Phase, Probe, Request, make_headers
from vidgen_async.transports.base import BufferedResponse, Response, Transport
from vidgen_async.transports.direct import DirectTransport
from vidgen_async.transports.fake import FakeTransport

__all__ = [
    "Body",
    "BufferedResponse",
    "BytesBody",
    "Delivery",
    "DirectTransport",
    "FakeTransport",
    "Headers",
    "Phase",
    "Probe",
    "Request",
    "Response",
    "Transport",
    "make_headers",
]
