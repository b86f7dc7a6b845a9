"""A transport that plays what is on a cassette, and records the rest."""

import asyncio
import logging
import os

from vidgen_async.cassette.recording import RecordingTransport
from vidgen_async.cassette.replay import Player, play
from vidgen_async.cassette.request_matching import Claim
from vidgen_async.cassette.settings import Cassette
from vidgen_async.cassette.storage import load_if_there
from vidgen_async.errors import CassetteExhaustedError, CassetteMissError
from vidgen_async.events import Event, report
from vidgen_async.transports.base import Response, Transport
from vidgen_async.types.http import Phase, Probe, Request

logger = logging.getLogger(__name__)

_CREATE = "videos.create"


class AppendingTransport(RecordingTransport):
    """Answers from the cassette as long as it has an answer; everything else goes to ``inner`` and is appended.

    What this transport records it never plays. Time is real, and so are the requests that go out: a create that is not
    on the cassette is made and charged. Orders that are played were never made, so with a create on the cassette a
    client keeps all its orders in memory only; then a create that goes out for real is warned about. To make orders
    that must be remembered, record anew. Without a cassette this is a recording.
    """

    #: A journal that the environment names is not passed over in silence: creates may go out for real.
    goes_out = True

    def __init__(
        self, inner: Transport, cassette: Cassette | str | os.PathLike[str], *, auto_publish: bool = True
    ) -> None:
        super().__init__(inner, cassette, auto_publish=auto_publish)
        before = load_if_there(self.cassette.path)
        self._player = None if before is None else Player(before, self.cassette)
        self._recorder = self._make_recorder(before)
        played = () if before is None else before.interactions
        #: Orders that are played were never made: with such ones on the cassette, no journal that lasts keeps any.
        self.is_replay = self.is_replay or any(interaction.op == _CREATE for interaction in played)
        self._closing = asyncio.Event()

    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        """Play the answer, or send the request by the inner transport and record it."""
        player = self._player
        if player is not None:
            try:
                self._check_open(request)
                claim = await self._claim(player, request)
            except (CassetteMissError, CassetteExhaustedError):
                if self.is_replay and request.op == _CREATE:
                    message = (
                        "a create goes out for real, and its order is kept in memory only: %(path)s holds played ones"
                    )
                    report(logger, logging.WARNING, Event.CASSETTE_LIVE_CREATE, message, path=self.cassette.path)
                return await super().send(request, probe=probe)
            except BaseException:
                if probe is not None:
                    probe.record_not_sent(Phase.BUILD)
                raise
            return await play(claim, request, probe, player, clock=self._recorder.clock, closed=self._closing)
        return await super().send(request, probe=probe)

    @staticmethod
    async def _claim(player: Player, request: Request) -> Claim:
        """The next interaction that has an outcome: what was given up then is not given up now."""
        while True:
            claim = player.claim(request, may_repeat=False) or await player.claim_streamed(request, may_repeat=False)
            failure = claim.interaction.failure
            if failure is None or not failure.is_cancelled:
                return claim

    async def aclose(self) -> None:
        self._closing.set()
        await super().aclose()
