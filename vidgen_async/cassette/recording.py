"""A transport that writes down what another one carries."""

import asyncio
import logging
import os
import sys
from pathlib import Path

from vidgen_async.cassette.document import Document
from vidgen_async.cassette.interaction_recorder import InteractionRecorder
from vidgen_async.cassette.recorder import Recorder
from vidgen_async.cassette.settings import Cassette, as_cassette
from vidgen_async.clock import LoopClock, hold_of
from vidgen_async.errors import TransportClosedError, TransportError
from vidgen_async.events import Event, report
from vidgen_async.transports.base import ObservedResponse, Response, Transport, WrappingTransport, capabilities_of
from vidgen_async.types.http import Delivery, Phase, Probe, Request

logger = logging.getLogger(__name__)


class RecordingTransport(WrappingTransport):
    """Hands everything to ``inner``, and writes it on a cassette, redacted.

    While it records, every finished interaction is in the cassette's ``part`` file, where it survives a kill
    (``vidgen cassette recover``). :meth:`aclose` makes the cassette of it, which replaces the old one at one go; not
    when it is closed while an exception is on its way out, or after :meth:`give_up`. With ``auto_publish=False`` only
    :meth:`publish` does.

    A ``send`` whose request cannot be written down raises a CassetteError before anything is sent; what cannot be
    written afterwards never costs the answer, and is a CassetteError when it is to be published. Cancelled sends are
    recorded as such. Bodies are passed on as they come, whatever their length.
    """

    honours_gate = True
    is_recording = True

    def __init__(
        self, inner: Transport, cassette: Cassette | str | os.PathLike[str], *, auto_publish: bool = True
    ) -> None:
        super().__init__(inner)
        self.cassette: Cassette = as_cassette(cassette)
        self._inner_honours_gate = capabilities_of(inner).honours_gate
        self._auto_publish = auto_publish
        self._recorder = self._make_recorder(None)
        self._active: set[InteractionRecorder] = set()
        self._is_closed = False
        self._is_over = False
        self.is_published: bool = False

    def _make_recorder(self, before: Document | None) -> Recorder:
        return Recorder(self.cassette, self.clock or LoopClock(), before=before)

    @property
    def part(self) -> Path:
        """Where the recording is until it is published, and stays when it is not."""
        return self.cassette.part

    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        """Send the request by the inner transport; its errors come through as they are. CassetteBusyError when another
        recording of the cassette is under way, CassetteError when it cannot be written: then nothing was sent."""
        interaction = None
        try:
            self._check_open(request)
            interaction = InteractionRecorder.begin(self._recorder, request, self._active)
            await interaction.record_request()
        except BaseException:
            if probe is not None:
                probe.record_not_sent(Phase.BUILD)
            if interaction is not None:
                interaction.discard()
            raise
        try:
            if probe is not None and not self._inner_honours_gate:
                # Only now: what cannot be written down must not count as sent.
                await probe.pass_gate()
            response = await self.inner.send(request, probe=probe)
        except TransportError as error:
            if self._is_closed and isinstance(error, TransportClosedError):
                interaction.record_cancellation(error.delivery, error.phase)
            else:
                interaction.record_error(error, probe)
            raise
        except asyncio.CancelledError:
            known = Probe() if probe is None else probe
            interaction.record_cancellation(Delivery.MAYBE_SENT if probe is None else known.delivery, known.phase)
            raise
        except BaseException:
            interaction.discard()
            raise
        interaction.record_status(response.status, response.headers)
        return ObservedResponse(response, interaction)

    def publish(self) -> Path:
        """Make the cassette of what was finished, and return where it is. CassetteSecretError, CassetteError: nothing
        was published, the old one still stands, and so does the part file."""
        if self.is_published:
            return self.cassette.path
        path = self._recorder.publish()
        self.is_published = self._is_over = True
        return path

    def give_up(self) -> None:
        """Publish nothing: the old cassette stays, and what was finished is in the part file."""
        self._is_over = True
        if self._recorder.is_begun:
            self._recorder.close()
            message = "the recording was not published; what was finished is in %(path)s"
            report(logger, logging.WARNING, Event.CASSETTE_KEPT, message, path=self.part)

    async def aclose(self) -> None:
        """Close the inner transport, then publish what was finished (see above). Twice is fine."""
        is_failing = sys.exception() is not None
        self._is_closed = True
        await self.inner.aclose()
        for interaction in sorted(self._active, key=lambda one: one.n):
            interaction.record_close()
        if self._is_over or not self._auto_publish or not self._recorder.is_begun:
            return
        if is_failing:
            self.give_up()
            return
        with hold_of(self._recorder.clock)():
            await asyncio.to_thread(self.publish)

    def _check_open(self, request: Request) -> None:
        if self._is_closed or self._is_over:
            message = f"{request.op}: the transport is closed"
            raise TransportClosedError(message, delivery=Delivery.NOT_SENT, phase=Phase.BUILD, op=request.op)
