"""POST /videos: the submission limit, the Idempotency-Key, the charge and the task (4.4)."""

import math
import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit

from attrs import define, evolve, field
from attrs.validators import ge, lt

from vidgen_async.sandbox.assets import AssetStore
from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.create_validation import CreateRequest, read_fields, read_request, resolve_aliases
from vidgen_async.sandbox.input_rules import InvalidInputError
from vidgen_async.sandbox.ledger import Account
from vidgen_async.sandbox.media import Film, drawable, size_of
from vidgen_async.sandbox.reference_urls import problem_of_url
from vidgen_async.sandbox.request_log import ReceivedCreate
from vidgen_async.sandbox.responses import Answer, Refusal, media_type_of, not_json
from vidgen_async.sandbox.tasks import Failure, Outcome, Refunds, SandboxTask, outcome_by_prompt

WINDOW = 60.0


@define(kw_only=True)
class CreateHandler:
    """Handles one create at a time, without an await, so that two with the same key cannot create two tasks.

    The description does not define the answer to a used key with another body: here it is 409. It does not define a
    submission either: here every create with a valid API key counts, whatever its answer, except those that are
    refused because of the limit.
    """

    models: dict[str, CatalogEntry]
    assets: AssetStore
    tasks: dict[str, SandboxTask]
    refunds: Refunds
    queued_for: float = field(validator=[ge(0.0), lt(math.inf)])
    running_for: float = field(validator=[ge(0.0), lt(math.inf)])
    submission_limit: int
    allow_unknown_fields: bool = False
    outcome: Outcome = outcome_by_prompt
    #: How the next tasks end, in order; ``outcome`` decides for the tasks after them.
    next_outcomes: list[Failure | None] = field(factory=list)

    def handle(self, account: Account, create: ReceivedCreate, now: float) -> Answer:
        """Return the answer to a create, and set the task id in ``create``. A refused create does not use its key."""
        self._count_submission(account, now)
        key = create.idempotency_key
        if key is not None and not 8 <= len(key) <= 100:
            raise InvalidInputError("Idempotency-Key: must be 8 to 100 characters long")
        if media_type_of(create.headers) != "application/json" or create.body is None:
            raise not_json()
        task = self._find_replay(account, key, create.body)
        create.replayed = task is not None
        if task is None:
            task = self._create_task(account, create, now)
        create.task_id = task.id
        return _accepted_answer(task)

    def clear(self) -> None:
        """Remove all tasks, uploads and planned failures."""
        self.tasks.clear()
        self.assets.clear()
        self.refunds.clear()
        self.next_outcomes.clear()

    def _count_submission(self, account: Account, now: float) -> None:
        recent = account.submitted_at
        while recent and recent[0] <= now - WINDOW:
            recent.popleft()
        if len(recent) >= self.submission_limit:
            wait = 1 if not recent else max(1, -int(-(recent[0] + WINDOW - now) // 1))
            message = f"at most {self.submission_limit} submissions in {WINDOW:.0f} seconds"
            raise Refusal(429, "SUBMISSION_LIMIT_REACHED", message, {"Retry-After": str(wait)})
        recent.append(now)

    def _find_replay(self, account: Account, key: str | None, body: object) -> SandboxTask | None:
        task_id = account.keys.get(key) if key is not None else None
        task = self.tasks[task_id] if task_id else None
        if task and resolve_aliases(task.request) != resolve_aliases(body):
            raise Refusal(409, "IDEMPOTENCY_KEY_REUSED", "this Idempotency-Key was used with another body")
        return task

    def _create_task(self, account: Account, create: ReceivedCreate, now: float) -> SandboxTask:
        host = create.headers.get("Host")

        def problem_of(url: object) -> str | None:
            """An own asset is looked up later."""
            is_own = isinstance(url, str) and self.assets.is_own_url(url, host)
            return None if is_own else problem_of_url(url, now)

        fields = read_fields(create.body, problem_of, allow_unknown_fields=self.allow_unknown_fields)
        entry = self._usable_model(fields["model"])
        film = self._film(account, entry, read_request(fields, entry), host, now)
        if account.balance < entry.points:
            message = f"not enough credits: {entry.points} needed, {account.balance} left"
            raise Refusal(402, "INSUFFICIENT_CREDITS", message)
        task_id = f"task_{secrets.token_hex(12)}"
        if not drawable(film.prompt):
            film = evolve(film, notes=(task_id, *film.notes))
        task = SandboxTask(
            id=task_id,
            account=account,
            request=create.body,
            idempotency_key=create.idempotency_key,
            model=entry.code,
            points=entry.points,
            film=film,
            created_at=now,
            queued_for=self.queued_for,
            running_for=self.running_for,
        )
        failure = self.next_outcomes.pop(0) if self.next_outcomes else self.outcome(task)
        task = evolve(task, failure=failure)
        account.book(now, "charge", -task.points, task.id)
        self.add_task(task)
        return task

    def add_task(self, task: SandboxTask) -> None:
        """Add a task with its Idempotency-Key and the refund to expect."""
        self.tasks[task.id] = task
        if task.idempotency_key is not None:
            task.account.keys[task.idempotency_key] = task.id
        self.refunds.expect(task)

    def _usable_model(self, code: str) -> CatalogEntry:
        entry = self.models.get(code)
        if entry is None:
            raise InvalidInputError(f"model: there is no model {code!r}")
        if not entry.is_usable:
            why = "in maintenance" if entry.maintenance else "not enabled"
            raise Refusal(503, "MODEL_UNAVAILABLE", f"the model {code} is {why}")
        return entry

    def _film(
        self, account: Account, entry: CatalogEntry, request: CreateRequest, host: str | None, now: float
    ) -> Film:
        width, height = size_of(request.resolution, request.ratio)
        notes = [entry.code, request.resolution, request.ratio, f"{request.seconds} s"]
        notes += [f"{n} {kind}" for kind, n in (("audio", request.audios), ("video", request.videos)) if n]
        pictures = tuple(self._pictures(account, request, host, now))
        return Film(request.prompt, request.seconds, width, height, pictures, tuple(notes))

    def _pictures(self, account: Account, request: CreateRequest, host: str | None, now: float) -> Iterator[str]:
        """Return the names of own assets by id or URL, and of images on other hosts, which are never fetched."""
        for image_id in request.image_ids:
            yield self.assets.owned(account, image_id, now).name
        for url in request.image_urls:
            if self.assets.is_own_url(url, host):
                yield self.assets.by_url(account, url, now).name
            else:
                parts = urlsplit(url)
                yield f"{parts.hostname}{parts.path}"


def _accepted_answer(task: SandboxTask) -> Answer:
    """Return the 202. Only its task id is documented."""
    body = {"id": task.id, "task_id": task.id, "status": "queued", "model": task.model, "points": task.points}
    return Answer.json(202, body | {"created_at": int(task.created_at), "upstream_task_id": None})
