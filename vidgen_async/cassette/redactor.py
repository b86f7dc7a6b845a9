"""What may be written on a cassette. Everything else is replaced before it reaches the disk.

Headers pass by an allow-list. URLs lose user info and every telling query value; on hosts other than the service's, all
query values. JSON values are hidden by their names, texts by what they look like, and every value that was ever hidden
is hidden wherever it comes up again. It cannot be switched off.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from yarl import URL

from vidgen_async.cassette.secrets import PSEUDONYM, Secrets, unescaped
from vidgen_async.messages import Headers, Request

Prompts: TypeAlias = Literal["keep", "pseudonym"]
Pairs: TypeAlias = tuple[tuple[str, str], ...]

#: 2100-01-01, in seconds: what "valid until" becomes, so that it can be read and lies in the future.
FOREVER = 4102444800
FOREVER_DATE = "2100-01-01T00:00:00Z"

_KEPT_HEADERS = frozenset({
    "accept", "accept-encoding", "accept-ranges", "content-encoding", "content-length", "content-range", "content-type",
    "etag", "if-range", "last-modified", "location", "range", "retry-after", "transfer-encoding",
})  # fmt: skip
_KEPT_HEADER = re.compile(r"(?:x-)?ratelimit-[\w-]+")
#: Headers that hold no secret: their values are not looked for elsewhere.
_HARMLESS_HEADERS = frozenset({
    "age", "allow", "cache-control", "connection", "content-disposition", "content-language", "date", "expires", "host",
    "keep-alive", "pragma", "server", "trailer", "upgrade", "user-agent", "vary", "via",
})  # fmt: skip

_TELLING = re.compile(
    r"token|secret|passw|signature|credential|api[_-]?key|authorization|cookie|session|idempotency|bearer|webhook"
    r"|callback|private|jwt|otp\b",
    re.IGNORECASE,
)
_TELLING_WHOLE = re.compile(
    r"(?:[\w-]*[_-])?(?:sig|key|auth|pin|code_verifier)|e-?mail|phone|x-(?:amz|goog)-[\w-]+", re.IGNORECASE
)
_TELLING_IN_QUERY = re.compile(r"code|policy|hmac|hash|h|s|t|k|p|st|se|sp|sv|sr|user|pass", re.IGNORECASE)
_VALID_UNTIL = re.compile(r"(?:[\w-]*[_-])?(?:exp|expires|expiry|expires_at|expiration)", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*")
#: Counts of language models' tokens and the like.
_COUNT = re.compile(r"\w*tokens", re.IGNORECASE)

_URL = re.compile(r"[a-z][a-z0-9+.-]*:\\?/\\?/[^\s\"'<>`]+", re.IGNORECASE)
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"'<>]*", re.IGNORECASE)
_RELATIVE = re.compile(r"/[^\s\"'<>]*\?[^\s\"'<>]*")
_HOOK = re.compile(r"hook|callback|notify", re.IGNORECASE)
_RANDOM_SEGMENT = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[A-Za-z0-9_~=+-]{32,}")
_DATA = re.compile(
    r"data:([\w.+-]+/[\w.+-]+)?[^,\s\"']{0,80};base64,[A-Za-z0-9+/=_%\s-]*|[A-Za-z0-9+/_-]{200,}={0,2}", re.IGNORECASE
)

#: What secrets look like, wherever they stand: the kind, and which group of the match is the secret.
_DETECTORS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("privatekey", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)", re.DOTALL)),
    ("jwt", re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*")),
    ("bearer", re.compile(r"(?:(?<=bearer )|(?<=bearer%20))(?!REDACTED-)[\w.~+/=-]+", re.IGNORECASE)),
    ("basic", re.compile(r"(?<=basic )(?!REDACTED-)[\w+/=-]{8,}", re.IGNORECASE)),
    ("key", re.compile(r"\b(?:sk|pk|rk|key|vk)[-_](?:live|test|proj)?[-_]?[A-Za-z0-9_-]{16,}|\bAKIA[0-9A-Z]{16}\b")),
    ("key", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|xox[abprs]-[\w-]{10,}|AIza[\w-]{30,})")),
    ("idempotencykey", re.compile(r"\bvg1-[a-z2-7]{40}\b")),
    ("email", re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\b", re.ASCII)),
    (
        "named",
        re.compile(
            r"(?<![\w-])(?:sig|exp|signature|token|access_token|api[_-]?key|password|secret|authorization)"
            r"(?:\\{0,8}[\"'])?\s{0,3}(?:=|:|%3D|\\u003d)\s{0,3}(?:\\{0,8}[\"'])?(?:(?:bearer|basic)\s+)?"
            rf"(?!{PSEUDONYM.pattern}|{FOREVER})(?P<value>[^\s&\"'<>\\,;}}]{{2,}})",
            re.IGNORECASE,
        ),
    ),
)  # fmt: skip

_LIKELY_BY_CHANCE = frozenset({"basic", "email", "named"})


class Redactor:
    """Hides the secrets of one recording, each under one pseudonym. ``origin`` is the service's own, once known."""

    def __init__(
        self,
        *,
        prompts: Prompts = "keep",
        secrets: Iterable[str] = (),
        is_numbered: bool = True,
        origin: str | None = None,
    ) -> None:
        self.secrets: Secrets = Secrets(is_numbered=is_numbered)
        self.origin: str | None = origin
        self._prompts = prompts
        self._texts: dict[str, str] = {}
        self._urls: dict[str, str] = {}
        self._version = 0
        for value in secrets:
            self.secrets.hide(value, "given")

    # -- requests and headers ----------------------------------------------------------------------------------------

    def learn(self, request: Request) -> None:
        """Take in what the headers of a request hold: the key, and whose service it is."""
        headers = request.headers
        if self.origin is None and "Authorization" in headers:
            self.origin = str(request.url.origin())
        for name, value in headers.items():
            if _kind_of_header(name) == "learnt":
                self._learn_header(name.lower(), value)

    def headers(self, headers: Headers) -> Pairs:
        """What of the headers may be kept; names in lower case, order and duplicates as they were."""
        kept = []
        for name, value in headers.items():
            match _kind_of_header(name):
                case "kept":
                    kept.append((name.lower(), self.text(value)))
                case "address":
                    kept.append((name.lower(), self.url(value)))
                case "label":
                    kept.append((name.lower(), self.secrets.hide(value, "request", is_secret=False)))
                case "learnt":
                    self._learn_header(name.lower(), value)
        return tuple(kept)

    def _learn_header(self, name: str, value: str) -> None:
        if name in ("authorization", "proxy-authorization"):
            scheme, _, rest = value.partition(" ")
            self.secrets.hide((rest or scheme).strip(), "key")
        elif name in ("cookie", "set-cookie"):
            for part in value.split(";") if name == "cookie" else value.split(";")[:1]:
                self.secrets.hide(part.partition("=")[2].strip(), "cookie")
        elif _kind_of(name) is _Kind.TELLING:
            self.secrets.hide(value.strip(), name)

    # -- URLs ----------------------------------------------------------------------------------------------------------

    def url(self, text: str) -> str:
        """A URL, absolute or not, without what it must not tell."""
        known = self._cached(self._urls, text)
        if known is None:
            known = self._urls[text] = self._url(text)
        return known

    def _url(self, text: str) -> str:
        rest, hash_mark, fragment = text.partition("#")
        address, question_mark, query = rest.partition("?")
        scheme, mark, after = address.partition("://")
        is_own = not mark
        if mark:
            authority, slash, path = after.partition("/")
            user, at, host = authority.rpartition("@")
            if at:
                self._hide_userinfo(user)
            is_own = self.origin is not None and _origin(f"{scheme}://{host}") == self.origin
            if not is_own and path:
                path = self._foreign_path(host, path)
            address = f"{scheme}://{host}{slash}{path}"
        query = re.sub(r"[^&;]+", lambda pair: self._pair(pair[0], is_own=is_own), query)
        if "=" in fragment:
            fragment = re.sub(r"[^&;]+", lambda pair: self._pair(pair[0], is_own=False), fragment)
        return self._known(f"{self._detected(address)}{question_mark}{query}{hash_mark}{fragment}")

    def _hide_userinfo(self, userinfo: str) -> None:
        for part in userinfo.split(":"):
            self.secrets.hide(unescaped(part), "user")

    def _foreign_path(self, host: str, path: str) -> str:
        """Of other hosts' paths, what may be a secret: all of a webhook's, and what looks random."""
        if _HOOK.search(host) or _HOOK.search(path):
            return self.secrets.hide(path, "webhook")
        return _RANDOM_SEGMENT.sub(lambda match: self.secrets.hide(match[0], "path"), path)

    def _pair(self, pair: str, *, is_own: bool) -> str:
        name, equals, value = pair.partition("=")
        if not equals:
            return pair if is_own else self.secrets.hide(pair, "query")
        plain = unescaped(name)
        if _VALID_UNTIL.fullmatch(plain):
            return f"{name}={FOREVER if value.isdigit() else self.secrets.hide(value, 'exp')}"
        is_telling = _kind_of(plain) is _Kind.TELLING or _TELLING_IN_QUERY.fullmatch(plain)
        if not is_own or is_telling or self._hides_something(value):
            return f"{name}={self._hide_encoded(value, plain)}"
        return f"{name}={self._detected(value)}"

    def _hide_encoded(self, value: str, kind: str) -> str:
        """As it is written here it is one value, and decoded it is one, too."""
        if PSEUDONYM.fullmatch(value):
            return value
        decoded = unescaped(value)
        return self.secrets.hide(decoded, kind) if decoded else value

    def _hides_something(self, value: str) -> bool:
        decoded = unescaped(value)
        return decoded != value and self.text(decoded) != decoded

    # -- JSON ----------------------------------------------------------------------------------------------------------

    def json(self, value: Any, name: str = "", *, is_request: bool = False) -> Any:
        """A JSON value, at any depth; the image data of requests becomes a digest."""
        if isinstance(value, str):
            return self._string(value, name, is_request=is_request)
        if isinstance(value, dict):
            return {
                self.text(key): item
                if item is None or item is True or item is False
                else self.json(item, self.name_below(name, key), is_request=is_request)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.json(item, name, is_request=is_request) for item in value]
        if isinstance(value, bool) or value is None or not name:
            return value
        match _kind_of(name):
            case _Kind.UNTIL:
                return FOREVER
            case _Kind.TELLING if not _COUNT.fullmatch(name):
                return self.secrets.hide(str(value), name)
        return value

    @staticmethod
    def name_below(name: str, key: str) -> str:
        """What is below a telling name is told by it."""
        return name if _kind_of(name) is _Kind.TELLING else key

    def _string(self, value: str, name: str, *, is_request: bool) -> str:
        if is_request and _DATA.fullmatch(value):
            return digest_of_data(value)
        match _kind_of(name):
            case _Kind.PROMPT if self._prompts == "pseudonym":
                return self.secrets.hide(value, "prompt")
            case _Kind.UNTIL if value.isdigit() or _DATE.fullmatch(value):
                return str(FOREVER) if value.isdigit() else FOREVER_DATE
            case _Kind.TELLING:
                return self._telling(value, name)
        if value[:1] in ("{", "[") or (value[:1] == '"' and len(value) > 2):
            return self._inner_json(value)
        return self.text(value)

    def _telling(self, value: str, name: str) -> str:
        """The value under a telling name. An address keeps its host, so that it is still one."""
        if _ABSOLUTE.fullmatch(value):
            redacted = self.url(value)
            scheme, mark, after = redacted.partition("://")
            host, slash, rest = after.partition("/")
            return f"{scheme}{mark}{host}{slash}{rest if PSEUDONYM.fullmatch(rest) else self.secrets.hide(rest, name)}"
        return self.secrets.hide(value, name)

    def _inner_json(self, value: str) -> str:
        try:
            inner = json.loads(value)
        except (ValueError, RecursionError):
            return self.text(value)
        redacted = self.json(inner)
        return self.text(value) if redacted == inner else json.dumps(redacted)

    # -- texts ---------------------------------------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """Any text: URLs in it are redacted, what looks like a secret or is a known one is replaced."""
        known = self._cached(self._texts, text)
        if known is None:
            known = self._texts[text] = self._text(text)
        return known

    def _text(self, text: str) -> str:
        if _ABSOLUTE.fullmatch(text) or _RELATIVE.fullmatch(text):
            return self.url(text)
        text = self._known(self._detected(_URL.sub(lambda match: self._url_in_text(match[0]), text)))
        plain = unescaped(text)
        if plain != text and self._detected(plain) != plain:
            return self.secrets.hide(text, "text", is_secret=False)
        return text

    def _url_in_text(self, found: str) -> str:
        if "\\" not in found:
            return self.url(found)
        plain = found.replace("\\/", "/")
        redacted = self.url(plain)
        return found if redacted == plain else redacted

    def _detected(self, text: str) -> str:
        for kind, pattern in _DETECTORS:
            text = pattern.sub(lambda match, kind=kind: self._hide_match(match, kind), text)  # type: ignore[misc]
        return text

    def _hide_match(self, match: re.Match[str], kind: str) -> str:
        if PSEUDONYM.search(match[0]):
            return match[0]
        if "value" not in match.re.groupindex:
            return self.secrets.hide(match[0], kind)
        start, end = match.span("value")
        begin = match.start()
        value = match["value"]
        return f"{match[0][: start - begin]}{self.secrets.hide(value, kind)}{match[0][end - begin :]}"

    def _known(self, text: str) -> str:
        return self.secrets.replace(text) if self.secrets.is_in(text) else text

    def _cached(self, cache: dict[str, str], text: str) -> str | None:
        if self._version != self.secrets.version or len(cache) > 4096:
            self._version = self.secrets.version
            self._texts.clear()
            self._urls.clear()
        return cache.get(text)


