"""Access to the content of a video (4.6): redirects are followed without the key, and refused links are renewed."""

import logging
import re
import string
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, suppress
from functools import partial
from http import HTTPStatus
from urllib.parse import quote, urljoin

from attrs import define, evolve, field, frozen
from yarl import URL

from vidgen_async.errors import DownloadError, LinkExpiredError, NotVideoError, ServiceError, TransportError
from vidgen_async.events import Event
from vidgen_async.media import mp4
from vidgen_async.media.image_types import image_type
from vidgen_async.redaction.messages import excerpt
from vidgen_async.service.codec import read_task
from vidgen_async.service.endpoints import Endpoints, checked_task_id
from vidgen_async.service.error_responses import refuser
from vidgen_async.service.retries import Reads
from vidgen_async.service.status_rules import rule_for
from vidgen_async.transports.base import BufferedResponse, Chunks, Response
from vidgen_async.types.http import CHUNK, Request, make_headers
from vidgen_async.user_code import UserCode

logger = logging.getLogger(__name__)

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS = 5

#: The only request headers that are sent to another origin; none of them identifies the user.
_SAFE_HEADERS = ("Accept", "Accept-Encoding", "Range", "If-Range")

#: Number of bytes in which the beginning of a video or an image is recognised.
_HEAD_SIZE = 16
_EXCERPT_SIZE = 65536

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@frozen
class ContentResponse:
    """The response to a request for a video. The caller closes it."""

    request: Request
    response: Response
    chunks: AsyncIterator[bytes]
    head: bytes = b""
    """The beginning of the body, where it has been checked; ``chunks`` are the rest."""


@frozen
class _Failure:
    error: ServiceError | DownloadError | TransportError
    url: URL
    has_key: bool
    """Whether the request was sent with the API key, so that it was not a signed link."""

    @property
    def status(self) -> int | None:
        return self.error.status if isinstance(self.error, ServiceError) else None

    @property
    def is_refused_link(self) -> bool:
        return not self.has_key and self.status is not None and rule_for(self.status).is_link_refused

    @property
    def is_bad_link(self) -> bool:
        """Whether another link may give the video."""
        return self.is_refused_link or (not self.has_key and isinstance(self.error, DownloadError))


