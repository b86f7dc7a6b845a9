"""Transports: how requests are sent. ``DirectTransport`` is the network, ``FakeTransport`` a function;
``RecordingTransport`` records what another transport sends, ``ReplayTransport`` plays it back. The transports of
cassettes are imported when they are first used."""

import typing as _typing

from vidgen_async.errors import ConfigurationError as _ConfigurationError
from vidgen_async.transports.base import CHANGED as _CHANGED
from vidgen_async.transports.base import BufferedResponse as BufferedResponse
from vidgen_async.transports.base import Connection as Connection
from vidgen_async.transports.base import Response as Response
from vidgen_async.transports.base import Transport as Transport
from vidgen_async.transports.base import WrappingTransport as WrappingTransport
from vidgen_async.transports.base import nothing_sent as nothing_sent
from vidgen_async.transports.direct.proxies import EnvironmentProxies as EnvironmentProxies
from vidgen_async.transports.direct.proxies import is_on_this_machine as is_on_this_machine
from vidgen_async.transports.direct.transport import DirectTransport as DirectTransport
from vidgen_async.transports.fake import FakeTransport as FakeTransport
from vidgen_async.types.http import Body as Body
from vidgen_async.types.http import BytesBody as BytesBody
from vidgen_async.types.http import Delivery as Delivery
from vidgen_async.types.http import Headers as Headers
from vidgen_async.types.http import Phase as Phase
from vidgen_async.types.http import Request as Request
from vidgen_async.types.http import make_headers as make_headers

if _typing.TYPE_CHECKING:
    from vidgen_async.cassette.modes import AppendingTransport as AppendingTransport
    from vidgen_async.cassette.modes import on_cassette as on_cassette
    from vidgen_async.cassette.recording import RecordingTransport as RecordingTransport
    from vidgen_async.cassette.replay import ReplayTransport as ReplayTransport
else:
    from vidgen_async import _lazy_names

    __all__, _find, __dir__ = _lazy_names(
        globals(),
        {
            "cassette.modes": ("AppendingTransport", "on_cassette"),
            "cassette.recording": ("RecordingTransport",),
            "cassette.replay": ("ReplayTransport",),
        },
    )

    def __getattr__(name):
        if name == "Probe":  # which transports written for 0.1.0 import
            raise _ConfigurationError(f"{__name__}.{name} was removed: {_CHANGED}")
        return _find(name)
