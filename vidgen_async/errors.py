"""All errors of the SDK.

The first question about a create is *did it arrive?*: :class:`NotSentError` (no), :class:`RejectedError` (yes, and it
was rejected), :class:`UncertainCreateError` (unknown). All errors can be pickled and copied; none shows a key, a token,
a prompt or image data.

``error.may_retry`` tells a job queue whether to run a job again. Queues that need classes or their names take
:data:`RETRYABLE`, :data:`RETRYABLE_NAMES` and :data:`FINAL_NAMES`, at the end of this module.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from vidgen_async.types.http import Delivery, Phase
from vidgen_async.types.resources import TaskStatus, VideoTask

if TYPE_CHECKING:
    from vidgen_async.types.orders import OrderState

AuthenticationSource: TypeAlias = Literal["service key", "signed link", "upstream"]
"""What was refused with a 401, by the failing host (5.7)."""


class VidgenError(Exception):
    """The base class of all errors of this package. ``str(error)`` states what happened, then the advice."""

    may_retry: ClassVar[bool] = False
    """Whether the job that raised this error may be run again as it is: that can succeed, and cannot pay twice. This
    requires the same order id and the same journal; without an order id of the job's own, each run is a new order. The
    class alone decides."""

    #: What to do or call next; empty if there is no particular advice.
    advice: str = ""

    def __init__(self, message: str = "", **facts: Any) -> None:
        """Make the error; the ``facts`` are its attributes, by name."""
        for name, value in facts.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no attribute {name!r}")
            setattr(self, name, tuple(value) if isinstance(value, list) else value)
        super().__init__(f"{message} {self.advice}" if message and self.advice else message or self.advice)

    @property
    def message(self) -> str:
        """What happened, and what to do next."""
        return str(self.args[0]) if self.args else ""

    @property
    def summary(self) -> str:
        """What happened, without the advice: for programs that show an advice of their own."""
        return self.message.removesuffix(self.advice).rstrip()


class ConfigurationError(VidgenError, ValueError):
    """A setting of the client is invalid. The message names the setting and the problem, and never shows the key."""


class ClientStateError(VidgenError):
    """The client was used after it was closed, in a forked child, or from a second event loop. A job that was cut off
    when its client was closed may be run again, with a client of its own process and event loop."""

    may_retry = True


class InvalidRequestError(VidgenError, ValueError):
    """The request violates rules of the service; nothing was sent."""

    #: All problems of the request, one line each; without a list of them, the message.
    problems: tuple[str, ...] = ()

    def __init__(self, message: str = "", *, problems: Sequence[str] = ()) -> None:
        super().__init__(message or "; ".join(problems), problems=tuple(problems or filter(None, [message])))


# -- the network -----------------------------------------------------------------------------------------------------


class TransportError(VidgenError):
    """No complete response was received. The class only names the cause."""

    may_retry = True

    #: The evidence of whether the request reached the service.
    delivery: Delivery = Delivery.MAYBE_SENT
    #: The last phase of the send that was started.
    phase: Phase = Phase.SEND
    #: The operation, ``videos.get`` for example.
    op: str = ""


class ConnectError(TransportError):
    """DNS, the connection, the TLS handshake, the proxy or the wait for a slot in the pool failed or timed out."""


class ResponseTimeoutError(TransportError):
    """The service sent nothing for longer than ``Timeouts.read``."""


class ConnectionLostError(TransportError):
    """The connection was closed or reset before a response was received."""

    #: Whether the connection had been kept alive after an earlier request, and no byte of a response was received.
    #: Services close such connections at any time.
    is_reused: bool = False


class ProtocolError(TransportError):
    """The received data is not HTTP."""


class BodyError(TransportError):
    """The response body ended early."""

    delivery = Delivery.ANSWERED
    phase = Phase.BODY
    #: Number of bytes of the body that were received.
    received: int = 0
    #: The status of the response, where the client has read it.
    status: int | None = None


class TransportClosedError(TransportError):
    """The transport was closed before or during the send."""


class KeyFunctionError(TransportError, ConfigurationError):
    """The function given as ``api_key`` raised, did not return in time, or returned no usable key. The message names
    the class and the place of what it raised; the exception itself, whose text may hold a key, is not chained."""

    may_retry = True


# -- the service answered --------------------------------------------------------------------------------------------


class ServiceError(VidgenError):
    """The service answered with an error status (section 7).

    The structure of error bodies is not documented: the code and the service's message are read from common structures.
    """

    #: The HTTP status.
    status: int = 0
    #: The error code, one plain word; None if none was found.
    code: str | None = None
    #: The response body, unchanged.
    body: bytes = b""
    #: The service's own id of the request, if the response contains one.
    request_id: str | None = None
    #: The Retry-After of the response in seconds; None without one.
    retry_after: float | None = None
    #: Of the 416 of a stream: its Content-Range, ``bytes */SIZE``, which a proxy sends too; None without one.
    content_range: str | None = None


class BadRequestError(ServiceError):
    """400: invalid parameters."""


class EmptyReferenceAssetError(BadRequestError):
    """400 EMPTY_REFERENCE_ASSET: the uploaded content is empty; upload the original file again."""


class InvalidReferenceImageError(BadRequestError):
    """400 INVALID_REFERENCE_IMAGE: the image cannot be decoded, or its format is invalid."""


class ReferenceAssetExpiredError(BadRequestError):
    """400 REFERENCE_ASSET_EXPIRED: the asset is deleted, expired, or not owned by this account; upload it again."""


class UnsupportedReferenceURLError(BadRequestError):
    """400 UNSUPPORTED_REFERENCE_URL: uploads accept only URLs of the caller's own assets; pass others in image_urls."""


