"""POST /videos: the submission limit, the Idempotency-Key, the charge and the task (4.4)."""

import math
import secrets
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import evolve, frozen

from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.create_validation import count, problem_of_url, read_fields, read_request, resolve_aliases
from vidgen_async.sandbox.input_rules import NOT_JSON, InvalidInputError
from vidgen_async.sandbox.ledger import Account
from vidgen_async.sandbox.media import Film, drawable, size_of
from vidgen_async.sandbox.request_log import ReceivedCreate
from vidgen_async.sandbox.responses import Answer, Refusal, media_type_of
from vidgen_async.sandbox.state import SandboxState
from vidgen_async.sandbox.tasks import SandboxTask

WINDOW = 60.0


@frozen
class CreateHandler:
    """Handles one create, without an await, so that two with the same key cannot create two tasks."""

    sandbox: SandboxState
    account: Account
    create: ReceivedCreate
    now: float

    @property
    def host(self) -> str | None:
        return self.create.headers.get("Host")

    def handle(self) -> Answer:
        """Return the 202, of which only the task id is documented. A refused create does not use its key."""
        self._count_submission()
        key = self.create.idempotency_key
        if key is not None and not 8 <= len(key) <= 100:
            raise InvalidInputError("Idempotency-Key: must be 8 to 100 characters long")
        if media_type_of(self.create.headers) != "application/json" or self.create.body is None:
            raise InvalidInputError(NOT_JSON)
        replayed = self._find_replay(key)
        task = replayed or self._create_task()
        self.create.task_id, self.create.replayed = task.id, replayed is not None
        body = {"id": task.id, "task_id": task.id, "status": "queued", "model": task.model, "points": task.points}
        return Answer.json(202, body | {"created_at": int(task.created_at), "upstream_task_id": None})

    def _count_submission(self) -> None:
        recent, limit = self.account.submitted_at, self.sandbox.create_options.submission_limit
        while recent and recent[0] <= self.now - WINDOW:
            recent.popleft()
        if len(recent) >= limit:
            wait = max(1, math.ceil(recent[0] + WINDOW - self.now)) if recent else 1
            message = f"at most {limit} submissions in {WINDOW:.0f} seconds"
            raise Refusal(429, "SUBMISSION_LIMIT_REACHED", message, {"Retry-After": str(wait)})
        recent.append(self.now)

    def _find_replay(self, key: str | None) -> SandboxTask | None:
        task_id = self.account.keys.get(key) if key is not None else None
        task = self.sandbox.tasks[task_id] if task_id else None
        if task and resolve_aliases(task.request) != resolve_aliases(self.create.body):
            raise Refusal(409, "IDEMPOTENCY_KEY_REUSED", "this Idempotency-Key was used with another body")
        return task

    def _create_task(self) -> SandboxTask:
        options, failures = self.sandbox.create_options, self.sandbox.next_failures
        fields = read_fields(self.create.body, self._problem_of, allow_unknown_fields=options.allow_unknown_fields)
        entry = self._usable_model(fields["model"])
        film = self._film(entry, read_request(fields, entry))
        if self.account.balance < entry.points:
            message = f"not enough credits: {entry.points} needed, {self.account.balance} left"
            raise Refusal(402, "INSUFFICIENT_CREDITS", message)
        task_id = f"task_{secrets.token_hex(12)}"
        if not drawable(film.prompt):
            film = evolve(film, notes=(task_id, *film.notes))
        task = SandboxTask(
            id=task_id,
            account=self.account,
            request=self.create.body,
            idempotency_key=self.create.idempotency_key,
            model=entry.code,
            points=entry.points,
            film=film,
            created_at=self.now,
            queued_for=options.queued_for,
            running_for=options.running_for,
        )
        task = evolve(task, failure=failures.pop(0) if failures else options.outcome(task))
        self.account.book(self.now, "charge", -task.points, task.id)
        self.sandbox.add_task(task)
        return task

    def _problem_of(self, url: object) -> str | None:
        """An own asset is looked up later."""
        is_own = isinstance(url, str) and self.sandbox.assets.is_own_url(url, self.host)
        return None if is_own else problem_of_url(url, self.now)

    def _usable_model(self, code: str) -> CatalogEntry:
        entry = self.sandbox.models.get(code)
        if entry is None:
            raise InvalidInputError(f"model: there is no model {code!r}")
        if not entry.is_usable:
            why = "in maintenance" if entry.maintenance else "not enabled"
            raise Refusal(503, "MODEL_UNAVAILABLE", f"the model {code} is {why}")
        return entry

    def _film(self, entry: CatalogEntry, request: Mapping[str, Any]) -> Film:
        resolution, ratio, seconds = request["resolution"], request["ratio"], int(request["duration"])
        notes = [entry.code, resolution, ratio, f"{seconds} s"]
        notes += [f"{n} {kind}" for kind in ("audio", "video") if (n := count(request, kind))]
        pictures = tuple(self._pictures(request))
        return Film(request["prompt"], seconds, *size_of(resolution, ratio), pictures, tuple(notes))

    def _pictures(self, request: Mapping[str, Any]) -> Iterator[str]:
        """Return the names of own assets by id or URL, and of images on other hosts, which are never fetched."""
        assets = self.sandbox.assets
        for image_id in request.get("image_ids", ()):
            yield assets.owned(self.account, image_id, self.now).name
        for url in (*request.get("image_urls", ()), *(each["url"] for each in request.get("reference_images", ()))):
            if assets.is_own_url(url, self.host):
                yield assets.by_url(self.account, url, self.now).name
            else:
                parts = urlsplit(url)
                yield f"{parts.hostname}{parts.path}"
