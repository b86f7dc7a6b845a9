"""The six endpoints, the URLs of assets and the signed links: each returns an answer or raises a Refusal."""

import re
from collections.abc import Awaitable, Callable
from typing import TypedDict

from attrs import frozen

from vidgen_async.sandbox.assets import Asset, DecodedImage, decode_image
from vidgen_async.sandbox.creates import CreateHandler
from vidgen_async.sandbox.input_rules import NOT_JSON, InvalidInputError, read_body, structure
from vidgen_async.sandbox.ledger import Account
from vidgen_async.sandbox.request_log import ReceivedCreate
from vidgen_async.sandbox.responses import Answer, Refusal, media_type_of, video_answer
from vidgen_async.sandbox.routes import ASSET_PATH, PREFIX, Call, Route, pattern
from vidgen_async.sandbox.state import SandboxState
from vidgen_async.sandbox.tasks import SandboxTask


class UploadFields(TypedDict, total=False):
    """The body of POST /files. Other fields are ignored."""

    image_b64: str
    image_url: str


@frozen
class Endpoints:
    """All operations of the service, except POST /videos."""

    sandbox: SandboxState

    async def handle(self, route: Route, call: Call, create: ReceivedCreate | None) -> Answer:
        """Return the answer to a call, after booking the refunds that are due."""
        self.sandbox.settle()
        if route.allowed:
            allowed = {"Allow": ", ".join(route.allowed)}
            raise Refusal(405, "METHOD_NOT_ALLOWED", "this path does not support this method", allowed)
        if route.op == "unknown":
            raise Refusal(404, "NOT_FOUND", f"there is no such path; check the {PREFIX} prefix")
        if create is not None:
            return CreateHandler(self.sandbox, self._account(call), create, self._now).handle()
        return await _OPS[route.op](self, call)

    @property
    def _now(self) -> float:
        return self.sandbox.clock.now()

    async def list_models(self, call: Call) -> Answer:
        self._account(call)
        return Answer.json(200, {"models": [entry.as_json() for entry in self.sandbox.models.values()]})

    async def get_account(self, call: Call) -> Answer:
        """The field names are the sandbox's own: 2.2 shows none."""
        account = self._account(call)
        return Answer.json(200, {"account": account.name, "credits": account.balance})

    async def create_file(self, call: Call) -> Answer:
        account = self._account(call)
        if media_type_of(call.headers) != "application/json":
            raise InvalidInputError(NOT_JSON)
        upload = await self.sandbox.render_cache.run(self._read_upload, account, call)
        assets = self.sandbox.assets
        asset = upload if isinstance(upload, Asset) else assets.add(account, upload, self._now)
        return Answer.json(200, assets.as_json(asset))

    def _read_upload(self, account: Account, call: Call) -> Asset | DecodedImage:
        """Runs in a thread, because an upload may be large. The URL of an own asset returns that asset (4.3)."""
        body = read_body(call.body)
        known = {name: body[name] for name in UploadFields.__annotations__ if name in body}
        fields = structure(known, UploadFields, () if known else ["image_b64 or image_url: required"])
        text, url = fields.get("image_b64"), fields.get("image_url")
        if text is not None:
            if pattern(ASSET_PATH).fullmatch(text.partition("?")[0]):
                return self.sandbox.assets.by_url(account, text, self._now)
            if not re.match(r"https?://", text, re.IGNORECASE):
                return decode_image(text)
            url = text
        if url is None or not self.sandbox.assets.is_own_url(url, call.host):
            message = "only the full URL of an asset of this account can be reused; external URLs belong in image_urls"
            raise Refusal(400, "UNSUPPORTED_REFERENCE_URL", message)
        return self.sandbox.assets.by_url(account, url, self._now)

    async def get_video(self, call: Call) -> Answer:
        task = self._task(call)
        return Answer.json(200, task.as_json(self._now, self._video_url(call, task)))

    async def get_content(self, call: Call) -> Answer:
        task = self._task(call)
        status = task.status_at(self._now)
        if status != "completed":
            message = f"the task is {status}; its video is not completed or not available"
            raise Refusal(409, "VIDEO_NOT_AVAILABLE", message)
        delivery = self._delivery(task)
        if delivery == "signed link":
            return Answer(307, b"", {"Location": self._video_url(call, task)})
        if delivery == "no ranges":
            return Answer(200, await self.sandbox.video(task.id), {"Content-Type": "video/mp4"})
        return await self._video(call, task)

    async def get_link(self, call: Call) -> Answer:
        """A signed link needs no API key, and none is checked (5.5)."""
        self.sandbox.assets.signer.check(call.path, call.query, self._now)
        task = self.sandbox.tasks.get(call.names["link"].removeprefix("up-").removesuffix(".mp4")[::-1])
        if task is None:
            raise Refusal(404, "NOT_FOUND", "there is no such video")
        return await self._video(call, task)

    async def get_asset(self, call: Call) -> Answer:
        asset = self.sandbox.assets.open(call.names["asset"], call.path, call.query, self._now)
        return Answer(200, asset.content, {"Content-Type": asset.mime})

    def _account(self, call: Call) -> Account:
        """Return the account of the API key. Only the header is read: a key in a URL is never accepted (5.4)."""
        account = self.sandbox.accounts.by_header(call.headers.get("Authorization", ""))
        if account is None:
            raise Refusal(401, "INVALID_API_KEY", "the API key is missing or invalid", {"WWW-Authenticate": "Bearer"})
        return account

    def _task(self, call: Call) -> SandboxTask:
        account, task = self._account(call), self.sandbox.tasks.get(call.names["id"])
        if task is None or task.account is not account:
            raise Refusal(404, "NOT_FOUND", "the task does not exist or does not belong to the current user")
        return task

    def _delivery(self, task: SandboxTask) -> str:
        entry = self.sandbox.models.get(task.model)
        return entry.delivery if entry else "ranges"

    def _video_url(self, call: Call, task: SandboxTask) -> str:
        addresses = self.sandbox.addresses_for(call.host)
        if self._delivery(task) == "signed link":
            return self.sandbox.new_link(task.id, links_url=addresses.links)
        return f"{addresses.base_url}/videos/{task.id}/content"

    async def _video(self, call: Call, task: SandboxTask) -> Answer:
        video = await self.sandbox.video(task.id)
        etag = f'"{task.film.digest()[:16]}-{len(video)}"'
        return video_answer(video, etag, call.headers.get("Range"), call.headers.get("If-Range"))


_OPS: dict[str, Callable[[Endpoints, Call], Awaitable[Answer]]] = {
    "models.list": Endpoints.list_models,
    "account.get": Endpoints.get_account,
    "files.create": Endpoints.create_file,
    "videos.get": Endpoints.get_video,
    "videos.content": Endpoints.get_content,
    "link": Endpoints.get_link,
    "asset": Endpoints.get_asset,
}
