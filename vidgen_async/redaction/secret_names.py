"""What is a secret: by its name, or by its form. The one table for messages, logs, evidence and cassettes."""

import re
from enum import Enum, auto
from functools import lru_cache

from vidgen_async.redaction.pseudonyms import PSEUDONYM


class Kind(Enum):
    """What the name of a field, a parameter or a variable says about its value."""

    PLAIN = auto()
    PROMPT = auto()
    EXPIRY = auto()
    """A time until which something is valid."""
    COUNT = auto()
    """A number is harmless, anything else is a secret."""
    SECRET = auto()


class HeaderKind(Enum):
    """How a header is recorded."""

    VISIBLE = auto()
    ADDRESS = auto()
    """Visible; its value is a URL."""
    LABEL = auto()
    """It identifies the request, and is not a secret."""
    DROPPED = auto()
    SECRET = auto()
    """Dropped; its value is hidden everywhere else, too."""


#: All others are secrets, except for those of rate limits, which are visible.
_HEADERS = {
    **dict.fromkeys(("location", "content-location"), HeaderKind.ADDRESS),
    "x-request-id": HeaderKind.LABEL,
    **dict.fromkeys((
        "accept-ranges", "content-encoding", "content-length", "content-range", "content-type",
        "etag", "if-range", "last-modified", "range", "retry-after", "transfer-encoding",
    ), HeaderKind.VISIBLE),
    **dict.fromkeys((
        "accept", "accept-encoding", "age", "allow", "cache-control", "connection", "content-disposition",
        "content-language", "date", "expires", "host", "keep-alive", "pragma", "server", "trailer", "upgrade",
        "user-agent", "vary", "via",
    ), HeaderKind.DROPPED),
}  # fmt: skip
_RATE_LIMIT = re.compile(r"(?:x-)?ratelimit-[\w-]+")


@lru_cache(4096)
def kind_of_header(name: str) -> HeaderKind:
    name = name.lower()
    return HeaderKind.VISIBLE if _RATE_LIMIT.fullmatch(name) else _HEADERS.get(name, HeaderKind.SECRET)


#: The headers of requests that the SDK and HTTP libraries set, and that contain no secret.
_REQUEST_HEADERS = frozenset({
    "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
    "if-range", "range", "transfer-encoding", "user-agent",
})  # fmt: skip


def is_secret_in_request(name: str) -> bool:
    """Whether the value of a request header is a secret: those that users add are, whatever their names."""
    return name.lower() not in _REQUEST_HEADERS


