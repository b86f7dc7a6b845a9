"""A service or a proxy that returns the secrets of a request, in whatever form that is not a response, reveals none."""

import base64
import logging
import traceback
from collections.abc import Callable, Iterator

import pytest
from yarl import URL

from tests.transports import raw_service as raw
from tests.transports.raw_service import raw_service
from tests.transports.sending import LONG, swallowed
from vidgen_async.errors import ConnectError, TransportError
from vidgen_async.transports import DirectTransport
from vidgen_async.transports.contract.harness import by_both_ways
from vidgen_async.types.http import BytesBody, Request, make_headers

KEY = "Zq7theBareKeyOfTheAccount42"
ORDER_KEY = "Zq8order-1187-idempotency-key"
TOKEN = "Zq9signature/of+link"
PASSWORD = "Zq6pa55word"
PROMPT = "Zq5 a paper boat on a secret lake"
SECRETS = (KEY, ORDER_KEY, TOKEN, PASSWORD, PROMPT)

Answer = Callable[[bytes], bytes]
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#: What a service that returns ``secret`` may send.
ANSWERS: dict[str, Answer] = {
    "a status line": lambda secret: secret + b"\r\n\r\n",
    "after another text": lambda secret: b"SSH-2.0 " + secret + b" bad\r\n\r\n",
    "a version": lambda secret: b"HTTP/" + secret + b" 200 OK\r\n\r\n",
    "a status": lambda secret: b"HTTP/1.1 " + secret + b" OK\r\n\r\n",
    "a header without a colon": lambda secret: b"HTTP/1.1 200 OK\r\n" + secret + b"\r\n\r\n",
    "the name of a header": lambda secret: b"HTTP/1.1 200 OK\r\n[" + secret + b"]: x\r\n\r\n",
    "the value of a header": lambda secret: b"HTTP/1.1 200 OK\r\nX-A: " + secret + b"\0\r\n\r\n",
    "a length": lambda secret: b"HTTP/1.1 200 OK\r\nContent-Length: " + secret + b"\r\n\r\n",
    "a coding": lambda secret: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + secret + b"\r\nContent-Length: 9\r\n\r\n",
    "a cookie": lambda secret: (
        b"HTTP/1.1 500 OK\r\nSet-Cookie: [" + secret + b"]=1; Path=/\r\nContent-Length: 9\r\n\r\n"
    ),
    "a reason": lambda secret: b"HTTP/1.1 500 " + secret + b"\r\nContent-Length: 9\r\n\r\n",
    "a first chunk": lambda secret: CHUNKED + secret + b"\r\n\r\n",
    "a later chunk": lambda secret: CHUNKED + b"2\r\n{}\r\n" + secret + b"\r\n\r\n",
    "a compressed body": lambda secret: (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 99\r\n\r\n" + secret + b"\r\n" * 50
    ),
    "an incomplete response": lambda secret: b"HTTP/1.1 200 OK\r\nX-A: " + secret,
    "a line that is too long": lambda secret: b"HTTP/1.1 200 " + secret + b"x" * 100_000 + b"\r\n\r\n",
}
FORMS: dict[str, Callable[[str], bytes]] = {
    "raw": str.encode,
    "capitals": lambda text: text.upper().encode(),
    "Base64": lambda text: base64.b64encode(text.encode()),
    "bytes": lambda text: b"\xff" + text.encode() + b"\xfe",
}


def create(url: URL, op: str = "videos.create") -> Request:
    return Request(
        op=op,
        method="POST",
        url=url,
        headers=make_headers({"Authorization": f"Bearer {KEY}", "Idempotency-Key": ORDER_KEY}),
        body=BytesBody(b'{"prompt": "' + PROMPT.encode() + b'"}'),
        timeouts=LONG,
    )


def texts_of(error: BaseException) -> Iterator[str]:
    """All that shows an error or one of its causes and contexts."""
    yield "".join(traceback.format_exception(error))
    chain = [error]
    for one in chain:
        yield from (str(one), repr(one), repr(one.args), *getattr(one, "__notes__", ()))
        chain += [more for more in (one.__cause__, one.__context__) if more is not None and more not in chain]


def revealed(texts: str) -> list[str]:
    return [
        secret for secret in SECRETS if FORMS["Base64"](secret).decode() in texts or secret.lower() in texts.lower()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@by_both_ways
async def test_no_error_or_log_record_shows_a_secret_that_was_returned(op, answer, form, caplog):
    caplog.set_level(logging.DEBUG)
    shown = ""
    for secret in (KEY, ORDER_KEY, TOKEN, PROMPT):
        transport = DirectTransport()
        async with raw_service(raw.responds(answer(form(secret)))) as service:
            try:
                await swallowed(transport, create(service.url("/x?") % {"sig": TOKEN}, op))
            except TransportError as error:
                shown += "\n".join(texts_of(error))
            await transport.aclose()
    assert revealed(shown + caplog.text + "".join(map(str, map(vars, caplog.records)))) == []


async def test_a_response_that_is_not_http_is_quoted_without_the_secrets_in_it():
    transport = DirectTransport()
    async with raw_service(raw.responds(b"SSH-2.0-OpenSSH " + KEY.encode() + b"\r\n\r\n")) as service:
        with pytest.raises(TransportError, match=r"is not HTTP \(.*SSH-2.0-OpenSSH …"):
            await transport.send(create(service.url()))
        await transport.aclose()


async def test_what_may_be_in_a_long_body_is_not_quoted():
    request = create(URL("http://x.test"))
    body = b'{"prompt": "' + PROMPT.encode() + b"x" * 100_000 + b'"}'
    transport = DirectTransport()
    async with raw_service(raw.responds(PROMPT.encode() + b"\r\n\r\n")) as service:
        long = Request(op=request.op, method="POST", url=service.url(), body=BytesBody(body), timeouts=LONG)
        with pytest.raises(TransportError, match="is not HTTP") as caught:
            await swallowed(transport, long)
        await transport.aclose()
    assert revealed("\n".join(texts_of(caught.value))) == []


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("secret", [PASSWORD, f"user:{PASSWORD}", KEY], ids=["password", "credentials", "key"])
async def test_the_refusal_of_a_proxy_shows_no_secret(secret, form, caplog):
    caplog.set_level(logging.DEBUG)
    refusal = b"HTTP/1.1 407 no " + form(secret) + b"\r\nContent-Length: 0\r\n\r\n"
    async with raw_service(raw.responds(refusal)) as service:
        transport = DirectTransport(proxy=f"http://user:{PASSWORD}@127.0.0.1:{service.port}")
        for op in ("videos.create", "files.upload"):
            with pytest.raises(ConnectError, match="refused") as caught:
                await swallowed(transport, create(URL("https://service.test/x"), op))
            shown = "\n".join(texts_of(caught.value)) + caplog.text
            assert revealed(shown) == []
            assert secret not in shown
        await transport.aclose()
