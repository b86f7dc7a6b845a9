"""The operations of the service: each returns an answer or raises a Refusal."""

import math
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypedDict
from urllib.parse import urlsplit

from attrs import evolve, frozen

from vidgen_async.sandbox.accounts import Account, SandboxTask
from vidgen_async.sandbox.assets import Asset
from vidgen_async.sandbox.create_validation import count, problem_of_url, read_fields, read_request, resolve_aliases
from vidgen_async.sandbox.http import ASSET_PATH, PREFIX, Answer, Call, Refusal, Route, pattern, video_answer
from vidgen_async.sandbox.input_rules import NOT_JSON, InvalidInputError, read_body, structure
from vidgen_async.sandbox.media import Film, drawable, size_of
from vidgen_async.sandbox.request_log import ReceivedCreate
from vidgen_async.sandbox.state import SandboxState

WINDOW = 60.0


class UploadFields(TypedDict, total=False):
    """The body of POST /files. Other fields are ignored."""

    image_b64: str
    image_url: str


@frozen
class Operation:
    """A call of an operation. ``now`` is when it arrived, on the sandbox's clock."""

    sandbox: SandboxState
    call: Call
    now: float

    async def handle(self, route: Route, create: ReceivedCreate | None) -> Answer:
        self.sandbox.settle()
        if route.allowed:
            allowed = {"Allow": ", ".join(route.allowed)}
            raise Refusal(405, "METHOD_NOT_ALLOWED", "this path does not support this method", allowed)
        if route.op == "unknown":
            raise Refusal(404, "NOT_FOUND", f"there is no such path; check the {PREFIX} prefix")
        return self.create_video(create) if create is not None else await _OPS[route.op](self)

    @property
    def account(self) -> Account:
        """The account of the API key. Only the header is read: a key in a URL is never accepted (5.4)."""
        account = self.sandbox.accounts.by_header(self.call.headers.get("Authorization", ""))
        if account is None:
            raise Refusal(401, "INVALID_API_KEY", "the API key is missing or invalid", {"WWW-Authenticate": "Bearer"})
        return account

    async def list_models(self) -> Answer:
        _ = self.account
        return Answer.json(200, {"models": [entry.as_json() for entry in self.sandbox.models.values()]})

    async def get_account(self) -> Answer:
        """The field names are the sandbox's own: 2.2 shows none."""
        return Answer.json(200, {"account": self.account.name, "credits": self.account.balance})

    async def create_file(self) -> Answer:
        account, assets = self.account, self.sandbox.assets
        if not self.call.is_json:
            raise InvalidInputError(NOT_JSON)
        asset = await self.sandbox.render_cache.run(self._read_upload, account)
        assets.by_id[asset.id] = asset
        return Answer.json(200, assets.as_json(asset))

    def _read_upload(self, account: Account) -> Asset:
        """Runs in a thread, because an upload may be large. The URL of an own asset returns that asset (4.3)."""
        body = read_body(self.call.body)
        known = {name: body[name] for name in UploadFields.__annotations__ if name in body}
        fields = structure(known, UploadFields, () if known else ["image_b64 or image_url: required"])
        text, url = fields.get("image_b64"), fields.get("image_url")
        if text is not None:
            if pattern(ASSET_PATH).fullmatch(text.partition("?")[0]):
                return self.sandbox.assets.by_url(account, text, self.now)
            if not re.match(r"https?://", text, re.IGNORECASE):
                return self.sandbox.assets.make(account, text, self.now)
            url = text
        if url is None or not self.sandbox.assets.is_own_url(url, self.call.host):
            message = "only the full URL of an asset of this account can be reused; external URLs belong in image_urls"
            raise Refusal(400, "UNSUPPORTED_REFERENCE_URL", message)
        return self.sandbox.assets.by_url(account, url, self.now)

    async def get_asset(self) -> Answer:
        asset = self.sandbox.assets.open(self.call.names["asset"], self.call.path, self.call.query, self.now)
        return Answer(200, asset.content, {"Content-Type": asset.mime})

    async def get_video(self) -> Answer:
        task = self._task()
        return Answer.json(200, task.as_json(self.now, self._video_url(task)))

    async def get_content(self) -> Answer:
        task = self._task()
        status = task.status_at(self.now)
        if status != "completed":
            message = f"the task is {status}; its video is not completed or not available"
            raise Refusal(409, "VIDEO_NOT_AVAILABLE", message)
        delivery = self._delivery(task)
        if delivery == "signed link":
            return Answer(307, b"", {"Location": self._video_url(task)})
        if delivery == "no ranges":
            return Answer(200, await self.sandbox.video(task.id), {"Content-Type": "video/mp4"})
        return await self._video(task)

    async def get_link(self) -> Answer:
        """A signed link needs no API key, and none is checked (5.5)."""
        self.sandbox.assets.signer.check(self.call.path, self.call.query, self.now)
        task = self.sandbox.tasks.get(self.call.names["link"].removeprefix("up-").removesuffix(".mp4")[::-1])
        if task is None:
            raise Refusal(404, "NOT_FOUND", "there is no such video")
        return await self._video(task)

    def _task(self) -> SandboxTask:
        account, task = self.account, self.sandbox.tasks.get(self.call.names["id"])
        if task is None or task.account is not account:
            raise Refusal(404, "NOT_FOUND", "the task does not exist or does not belong to the current user")
        return task

    def _delivery(self, task: SandboxTask) -> str:
        entry = self.sandbox.models.get(task.model)
        return entry.delivery if entry else "ranges"

    def _video_url(self, task: SandboxTask) -> str:
        addresses = self.sandbox.addresses_for(self.call.host)
        if self._delivery(task) == "signed link":
            return self.sandbox.new_link(task.id, links_url=addresses.links)
        return f"{addresses.base_url}/videos/{task.id}/content"

    async def _video(self, task: SandboxTask) -> Answer:
        video = await self.sandbox.video(task.id)
        etag = f'"{task.film.digest()[:16]}-{len(video)}"'
        return video_answer(video, etag, self.call.headers.get("Range"), self.call.headers.get("If-Range"))

    # -- creates: without an await, so that two with the same key cannot create two tasks ----------------------------

    def create_video(self, create: ReceivedCreate) -> Answer:
        """Return the 202, of which only the task id is documented. A refused create does not use its key."""
        account, key = self.account, create.idempotency_key
        self._count_submission()
        if key is not None and not 8 <= len(key) <= 100:
            raise InvalidInputError("Idempotency-Key: must be 8 to 100 characters long")
        if not self.call.is_json or create.body is None:
            raise InvalidInputError(NOT_JSON)
        known_id = account.keys.get(key) if key is not None else None
        task = self.sandbox.tasks[known_id] if known_id else self._create_task(create)
        if resolve_aliases(task.request) != resolve_aliases(create.body):
            raise Refusal(409, "IDEMPOTENCY_KEY_REUSED", "this Idempotency-Key was used with another body")
        create.task_id, create.replayed = task.id, known_id is not None
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

    def _create_task(self, create: ReceivedCreate) -> SandboxTask:
        account, options, failures = self.account, self.sandbox.create_options, self.sandbox.next_failures
        fields = read_fields(create.body, self._problem_of, allow_unknown_fields=options.allow_unknown_fields)
        entry = self.sandbox.models.get(fields["model"])
        if entry is None:
            raise InvalidInputError(f"model: there is no model {fields['model']!r}")
        if not entry.is_usable:
            why = "in maintenance" if entry.maintenance else "not enabled"
            raise Refusal(503, "MODEL_UNAVAILABLE", f"the model {entry.code} is {why}")
        request = read_request(fields, entry)
        resolution, ratio, seconds = request["resolution"], request["ratio"], int(request["duration"])
        notes = [entry.code, resolution, ratio, f"{seconds} s"]
        notes += [f"{n} {kind}" for kind in ("audio", "video") if (n := count(request, kind))]
        pictures = tuple(self._pictures(request))
        if account.balance < entry.points:
            message = f"not enough credits: {entry.points} needed, {account.balance} left"
            raise Refusal(402, "INSUFFICIENT_CREDITS", message)
        task_id = f"task_{secrets.token_hex(12)}"
        if not drawable(request["prompt"]):
            notes.insert(0, task_id)
        task = SandboxTask(
            id=task_id,
            account=account,
            request=create.body,
            idempotency_key=create.idempotency_key,
            model=entry.code,
            points=entry.points,
            film=Film(request["prompt"], seconds, *size_of(resolution, ratio), pictures, tuple(notes)),
            created_at=self.now,
            queued_for=options.queued_for,
            running_for=options.running_for,
        )
        task = evolve(task, failure=failures.pop(0) if failures else options.outcome(task))
        account.book(self.now, "charge", -task.points, task.id)
        self.sandbox.add_task(task)
        return task

    def _problem_of(self, url: object) -> str | None:
        """An own asset is looked up later."""
        is_own = isinstance(url, str) and self.sandbox.assets.is_own_url(url, self.call.host)
        return None if is_own else problem_of_url(url, self.now)

    def _pictures(self, request: Mapping[str, Any]) -> Iterator[str]:
        """Return the names of own assets by id or URL, and of images on other hosts, which are never fetched."""
        assets = self.sandbox.assets
        for image_id in request.get("image_ids", ()):
            yield assets.owned(self.account, image_id, self.now).name
        for url in (*request.get("image_urls", ()), *(each["url"] for each in request.get("reference_images", ()))):
            if assets.is_own_url(url, self.call.host):
                yield assets.by_url(self.account, url, self.now).name
            else:
                parts = urlsplit(url)
                yield f"{parts.hostname}{parts.path}"


_OPS: dict[str, Callable[[Operation], Awaitable[Answer]]] = {
    "models.list": Operation.list_models,
    "account.get": Operation.get_account,
    "files.create": Operation.create_file,
    "videos.get": Operation.get_video,
    "videos.content": Operation.get_content,
    "link": Operation.get_link,
    "asset": Operation.get_asset,
}
