"""Cassettes: what went over a transport, written down so that it can be shown to anybody and played back."""

from vidgen_async.cassette.document import Document, Failure, Interaction, Meta, RecordedRequest
from vidgen_async.cassette.partial_recording import Recovered, recover
from vidgen_async.cassette.reader import load
from vidgen_async.cassette.secret_scan import Finding, scan
from vidgen_async.cassette.settings import Cassette, Mode

__all__ = [
    "Cassette",
    "Document",
    "Failure",
    "Finding",
    "Interaction",
    "Meta",
    "Mode",
    "RecordedRequest",
    "Recovered",
    "load",
    "recover",
    "scan",
]
