"""Cassettes: recorded requests and responses, without secrets, that can be published and replayed."""

from vidgen_async.cassette.checks import CheckResult, Problem, check
from vidgen_async.cassette.document import Document, Failure, Interaction, Meta, RecordedRequest
from vidgen_async.cassette.reader import load
from vidgen_async.cassette.recovery import RecoveredRecording, recover
from vidgen_async.cassette.secret_scan import Finding, scan
from vidgen_async.cassette.settings import Cassette, Mode

__all__ = [
    "Cassette",
    "CheckResult",
    "Document",
    "Failure",
    "Finding",
    "Interaction",
    "Meta",
    "Mode",
    "Problem",
    "RecordedRequest",
    "RecoveredRecording",
    "check",
    "load",
    "recover",
    "scan",
]
