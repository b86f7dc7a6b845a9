"""What tells that something is a secret: the name under which it stands, or its own looks. Rules as tables."""

import re
from enum import Enum, auto
from functools import lru_cache

from vidgen_async.redaction.pseudonyms import PSEUDONYM


class Kind(Enum):
    """What a name tells of its value."""

    PLAIN = auto()
    PROMPT = auto()
    UNTIL = auto()
    """A time up to which something is valid."""
    COUNT = auto()
    """A number is harmless, anything else is a secret."""
    TELLING = auto()


class HeaderKind(Enum):
    """What is done with a header."""

    KEPT = auto()
    ADDRESS = auto()
    """Kept; it holds a URL."""
    LABEL = auto()
    """It says which request it was, and is no secret."""
    DROPPED = auto()
    LEARNT = auto()
    """Dropped; what it holds is hidden wherever it comes up."""


_KEPT_HEADERS = frozenset({
    "accept-ranges", "content-encoding", "content-length", "content-range", "content-type",
    "etag", "if-range", "last-modified", "range", "retry-after", "transfer-encoding",
})  # fmt: skip
_RATE_LIMIT = re.compile(r"(?:x-)?ratelimit-[\w-]+")
_HARMLESS_HEADERS = frozenset({
    "accept", "accept-encoding", "age", "allow", "cache-control", "connection", "content-disposition",
    "content-language", "date", "expires", "host", "keep-alive", "pragma", "server", "trailer", "upgrade", "user-agent",
    "vary", "via",
})  # fmt: skip


@lru_cache(4096)
def kind_of_header(name: str) -> HeaderKind:
    name = name.lower()
    if name in ("location", "content-location"):
        return HeaderKind.ADDRESS
    if name == "x-request-id":
        return HeaderKind.LABEL
    if name in _KEPT_HEADERS or _RATE_LIMIT.fullmatch(name):
        return HeaderKind.KEPT
    return HeaderKind.DROPPED if name in _HARMLESS_HEADERS else HeaderKind.LEARNT


_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: Names of what gives access: no value of theirs is ever shown, not even an ordinary word.
_CREDENTIAL = re.compile(
    r"token|secret|passw|passphrase|pwd|signature|credential|api[_-]?key|authorization|private[_-]?key|jwt"
)
_ANYWHERE = re.compile(
    rf"{_CREDENTIAL.pattern}|signed|signing|cookie|session|idempotency|bearer|webhook|callback|private|csrf|xsrf|policy"
    r"|x[_-](?:amz|goog)[_-]"
)
_AS_A_WORD = re.compile(
    r"(?:[\w.-]*[_.-])?(?:sig|key|keys|key_id|auth|pin|otp|hmac|sas|nonce|e-?mail|phone|code_verifier)"
)
_UNTIL = re.compile(r"(?:[\w-]*[_-])?(?:exp|expires|expiry|expires_at|expiration)")
#: Counts of language models' tokens and the like.
_COUNT = re.compile(r"\w*tokens|(?:max|min|total)_\w*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
#: In a query also these, which mean something harmless elsewhere.
_IN_QUERY = re.compile(r"code|hash|h|s|t|k|p|st|se|sp|sv|sr|user|pass")


@lru_cache(4096)
def kind_of(name: str) -> Kind:
    """What the name of a field, a parameter or a variable tells."""
    plain = _HUMP.sub("_", PSEUDONYM.sub("", name)).lower()
    if "prompt" in plain:
        return Kind.PROMPT
    names_secret = _ANYWHERE.search(plain) is not None or _AS_A_WORD.fullmatch(plain) is not None
    if _COUNT.fullmatch(plain):
        return Kind.COUNT if names_secret else Kind.PLAIN
    if _UNTIL.fullmatch(plain):
        return Kind.UNTIL
    return Kind.TELLING if names_secret and plain != "token_type" else Kind.PLAIN


@lru_cache(4096)
def is_credential(name: str) -> bool:
    """Whether a name is that of a password, a token or the like."""
    return _CREDENTIAL.search(_HUMP.sub("_", name).lower()) is not None


def names_a_secret(name: str, value: str, *, is_in_query: bool = False) -> bool:
    """Whether the value under this name is a secret."""
    kind = kind_of(name)
    if kind is Kind.COUNT:
        return _NUMBER.fullmatch(value) is None
    return kind is Kind.TELLING or (is_in_query and _IN_QUERY.fullmatch(name.lower()) is not None)


#: ``name=value`` and ``name: value`` in a text, however the quotes are escaped.
PAIR = re.compile(
    r"(?P<before>^|[?&;]|(?<=[^\w.-]))(?P<name>[\w.-]{1,64})"
    r"(?:\\{0,8}[\"'])?\s{0,3}(?:(?P<equals>=)|:)[\[{(\s\\\"']{0,8}(?:(?:bearer|basic|digest|token)\s{1,3})?"
    r"(?P<value>[^\s&;#\"'<>\\,{}()\[\]]{2,})",
    re.IGNORECASE,
)

#: What secrets look like, wherever they stand: the kind, and how.
LOOKS: tuple[tuple[str, re.Pattern[str]], ...] = (
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
#: In binary data these would be found by chance.
_LIKELY_BY_CHANCE = frozenset({"bearer", "basic", "email"})

_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]{1,24}|[A-Z]{1,24}")
_NOTHING = frozenset({"null", "true", "false", "none", "undefined", "nan"})
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9.+-]+")
_STRONG = re.compile(r"[A-Za-z0-9_~=+.-]{16,}")


def is_word(value: str) -> bool:
    """Whether it is an ordinary word, which nobody would take for a secret."""
    return _WORD.fullmatch(value) is not None or value.lower() in _NOTHING


def is_unguessable(value: str) -> bool:
    """Whether a value is special enough to be looked for everywhere: others may stand elsewhere by chance."""
    if is_word(value) or _MEDIA_TYPE.fullmatch(value):
        return False
    return len(value) >= 8 or not value.isdigit()


def looks_random(value: str) -> bool:
    """Whether it is as long and as mixed as a token."""
    return _STRONG.fullmatch(value) is not None and any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def look_of(text: str, *, is_binary: bool = False) -> str | None:
    """The kind of the first thing in the text that looks like a secret, if there is one."""
    for kind, pattern in LOOKS:
        if is_binary and kind in _LIKELY_BY_CHANCE:
            continue
        for match in pattern.finditer(text):
            if not PSEUDONYM.fullmatch(match[0]) and not is_word(match[0]):
                return kind
    return None
