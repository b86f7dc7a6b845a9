"""A transport that plays what is on a cassette, and records the rest."""

import asyncio
import os

from vidgen_async.cassette.lanes import Claim
from vidgen_async.cassette.publishing import load_if_there
from vidgen_async.cassette.settings import Cassette
from vidgen_async.errors import CassetteExhaustedError, CassetteMissError
from vidgen_async.messages import Probe, Request
from vidgen_async.transports.base import Response, Transport
from vidgen_async.transports.recording import RecordingTransport
from vidgen_async.transports.replay import Player, play


class AppendingTransport(RecordingTransport):
    """Answers from the cassette as long as it has an answer; everything else goes to ``inner`` and is appended.

    What this transport records it never plays. Time is real, and so are the requests that go out; orders that are
    played were not made now, so a client keeps them in memory only. Without a cassette this is a recording.
    """

    is_replay = True

    def __init__(
        self, inner: Transport, cassette: Cassette | str | os.PathLike[str], *, auto_publish: bool = True
    ) -> None:
        super().__init__(inner, cassette, auto_publish=auto_publish)
        before = load_if_there(self.cassette.path)
        self._player = None if before is None else Player(before, self.cassette)
        self._recorder = self._make_recorder(before)
        self._closing = asyncio.Event()

    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        """Play the answer, or send the request by the inner transport and record it."""
        self._check_open(request)
        player = self._player
        if player is not None:
            try:
                claim = await self._claim(player, request)
            except (CassetteMissError, CassetteExhaustedError):
                return await super().send(request, probe=probe)
            gate = probe if self.honours_gate else None
            return await play(claim, request, gate, player, clock=self._recorder.clock, closed=self._closing)
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
