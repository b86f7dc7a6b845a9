"""The way to a video: the content endpoint (4.6), its redirects followed by hand and bare, refused links renewed."""

import re
from collections.abc import AsyncIterator, Iterable
from functools import partial
from urllib.parse import quote, urljoin

from attrs import evolve, frozen
from yarl import URL

from vidgen_async.errors import DownloadError, LinkExpiredError, NotVideoError, ServiceError, TransportError
from vidgen_async.media import mp4
from vidgen_async.redaction.messages import excerpt
from vidgen_async.service.codec import read_task
from vidgen_async.service.endpoints import Endpoints, checked_task_id
from vidgen_async.service.retries import Reads
from vidgen_async.service.status_rules import rule_for
from vidgen_async.transports.base import BufferedResponse, Response
from vidgen_async.types.http import Request, make_headers
from vidgen_async.types.resources import TaskLike

REDIRECTS = frozenset({301, 302, 303, 307, 308})
LONGEST_CHAIN = 5

#: The only headers that go on to where a redirect points: what is wanted, never who asks.
_BARE = ("Accept", "Accept-Encoding", "Range", "If-Range")

#: So much of an answer that is no video is read.
_ENOUGH = 65536

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@frozen
class Opened:
    """A request and its answer, which the holder closes."""

    request: Request
    response: Response

    @property
    def is_refused_link(self) -> bool:
        """Whether a link refused, rather than the service its key."""
        return rule_for(self.response.status).is_link_refused and "Authorization" not in self.request.headers


