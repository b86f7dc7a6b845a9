"""Cassettes: what went over a transport, written down so that it can be shown to anybody and played back."""

from vidgen_async.cassette.document import Document, Failure, Interaction, Meta, RecordedRequest
from vidgen_async.cassette.part import Recovered, recover
from vidgen_async.cassette.reading import load
from vidgen_async.cassette.scanning import Finding, scan
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
