"""Every error of the SDK, in one tree that answers the caller's first question.

For a create the question is *did it arrive?*: :class:`NotSentError` (no), :class:`RejectedError` (yes, and it was
refused), :class:`UncertainCreateError` (nobody knows). All errors pickle and copy; none prints a key, a token, a
prompt or image data.
"""

from collections.abc import Sequence
from typing import Any

from vidgen_async.types.http import Delivery, Phase
from vidgen_async.types.resources import VideoTask


class VidgenError(Exception):
    """The root of all errors of this package. ``str()`` is one clear paragraph: what happened, then the advice."""

    def __init__(self, message: str = "", *, advice: str = "") -> None:
        super().__init__(f"{message} {advice}" if message and advice else message or advice)
        #: What a program can call next; empty where there is nothing particular to say.
        self.advice = advice

    @property
    def message(self) -> str:
        """What happened, and what to do next."""
        return str(self.args[0]) if self.args else ""

    @property
    def summary(self) -> str:
        """What happened, without the advice: for those who tell people in words of their own what to do."""
        return self.message.removesuffix(self.advice).rstrip()


class ConfigurationError(VidgenError, ValueError):
    """The client cannot be made as asked: the message names the setting and what is wrong (never the key)."""


class ClientStateError(VidgenError):
    """The client was used after it was closed, in a forked child, or from a second event loop."""


class InvalidRequestError(VidgenError, ValueError):
    """The request breaks a rule of the service; nothing was sent. ``problems`` lists all of them, one line each."""

    def __init__(self, message: str = "", *, problems: Sequence[str] = ()) -> None:
        super().__init__(message or "; ".join(problems))
        self.problems: tuple[str, ...] = tuple(problems)


# -- the network -----------------------------------------------------------------------------------------------------


class TransportError(VidgenError):
    """No complete answer came. ``delivery`` is the evidence of whether the request reached the service; the class
    only names the cause."""

    def __init__(
        self,
        message: str = "",
        *,
        delivery: Delivery = Delivery.MAYBE_SENT,
        phase: Phase = Phase.SEND,
        op: str = "",
    ) -> None:
        super().__init__(message)
        self.delivery = delivery
        self.phase = phase
        self.op = op


class ConnectError(TransportError):
    """Name look-up, connection, TLS handshake, proxy, or the wait for a slot in the pool failed or took too long."""


class ResponseTimeoutError(TransportError):
    """The service was silent for longer than ``Timeouts.read``."""


class ConnectionLostError(TransportError):
    """The connection was closed or reset before an answer came. ``is_reused``: it had been kept alive from an earlier
    request, and no byte of an answer was received; services close such connections at any time."""

    def __init__(
        self,
        message: str = "",
        *,
        delivery: Delivery = Delivery.MAYBE_SENT,
        phase: Phase = Phase.SEND,
        op: str = "",
        is_reused: bool = False,
    ) -> None:
        super().__init__(message, delivery=delivery, phase=phase, op=op)
        self.is_reused = is_reused


class ProtocolError(TransportError):
    """What came back is not HTTP."""


class BodyError(TransportError):
    """The answer's body broke off. ``received`` bytes of it had come."""

    def __init__(
        self,
        message: str = "",
        *,
        delivery: Delivery = Delivery.ANSWERED,
        phase: Phase = Phase.BODY,
        op: str = "",
        received: int = 0,
    ) -> None:
        super().__init__(message, delivery=delivery, phase=phase, op=op)
        self.received = received


class TransportClosedError(TransportError):
    """The transport was closed before or during the send."""


# -- the service answered --------------------------------------------------------------------------------------------


class ServiceError(VidgenError):
    """The service answered with an error (section 7). The shape of error bodies is not documented: ``code`` (one
    plain word, else None) and the service's own words are read from the usual shapes, ``body`` holds the raw bytes."""

    def __init__(
        self,
        message: str = "",
        *,
        status: int = 0,
        code: str | None = None,
        body: bytes = b"",
        request_id: str | None = None,
        retry_after: float | None = None,
        advice: str = "",
    ) -> None:
        super().__init__(message, advice=advice)
        self.status = status
        self.code = code
        self.body = body
        self.request_id = request_id
        #: Seconds, as the answer's Retry-After asked; None without one.
        self.retry_after = retry_after


