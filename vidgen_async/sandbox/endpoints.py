"""The six endpoints, the URLs of assets and the signed links: each returns an answer or raises a Refusal."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TypedDict

from attrs import define, field, frozen

from vidgen_async.sandbox.assets import ASSET_PATH, Asset, AssetStore, DecodedImage, decode_image
from vidgen_async.sandbox.clock import SandboxClock
from vidgen_async.sandbox.creates import CreateHandler
from vidgen_async.sandbox.input_rules import InvalidInputError, read_body, structure
from vidgen_async.sandbox.ledger import Account, Accounts
from vidgen_async.sandbox.media import RenderCache
from vidgen_async.sandbox.request_log import ReceivedCreate
from vidgen_async.sandbox.responses import Answer, Refusal, media_type_of, not_json, video_answer
from vidgen_async.sandbox.routes import LINKS, PREFIX, Route
from vidgen_async.sandbox.signed_links import LinkSigner
from vidgen_async.sandbox.tasks import SandboxTask


@frozen
class Call:
    """A request that was read completely. ``path`` and ``query`` are as received."""

    route: Route
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    create: ReceivedCreate | None = None


class UploadFields(TypedDict, total=False):
    """The body of POST /files. Other fields are ignored."""

    image_b64: str
    image_url: str


@define(kw_only=True)
class Endpoints:
    """All operations of the service."""

    clock: SandboxClock
    accounts: Accounts
    create_handler: CreateHandler
    signer: LinkSigner
    render_cache: RenderCache

    @property
    def assets(self) -> AssetStore:
        return self.create_handler.assets

    def signed_path(self, task: SandboxTask, now: float, lifetime: float | None = None) -> str:
        """Return the signed link to a task's video, without its origin."""
        return self.signer.sign(f"{LINKS}{task.upstream_task_id}.mp4", now, lifetime)

    async def handle(self, call: Call) -> Answer:
        """Return the answer to a call, after booking the refunds that are due."""
        self.create_handler.refunds.settle(self.clock.now())
        try:
            return await _OPS[call.route.op](self, call)
        except Refusal as refusal:
            return refusal.answer
        except InvalidInputError as error:
            return Answer.error(400, "INVALID_PARAMETER", str(error))

    async def list_models(self, call: Call) -> Answer:
        self._account(call)
        return Answer.json(200, {"models": [entry.as_json() for entry in self.create_handler.models.values()]})

    async def get_account(self, call: Call) -> Answer:
        """The field names are the sandbox's own: 2.2 shows none."""
        account = self._account(call)
        return Answer.json(200, {"account": account.name, "credits": account.balance})

    async def create_file(self, call: Call) -> Answer:
        account = self._account(call)
        if media_type_of(call.headers) != "application/json":
            raise not_json()
        upload = await self.render_cache.run(self._read_upload, account, call)
        asset = upload if isinstance(upload, Asset) else self.assets.add(account, upload, self.clock.now())
        return Answer.json(200, self.assets.as_json(asset))

    def _read_upload(self, account: Account, call: Call) -> Asset | DecodedImage:
        """Runs in a thread, because an upload may be large. The URL of an own asset returns that asset (4.3)."""
        fields = _read_upload_fields(call.body)
        text, url = fields.get("image_b64"), fields.get("image_url")
        if text is not None:
            if ASSET_PATH.fullmatch(text.partition("?")[0]):
                return self.assets.by_url(account, text, self.clock.now())
            if not re.match(r"https?://", text, re.IGNORECASE):
                return decode_image(text)
            url = text
        if url is None or not self.assets.is_own_url(url, call.headers.get("Host")):
            message = "only the full URL of an asset of this account can be reused; external URLs belong in image_urls"
            raise Refusal(400, "UNSUPPORTED_REFERENCE_URL", message)
        return self.assets.by_url(account, url, self.clock.now())

    async def create_video(self, call: Call) -> Answer:
        account = self._account(call)
        if call.create is None:
            raise ValueError("a create needs its record in the request log")
        return self.create_handler.handle(account, call.create, self.clock.now())

    async def get_video(self, call: Call) -> Answer:
        task = self._task(call)
        now = self.clock.now()
        return Answer.json(200, task.as_json(now, self._video_url(call, task, now)))

    async def get_content(self, call: Call) -> Answer:
        task, now = self._task(call), self.clock.now()
        status = task.status_at(now)
        if status != "completed":
            message = f"the task is {status}; its video is not completed or not available"
            raise Refusal(409, "VIDEO_NOT_AVAILABLE", message)
        delivery = self._delivery(task)
        if delivery == "signed link":
            return Answer(307, b"", {"Location": self._video_url(call, task, now)})
        video = await self.render_cache.video(task.film)
        if delivery == "no ranges":
            return Answer(200, video, {"Content-Type": "video/mp4"})
        return _range_answer(call, task, video)

    async def get_link(self, call: Call) -> Answer:
        """A signed link needs no API key, and none is checked (5.5)."""
        self.signer.check(call.path, call.query, self.clock.now())
        found = re.fullmatch(re.escape(LINKS) + r"up-(\w+)\.mp4", call.path)
        task = self.create_handler.tasks.get(found[1][::-1]) if found else None
        if task is None:
            raise Refusal(404, "NOT_FOUND", "there is no such video")
        return _range_answer(call, task, await self.render_cache.video(task.film))

    async def get_asset(self, call: Call) -> Answer:
        asset = self.assets.open(call.path, call.query, self.clock.now())
        return Answer(200, asset.content, {"Content-Type": asset.mime})

    async def refuse_unknown(self, call: Call) -> Answer:
        if call.route.allowed:
            refused = Answer.error(405, "METHOD_NOT_ALLOWED", "this path does not support this method")
            return refused.with_headers({"Allow": ", ".join(call.route.allowed)})
        return Answer.error(404, "NOT_FOUND", f"there is no such path; check the {PREFIX} prefix")

    def _account(self, call: Call) -> Account:
        """Return the account of the API key. Only the header is read: a key in a URL is never accepted (5.4)."""
        account = self.accounts.by_header(call.headers.get("Authorization", ""))
        if account is None:
            raise Refusal(401, "INVALID_API_KEY", "the API key is missing or invalid", {"WWW-Authenticate": "Bearer"})
        return account

    def _task(self, call: Call) -> SandboxTask:
        account = self._account(call)
        task = self.create_handler.tasks.get(call.route.id)
        if task is None or task.account is not account:
            raise Refusal(404, "NOT_FOUND", "the task does not exist or does not belong to the current user")
        return task

    def _delivery(self, task: SandboxTask) -> str:
        entry = self.create_handler.models.get(task.model)
        return entry.delivery if entry else "ranges"

    def _video_url(self, call: Call, task: SandboxTask, now: float) -> str:
        addresses = self.assets.addresses.for_host(call.headers.get("Host"))
        if self._delivery(task) == "signed link":
            return addresses.links + self.signed_path(task, now)
        return f"{addresses.base_url}/videos/{task.id}/content"


def _read_upload_fields(raw: bytes) -> UploadFields:
    body = read_body(raw)
    known = {name: body[name] for name in UploadFields.__annotations__ if name in body}
    return structure(known, UploadFields, () if known else ["image_b64 or image_url: required"])


def _range_answer(call: Call, task: SandboxTask, video: bytes) -> Answer:
    etag = f'"{task.film.digest()[:16]}-{len(video)}"'
    return video_answer(video, etag, call.headers.get("Range"), call.headers.get("If-Range"))


_OPS: dict[str, Callable[[Endpoints, Call], Awaitable[Answer]]] = {
    "models.list": Endpoints.list_models,
    "account.get": Endpoints.get_account,
    "files.create": Endpoints.create_file,
    "videos.create": Endpoints.create_video,
    "videos.get": Endpoints.get_video,
    "videos.content": Endpoints.get_content,
    "link": Endpoints.get_link,
    "asset": Endpoints.get_asset,
    "unknown": Endpoints.refuse_unknown,
}
