"""POST /videos: the submission limit, the Idempotency-Key, the charge and the task (4.4)."""

import json
import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit

from attrs import define, evolve, field

from vidgen_async.sandbox.assets import AssetStore
from vidgen_async.sandbox.catalog import CatalogEntry
from vidgen_async.sandbox.create_validation import Body, CreateRequest, read_body, read_request
from vidgen_async.sandbox.ledger import Account, KeyedCreate
from vidgen_async.sandbox.media.video_content import Film, Picture, size_of
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
    queued_for: float
    running_for: float
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
            raise Refusal(400, "INVALID_PARAMETER", "Idempotency-Key: must be 8 to 100 characters long")
        if media_type_of(create.headers) != "application/json" or create.body is None:
            raise not_json()
        canonical = json.dumps(create.body, sort_keys=True)
        task = self._find_replay(account, key, canonical)
        create.replayed = task is not None
        if task is None:
            task = self._create_task(account, create.body, now)
            if key is not None:
                account.keys[key] = KeyedCreate(canonical, task.id)
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
        account.submit(now)

    def _find_replay(self, account: Account, key: str | None, canonical: str) -> SandboxTask | None:
        earlier = account.keys.get(key) if key is not None else None
        if earlier is None:
            return None
        if earlier.body != canonical:
            raise Refusal(409, "IDEMPOTENCY_KEY_REUSED", "this Idempotency-Key was used with another body")
        return self.tasks[earlier.task_id]

    def _create_task(self, account: Account, received: object, now: float) -> SandboxTask:
        body = read_body(received, allow_unknown_fields=self.allow_unknown_fields)
        entry = self._usable_model(body["model"])
        request = read_request(body, entry)
        film = self._film(account, entry, request, now)
        if account.balance < entry.points:
            message = f"not enough credits: {entry.points} needed, {account.balance} left"
            raise Refusal(402, "INSUFFICIENT_CREDITS", message)
        task = self._new_task(account, body, entry, film, now)
        failure = self.next_outcomes.pop(0) if self.next_outcomes else self.outcome(task)
        task = evolve(task, failure=failure)
        account.book(now, "charge", -task.points, task.id)
        self.tasks[task.id] = task
        self.refunds.expect(task)
        return task

    def _new_task(self, account: Account, body: Body, entry: CatalogEntry, film: Film, now: float) -> SandboxTask:
        return SandboxTask(
            id=f"task_{secrets.token_hex(12)}",
            account=account,
            request=body,
            model=entry.code,
            points=entry.points,
            film=film,
            created_at=now,
            queued_for=self.queued_for,
            running_for=self.running_for,
        )

    def _usable_model(self, code: str) -> CatalogEntry:
        entry = self.models.get(code)
        if entry is None:
            raise Refusal(400, "INVALID_PARAMETER", f"model: there is no model {code!r}")
        if not entry.is_usable:
            why = "in maintenance" if entry.maintenance else "not enabled"
            raise Refusal(503, "MODEL_UNAVAILABLE", f"the model {code} is {why}")
        return entry

    def _film(self, account: Account, entry: CatalogEntry, request: CreateRequest, now: float) -> Film:
        width, height = size_of(request.resolution, request.ratio)
        notes = [f"{entry.code} · {request.resolution} · {request.ratio} · {request.seconds} s"]
        notes += [f"{n} {kind}" for kind, n in (("audio", request.audios), ("video", request.videos)) if n]
        pictures = tuple(self._pictures(account, request, now))
        return Film(request.prompt, request.seconds, width, height, pictures, tuple(notes))

    def _pictures(self, account: Account, request: CreateRequest, now: float) -> Iterator[Picture]:
        """Return own assets by id or URL, and images on other hosts, which are accepted and never fetched."""
        for image_id in request.image_ids:
            asset = self.assets.owned(account, image_id, now)
            yield Picture(asset.name, asset.content)
        for url in request.image_urls:
            if self.assets.is_own_url(url):
                asset = self.assets.by_url(account, url, now)
                yield Picture(asset.name, asset.content)
            else:
                parts = urlsplit(url)
                yield Picture(f"{parts.hostname}{parts.path}")


def _accepted_answer(task: SandboxTask) -> Answer:
    """Return the 202. Only its task id is documented."""
    body = {"id": task.id, "task_id": task.id, "status": "queued", "model": task.model, "points": task.points}
    return Answer.json(202, body | {"created_at": int(task.created_at), "upstream_task_id": None})