class BadRequestError(ServiceError):
    """400: invalid parameters."""


class EmptyReferenceAssetError(BadRequestError):
    """400 EMPTY_REFERENCE_ASSET: the uploaded content is empty; upload the original file again."""


class InvalidReferenceImageError(BadRequestError):
    """400 INVALID_REFERENCE_IMAGE: the image cannot be decoded, or its format is invalid."""


class ReferenceAssetExpiredError(BadRequestError):
    """400 REFERENCE_ASSET_EXPIRED: the asset is deleted, expired, or not owned by this account; upload it again."""


class UnsupportedReferenceURLError(BadRequestError):
    """400 UNSUPPORTED_REFERENCE_URL: uploads reuse only the caller's own assets; other URLs belong into image_urls."""


class AuthenticationError(ServiceError):
    """401. ``source`` tells who refused, by the failing host (5.7): ``"service key"``, ``"signed link"`` or
    ``"upstream"``."""

    def __init__(self, message: str = "", *, source: str = "service key", **facts: Any) -> None:
        super().__init__(message, **facts)
        self.source = source


class InsufficientCreditsError(ServiceError):
    """402: not enough credits."""


class NotFoundError(ServiceError):
    """404: the path or task does not exist, or is not the caller's."""


class NotReadyError(ServiceError):
    """409: the video is not completed or not available."""


class RateLimitError(ServiceError):
    """429: the submission frequency or a channel's capacity limit is reached."""


class ServiceUnavailableError(ServiceError):
    """503: model in maintenance, channel temporarily unavailable, or receipt result unknown."""


class GatewayError(ServiceError):
    """502, 504: gateway or upstream fault. Query the original task; do not create a duplicate."""


class UnexpectedResponseError(ServiceError):
    """Any other status, or an answer that cannot be read. The message quotes it, shortened and without secrets."""


# -- creates ---------------------------------------------------------------------------------------------------------


class CreateError(VidgenError):
    """A create did not give a receipt. The branch says whether the service may have the order."""

    def __init__(
        self,
        message: str = "",
        *,
        order_id: str = "",
        idempotency_key: str = "",
        attempts: Sequence[Any] = (),
        **facts: Any,
    ) -> None:
        super().__init__(message, **facts)
        self.order_id = order_id
        self.idempotency_key = idempotency_key
        #: What is on record: one :class:`vidgen_async.types.orders.Attempt` for every permission to send.
        self.attempts: tuple[Any, ...] = tuple(attempts)


class NotSentError(CreateError):
    """Proven: no byte left. Calling again with the same order id is safe."""


class RejectedError(CreateError):
    """The service refused the order: no task, no charge. It is also the matching :class:`ServiceError`, so
    ``except InsufficientCreditsError`` works for creates too."""


class UncertainCreateError(CreateError):
    """Nobody can say whether the service took the order; a task may exist and be charged. It is never sent again
    by itself."""


class OrderConflictError(CreateError):
    """This order id already stands for a different request. Nothing was sent."""


class RejectedBadRequestError(RejectedError, BadRequestError):
    """400 for a create."""


class RejectedEmptyReferenceAssetError(RejectedBadRequestError, EmptyReferenceAssetError):
    """400 EMPTY_REFERENCE_ASSET for a create."""


class RejectedInvalidReferenceImageError(RejectedBadRequestError, InvalidReferenceImageError):
    """400 INVALID_REFERENCE_IMAGE for a create."""


class RejectedReferenceAssetExpiredError(RejectedBadRequestError, ReferenceAssetExpiredError):
    """400 REFERENCE_ASSET_EXPIRED for a create."""


class RejectedUnsupportedReferenceURLError(RejectedBadRequestError, UnsupportedReferenceURLError):
    """400 UNSUPPORTED_REFERENCE_URL for a create."""


class RejectedAuthenticationError(RejectedError, AuthenticationError):
    """401 for a create."""


class RejectedInsufficientCreditsError(RejectedError, InsufficientCreditsError):
    """402 for a create."""


class RejectedNotFoundError(RejectedError, NotFoundError):
    """404 for a create."""


class RejectedRateLimitError(RejectedError, RateLimitError):
    """429 for a create."""


class RejectedUnexpectedResponseError(RejectedError, UnexpectedResponseError):
    """Another refusal of a create: 403, 405, 406, 411, 413, 414, 415, 431."""