def detect(text: str, *, is_binary: bool = False) -> str | None:
    """The kind of the first thing in the text that looks like a secret, if there is one. In binary data only what
    cannot look so by chance."""
    for kind, pattern in _DETECTORS:
        if is_binary and kind in _LIKELY_BY_CHANCE:
            continue
        for match in pattern.finditer(text):
            if not PSEUDONYM.search(match[0]):
                return kind
    return None


def digest_of_data(value: str) -> str:
    """What stands for inline image data."""
    head = value[: value.find(",") + 1] if value[:5].lower() == "data:" else ""
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{head or 'data:;base64,'}sha256:{digest}:{len(value)}"


class _Kind(Enum):
    """What a name tells of its value."""

    PLAIN = auto()
    PROMPT = auto()
    UNTIL = auto()
    TELLING = auto()


@lru_cache(4096)
def _kind_of(name: str) -> _Kind:
    if _TELLING.search(name) or _TELLING_WHOLE.fullmatch(name):
        return _Kind.TELLING
    if _VALID_UNTIL.fullmatch(name):
        return _Kind.UNTIL
    return _Kind.PROMPT if name.lower().endswith("prompt") else _Kind.PLAIN


@lru_cache(4096)
def _kind_of_header(name: str) -> str:
    name = name.lower()
    if name == "location":
        return "address"
    if name == "x-request-id":
        return "label"
    if name in _KEPT_HEADERS or _KEPT_HEADER.fullmatch(name):
        return "kept"
    return "dropped" if name in _HARMLESS_HEADERS else "learnt"


def _origin(text: str) -> str | None:
    try:
        return str(URL(text).origin())
    except ValueError:
        return None