class AuthenticationError(ServiceError):
    """401: not authorized; ``source`` names what was refused."""

    #: What was refused, by the failing host (5.7): ``"service key"``, ``"signed link"`` or ``"upstream"``.
    source: AuthenticationSource = "service key"


class InsufficientCreditsError(ServiceError):
    """402: not enough credits."""


class NotFoundError(ServiceError):
    """404: the path or task does not exist, or belongs to another account."""


class NotReadyError(ServiceError):
    """409: the video is not completed or not available."""

    may_retry = True


class RateLimitError(ServiceError):
    """429: the submission frequency or a channel's capacity limit is reached."""

    may_retry = True


class ServiceUnavailableError(ServiceError):
    """503: model in maintenance, channel temporarily unavailable, or receipt result unknown."""

    may_retry = True


class GatewayError(ServiceError):
    """502, 504: gateway or upstream fault. Query the original task; do not create a duplicate."""

    may_retry = True


class UnexpectedResponseError(ServiceError):
    """Any other status, or a response that cannot be parsed. The message quotes it, shortened and without secrets."""

    may_retry = True


# -- creates ---------------------------------------------------------------------------------------------------------


class CreateError(VidgenError):
    """A create ended without a stored receipt. The subclass states whether the service may have the order."""

    may_retry = False

    order_id: str = ""
    idempotency_key: str = ""
    #: The recorded attempts (:class:`vidgen_async.types.orders.Attempt`), one for each permission to send.
    attempts: tuple[Any, ...] = ()


class NotSentError(CreateError):
    """Proven: no byte of the create was sent. It is safe to call it again with the same order id."""

    may_retry = True


class BudgetExceededError(NotSentError):
    """The budget does not allow the create, and nothing was sent. The order stays *queued*, so that the same call
    succeeds once there is room; if the price is unknown, it is not stored at all."""

    may_retry = False

    #: The points of the window that the service has stated.
    spent: int = 0
    #: The points that were estimated, of creates whose points the service has not stated.
    reserved: int = 0
    #: The number of creates whose points are unknown.
    unknown: int = 0
    #: The points that the create may cost; None if that is unknown.
    asked: int | None = None
    #: The points of the budget that does not allow it: the client's, or that of a view.
    limit: int = 0
    #: When there is room, if nothing else is ordered; None if there never is by itself.
    room_at: datetime | None = None

    def __init__(self, message: str = "", **facts: Any) -> None:
        super().__init__(message, **facts)
        self.may_retry = self.room_at is not None  # type: ignore[misc]


class StillSendingError(CreateError):
    """The order had no outcome within ``wait_for_sender`` seconds: another process sends it, or this one still does, or
    waits for a slot. That continues. Call again with the same order id for the outcome."""

    may_retry = True

    #: When the order is uncertain at the latest; None if no byte of it was sent yet.
    deadline_at: datetime | None = None


class RejectedError(CreateError):
    """The service refused the order: no task, no charge. It is also the corresponding :class:`ServiceError`, so that
    ``except InsufficientCreditsError`` covers creates too."""


class UncertainCreateError(CreateError):
    """It is unknown whether the service accepted the order: a task may exist and be charged. The order is not sent
    again without an operator's decision."""


class OrderConflictError(CreateError):
    """The order id belongs to a different request. Nothing was sent."""


class ReceiptNotStoredError(CreateError):
    """The service accepted the order as ``task_id``, but the journal could not be written: store the task id yourself.
    It is no :class:`JournalError`, which means that nothing was sent."""

    task_id: str = ""


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

    may_retry = True


class RejectedUnexpectedResponseError(RejectedError, UnexpectedResponseError):
    """403, 405, 406, 407, 411, 413, 414, 415 or 431 for a create, or a 429 whose body is not a JSON object: a proxy may
    answer every create with such a page, so it is no evidence of the submission limit."""

    may_retry = False


class JournalError(VidgenError):
    """The journal could not be read or written, and this call sent nothing. An order that was sent before is still
    protected: the journal has it as *sending*, *uncertain* or *accepted*, and a later call sends nothing for it.
    The operation of the journal that failed was not carried out, unless ``may_be_committed`` is true."""

    may_retry = True

    #: Whether a later attempt may succeed, such as after a full disk or while another program was writing. False: the
    #: file is damaged or is no journal, this user may not use it, the database is not set up for one, or its connection
    #: string is wrong.
    may_be_temporary: bool = False
    #: Whether the operation of the journal may have been carried out all the same, because its commit was sent: the
    #: connection was lost before the response, or the wait for a standby was cancelled.
    may_be_committed: bool = False


