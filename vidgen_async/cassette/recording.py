"""A transport that records what another one sends."""

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
    """Sends with ``inner``, and records requests and responses on a cassette, without secrets.

    While it records, every finished interaction is in the cassette's ``part`` file, where it survives a kill
    (``vidgen cassette recover``). :meth:`aclose` replaces the cassette by it atomically; not while an exception
    propagates, and not after :meth:`give_up`. With ``auto_publish=False`` only :meth:`publish` does.

    If a request cannot be recorded, ``send`` raises CassetteError before anything is sent. If a response cannot be
    recorded, it is returned all the same, and publishing raises CassetteError. Cancelled sends are recorded as such.
    Bodies are passed on as they are received, whatever their length.
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
        """The file of the recording until it is published."""
        return self.cassette.part

    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        """Send the request with the inner transport; its errors propagate unchanged.

        Raises:
            CassetteBusyError: Another recording of the cassette is in progress; nothing was sent.
            CassetteError: The request cannot be recorded; nothing was sent.
        """
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
                # Only now: a request that cannot be recorded must not count as sent.
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
        """Replace the cassette by the finished interactions, and return its path.

        Raises:
            CassetteSecretError: The recording seems to contain a secret.
            CassetteError: The recording is incomplete or cannot be written.
                In both cases the old cassette and the ``part`` file are unchanged.
        """
        if self.is_published:
            return self.cassette.path
        path = self._recorder.publish()
        self.is_published = self._is_over = True
        return path

    def give_up(self) -> None:
        """Publish nothing: the old cassette stays, and the finished interactions are in the ``part`` file."""
        self._is_over = True
        if self._recorder.is_begun:
            self._recorder.close()
            message = "the recording was not published; its finished interactions are in %(path)s"
            report(logger, logging.WARNING, Event.CASSETTE_KEPT, message, path=self.part)

    async def aclose(self) -> None:
        """Close the inner transport, then publish the recording (see above). May be called twice."""
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
