"""Faults: how the sandbox misbehaves on a request, and for which requests."""

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args

from attrs import define, evolve, field, frozen

from vidgen_async.sandbox.http import JSON_TYPE, Answer
from vidgen_async.sandbox.input_rules import OBJECT, number, string, whole_number

Op = Literal[
    "models.list",
    "account.get",
    "files.create",
    "videos.create",
    "videos.get",
    "videos.content",
    "link",
    "asset",
    "unknown",
    "*",
]

OPS: tuple[str, ...] = get_args(Op)

# The types of the arguments of faults. Their rules hold for faults that are planned by name, over HTTP and on the
# command line: a status below 200 is not the end of an answer, and a header is one line.
HeaderName = Annotated[str, string(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", "a header's name")]
HeaderValue = Annotated[str, string(r"[^\x00-\x1f\x7f\ud800-\udfff]*", "a header's value, in one line")]
Headers = Annotated[Mapping[HeaderName, HeaderValue], OBJECT]
Status = Annotated[int, whole_number(200, 999)]
Seconds = Annotated[float, number(0, 1e9)]
Share = Annotated[float, number(0, 1 << 32)]
Rate = Annotated[float, number(0.1, 1e9)]
Size = Annotated[int, whole_number(0, 1 << 32)]


@frozen(kw_only=True)
class Fault:
    """One fault. The class methods make the common ones; the fields can be combined freely.

    The steps of a request are: read the body (``reads``), handle the request (``made``), wait (``stalls``), close the
    connection instead of answering (``ends``), change the answer (``changes``), and send it (``cuts``, ``rate``). For a
    create, ``made`` True means that the task is created and charged, whatever the caller receives. With ``made`` False
    nothing is created, and an id in the answer belongs to no task.
    """

    name: str
    made: bool = True
    #: Whether the body is read first.
    reads: bool = True
    #: Seconds of the sandbox's time to wait before the answer; None: until the caller closes the connection.
    stalls: float | None = 0.0
    #: How to close the connection instead of answering: with a FIN ("close") or a RST ("reset").
    ends: Literal["close", "reset"] | None = None
    #: Bytes to send instead of an HTTP answer; the connection is closed after them.
    raw: bytes | None = None
    changes: Callable[[Answer], Answer] = lambda answer: answer
    #: How much of the body to send before closing the connection: bytes (int) or a share (float).
    cuts: float | None = None
    #: Bytes of the body per second of real time.
    rate: float | None = None
    #: The answer to a Range header: 200 ("ignored"), or 206 with the part that starts at this byte.
    ranges: Literal["ignored"] | int | None = None
    #: Whether the connection is closed when the next request arrives on it.
    poisons: bool = False

    @classmethod
    def status(
        cls,
        code: Status,
        body: object = None,
        *,
        headers: Headers | None = None,
        content_type: HeaderValue | None = None,
        made: bool = False,
    ) -> "Fault":
        """Answer with any status and body: bytes and str unchanged, anything else as JSON, None an error body. With
        ``made=True`` the task is created anyway, e.g. a 503 or 504 after which the receipt is unknown."""
        if body is None:
            answer = Answer.error(code, f"SANDBOX_{code}", f"the sandbox answers {code} because of a planned fault")
        elif isinstance(body, bytes | str):
            data = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
            media_type = JSON_TYPE if data[:1] in (b"{", b"[") else "text/plain; charset=utf-8"
            answer = Answer(code, data, {"Content-Type": media_type})
        else:
            answer = Answer.json(code, body)
        typed = {} if content_type is None else {"Content-Type": content_type}
        answer = answer.with_headers({**(headers or {}), **typed})
        return cls(name=f"status {code}", made=made, changes=lambda _: answer)

    @classmethod
    def html(cls, status: Status = 200, *, made: bool = True) -> "Fault":
        """Answer with an HTML page, as a proxy would."""
        page = "<!doctype html><html><title>Gateway</title><h1>Please try again</h1></html>"
        fault = cls.status(status, page, content_type="text/html; charset=utf-8", made=made)
        return evolve(fault, name=f"html {status}")

    @classmethod
    def redirect(cls, location: HeaderValue, status: Status = 307, *, made: bool = False) -> "Fault":
        """Answer with a redirect to ``location``."""
        return evolve(cls.status(status, b"", headers={"Location": location}, made=made), name=f"redirect {status}")

    @classmethod
    def close_before_body(cls) -> "Fault":
        """Close the connection after the request's head; nothing is created."""
        return cls(name="close before body", made=False, reads=False, ends="close")

    @classmethod
    def close_after_body(cls, *, made: bool = True) -> "Fault":
        """Read the whole request, then close the connection without an answer."""
        return cls(name="close after body", made=made, ends="close")

    @classmethod
    def reset_before_body(cls) -> "Fault":
        """Reset the connection (RST) after the request's head; nothing is created."""
        return cls(name="reset before body", made=False, reads=False, ends="reset")

    @classmethod
    def reset_after_body(cls, *, made: bool = True) -> "Fault":
        """Read the whole request, then reset the connection (RST)."""
        return cls(name="reset after body", made=made, ends="reset")

    @classmethod
    def stall(cls, seconds: Seconds | None = None, *, made: bool = True) -> "Fault":
        """Read the whole request, and answer after ``seconds`` of the sandbox's time; None: never."""
        return cls(name="stall", made=made, stalls=seconds)

    @classmethod
    def not_http(cls, raw: bytes = b"\x16\x03\x01 this is not HTTP\r\n\r\n", *, made: bool = True) -> "Fault":
        """Send ``raw`` instead of an HTTP answer, and close the connection."""
        return cls(name="not http", made=made, raw=raw)

    @classmethod
    def cut(cls, after: Share = 0.5, *, made: bool = True) -> "Fault":
        """Send the real answer with its full Content-Length, but close the connection after ``after`` bytes of the body
        (an int) or that share of it (a float below 1)."""
        return cls(name="cut", made=made, cuts=after)

    @classmethod
    def drip(cls, bytes_per_second: Rate, *, made: bool = True) -> "Fault":
        """Send the body of the real answer slowly, in real time."""
        return cls(name="drip", made=made, rate=bytes_per_second)

    @classmethod
    def drop_after(cls) -> "Fault":
        """Answer normally and keep the connection alive; close it without an answer when the next request has been
        read from it. That request is not handled."""
        return cls(name="drop after", poisons=True)

    @classmethod
    def edit(cls, change: Callable[[dict[str, Any]], object], *, made: bool = True, name: str = "edit") -> "Fault":
        """Replace the real JSON answer by what ``change`` returns for it, e.g. with unexpected types or values."""

        def changes(answer: Answer) -> Answer:
            changed = json.dumps(change(json.loads(answer.body)), ensure_ascii=False)
            return evolve(answer, body=changed.encode("utf-8", "surrogatepass"))

        return cls(name=name, made=made, changes=changes)

    @classmethod
    def without_id(cls, *, made: bool = True) -> "Fault":
        """Send the real answer without ``id`` and ``task_id``."""

        ids = ("id", "task_id")
        return cls.edit(lambda body: {n: body[n] for n in body if n not in ids}, made=made, name="without id")

    @classmethod
    def garble(cls, body: bytes = b'{"id": "task_\xff\xfe', *, made: bool = True) -> "Fault":
        """Send the real status and headers with a body that is not JSON."""
        return evolve(cls.rewrite(body=body, made=made), name="garble")

    @classmethod
    def rewrite(
        cls,
        *,
        status: Status | None = None,
        body: bytes | None = None,
        headers: Headers | None = None,
        content_type: HeaderValue | None = None,
        length: Size | None = None,
        made: bool = True,
    ) -> "Fault":
        """Send the real answer with parts of it replaced, e.g. ``body=b""`` for an empty video. ``length`` is sent as
        Content-Length: if the body is shorter, the connection is closed after it; if it is longer, it is cut off
        there and appears complete."""
        replaced = dict(headers or {})
        replaced |= {"Content-Type": content_type} if content_type is not None else {}
        replaced |= {"Content-Length": str(length)} if length is not None else {}

        def changes(answer: Answer) -> Answer:
            replaced_status = answer.status if status is None else status
            replaced_body = (answer.body if body is None else body)[:length]
            return evolve(answer, status=replaced_status, body=replaced_body).with_headers(replaced)

        return cls(name="rewrite", made=made, changes=changes)

    @classmethod
    def ignore_range(cls) -> "Fault":
        """Answer 200 with the whole video, whatever the Range header."""
        return cls(name="ignore range", ranges="ignored")

    @classmethod
    def wrong_range(cls, first: Size = 0) -> "Fault":
        """Answer a Range with 206 and the part that starts at byte ``first``, whatever was requested, with a correct
        Content-Range. For an incorrect Content-Range use :meth:`rewrite` with ``headers``."""
        return cls(name="wrong range", ranges=first)


def made_up_answer(op: str) -> Answer:
    """Return the answer that a fault changes when the request is not handled: its id belongs to nothing."""
    if op == "videos.create":
        made_up = f"task_{secrets.token_hex(12)}"
        return Answer.json(202, {"id": made_up, "task_id": made_up, "status": "queued"})
    return Answer.json(200, {"id": f"asset_{secrets.token_hex(12)}"})


@define(eq=False)
class PlannedFault:
    """A fault and its requests: the first ``after`` requests of the op are handled normally, and the next ``times``
    requests (None: all) have the fault."""

    op: Op
    fault: Fault
    times: int | None = 1
    after: int = 0
    id: str = field(factory=lambda: f"fault_{secrets.token_hex(6)}")


@define
class FaultPlan:
    """The planned faults, in order. A request has the first fault that matches it."""

    planned: list[PlannedFault] = field(factory=list)

    def add(self, op: Op, fault: Fault, *, times: int | None = 1, after: int = 0) -> PlannedFault:
        """Plan ``fault`` for the next ``times`` requests of ``op`` ("*": any), after the first ``after`` of them."""
        if op not in OPS:
            raise ValueError(f"there is no operation {op!r}; there are: {', '.join(OPS)}")
        if (times is not None and times < 1) or after < 0:
            raise ValueError(f"times must be 1 or more or None, and after 0 or more, not {times!r} and {after!r}")
        self.planned.append(planned := PlannedFault(op, fault, times, after))
        return planned

    def clear(self) -> None:
        """Remove all faults."""
        self.planned.clear()

    def remove(self, fault_id: str) -> None:
        """Remove one fault; KeyError if it is not planned."""
        self.planned.remove({plan.id: plan for plan in self.planned}[fault_id])

    def take(self, op: str) -> Fault | None:
        """Return the fault for a request that has just arrived, and count it."""
        for plan in self.planned:
            if plan.op not in (op, "*"):
                continue
            if plan.after:
                plan.after -= 1
                continue
            if plan.times is not None:
                plan.times -= 1
                if plan.times <= 0:
                    self.planned.remove(plan)
            return plan.fault
        return None
