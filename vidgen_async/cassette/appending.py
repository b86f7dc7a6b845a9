"""A transport that replays what is on a cassette, and records the rest."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attrs import evolve

from vidgen_async.cassette.document import Document
from vidgen_async.cassette.recording import RecordingTransport
from vidgen_async.cassette.replay import Player
from vidgen_async.cassette.request_matching import Claim
from vidgen_async.cassette.settings import Cassette
from vidgen_async.cassette.storage import load_if_there
from vidgen_async.errors import CassetteExhaustedError, CassetteMissError
from vidgen_async.events import Event, report
from vidgen_async.transports.base import Connection, Response, Transport
from vidgen_async.types.http import Request

logger = logging.getLogger(__name__)

_CREATE = "videos.create"


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
        before, once = self._recorder.before, evolve(self.cassette, exhausted="error")
        self._player = None if before is None else Player(before, once, self._recorder.clock)
        played = () if before is None else before.interactions
        #: Replayed orders were never made: if the cassette has one, no durable journal stores any.
        self.is_replay = self.is_replay or any(interaction.op == _CREATE for interaction in played)

    def _load_before(self) -> Document | None:
        return load_if_there(self.cassette.path)

    async def send(self, request: Request) -> Response:
        """Replay the response, or send the request with the inner transport and record it."""
        if (found := await self._find(request)) is None:
            return await super().send(request)
        player, claim = found
        return await player.play(claim, request)

    @asynccontextmanager
    async def connect(self, request: Request) -> AsyncIterator[Connection]:
        """As :meth:`send`; ``connection.is_replay`` is whether the response is replayed."""
        if (found := await self._find(request)) is None:
            connecting = super().connect(request)
        else:
            player, claim = found
            connecting = player.connect(claim, request)
        async with connecting as connection:
            yield connection

    async def _find(self, request: Request) -> tuple[Player, Claim] | None:
        """The next interaction that was not cancelled when it was recorded; None if the request must be sent."""
        if (player := self._player) is None:
            return None
        self._check_open(request)
        try:
            while (claim := await player.claim(request)).interaction.is_cancelled:
                pass
        except (CassetteMissError, CassetteExhaustedError):
            if self.is_replay and request.op == _CREATE:
                message = "a create is sent to the service; its order is in memory only, as %(path)s has replayed ones"
                report(logger, logging.WARNING, Event.CASSETTE_LIVE_CREATE, message, path=self.cassette.path)
            return None
        return player, claim

    async def aclose(self) -> None:
        if self._player is not None:
            self._player.closed.set()
        await super().aclose()