@define(eq=False, repr=False)
class Content:
    """The video of one task. Each :meth:`open` starts at the content endpoint, so that the link is always current."""

    _reads: Reads
    _endpoints: Endpoints
    task_id: str = field(alias="task", converter=checked_task_id)
    _chunk_size: int = CHUNK
    _has_failed_link: bool = field(default=False, init=False)
    _prefers_link: bool = field(default=False, init=False)
    _last_url: URL | None = field(default=None, init=False)

    async def open(self, *, byte_range: str | None = None, validator: str | None = None) -> ContentResponse:
        """Return the video: 200, 206, or 416 for a range. A refused link is renewed, then replaced by video_url."""
        start = self._endpoints.get_content(self.task_id, byte_range=byte_range, validator=validator)
        preferred = await self._read_latest_link(start) if self._prefers_link else None
        first = await self._fetch(preferred or start)
        if isinstance(first, ContentResponse):
            return first
        if preferred is not None:
            raise self._error_of(first)
        if first.is_bad_link:
            return await self._renew(start, first)
        is_key_refused = first.has_key and first.status == HTTPStatus.UNAUTHORIZED
        link = None if is_key_refused or self._has_failed_link else await self._read_latest_link(start)
        if link is None or link.url == first.url:
            self._has_failed_link = True
            raise first.error
        second = await self._fetch(link)
        if isinstance(second, ContentResponse):
            return second
        self._has_failed_link = True
        Event.DOWNLOAD_LINK_FAILED.log(logger, task_id=self.task_id, error=second.error)
        raise first.error from self._error_of(second)

    async def prefer_link(self) -> bool:
        """Use the task's video_url from now on. Return False if that was tried, or is impossible."""
        if self._prefers_link or self._has_failed_link:
            return False
        link = await self._read_latest_link(self._endpoints.get_content(self.task_id))
        self._prefers_link = link is not None and link.url != self._last_url
        return self._prefers_link

    async def _renew(self, start: Request, first: _Failure) -> ContentResponse:
        latest = await self._read_latest_link(start)
        second = await self._fetch(start)
        if isinstance(second, _Failure) and second.is_bad_link and latest and latest.url not in (first.url, second.url):
            second = await self._fetch(latest)
        if isinstance(second, ContentResponse):
            return second
        self._has_failed_link = True
        raise self._error_of(second, first)

    async def make_not_video_error(
        self, result: ContentResponse, problem: str, head: bytes | None = None
    ) -> NotVideoError:
        """Return the error for what is not a video, because it ``problem``; for an error status, raise its own."""
        response = result.response
        if head is None:
            head = await _read_beginning(response)
        beginning = BufferedResponse(response.status, head, headers=response.headers, url=result.request.url)
        answer = await self._reads.success(result.request, beginning)
        message = f"the response for task {self.task_id!r} ({response.status}) is not a video: it {problem}"
        if head:
            message += f". It begins with: {_describe(head, answer.known)}"
        return NotVideoError(message, task_id=self.task_id, received=len(head))

    async def _fetch(self, request: Request) -> ContentResponse | _Failure:
        """Send the request, follow redirects, and check the response. The caller closes it if it is a video."""
        try:
            with UserCode(passes=(Exception,)) as call:
                for _ in range(MAX_REDIRECTS + 1):
                    async with AsyncExitStack() as stack:
                        response = await stack.enter_async_context(await self._reads.send(request))
                        if response.status not in REDIRECTS:
                            chunks = Chunks(partial(self._read_chunk, request, response.chunks(self._chunk_size)))
                            result = await self._check(ContentResponse(request, response, chunks))
                            stack.pop_all()
                            self._last_url = request.url
                            return result
                        location = response.headers.get("Location", "")
                        if not location:
                            raise self._make_error(f"a redirect ({response.status}) without a Location")
                        request = self._follow(location, request)
                raise self._make_error(f"more than {MAX_REDIRECTS} redirects")
            raise self._reads.explain(request, call.error)
        except (ServiceError, DownloadError, TransportError) as error:
            return _Failure(error, request.url, "Authorization" in request.headers)

    async def _read_chunk(self, request: Request, chunks: AsyncIterator[bytes]) -> bytes | None:
        with UserCode(passes=(Exception,)) as call:
            return await anext(chunks, None)
        raise self._reads.explain(request, call.error)

    async def _check(self, result: ContentResponse) -> ContentResponse:
        status, headers, asked = result.response.status, result.response.headers, result.request.headers
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and "Range" in asked:
            return result
        if not 200 <= status < 300:
            raise await self.make_not_video_error(result, f"has status {status}")
        span = mp4.content_range(headers)
        is_range = status == HTTPStatus.PARTIAL_CONTENT and ("Range" in asked or span is not None)
        if is_range and not (span is not None and span.start == 0 and (span.end or 0) + 1 >= mp4.SIGNATURE_SIZE):
            # The bytes prove nothing. After If-Range they belong to the file that was checked.
            problem = mp4.problem_of_labels(headers, self._reads.known, is_range=span is not None)
            if problem and "If-Range" not in asked:
                raise await self.make_not_video_error(result, problem)
            return result
        return evolve(result, head=await self._read_head(result))

    async def _read_head(self, result: ContentResponse) -> bytes:
        """Read the beginning; NotVideoError if it is none of a video. Labels decide only about other bytes."""
        head = b""
        async for chunk in result.chunks:
            head += chunk
            if len(head) >= _HEAD_SIZE:
                break
        image = None if head[8:12] in mp4.SEQUENCE_BRANDS else image_type(head[:_HEAD_SIZE])
        if image is None and mp4.begins_like_mp4(head):
            return head
        if image is not None:
            problem = f"is an image ({image})"
        elif not head:
            problem = "is empty"
        else:
            problem = mp4.problem_of_labels(result.response.headers, self._reads.known) or "does not begin like an MP4"
        raise await self.make_not_video_error(result, problem, head)

    def _error_of(self, last: _Failure, first: _Failure | None = None) -> Exception:
        """Return the error of a failure: for a refused link it states who refused it (5.7)."""
        if not last.is_refused_link:
            return last.error
        source = refuser(last.url, self._endpoints.origin)
        problem = f"({last.status} from {last.url.host}). Try again later"
        if first is not None:
            problem = f"({first.status} from {first.url.host}), and a new one too {problem}"
        what = "signed link" if source == "signed link" else "link to another host (upstream)"
        message = f"the {what} to the video of task {self.task_id!r} was refused {problem}"
        error = LinkExpiredError(message, task_id=self.task_id, status=last.status, source=source)
        error.__cause__ = last.error
        return error

    def _follow(self, location: str, request: Request) -> Request:
        """Return the request for another URL; once it left the service, or is signed (5.5), it has no key."""
        url, headers = self._resolve(request.url, location), request.headers
        if not self._endpoints.is_own(url) or "sig" in url.query:
            headers = make_headers([(name, headers[name]) for name in _SAFE_HEADERS if name in headers])
        return evolve(request, url=url, headers=headers)

    def _resolve(self, base: URL, location: str) -> URL:
        """Return the URL of a Location header, byte for byte; DownloadError if it is invalid or not safe to follow."""
        location = location.strip()
        shown = excerpt(location, self._reads.known)
        url = None
        if _CONTROL.search(location):
            raise self._make_error(f"a redirect to a URL with control characters: {shown}")
        try:
            # Only the characters that a request line cannot contain are percent-encoded.
            target = quote(location, safe=string.punctuation, errors="surrogateescape")
            url = URL(target if _ABSOLUTE.match(target) else urljoin(str(base), target), encoded=True)
            if url.raw_path and target.partition("#")[0].endswith("?") and not url.raw_query_string:
                url = URL.build(  # a URL object drops an empty query, which may be part of what was signed
                    scheme=url.scheme, authority=url.raw_authority, path=f"{url.raw_path}?", encoded=True
                )
            is_complete = url.scheme in ("http", "https") and bool(url.host) and bool(url.port)
        except ValueError:  # it may quote the URL, and must not be the context of the error
            url = None
        if url is None:
            raise self._make_error(f"a redirect to an invalid URL: {shown}")
        if not is_complete:
            raise self._make_error(f"a redirect to a URL that is neither http:// nor https://: {shown}")
        if url.raw_user is not None or url.raw_password is not None:
            raise self._make_error(f"a redirect to a URL with a user name or password: {shown}")
        if base.scheme == "https" and url.scheme == "http":
            raise self._make_error(f"a redirect from https:// to unencrypted http://: {shown}")
        return url

    def _make_error(self, problem: str) -> DownloadError:
        return DownloadError(
            f"the video of task {self.task_id!r} could not be fetched: {problem}", task_id=self.task_id
        )

    async def _read_latest_link(self, start: Request) -> Request | None:
        """Query the task and return the request for its video_url; None unless it is a link that needs no key."""
        try:
            read = partial(read_task, task_id=self.task_id)
            task = await self._reads.once(self._endpoints.get_video(self.task_id), read)
            if task.video_url is None:
                return None
            request = self._follow(task.video_url, start)
        except (TransportError, ServiceError, DownloadError):
            return None
        return None if "Authorization" in request.headers else request


async def _read_beginning(response: Response) -> bytes:
    head = b""
    with suppress(TransportError):
        async for chunk in response.chunks():
            head += chunk
            if len(head) >= _EXCERPT_SIZE:
                break
    return head


def _describe(head: bytes, known: Iterable[str]) -> str:
    text = head[:4096].decode("utf-8", "ignore")
    if sum(char.isprintable() or char.isspace() for char in text) < 0.9 * len(head[:4096]):
        return f"the bytes {head[:16].hex(' ')}"
    return excerpt(text, known)
