"""Access to the content of a video (4.6): redirects are followed without the key, and refused links are renewed."""

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
MAX_REDIRECTS = 5

#: The only request headers that are sent to another origin; none of them identifies the user.
_SAFE_HEADERS = ("Accept", "Accept-Encoding", "Range", "If-Range")

#: Number of bytes that are read of a response that is not a video.
_EXCERPT_SIZE = 65536

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@frozen
class ContentResponse:
    """The response to a request for a video. The caller closes it."""

    request: Request
    response: Response

    @property
    def is_refused_link(self) -> bool:
        """Whether the link was refused, not the API key."""
        return rule_for(self.response.status).is_link_refused and "Authorization" not in self.request.headers


class Content:
    """The video of one task. Each :meth:`open` starts at the content endpoint, so that the link is always current."""

    def __init__(self, reads: Reads, endpoints: Endpoints, task: TaskLike) -> None:
        self.task_id = checked_task_id(task)
        self._reads = reads
        self._endpoints = endpoints

    async def open(self, *, byte_range: str | None = None, validator: str | None = None) -> ContentResponse:
        """Request the content, and return the response with the bytes: 200, 206, or 416 if a range was requested.

        Each request is sent once.

        Args:
            byte_range: The value of the Range header.
            validator: The value of the If-Range header.

        Raises:
            ServiceError: Any other status: AuthenticationError for 401, NotFoundError for 404, NotReadyError for 409 …
            LinkExpiredError: The link was refused, and so was a fresh one.
            DownloadError: A redirect cannot be followed.
            TransportError: There was no response.
        """
        start = self._endpoints.get_content(self.task_id, byte_range=byte_range, validator=validator)
        result = await self._follow(start)
        if result.is_refused_link:
            result = await self._renew(start, result)
        status = result.response.status
        if status in (200, 206) or (status == 416 and byte_range is not None):
            return result
        async with result.response:
            raise await self.make_not_video_error(result, f"has status {status}")

    async def check_media(self, result: ContentResponse) -> None:
        """Check the headers.

        Raises:
            NotVideoError: The headers state that the body is not a video, or is compressed.
        """
        headers = result.response.headers
        if not mp4.may_be_video(headers):
            raise await self.make_not_video_error(
                result, f"has the media type {excerpt(mp4.media_type(headers), limit=60)}"
            )
        if mp4.is_encoded(headers):
            encoding = excerpt(headers["Content-Encoding"], limit=40)
            raise await self.make_not_video_error(result, f"is compressed ({encoding}), which was not requested")

    async def read_first_chunk(self, result: ContentResponse, chunks: AsyncIterator[bytes]) -> bytes:
        """Read the beginning of a complete body.

        Raises:
            NotVideoError: The body is not a video.
        """
        await self.check_media(result)
        head = b""
        async for chunk in chunks:
            head += chunk
            if len(head) >= mp4.SIGNATURE_SIZE:
                break
        if not mp4.begins_like_mp4(head):
            raise await self.make_not_video_error(result, "does not begin like an MP4" if head else "is empty", head)
        return head

    async def make_not_video_error(
        self, result: ContentResponse, problem: str, head: bytes | None = None
    ) -> NotVideoError:
        """Return the error for a response that is not a video, quoting its beginning. For an error status the
        ServiceError is raised instead.

        Args:
            result: The response.
            problem: What is wrong with it, as the predicate of a sentence.
            head: The beginning of the body, if it has been read.
        """
        response = result.response
        if head is None:
            head = await _read_beginning(response)
        beginning = BufferedResponse(response.status, head, headers=response.headers, url=result.request.url)
        answer = await self._reads.success(result.request, beginning)
        message = f"the response for task {self.task_id!r} ({response.status}) is not a video: it {problem}"
        if head:
            message += f". It begins with: {_describe(head, answer.known)}"
        return NotVideoError(message, task_id=self.task_id, received=len(head))

    # -- redirects ---------------------------------------------------------------------------------------------------

    async def _follow(self, request: Request) -> ContentResponse:
        """Send the request and follow redirects, which transports do not follow."""
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._reads.send(request)
            if response.status not in REDIRECTS:
                return ContentResponse(request, response)
            async with response:
                request = self._redirect(request, response)
        raise self._make_error(f"more than {MAX_REDIRECTS} redirects")

    def _redirect(self, request: Request, response: Response) -> Request:
        location = response.headers.get("Location", "")
        if not location:
            raise self._make_error(f"a redirect ({response.status}) without a Location")
        return self._redirect_to(self._resolve(request.url, location), request)

    def _redirect_to(self, url: URL, request: Request) -> Request:
        """Return the request for another URL. Only paths of the service need the key, and its signed links do not
        (5.5). Once the key was removed for another origin, it is not added again."""
        headers = request.headers
        if not self._endpoints.is_own(url) or _is_signed(url):
            headers = make_headers([(name, headers[name]) for name in _SAFE_HEADERS if name in headers])
        return evolve(request, url=url, headers=headers)

    def _resolve(self, base: URL, location: str) -> URL:
        """Return the URL of a Location header, byte for byte.

        Raises:
            DownloadError: The URL is invalid, or it is not safe to follow it.
        """
        shown = excerpt(location)
        if _CONTROL.search(location):
            raise self._make_error(f"a redirect to a URL with control characters: {shown}")
        try:
            target = _encode_location(location.strip())
            # urljoin would remove an empty query from an absolute URL.
            url = URL(target if _ABSOLUTE.match(target) else urljoin(str(base), target), encoded=True)
            is_complete = url.scheme in ("http", "https") and bool(url.host) and bool(url.port)
        except ValueError as error:
            raise self._make_error(f"a redirect to an invalid URL: {shown}") from error
        if not is_complete:
            raise self._make_error(f"a redirect to a URL that is neither http:// nor https://: {shown}")
        if url.raw_user is not None or url.raw_password is not None:
            raise self._make_error(f"a redirect to a URL with a user name or password: {shown}")
        if base.scheme == "https" and url.scheme == "http":
            raise self._make_error(f"a redirect from https:// to unencrypted http://: {shown}")
        return url

    def _make_error(self, problem: str) -> DownloadError:
        message = f"the video of task {self.task_id!r} could not be fetched: {problem}"
        return DownloadError(message, task_id=self.task_id)

    # -- expired links -----------------------------------------------------------------------------------------------

    async def _renew(self, start: Request, result: ContentResponse) -> ContentResponse:
        """Query the task, which refreshes its link (4.5, 5.7). Then request the content again, and finally the task's
        video_url."""
        first_status = result.response.status
        await result.response.aclose()
        latest = await self._read_latest_link(start)
        refused = result.request.url
        result = await self._follow(start)
        if result.is_refused_link and latest is not None and latest.url not in (refused, result.request.url):
            await result.response.aclose()
            result = await self._follow(latest)
        if not result.is_refused_link:
            return result
        await result.response.aclose()
        second_status = result.response.status
        message = (
            f"the link to the video of task {self.task_id!r} was refused ({first_status} from {refused.host}), and so "
            f"was a fresh one ({second_status} from {result.request.url.host}); download the video again later"
        )
        raise LinkExpiredError(message, task_id=self.task_id)

    async def _read_latest_link(self, start: Request) -> Request | None:
        """Query the task and return the request for its video_url; None unless it is a link that needs no key."""
        try:
            read = partial(read_task, task_id=self.task_id)
            task = await self._reads.once(self._endpoints.get_video(self.task_id), read)
            if task.video_url is None:
                return None
            request = self._redirect_to(self._resolve(start.url, task.video_url), start)
        except (TransportError, ServiceError, DownloadError):
            return None
        return None if "Authorization" in request.headers else request


def _encode_location(location: str) -> str:
    """Percent-encode the characters that a request line cannot contain, and nothing else."""
    return "".join(
        char if "!" <= char <= "~" else quote(char.encode("utf-8", "surrogateescape"), safe="") for char in location
    )


def _is_signed(url: URL) -> bool:
    return "sig" in url.query


async def _read_beginning(response: Response) -> bytes:
    """Read enough of a response to identify it, also if it ends early."""
    head = b""
    try:
        async for chunk in response.chunks():
            head += chunk
            if len(head) >= _EXCERPT_SIZE:
                break
    except TransportError:
        return head
    return head


def _describe(head: bytes, known: Iterable[str]) -> str:
    text = head[:4096].decode("utf-8", "ignore")
    if sum(char.isprintable() or char.isspace() for char in text) < 0.9 * len(head[:4096]):
        return f"the bytes {head[:16].hex(' ')}"
    return excerpt(text, known)
