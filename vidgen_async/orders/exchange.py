"""What one request brought, as far as it got."""

from attrs import field, mutable

from vidgen_async.service.body_decoding import decode_body
from vidgen_async.service.codec import Answer
from vidgen_async.types.http import Headers, Request, make_headers


@mutable
class Exchange:
    """Readable also after it was cut off."""

    is_handed_over: bool = False
    """The transport was asked to send it."""
    request: Request | None = None
    status: int | None = None
    headers: Headers = field(factory=make_headers)
    body: bytearray = field(factory=bytearray)
    is_complete: bool = False

    def answer(self, known: tuple[str, ...]) -> Answer | None:
        """The answer, if at least its status came."""
        if self.request is None or self.status is None:
            return None
        body = bytes(self.body)
        if self.is_complete:
            body = decode_body(body, self.headers)
        return Answer(self.request.op, self.status, self.headers, body, url=self.request.url, known=known)
