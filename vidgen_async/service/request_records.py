"""One DEBUG record for each request, if this module's logger is enabled for it; asking that is all that others cost."""

import logging
from collections.abc import Iterable

from vidgen_async.clock import Clock
from vidgen_async.events import Event, report
from vidgen_async.redaction.known_values import KnownValues
from vidgen_async.redaction.messages import excerpt, hide_in_path
from vidgen_async.service.api_keys import AUTHORIZATION
from vidgen_async.service.codec import request_id_of
from vidgen_async.transports.base import Response, Transport
from vidgen_async.types.http import LONG_ANSWER, Probe, Request

logger = logging.getLogger(__name__)


async def send_recorded(
    transport: Transport, request: Request, clock: Clock, attempt: int, known: Iterable[str], probe: Probe | None = None
) -> Response:
    """Send a request, and log how it ended: with a status line, or with an error.

    Args:
        transport: Sends the request; its errors propagate unchanged.
        request: The request.
        clock: Measures the time until the status line.
        attempt: The number of the attempt.
        known: Values that the record must not show.
        probe: For a create.
    """
    began = clock.now()
    response: Response | None = None
    error: str | None = None
    try:
        response = await transport.send(request, probe=probe)
    except BaseException as failure:
        error = type(failure).__name__
        raise
    else:
        return response
    finally:
        # To hide a long value takes too long for a turn of the event loop.
        hidden = KnownValues(value for value in known if len(value) <= LONG_ANSWER)
        request_id = None if response is None else request_id_of(response.headers)
        ended = "%(error)s" if response is None else "%(status)d"
        report(
            logger,
            logging.DEBUG,
            Event.REQUEST_ENDED,
            f"%(method)s %(path)s: {ended} after %(milliseconds).1f ms (request %(request_id)s, attempt %(attempt)d)",
            op=request.op,
            method=request.method,
            path=_path(request, hidden),
            status=None if response is None else response.status,
            milliseconds=1000.0 * (clock.now() - began),
            request_id=None if request_id is None else excerpt(request_id, hidden, limit=100),
            attempt=attempt,
            error=error,
        )


def _path(request: Request, known: KnownValues) -> str:
    """The path at the service itself; of a link, which may be a secret as a whole, the host only."""
    if AUTHORIZATION not in request.headers:
        return f"//{request.url.host}/…"
    return hide_in_path(request.url.raw_path, known)
