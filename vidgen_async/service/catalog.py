"""The catalog of the calling key, kept for a few minutes: what a create is checked against before money is spent."""

import asyncio
import logging
import math

from attrs import frozen

from vidgen_async.clock import Clock, within
from vidgen_async.errors import ResponseTimeoutError, ServiceError, TransportError, VidgenError
from vidgen_async.events import Event, report
from vidgen_async.redaction.messages import excerpt
from vidgen_async.service.codec import read_catalog
from vidgen_async.service.endpoints import Endpoints
from vidgen_async.service.retries import Reads
from vidgen_async.service.validation import field_of, problem_of_model, problems_of, problems_with_model, refuse
from vidgen_async.types.http import Delivery, Phase
from vidgen_async.types.resources import Catalog, CatalogModel, VideoRequest

logger = logging.getLogger(__name__)

#: Seconds for which a copy of the catalog is good enough to judge by, where no newer one can be had.
LIFETIME = 300.0
#: Seconds that reading it may take before a create goes on without.
BUDGET = 5.0
#: Seconds after a failure in which it is not tried again: creates do not wait in vain, one after the other. Where there
#: was no connection the create has none either, and the next one looks again.
REST = 5.0


@frozen(kw_only=True)
class RequestCheck:
    """What can be said of a request before it is sent (2.4)."""

    problems: tuple[str, ...] = ()
    """Each names the field, the value and what is allowed. Empty: nothing speaks against it."""
    model: CatalogModel | None = None
    """The catalog's entry of the model, prices in its ``extra``; None where it has none, or could not be had."""
    catalog_error: VidgenError | None = None
    """Why the live catalog could not be had: then only what the request says by itself was checked."""

    @property
    def is_ok(self) -> bool:
        """Whether ``create`` would send it."""
        return not self.problems


class LiveCatalog:
    """Checks requests against the live catalog (2.1, rule 5 of 2.4); many checks share one reading of it."""

    def __init__(self, reads: Reads, endpoints: Endpoints, clock: Clock) -> None:
        self._reads = reads
        self._endpoints = endpoints
        self._clock = clock
        self._reading = asyncio.Lock()
        self._catalog: Catalog | None = None
        self._read_at = -math.inf
        self._failure: VidgenError | None = None
        self._failed_at = self._rested_at = -math.inf

    def keep(self, catalog: Catalog) -> None:
        """Take a catalog that has just been read for the newest one."""
        self._catalog, self._read_at = catalog, self._clock.now()

    async def insist(self, request: VideoRequest) -> None:
        """InvalidRequestError for a request against which something speaks: see :meth:`check`."""
        refuse((await self.check(request)).problems)

    async def check(self, request: VideoRequest) -> RequestCheck:
        """Everything that speaks against the request. A copy of the catalog that is a few minutes old is good enough to
        say yes; before a no it is read again, if that can be done. Never raises for a catalog that cannot be had: a
        warning is logged."""
        problems = problems_of(request, self._endpoints.base_url, self._clock.wall())
        if any(problem.startswith("model:") for problem in problems):
            return RequestCheck(problems=tuple(problems))
        asked_at = self._clock.now()
        catalog = await self._newer_than(asked_at - LIFETIME)
        found = [] if catalog is None else _problems(request, catalog)
        if found and (newer := await self._newer_than(asked_at)) is not None:
            catalog, found = newer, _problems(request, newer)
        if catalog is None:
            message = "the catalog could not be had, the model %(model)s is not checked against it: %(error)s"
            fields = {"model": excerpt(request.model, limit=80), "error": self._failure}
            report(logger, logging.WARNING, Event.CATALOG_MISSING, message, **fields)
            return RequestCheck(problems=tuple(problems), catalog_error=self._failure)
        wrong = {field_of(problem) for problem in problems}
        problems += [problem for problem in found if field_of(problem) not in wrong]
        return RequestCheck(problems=tuple(problems), model=catalog.get(request.model))

    async def _newer_than(self, since: float) -> Catalog | None:
        """The catalog as it was not before that moment; None when it cannot be had."""
        if self._read_at >= since:
            return self._catalog
        asked_at = self._clock.now()
        async with self._reading:
            is_tried = self._failed_at >= asked_at or self._clock.now() < self._rested_at
            if self._read_at < since and not is_tried:
                await self._read()
            return self._catalog if self._read_at >= since else None

    async def _read(self) -> None:
        began_at = self._clock.now()
        request = self._endpoints.list_models()
        try:
            catalog = await within(self._clock, BUDGET, lambda: self._reads.again(request, read_catalog, budget=BUDGET))
        except TimeoutError:
            message = f"models.list: no catalog came within {BUDGET:g} s"
            self._failure = ResponseTimeoutError(message, phase=Phase.WAIT, op="models.list")
        except (TransportError, ServiceError) as error:
            self._failure = error
        else:
            self._catalog, self._read_at = catalog, began_at
            return
        self._failed_at = self._clock.now()
        is_down = isinstance(self._failure, TransportError) and self._failure.delivery is Delivery.NOT_SENT
        self._rested_at = self._failed_at + (0.0 if is_down else REST)


def _problems(request: VideoRequest, catalog: Catalog) -> list[str]:
    problem = problem_of_model(request.model, catalog)
    if problem is not None:
        return [problem]
    model = catalog.get(request.model)
    return [] if model is None else problems_with_model(request, model)
