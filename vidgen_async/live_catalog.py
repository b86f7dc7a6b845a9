"""The catalog of the calling key, kept for a few minutes: what a create is checked against before money is spent."""

import asyncio
import logging

from attrs import field, frozen

from vidgen_async.clock import Clock, within
from vidgen_async.codec import read_catalog
from vidgen_async.endpoints import Endpoints
from vidgen_async.errors import ResponseTimeoutError, ServiceError, TransportError, VidgenError
from vidgen_async.events import Event, report
from vidgen_async.messages import Phase
from vidgen_async.reads import Reads
from vidgen_async.resources import Catalog, CatalogModel, VideoRequest
from vidgen_async.validation import problem_of_model, problems_of, problems_with_model

logger = logging.getLogger(__name__)

#: Seconds for which a copy of the catalog is good enough to say yes by.
LIFETIME = 300.0
#: Seconds that reading it may take before a create goes on without.
BUDGET = 5.0
#: Seconds after a failure in which it is not tried again: creates do not wait in vain, one after the other.
REST = 30.0


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


@frozen
class _Copy:
    """The catalog, or why it could not be had, as of one moment of the clock."""

    at: float
    catalog: Catalog | None = field(default=None, repr=False)
    error: VidgenError | None = None


class LiveCatalog:
    """Checks requests against the live catalog (2.1, rule 5 of 2.4); many checks share one reading of it."""

    def __init__(self, reads: Reads, endpoints: Endpoints, clock: Clock) -> None:
        self._reads = reads
        self._endpoints = endpoints
        self._clock = clock
        self._reading = asyncio.Lock()
        self._copy: _Copy | None = None

    def keep(self, catalog: Catalog) -> None:
        """Take a catalog that has just been read for the newest one."""
        self._copy = _Copy(self._clock.now(), catalog)

    async def check(self, request: VideoRequest) -> RequestCheck:
        """Everything that speaks against the request. A copy of the catalog that is a few minutes old is good enough to
        say yes; before a no it is read again. Never raises for a catalog that cannot be had: a warning is logged."""
        problems = problems_of(request, self._endpoints.base_url, self._clock.wall())
        if any(problem.startswith("model:") for problem in problems):
            return RequestCheck(problems=tuple(problems))
        asked_at = self._clock.now()
        copy = await self._copy_since(asked_at - LIFETIME)
        if copy.at < asked_at and copy.catalog is not None and _problems(request, copy.catalog):
            copy = await self._copy_since(asked_at)
        if copy.catalog is None:
            message = "the catalog could not be had, model %(model)r is not checked against it: %(error)s"
            report(logger, logging.WARNING, Event.CATALOG_MISSING, message, model=request.model, error=copy.error)
            return RequestCheck(problems=tuple(problems), catalog_error=copy.error)
        wrong = {_field_of(problem) for problem in problems}
        problems += [problem for problem in _problems(request, copy.catalog) if _field_of(problem) not in wrong]
        return RequestCheck(problems=tuple(problems), model=copy.catalog.get(request.model))

    async def _copy_since(self, since: float) -> _Copy:
        """A copy that is not older than that; after a failure, for a short while, the failure."""
        async with self._reading:
            copy = self._copy
            if copy is not None and copy.catalog is None and self._clock.now() - copy.at < REST:
                return copy
            if copy is None or copy.catalog is None or copy.at < since:
                copy = self._copy = await self._read()
            return copy

    async def _read(self) -> _Copy:
        began_at = self._clock.now()
        try:
            request = self._endpoints.list_models()
            catalog = await within(self._clock, BUDGET, lambda: self._reads.again(request, read_catalog, budget=BUDGET))
        except TimeoutError:
            message = f"models.list: no catalog came within {BUDGET:g} s"
            return _Copy(self._clock.now(), error=ResponseTimeoutError(message, phase=Phase.WAIT, op="models.list"))
        except (TransportError, ServiceError) as error:
            return _Copy(self._clock.now(), error=error)
        return _Copy(began_at, catalog)


def _problems(request: VideoRequest, catalog: Catalog) -> list[str]:
    problem = problem_of_model(request.model, catalog)
    return [problem] if problem is not None else problems_with_model(request, catalog[request.model])


def _field_of(problem: str) -> str:
    return problem.partition(":")[0].partition("[")[0]
