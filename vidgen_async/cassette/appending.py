"""A transport that replays what is on a cassette, and records the rest."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from attrs import evolve

from vidgen_async.cassette.document import Document
from vidgen_async.cassette.recording import RecordingTransport
from vidgen_async.cassette.replay import ReplayTransport
from vidgen_async.cassette.request_matching import Claim
from vidgen_async.cassette.settings import Cassette
from vidgen_async.cassette.storage import load_if_there
from vidgen_async.clock import Clock
from vidgen_async.errors import CassetteExhaustedError, CassetteMissError
from vidgen_async.events import Event
from vidgen_async.transports.base import Connection, Response, Transport
from vidgen_async.types.http import Request

logger = logging.getLogger(__name__)

_CREATE = "videos.create"
_NOT_RECORDED = (CassetteMissError, CassetteExhaustedError)


class _Recorded(ReplayTransport):
    """The interactions that were recorded before, each once, without those whose caller was cancelled."""

    def __init__(self, cassette: Cassette, document: Document, clock: Clock) -> None:
        self._open(evolve(cassette, exhausted="error"), document, clock)

    async def _claim(self, request: Request) -> Claim:
        while (claim := await super()._claim(request)).interaction.is_cancelled:
            pass
        return claim


class AppendingTransport(RecordingTransport):
    """Returns the responses of the cassette; sends all other requests with ``inner``, and appends them.

    What this transport records it never replays. Time is real, and so are the requests that it sends: a create that is
    not on the cassette is made and charged. Replayed orders were never made, so a client keeps all its orders in memory
    if the cassette has a create; a create that is then sent is logged as a warning. Make a new recording for orders
    that must be stored. Without a cassette this is a recording.
    """

    goes_out = True

    def __init__(
        self, inner: Transport, cassette: Cassette | str | os.PathLike[str], *, auto_publish: bool = True
    ) -> None:
        super().__init__(inner, cassette, auto_publish=auto_publish)
        before = self._recorder.before
        self._recorded = None if before is None else _Recorded(self.cassette, before, self._recorder.clock)
        played = () if before is None else before.interactions
        #: Replayed orders were never made: if the cassette has one, no durable journal stores any.
        self.is_replay = self.is_replay or any(interaction.op == _CREATE for interaction in played)

    def _load_before(self) -> Document | None:
        return load_if_there(self.cassette.path)

    async def send(self, request: Request) -> Response:
        """Replay the response, or send the request with the inner transport and record it."""
        if self._recorded is not None:
            self._check_open(request)
            with suppress(*_NOT_RECORDED):
                return await self._recorded.send(request)
            self._warn_of_create(request)
        return await super().send(request)

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        """As :meth:`send`; ``connection.is_replay`` is whether the response is replayed."""
        async with AsyncExitStack() as stack:
            connection = None
            if self._recorded is not None:
                self._check_open(request)
                with suppress(*_NOT_RECORDED):
                    connection = await stack.enter_async_context(self._recorded.connect(request))
            if connection is None:
                self._warn_of_create(request)
                connection = await stack.enter_async_context(super().connect(request))
            yield connection

    def _warn_of_create(self, request: Request) -> None:
        if self._recorded is not None and self.is_replay and request.op == _CREATE:
            Event.CASSETTE_LIVE_CREATE.log(logger, path=self.cassette.path)

    async def aclose(self) -> None:
        if self._recorded is not None:
            await self._recorded.aclose()
        await super().aclose()