class JournalError(VidgenError):
    """The journal could not be read or written. No POST was made, unless it is a :class:`ReceiptNotStoredError`."""

    def __init__(self, message: str = "", *, advice: str = "", may_pass: bool = False) -> None:
        super().__init__(message, advice=advice)
        #: Whether the cause can go away by itself or be mended where the journal is (a full disk, another writer);
        #: False: this is no journal, or cannot be one.
        self.may_pass = may_pass


class ReceiptNotStoredError(JournalError):
    """The service accepted the order, but the journal could not be written: keep ``task_id``."""

    def __init__(self, message: str = "", *, order_id: str = "", task_id: str = "", advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.order_id = order_id
        self.task_id = task_id


class OrderStateError(VidgenError):
    """The order is not in a state in which this can be done to it; the message says which it is in."""

    def __init__(self, message: str = "", *, order_id: str = "", state: str | None = None, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.order_id = order_id
        #: None: the journal has no such order.
        self.state = state


# -- tasks and videos ------------------------------------------------------------------------------------------------


class TaskFailedError(VidgenError):
    """The task ended as failed. A refund is decided by the service's credit ledger alone (section 7, rule 2)."""

    def __init__(self, message: str = "", *, task: VideoTask | None = None, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.task = task


class WaitTimeoutError(VidgenError, TimeoutError):
    """The wait was given up, which stops no task. ``task`` is what was seen last, if it was kept; ``state`` its state,
    also one that section 3 does not name (None: nothing was seen)."""

    def __init__(
        self,
        message: str = "",
        *,
        task_id: str = "",
        task: VideoTask | None = None,
        state: str | None = None,
        advice: str = "",
    ) -> None:
        super().__init__(message, advice=advice)
        self.task_id = task_id
        self.task = task
        self.state = state


class DownloadError(VidgenError):
    """The video was not saved; what stood at the target before still stands there."""

    def __init__(self, message: str = "", *, task_id: str = "", received: int = 0) -> None:
        super().__init__(message)
        self.task_id = task_id
        self.received = received


class NotVideoError(DownloadError):
    """What came is not a video: an error page, JSON, an empty body, or a file of another kind."""


class TruncatedError(DownloadError):
    """The video broke off or its length is not what was announced."""


class LinkExpiredError(DownloadError):
    """The signed link was refused, also after the content endpoint had been asked for a fresh one."""


# -- cassettes -------------------------------------------------------------------------------------------------------


class CassetteError(VidgenError):
    """A cassette cannot be played or written. Never a network error: nothing that retries may swallow it."""


class CassetteNotFoundError(CassetteError):
    """There is no cassette at ``path``, and nothing may be recorded."""

    def __init__(self, message: str = "", *, path: str = "", advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.path = path


class CassetteInvalidError(CassetteError):
    """The file is no cassette, or a damaged one. ``pointer`` (RFC 6901) names the place in it."""

    def __init__(self, message: str = "", *, path: str = "", pointer: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.pointer = pointer


class CassetteVersionError(CassetteInvalidError):
    """The cassette was written in a newer format than this release reads."""


class CassetteBusyError(CassetteError):
    """Another recording of the same cassette is under way."""


class CassetteMissError(CassetteError):
    """A request that is not on the cassette. ``nearest`` tells how the most similar interactions differ from it."""

    def __init__(self, message: str = "", *, nearest: Sequence[str] = (), advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.nearest: tuple[str, ...] = tuple(nearest)


class CassetteExhaustedError(CassetteError):
    """The request is on the cassette, but was made more often than it was recorded: ``lane`` names it, ``played`` is
    how often it was answered."""

    def __init__(self, message: str = "", *, lane: str = "", played: int = 0, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.lane = lane
        self.played = played


class CassetteUnusedError(CassetteError):
    """Interactions that were never played: ``unused`` holds a line for each."""

    def __init__(self, message: str = "", *, unused: Sequence[str] = (), advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.unused: tuple[str, ...] = tuple(unused)


class CassetteSecretError(CassetteError):
    """Something that looks like a secret was found before publishing; nothing was published. ``where`` is a JSON
    pointer, ``kind`` what it looks like; the value is never told."""

    def __init__(self, message: str = "", *, where: str = "", kind: str = "", advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.where = where
        self.kind = kind