class OrderStateError(VidgenError):
    """The order is not in a state that permits the operation; the message names its state. Or the journal does not have
    the order."""

    order_id: str = ""
    #: The state of the order; None if the journal has no such order.
    state: "OrderState | None" = None


# -- tasks and videos ------------------------------------------------------------------------------------------------


class TaskFailedError(VidgenError):
    """The task failed. Only the service's credit ledger shows whether it was refunded (section 7, rule 2)."""

    task: VideoTask | None = None


class WaitTimeoutError(VidgenError, TimeoutError):
    """The wait timed out. The task itself is not affected."""

    may_retry = True

    task_id: str = ""
    #: The task as last received, if it is still available.
    task: VideoTask | None = None
    #: The last state, which may be one that section 3 does not name; None if no poll returned one.
    state: TaskStatus | None = None


class DownloadError(VidgenError):
    """The video was not saved; a file that existed at the target is unchanged."""

    may_retry = True

    task_id: str = ""
    #: Number of bytes of the video that were received.
    received: int = 0


class NotVideoError(DownloadError):
    """The received data is not a video: an error page, JSON, an empty body, or a file of another type."""


class TruncatedError(DownloadError):
    """The video is incomplete, or its size differs from the announced one."""


class UnverifiedVideoError(TruncatedError):
    """It cannot be verified that the video is complete: its length was not announced, and its indexes do not show
    where it ends; or an index names data that was not received."""


class TargetExistsError(DownloadError):
    """The file exists already, and was not to be replaced."""

    may_retry = False


class LinkExpiredError(DownloadError):
    """The link to the video was refused, and so was a fresh one."""

    #: The status of the last refusal.
    status: int | None = None
    #: Who refused, as in :class:`AuthenticationError`: "signed link" or "upstream".
    source: AuthenticationSource | None = None


# -- cassettes -------------------------------------------------------------------------------------------------------


class CassetteError(VidgenError):
    """A cassette cannot be replayed or written. It is not a network error, so that code that retries network errors
    does not hide it."""


class CassetteNotFoundError(CassetteError):
    """There is no cassette at ``path``, and the mode does not permit recording one."""

    path: str = ""


class CassetteInvalidError(CassetteError):
    """The file is not a cassette, or is damaged."""

    path: str = ""
    #: JSON pointer (RFC 6901) to the invalid value.
    pointer: str = ""


class CassetteVersionError(CassetteInvalidError):
    """The format of the cassette is newer than this release supports."""


class CassetteBusyError(CassetteError):
    """Another recording of the same cassette is in progress."""


class CassetteMissError(CassetteError):
    """The request is not on the cassette."""

    #: How the most similar interactions differ from the request, a line for each.
    nearest: tuple[str, ...] = ()


class CassetteExhaustedError(CassetteError):
    """The request is on the cassette, but was sent more often than it was recorded."""

    #: The request, as its interactions are matched: method and URL.
    lane: str = ""
    #: How many times it was replayed.
    played: int = 0


class CassetteUnusedError(CassetteError):
    """Some interactions were not replayed."""

    #: The interactions that were not replayed, a line for each.
    unused: tuple[str, ...] = ()


class CassetteSecretError(CassetteError):
    """A value that looks like a secret was found before a cassette was published; nothing was published. The value is
    not shown."""

    #: JSON pointer (RFC 6901) to the value.
    where: str = ""
    #: What the value looks like.
    kind: str = ""


# -- for job queues ----------------------------------------------------------------------------------------------------

_CLASSES: tuple[type[VidgenError], ...] = tuple(
    kind for kind in list(globals().values()) if isinstance(kind, type) and issubclass(kind, VidgenError)
)

RETRYABLE: tuple[type[VidgenError], ...] = tuple(
    kind
    for kind in _CLASSES
    if all(each.may_retry or each is BudgetExceededError for each in _CLASSES if issubclass(each, kind))
    and kind is not BudgetExceededError
)
"""The classes after which a job may be run again, for ``except`` and ``isinstance``. A class with a final subclass is
not among them: :class:`DownloadError` and :class:`UnexpectedResponseError`; ask ``error.may_retry`` for these. A
:class:`BudgetExceededError` is a :class:`NotSentError` too: a job that is run again sends nothing before there is room.
"""

RETRYABLE_NAMES: list[str] = sorted(kind.__name__ for kind in _CLASSES if kind.may_retry)
"""The names of all classes whose own ``may_retry`` is True, for queues that compare the name of an error's class."""

FINAL_NAMES: list[str] = sorted(kind.__name__ for kind in _CLASSES if not kind.may_retry)
"""The names of all other classes: a job that raised one of them must not be run again as it is."""
