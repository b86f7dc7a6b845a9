"""Replaces secrets before anything is written to a cassette.

Headers and, on the service's host, query values are recorded by an allow-list. URLs lose user info and, on other hosts,
all query values. JSON values are hidden by their names, texts by their form, and what was hidden once everywhere.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from yarl import URL

from vidgen_async.redaction.compression import find_compressed
from vidgen_async.redaction.messages import hide_secrets
from vidgen_async.redaction.named_values import hide_named_values
from vidgen_async.redaction.pseudonyms import PSEUDONYM, Secrets, unescape
from vidgen_async.redaction.secret_names import (
    SECRET_FORMS,
    HeaderKind,
    Kind,
    is_harmless_in_query,
    is_secret_in_request,
    is_unguessable,
    is_word,
    kind_of,
    kind_of_header,
    looks_random,
    names_a_secret,
)
from vidgen_async.types.http import Headers, Request

Prompts: TypeAlias = Literal["keep", "pseudonym"]
Pairs: TypeAlias = tuple[tuple[str, str], ...]

#: 2100-01-01, in seconds: replaces the time until which something is valid, so that it is in the future in a replay.
FOREVER = 4102444800
FOREVER_DATE = "2100-01-01T00:00:00Z"
#: Times from here on are in milliseconds.
_MILLISECONDS = 10**11

_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*")
_URL = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}:\\?/\\?/[^\s\"'<>`]+", re.IGNORECASE)
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]{0,20}://[^\s\"'<>]*", re.IGNORECASE)
_RELATIVE = re.compile(r"/[^\s\"'<>]*\?[^\s\"'<>]*")
_HOOK = re.compile(r"hook|callback|notify", re.IGNORECASE)
_PART = re.compile(r"[^\s,;#{}()\[\]\"'\\]+")
_NAME = re.compile(r"[\w.-]+")
_RANDOM = re.compile(r"[A-Za-z0-9_~=+-]{32,}")
_DATA = re.compile(
    r"data:([\w.+-]+/[\w.+-]+)?[^,\s\"']{0,80};base64,[A-Za-z0-9+/=_%\s-]*|[A-Za-z0-9+/_-]{200,}={0,2}", re.IGNORECASE
)
#: The service's names for its ids, which stay readable, also in addresses on other hosts.
_IDS = frozenset({"id", "task_id", "image_id", "asset_id", "model", "status", "upstream_task_id"})
#: In characters; longer texts are hidden as a whole.
_LONGEST_TEXT = 1 << 18
_LONGEST_CACHED = 4096
_MOST_CACHED = 4096


class Redactor:
    """Replaces the secrets of one recording; without ``hides_own_queries`` as 0.1.0 did on the service's host."""

    def __init__(
        self,
        *,
        prompts: Prompts = "keep",
        secrets: Iterable[str] = (),
        is_numbered: bool = True,
        origin: str | None = None,
        hides_own_queries: bool = True,
    ) -> None:
        self.secrets: Secrets = Secrets(is_numbered=is_numbered)
        self.origin: str | None = origin
        self._prompts = prompts
        self._hides_own_queries = hides_own_queries
        self._hidden_prompts: dict[str, None] = {}
        #: The service's ids and the path segments of its addresses: not secrets in addresses of other hosts.
        self._ids: set[str] = set()
        #: The redacted texts and URLs, while no further secret is known.
        self._cache: dict[tuple[str, bool], str] = {}
        self._version = 0
        self._learned: Headers | None = None
        for value in secrets:
            self.secrets.hide(value, "given")

    # -- requests and headers ----------------------------------------------------------------------------------------

    def learn(self, request: Request) -> None:
        """Learn the secrets and the service's origin from the headers of a request, which polls share."""
        if request.headers is self._learned:
            return
        self._learned = request.headers
        if self.origin is None and "Authorization" in request.headers:
            self.origin = str(request.url.origin())
        for name, value in request.headers.items():
            if is_secret_in_request(name) and kind_of(name) is not Kind.SECRET:  # those are learned below
                self._hide(value.strip(), name)
        self.headers(request.headers)

    def headers(self, headers: Headers) -> Pairs:
        """The headers to record; names in lower case, order and duplicates unchanged."""
        recorded = []
        for name, value in headers.items():
            match kind_of_header(name):
                case HeaderKind.VISIBLE:
                    recorded.append((name.lower(), self.text(value)))
                case HeaderKind.ADDRESS:
                    recorded.append((name.lower(), self.url(value)))
                case HeaderKind.LABEL:
                    recorded.append((name.lower(), self.secrets.hide(value, "request", is_secret=False)))
                case HeaderKind.SECRET:
                    self._learn_header(name.lower(), value)
        return tuple(recorded)

    def _learn_header(self, name: str, value: str) -> None:
        if name in ("authorization", "proxy-authorization"):
            scheme, _, rest = value.partition(" ")
            self.secrets.hide((rest or scheme).strip(), "key")
            if scheme.lower() == "basic":
                self.secrets.hide(_password(rest), "password")
        elif name in ("cookie", "set-cookie"):
            for part in value.split(";") if name == "cookie" else value.split(";")[:1]:
                self.secrets.hide(part.partition("=")[2].strip(), "cookie")
        elif kind_of(name) is Kind.SECRET:
            self.secrets.hide(value.strip(), name)

    # -- URLs ----------------------------------------------------------------------------------------------------------

    def url(self, text: str) -> str:
        """A URL, absolute or relative, without secrets."""
        return self._cached(text, is_url=True)

    def _url(self, text: str) -> str:
        rest, hash_mark, fragment = text.partition("#")
        address, question_mark, query = rest.partition("?")
        scheme, mark, after = address.partition("://")
        is_own = not mark
        if mark:
            authority, slash, path = after.partition("/")
            user, at, host = authority.rpartition("@")
            if at:
                for part in user.split(":"):
                    self.secrets.hide(unescape(part), "user")
            is_own = self.origin is not None and _origin(f"{scheme}://{host}") == self.origin
            if is_own:
                self._ids.update(path.split("/"))
            elif path:
                path = self._foreign_path(host, path)
            address = f"{scheme}://{host}{slash}{path}"
        for segment in re.findall(r"[^/]{16,}", address):
            if find_compressed(unescape(segment)):
                address = address.replace(segment, self.secrets.hide(segment, "compressed", is_secret=False))
        query = re.sub(r"[^&;]+", lambda pair: self._pair(pair[0], is_own=is_own), query)
        if "=" in fragment:
            fragment = re.sub(r"[^&;]+", lambda pair: self._pair(pair[0], is_own=False), fragment)
        return self.secrets.replace(f"{self._hide_secret_forms(address)}{question_mark}{query}{hash_mark}{fragment}")

    def _foreign_path(self, host: str, path: str) -> str:
        """Hide secrets in the path on another host: all of a webhook's, and random segments that are not ids."""
        if _HOOK.search(host) or _HOOK.search(path):
            return self.secrets.hide(path, "webhook")
        return _RANDOM.sub(lambda match: self._random_part(match[0]), path)

    def _random_part(self, part: str) -> str:
        if not _RANDOM.search(PSEUDONYM.sub("", part)):
            return part
        if part not in self.secrets:
            long_ids = (known for known in self._ids if len(known) >= 8)
            if not looks_random(part) or any(known in part for known in long_ids):
                return part
        return self.secrets.hide(part, "path")

    def _pair(self, pair: str, *, is_own: bool) -> str:
        name, equals, value = pair.partition("=")
        plain, decoded = unescape(name), unescape(value)
        is_visible = is_own and (is_harmless_in_query(plain) or not self._hides_own_queries)
        if not equals:
            return pair if is_visible else self._hide(pair, "query", is_secret_name=False)
        kind = kind_of(plain)
        if not decoded or PSEUDONYM.fullmatch(decoded):
            return pair
        if kind is Kind.EXPIRY:
            return f"{name}={_forever(value) if value.isdigit() else self._hide(decoded, plain)}"
        if kind is Kind.PROMPT and self._prompts == "pseudonym":
            return f"{name}={self._hide_prompt(decoded)}"
        is_secret_name = names_a_secret(plain, decoded, is_in_query=True)
        if is_secret_name or not is_visible:
            if not is_secret_name and decoded in self._ids:
                return pair
            return f"{name}={self._hide(decoded, plain, is_secret_name=is_secret_name)}"
        if decoded != value and self.text(decoded) != decoded:
            return f"{name}={self._hide(decoded, plain)}"
        return f"{name}={self._hide_secret_forms(value)}"

    def _hide(self, value: str, kind: str, *, is_secret_name: bool = True) -> str:
        """Hide a value here; and everywhere, if it cannot occur elsewhere by chance."""
        is_secret = is_unguessable(value) if is_secret_name else looks_random(value) and value not in self._ids
        return self.secrets.hide(value, kind, is_secret=is_secret)

    # -- JSON ----------------------------------------------------------------------------------------------------------

    def json(self, value: Any, name: str = "", *, is_request: bool = False) -> Any:
        """A JSON value without secrets; image data of requests becomes a digest. RecursionError if nested too deep."""
        if isinstance(value, str):
            return self._string(value, name, is_request=is_request)
        if isinstance(value, dict):
            if kind_of(name) is not Kind.SECRET:
                self._note_ids_of(value)
            above = name if name and kind_of(name) in (Kind.SECRET, Kind.COUNT, Kind.PROMPT) else ""
            return {self.text(key): self.json(item, above or key, is_request=is_request) for key, item in value.items()}
        if isinstance(value, list):
            return [self.json(item, name, is_request=is_request) for item in value]
        return self._number(value, name) if isinstance(value, int | float) and not isinstance(value, bool) else value

    def note_ids(self, value: Any, name: str = "") -> None:
        """Learn the ids in a JSON value, at any depth, before it is redacted."""
        if isinstance(value, dict) and kind_of(name) is not Kind.SECRET:
            self._note_ids_of(value)
            for key, item in value.items():
                self.note_ids(item, key)
        elif isinstance(value, list):
            for item in value:
                self.note_ids(item, name)

    def _note_ids_of(self, value: dict[str, Any]) -> None:
        if not _IDS.isdisjoint(value):
            self._ids.update(item for key in _IDS if isinstance(item := value.get(key), str))

    def _number(self, value: float, name: str) -> int | float | str:
        kind = kind_of(name)
        if kind is Kind.EXPIRY:
            return _forever(value)
        if kind is Kind.SECRET:
            return self._hide(str(value), name)
        shown = self.secrets.replace(str(value))
        self.secrets.note_written(shown)
        return value if shown == str(value) else shown

    def _string(self, value: str, name: str, *, is_request: bool) -> str:
        if is_request and _DATA.fullmatch(value):
            return digest_of_data(value)
        match kind_of(name):
            case Kind.PROMPT if self._prompts == "pseudonym":
                return self._hide_prompt(value)
            case Kind.EXPIRY if value:
                return self._until(value, name)
            case Kind.SECRET | Kind.COUNT if names_a_secret(name, value):
                return self._hide_value(value, name)
        if value[:1] in ("{", "[") or (value[:1] == '"' and len(value) > 2):
            return self._inner_json(value)
        return self.text(value)

    def _hide_prompt(self, value: str) -> str:
        if not PSEUDONYM.fullmatch(value):
            self._hidden_prompts[value] = None
        return self.secrets.hide(value, "prompt")

    def _until(self, value: str, name: str) -> str:
        if value.isdigit():
            return str(_forever(value))
        return FOREVER_DATE if _DATE.fullmatch(value) else self._hide(value, name)

    def _hide_value(self, value: str, name: str) -> str:
        """Hide the value of a secret name. An address keeps its host, so that it is still an address."""
        if _ABSOLUTE.fullmatch(value):
            scheme, mark, after = self.url(value).partition("://")
            host, slash, rest = after.partition("/")
            return f"{scheme}{mark}{host}{slash}{self._hide(rest, name)}"
        return self._hide(value, name)

    def _inner_json(self, value: str) -> str:
        try:
            inner = json.loads(value)
            redacted = self.json(inner)
        except (ValueError, RecursionError):
            return self.text(value)
        if redacted != inner:
            return json.dumps(redacted)
        return self.secrets.replace(value) if isinstance(inner, dict | list) else self.text(value)

    # -- texts ---------------------------------------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """A text without secrets: URLs in it are redacted, known secrets and texts of their form are replaced."""
        return self._cached(text, is_url=False)

    def _text(self, text: str) -> str:
        if len(text) > _LONGEST_TEXT:  # searching it would take too long
            return self.secrets.hide(text, "longtext", is_secret=False)
        if _ABSOLUTE.fullmatch(text) or _RELATIVE.fullmatch(text):
            return self.url(text)
        plain = unescape(text)
        if plain != text and find_compressed(plain):
            return self.secrets.hide(text, "compressed", is_secret=False)
        text = self.secrets.replace(self._plain_text(text))
        plain = unescape(text)
        # A whole prompt was replaced before; this is a part of one.
        prompts = self._hidden_prompts
        is_quoted = prompts and len(text) >= 16 and hide_secrets(text, prompts) != hide_secrets(text)
        if is_quoted or (plain != text and self._plain_text(plain) != plain):
            return self.secrets.hide(text, "text", is_secret=False)
        return text

    def _plain_text(self, text: str) -> str:
        text = _URL.sub(lambda match: self._url_in_text(match[0]), text)
        return self._hide_secret_forms(hide_named_values(text, self._hide_named_value, with_prompts=False))

    def _hide_named_value(self, name: str, value: str) -> str:
        """What replaces the value of a secret name in a text."""
        if PSEUDONYM.match(value) or value.startswith((str(FOREVER), FOREVER_DATE)) or is_word(value):
            return value
        if PSEUDONYM.search(value) and all(map(is_word, _NAME.findall(PSEUDONYM.sub("", value)))):
            return value  # a list or an object in which everything is hidden
        if kind_of(name) is Kind.EXPIRY:
            return self._until(value, name)
        if (part := _PART.match(value)) is not None and part[0] != value:
            self._hide(part[0], name)  # the rest may not belong to it
        return self._hide(value, name)

    def _url_in_text(self, found: str) -> str:
        plain = found.replace("\\/", "/")
        redacted = self.url(plain)
        return found if redacted == plain else redacted

    def _hide_secret_forms(self, text: str) -> str:
        for start, end in reversed(find_compressed(text)):
            text = text[:start] + self.secrets.hide(text[start:end], "compressed", is_secret=False) + text[end:]
        for kind, pattern in SECRET_FORMS:
            text = pattern.sub(
                lambda match, kind=kind: match[0] if is_word(match[0]) else self.secrets.hide(match[0], kind),  # type: ignore[misc]
                text,
            )
        return text

    def _cached(self, text: str, *, is_url: bool) -> str:
        if self._version != self.secrets.version or len(self._cache) >= _MOST_CACHED:
            self._version = self.secrets.version
            self._cache.clear()
        redacted = self._cache.get((text, is_url))
        if redacted is None:
            redacted = self._url(text) if is_url else self._text(text)
            self.secrets.note_written(redacted)
            if len(text) <= _LONGEST_CACHED:
                self._cache[text, is_url] = redacted
        return redacted


def digest_of_data(value: str) -> str:
    """What replaces inline image data."""
    head = value[: value.find(",") + 1] if value[:5].lower() == "data:" else ""
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{head or 'data:;base64,'}sha256:{digest}:{len(value)}"


def _forever(value: float | str) -> int:
    return FOREVER * 1000 if float(value) >= _MILLISECONDS else FOREVER


def _password(encoded: str) -> str:
    with suppress(ValueError):
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    return ""


def _origin(text: str) -> str | None:
    with suppress(ValueError):
        return str(URL(text).origin())
    return None