class Content:
    """The video of one task. Every :meth:`open` begins at the content endpoint, so that links are always the latest."""

    def __init__(self, reads: Reads, endpoints: Endpoints, task: TaskLike) -> None:
        self.task_id = checked_task_id(task)
        self._reads = reads
        self._endpoints = endpoints

    async def open(self, *, byte_range: str | None = None, validator: str | None = None) -> Opened:
        """The answer that holds the bytes: 200, 206, or 416 when a range was asked for.

        Every other status raises its ServiceError (401 AuthenticationError, 404 NotFoundError, 409 NotReadyError …);
        a link that is refused, and a fresh one too, LinkExpiredError; a redirect that may not be followed,
        DownloadError; no answer, TransportError. Each request is sent once.
        """
        start = self._endpoints.get_content(self.task_id, byte_range=byte_range, validator=validator)
        opened = await self._follow(start)
        if opened.is_refused_link:
            opened = await self._renew(start, opened)
        status = opened.response.status
        if status in (200, 206) or (status == 416 and byte_range is not None):
            return opened
        async with opened.response:
            raise await self.not_video(opened, f"came with status {status}")

    async def check_media(self, opened: Opened) -> None:
        """NotVideoError when the headers say that this is something else."""
        headers = opened.response.headers
        if not mp4.may_be_video(headers):
            raise await self.not_video(opened, f"has the media type {excerpt(mp4.media_type(headers), limit=60)}")
        if mp4.is_encoded(headers):
            encoding = excerpt(headers["Content-Encoding"], limit=40)
            raise await self.not_video(opened, f"is compressed ({encoding}), although that was not asked for")

    async def first_piece(self, opened: Opened, pieces: AsyncIterator[bytes]) -> bytes:
        """The first of ``pieces`` of a whole body, if it is a video's; else NotVideoError."""
        await self.check_media(opened)
        head = b""
        async for piece in pieces:
            head += piece
            if len(head) >= mp4.MAGIC:
                break
        if not mp4.begins_like_mp4(head):
            raise await self.not_video(opened, "does not begin like an MP4" if head else "is empty", head)
        return head

    async def not_video(self, opened: Opened, what: str, head: bytes | None = None) -> NotVideoError:
        """The error for an answer that is no video, quoting its beginning; a status of an error raises its own."""
        response = opened.response
        if head is None:
            head = await _beginning(response)
        kept = BufferedResponse(response.status, head, headers=response.headers, url=opened.request.url)
        answer = await self._reads.success(opened.request, kept)
        message = f"what came for task {self.task_id!r} ({response.status}) is no video: it {what}"
        if head:
            message += f". It begins: {_show(head, answer.known)}"
        return NotVideoError(message, task_id=self.task_id, received=len(head))

    # -- redirects ---------------------------------------------------------------------------------------------------

    async def _follow(self, request: Request) -> Opened:
        """Send, and go where redirects point. No request does so by itself."""
        for _ in range(LONGEST_CHAIN + 1):
            response = await self._reads.send(request)
            if response.status not in REDIRECTS:
                return Opened(request, response)
            async with response:
                request = self._next(request, response)
        raise self._error(f"more than {LONGEST_CHAIN} redirects")

    def _next(self, request: Request, response: Response) -> Request:
        location = response.headers.get("Location", "")
        if not location:
            raise self._error(f"a redirect ({response.status}) without a Location")
        return self._to(self._resolve(request.url, location), request)

    def _to(self, url: URL, request: Request) -> Request:
        """``request``, sent to ``url`` instead: bare. Only the service's own paths need the key; a signed link there
        does not (5.5). A way that has once left the service's origin has lost the key for good."""
        headers = request.headers
        if not self._is_own(url) or _is_signed(url):
            headers = make_headers([(name, headers[name]) for name in _BARE if name in headers])
        return evolve(request, url=url, headers=headers)

    def _resolve(self, base: URL, location: str) -> URL:
        """Where a Location points, every byte of it kept; refused when it is not safe to go there."""
        shown = excerpt(location)
        if _CONTROL.search(location):
            raise self._error(f"a redirect to an address with control characters: {shown}")
        try:
            target = _sendable(location.strip())
            # urljoin would drop an empty query from what needs no joining.
            url = URL(target if _ABSOLUTE.match(target) else urljoin(str(base), target), encoded=True)
            is_complete = url.scheme in ("http", "https") and bool(url.host) and bool(url.port)
        except ValueError as error:
            raise self._error(f"a redirect to what is no address: {shown}") from error
        if not is_complete:
            raise self._error(f"a redirect to what is neither http:// nor https://: {shown}")
        if url.raw_user is not None or url.raw_password is not None:
            raise self._error(f"a redirect to an address with a user name or password: {shown}")
        if base.scheme == "https" and url.scheme == "http":
            raise self._error(f"a redirect from https:// to unprotected http://: {shown}")
        return url

    def _is_own(self, url: URL) -> bool:
        own = self._endpoints.base_url
        return (url.scheme, (url.host or "").lower(), url.port) == (own.scheme, (own.host or "").lower(), own.port)

    def _error(self, what: str) -> DownloadError:
        message = f"the video of task {self.task_id!r} was not fetched: the way to it is {what}"
        return DownloadError(message, task_id=self.task_id)

    # -- links that are no longer good -------------------------------------------------------------------------------

    async def _renew(self, start: Request, opened: Opened) -> Opened:
        """Querying the task refreshes its link (4.5, 5.7): ask for it, then the content endpoint once more, and at
        last the task's own video_url."""
        first = opened.response.status
        await opened.response.aclose()
        latest = await self._latest(start)
        refused = opened.request.url
        opened = await self._follow(start)
        if opened.is_refused_link and latest is not None and latest.url not in (refused, opened.request.url):
            await opened.response.aclose()
            opened = await self._follow(latest)
        if not opened.is_refused_link:
            return opened
        await opened.response.aclose()
        again = opened.response.status
        message = (
            f"the link to the video of task {self.task_id!r} was refused ({first} from {refused.host}), and a fresh "
            f"one too ({again} from {opened.request.url.host}); get the task again later, or ask for the video anew"
        )
        raise LinkExpiredError(message, task_id=self.task_id)

    async def _latest(self, start: Request) -> Request | None:
        """The request for the task's latest video_url, if it is a link that needs no key."""
        try:
            read = partial(read_task, task_id=self.task_id)
            task = await self._reads.once(self._endpoints.get_video(self.task_id), read)
            if task.video_url is None:
                return None
            request = self._to(self._resolve(start.url, task.video_url), start)
        except (TransportError, ServiceError, DownloadError):
            return None
        return None if "Authorization" in request.headers else request


def _sendable(location: str) -> str:
    """Only what no request line can hold is encoded; everything else stays, byte for byte."""
    return "".join(
        char if "!" <= char <= "~" else quote(char.encode("utf-8", "surrogateescape"), safe="") for char in location
    )


def _is_signed(url: URL) -> bool:
    return "sig" in url.query


async def _beginning(response: Response) -> bytes:
    """Enough of an answer to tell what it is; however it ends."""
    head = b""
    try:
        async for piece in response.chunks():
            head += piece
            if len(head) >= _ENOUGH:
                break
    except TransportError:
        return head
    return head


def _show(head: bytes, known: Iterable[str]) -> str:
    text = head[:4096].decode("utf-8", "ignore")
    if sum(char.isprintable() or char.isspace() for char in text) < 0.9 * len(head[:4096]):
        return f"the bytes {head[:16].hex(' ')}"
    return excerpt(text, known)