_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: Names of credentials: their values are never shown, not even ordinary words.
_CREDENTIAL = re.compile(
    r"token|secret|passw|passphrase|pwd|signature|credential|api[_-]?key|authorization|private[_-]?key|jwt"
)
_ANYWHERE = re.compile(
    rf"{_CREDENTIAL.pattern}|signed|signing|cookie|session|idempotency|bearer|webhook|callback|private|csrf|xsrf|policy"
    r"|x[_-](?:amz|goog)[_-]"
)
_WHOLE_WORD = re.compile(
    r"(?:[\w.-]*[_.-])?(?:sig|key|keys|key_id|auth|pin|otp|hmac|sas|nonce|e-?mail|phone|code_verifier"
    r"|passcode|upsig|hdn(?:ts|ea|tl))"
)
_EXPIRY = re.compile(r"(?:[\w-]*[_-])?(?:exp|expires|expiry|expires_at|expiration)")
#: Counts of language models' tokens and the like.
_COUNT = re.compile(r"\w*tokens|(?:max|min|total)_\w*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
#: Secret only in a query: elsewhere these names are harmless.
_IN_QUERY = re.compile(
    r"code|h|s|t|k|p|st|se|sp|sv|sr|tk|user|pass|(?:[\w.-]*[_.-])?(?:sign|vsign|ticket|pw)|\w*(?:hash|md5)"
)
#: Harmless in a query to the service. Other values there may be credentials, also of a gateway: they are not recorded.
_HARMLESS_IN_QUERY = frozenset({
    "page", "per_page", "page_size", "limit", "offset", "size", "count", "sort", "sort_by", "order", "order_by",
    "direction", "since", "until", "created_after", "created_before", "status", "state", "model", "provider", "type",
    "id", "task_id", "image_id", "asset_id", "upstream_task_id", "ratio", "aspect_ratio", "resolution", "duration",
    "seconds", "mode", "quality", "width", "height", "format", "mime", "language", "lang", "locale", "version",
    "fields", "include", "expand", "download", "filename", "attachment", "disposition",
    "amp",  # of &amp; in HTML
})  # fmt: skip


@lru_cache(4096)
def kind_of(name: str) -> Kind:
    plain = _HUMP.sub("_", PSEUDONYM.sub("", name)).lower()
    if "prompt" in plain:
        return Kind.PROMPT
    names_secret = _ANYWHERE.search(plain) is not None or _WHOLE_WORD.fullmatch(plain) is not None
    if _COUNT.fullmatch(plain):
        return Kind.COUNT if names_secret else Kind.PLAIN
    if _EXPIRY.fullmatch(plain):
        return Kind.EXPIRY
    return Kind.SECRET if names_secret and plain != "token_type" else Kind.PLAIN


@lru_cache(4096)
def is_credential(name: str) -> bool:
    """Whether it is the name of a password, a token or another credential."""
    return _CREDENTIAL.search(_HUMP.sub("_", name).lower()) is not None


def names_a_secret(name: str, value: str, *, is_in_query: bool = False) -> bool:
    """Whether the value under this name is a secret."""
    kind = kind_of(name)
    if kind is Kind.COUNT:
        return _NUMBER.fullmatch(value) is None
    return kind is Kind.SECRET or (is_in_query and _IN_QUERY.fullmatch(name.lower()) is not None)


def is_harmless_in_query(name: str) -> bool:
    """Whether a parameter of the service's own host is known to be no secret, by its name."""
    return _HUMP.sub("_", name).lower().replace("-", "_") in _HARMLESS_IN_QUERY


#: The forms of secrets, whatever their names: the kind, and a pattern.
SECRET_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("privatekey", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)", re.DOTALL)),
    ("jwt", re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*")),
    ("bearer", re.compile(r"(?<=bearer )(?!REDACTED-)[\w.~+/=-]+", re.IGNORECASE)),
    ("basic", re.compile(r"(?<=basic )(?!REDACTED-)[\w+/=-]{8,}", re.IGNORECASE)),
    (
        "key",
        re.compile(
            r"(?<!REDACTED-)\b(?:sk|pk|rk|key|vk)[-_](?:live|test|proj)?[-_]?[A-Za-z0-9_-]{16,}|\bAKIA[0-9A-Z]{16}\b"
        ),
    ),
    ("key", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|xox[abprs]-[\w-]{10,}|AIza[\w-]{30,})")),
    ("idempotencykey", re.compile(r"\bvg1-[a-z2-7]{40}\b")),
    ("email", re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\b", re.ASCII)),
)
#: Binary data matches these by chance.
_MATCHED_BY_CHANCE = frozenset({"bearer", "basic", "email"})

_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]{1,24}|[A-Z]{1,24}")
_LITERALS = frozenset({"null", "true", "false", "none", "undefined", "nan"})
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9.+-]+")
_TOKEN_FORM = re.compile(r"[A-Za-z0-9_~=+.-]{16,}")


def is_word(value: str) -> bool:
    """Whether it is an ordinary word, which is not a secret."""
    return _WORD.fullmatch(value) is not None or value.lower() in _LITERALS


def is_unguessable(value: str) -> bool:
    """Whether a value is distinctive enough to be hidden everywhere; other values may occur elsewhere by chance."""
    if is_word(value) or _MEDIA_TYPE.fullmatch(value):
        return False
    return len(value) >= 8 or not value.isdigit()


def looks_random(value: str) -> bool:
    """Whether it is as long and as irregular as a token."""
    return _TOKEN_FORM.fullmatch(value) is not None and any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def find_secret_form(text: str, *, is_binary: bool = False) -> str | None:
    """The kind of the first part of the text that has the form of a secret, or None."""
    for kind, pattern in SECRET_FORMS:
        if is_binary and kind in _MATCHED_BY_CHANCE:
            continue
        for match in pattern.finditer(text):
            if not PSEUDONYM.fullmatch(match[0]) and not is_word(match[0]):
                return kind
    return None
