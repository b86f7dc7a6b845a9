"""The catalog of the calling key, cached for a few minutes: creates are checked against it before money is spent."""

import asyncio
import logging
import math
from collections.abc import Sequence
from copy import copy
from typing import ClassVar

from attrs import define, field, frozen

from vidgen_async.clock import Clock, within
from vidgen_async.errors import AuthenticationError, ResponseTimeoutError, ServiceError, TransportError, VidgenError
from vidgen_async.events import Event
from vidgen_async.redaction.messages import excerpt
from vidgen_async.service.codec import read_catalog
from vidgen_async.service.endpoints import Endpoints, refusal
from vidgen_async.service.retries import Reads
from vidgen_async.types.http import Delivery, Phase
from vidgen_async.types.resources import Catalog, CatalogModel, VideoRequest
from vidgen_async.types.serialization import Serializable

logger = logging.getLogger(__name__)

#: Seconds for which a cached catalog is used.
LIFETIME = 300.0
#: Seconds that fetching it may take before a create continues without it.
FETCH_TIMEOUT = 5.0
#: Seconds after a failure in which it is not fetched again, so that creates do not wait in vain one after the other.
#: After a failed connection, where the create fails too, the next one fetches at once.
PAUSE_AFTER_FAILURE = 5.0


@frozen(kw_only=True)
class RequestCheck(Serializable):
    """The result of checking a request before it is sent (2.4)."""

    _computed: ClassVar = ("is_ok",)

    problems: tuple[str, ...] = ()
    """Each names the field, the value and what is allowed. Empty: no reason to refuse the request."""
    model: CatalogModel | None = None
    """The catalog's entry of the model, with prices in its ``extra``; None if it has none, or could not be fetched."""
    catalog_error: VidgenError | None = None
    """Why the catalog could not be fetched: then the request was checked by itself only."""

    @property
    def is_ok(self) -> bool:
        """Whether ``create`` would send it."""
        return not self.problems


@define(eq=False, repr=False)
class LiveCatalog:
    """Checks requests against the live catalog (2.1, rule 5 of 2.4); concurrent checks share one fetch."""

    _reads: Reads
    _endpoints: Endpoints
    _clock: Clock
    _reading: asyncio.Lock = field(factory=asyncio.Lock, init=False)
    _catalog: Catalog | None = field(default=None, init=False)
    _read_at: float = field(default=-math.inf, init=False)
    _failure: VidgenError | None = field(default=None, init=False)
    _failed_at: float = field(default=-math.inf, init=False)
    _paused_until: float = field(default=-math.inf, init=False)
    _is_failure_reported: bool = field(default=False, init=False)

    def keep(self, catalog: Catalog, fetched_at: float | None = None) -> None:
        """Cache a catalog that was fetched at that moment (default: now)."""
        self._catalog, self._read_at = catalog, self._clock.now() if fetched_at is None else fetched_at
        self._is_failure_reported = False

    async def find(self, code: str) -> CatalogModel | None:
        """Return the entry of a model; None if the catalog has none, or cannot be fetched."""
        catalog = await self._newer_than(self._clock.now() - LIFETIME)
        return None if catalog is None else catalog.find(code)

    async def fetch(self) -> Catalog | None:
        """The catalog as it is now; None if it cannot be fetched. AuthenticationError if it was refused with 401."""
        catalog = await self._newer_than(self._clock.now())
        if catalog is None and isinstance(self._failure, AuthenticationError):
            raise copy(self._failure)
        return catalog

    async def refuse_invalid(self, request: VideoRequest) -> None:
        """Raise InvalidRequestError if :meth:`check` finds problems, and AuthenticationError if the catalog was refused
        with 401: a create has the same key."""
        check = await self.check(request)
        if check.problems:
            raise refusal(check.problems)
        if isinstance(check.catalog_error, AuthenticationError):
            raise copy(check.catalog_error)

    async def check(self, request: VideoRequest, found: Sequence[str] = ()) -> RequestCheck:
        """All problems of the request, with those that were ``found`` before. Before it is refused by a cached catalog,
        that is fetched again. One that cannot be fetched raises nothing; a warning is logged, once until it can be."""
        from vidgen_async.service.request_checks import (  # noqa: PLC0415 - programs that create nothing do not need it
            field_of,
            problems_in_catalog,
            problems_of,
        )

        problems = problems_of(request, self._endpoints.base_url, self._clock.wall(), found=found)
        if any(problem.startswith("model:") for problem in problems):
            return RequestCheck(problems=tuple(problems))
        asked_at = self._clock.now()
        catalog = await self._newer_than(asked_at - LIFETIME)
        found = [] if catalog is None else problems_in_catalog(request, catalog)
        if found and (newer := await self._newer_than(asked_at)) is not None:
            catalog, found = newer, problems_in_catalog(request, newer)
        if catalog is None:
            is_key_refused = isinstance(self._failure, AuthenticationError)  # which ends the create
            level = logging.DEBUG if is_key_refused or self._is_failure_reported else logging.WARNING
            self._is_failure_reported |= not is_key_refused
            model = excerpt(request.model, limit=80)
            Event.CATALOG_FETCH_FAILED.log(logger, level=level, model=model, error=self._failure)
            return RequestCheck(problems=tuple(problems), catalog_error=self._failure)
        wrong = {field_of(problem) for problem in problems}
        problems += [problem for problem in found if field_of(problem) not in wrong]
        return RequestCheck(problems=tuple(problems), model=catalog.find(request.model))

    async def _newer_than(self, since: float) -> Catalog | None:
        """A catalog fetched no earlier than that moment; None if it cannot be fetched."""
        if self._read_at >= since:
            return self._catalog
        asked_at = self._clock.now()
        async with self._reading:
            has_failed = self._failed_at >= asked_at or self._clock.now() < self._paused_until
            if self._read_at < since and not has_failed:
                await self._read()
            return self._catalog if self._read_at >= since else None

    async def _read(self) -> None:
        began_at = self._clock.now()
        request = self._endpoints.list_models()
        try:
            catalog = await within(
                self._clock, FETCH_TIMEOUT, lambda: self._reads.retry(request, read_catalog, at_most=FETCH_TIMEOUT)
            )
        except TimeoutError:
            message = f"models.list: no catalog was received within {FETCH_TIMEOUT:g} s (a fixed limit of checks)"
            self._failure = ResponseTimeoutError(message, phase=Phase.WAIT, op="models.list")
        except (TransportError, ServiceError) as error:
            self._failure = error
        else:
            self.keep(catalog, began_at)
            return
        self._failed_at = self._clock.now()
        is_down = isinstance(self._failure, TransportError) and self._failure.delivery is Delivery.NOT_SENT
        is_key_refused = isinstance(self._failure, AuthenticationError)  # a function may return another one soon
        self._paused_until = self._failed_at + (0.0 if is_down or is_key_refused else PAUSE_AFTER_FAILURE)
