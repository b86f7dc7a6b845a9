"""Validation of the arguments of a client, so that a malformed key fails when the client is made."""

import math
import os
import re
import sys
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeGuard

from attrs import frozen
from yarl import URL

import vidgen_async
from vidgen_async.errors import ConfigurationError
from vidgen_async.redaction.messages import hide_secrets
from vidgen_async.service.api_keys import KeyRing
from vidgen_async.transports.direct.proxies import EnvironmentProxies, can_exist, is_on_this_machine, proxy_url
from vidgen_async.transports.direct.transport import DirectTransport
from vidgen_async.types.budgets import Budget
from vidgen_async.types.http import Headers, KeyFunction, Timeouts, make_headers
from vidgen_async.types.limits import Pacing
from vidgen_async.types.resources import KNOWN_STATES, TERMINAL_STATES, TerminalStatus

#: Section 9: what every base URL of the interface ends in.
PREFIX = "/openapi/v1"
LONGEST_NAME = 200

#: All of a base URL but its scheme: nothing else looks like this, so it can be shown.
_WITHOUT_SCHEME = re.compile(rf"[A-Za-z0-9.-]+(:\d+)?{PREFIX}")
#: An endpoint (part 4) after the prefix.
_ENDPOINT = re.compile(rf"{PREFIX}(/(?:models|account|files|videos))(?:/|$)")

#: A word in a header (RFC 9110, 5.6.2).
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: Headers that say how a request is sent, or what it contains.
_SDK_HEADER = re.compile(
    r"content-.*|proxy-.*|if-.*|range|accept|accept-encoding|connection|keep-alive|te|trailer|transfer-encoding|upgrade|"
    r"expect|host|cookie2?|http2-settings|max-forwards|via|(?:.*-)?idempotency.*"
)
#: Headers by which proxies, gateways and frameworks route, change or repeat a request.
_GATEWAY_HEADER = re.compile(
    r"forwarded|x-forwarded-(?!for$).*|x-(?:original|rewrite|http|accel|envoy|proxy)-.*|x-(?:method|host|url|uri|path)|"
    r"x-.*override.*|l5d-.*|destination"
)
_ADVICE = {
    "authorization": "give the key as api_key",
    "idempotency-key": "it is derived from the order id, so that no order is sent twice",
    "user-agent": "give the name and the version of your program as app_info",
}

_QUOTES = "\"'`"
#: What stands for the rest of a key, in a list of keys or in an example.
_SHORTENED_KEY = re.compile(r"\.{2,}|\*{3,}|(?<![A-Za-z0-9])x{4,}$|x{8,}$", re.IGNORECASE)
#: What was to be replaced by a key.
_PLACEHOLDER_KEY = re.compile(
    r"<.*>|\$?\{.*\}|\[.*\]|\$[a-z_]+|%\w+%|[<{\[]*(?:(?:sk|vg|vidgen)[-_])?(?:"
    r"(?:(?:your|my|the|put|add|insert|enter|paste|replace|with)[-_]?)+"
    r"(?:(?:vidgen|service|secret|real|actual|own|complete)[-_]?)*"
    r"(?:api[-_]?)?(?:key|token|secret)(?:[-_]?(?:goes[-_]?)?here)?|"
    r"(?:vidgen[-_])?api[-_]?key(?:[-_]?here)?|key[-_]here|change[-_]?me|replace(?:[-_]?me)?|placeholder|todo|tbd|"
    r"none|null|undefined)[>}\]]*",
    re.IGNORECASE,
)
_IS_URL = re.compile(r"https?://", re.IGNORECASE)
_NAME_OF_KEY = re.compile(r"(?:export\s+)?(?:vidgen[-_])?api[-_]?key\s*[=:]", re.IGNORECASE)


def checked_keys(given: str | KeyFunction | None) -> str | KeyRing:
    """The API key, or where the keys are that a callable returns."""
    if callable(given):
        return KeyRing(given, lambda returned: _checked_key(returned, "the key that api_key returned"))
    return checked_key(given)


def checked_key(given: str | None) -> str:
    """The API key (section 5), without white space around it or a "Bearer " before it. No message shows it."""
    source = "api_key"
    if given is None:
        source = "VIDGEN_API_KEY"
        given = os.environ.get(source)
    if given is None:
        raise ConfigurationError("no API key: set VIDGEN_API_KEY, or pass Client(api_key=…)")
    return _checked_key(given, source)


def _checked_key(given: object, source: str) -> str:
    if not isinstance(given, str):
        raise ConfigurationError(f"{source} must be a string, not {type(given).__name__}")
    key = given.strip()
    if key[:7].lower() == "bearer ":
        key = key[7:].strip()
    problem = _problem_of_key(key)
    if problem:
        raise ConfigurationError(f"{source} {problem} (it has {len(given)} characters; a key is never shown)")
    return key


def _problem_of_key(key: str) -> str | None:
    """Why this is no key, as the predicate of a sentence."""
    if not key or key.lower() == "bearer":
        return "is blank"
    if not key.isascii():
        return "has characters that are not ASCII: was it copied from a formatted text, or shortened with an ellipsis?"
    if not key.isprintable():
        return "has control characters inside: is a line break in it?"
    if key[0] in _QUOTES or key[-1] in _QUOTES:
        return "has quotes around it, which are not part of a key (docker --env-file keeps them)"
    if _IS_URL.match(key):
        return "is a URL: give it as base_url, and the key as api_key"
    if _NAME_OF_KEY.match(key):
        return "begins with a name and = or :, which are not part of a key"
    if " " in key:
        return "has white space inside: is it two keys, or more than the key?"
    if _SHORTENED_KEY.search(key):
        return "is shortened: the prefix in a list of keys is not the complete key"
    return "is a placeholder, not a key" if _PLACEHOLDER_KEY.fullmatch(key) else None


def checked_base_url(given: str | URL | None) -> URL:
    """The base URL without a trailing slash. One that does not end in ``/openapi/v1`` is warned about."""
    source = "base_url"
    if given is None:
        source = "VIDGEN_BASE_URL"
        given = os.environ.get(source)
    if given is None or not str(given).strip():
        message = f"no base URL: set VIDGEN_BASE_URL, or pass Client(base_url=…), for example https://HOST{PREFIX}"
        raise ConfigurationError(message)
    text = str(given).strip().rstrip("/")
    url = _parsed(text)
    problem = "is not a URL: its host or its port cannot be read" if url is None else _problem_of(url, text)
    if url is None or problem:
        # It may be the key, or hold a password: it is not shown, and there is no cause that would show it.
        raise ConfigurationError(f"{source} {problem} (it has {len(text)} characters); write https://HOST{PREFIX}")
    risks = []
    if url.scheme == "http" and not is_on_this_machine(url):
        risks.append("is http://: the API key is sent unencrypted to another machine")
    if not url.path.endswith(PREFIX):
        risks.append(f"does not end in {PREFIX}: every call will be answered with 404, unless a proxy adds the prefix")
    for risk in risks:
        warnings.warn(f"{source} {hide_secrets(text)!r} {risk}", UserWarning, stacklevel=3)
    return url


def checked_name(setting: str, given: object) -> str:
    """A name that orders are kept under: at most 200 printable characters, and not blank."""
    if not isinstance(given, str):
        raise ConfigurationError(f"{setting} must be a string, not {type(given).__name__}")
    if not given.strip() or not given.isprintable() or len(given) > LONGEST_NAME:
        message = f"{setting} must be 1 to {LONGEST_NAME} printable characters, and not blank (it has {len(given)})"
        raise ConfigurationError(message)
    return given


def checked_headers(given: Mapping[str, str] | None, setting: str) -> Headers:
    """Headers that are sent to the service with every request. No message shows a value."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigurationError(f"{setting} must be a mapping of names to values, not {type(given).__name__}")
    names: set[str] = set()
    items = list(() if given is None else given.items())  # once: a mapping may answer differently when it is read again
    for name, value in items:
        problem = _problem_of_header(name, value)
        if problem is None and name.lower() in names:
            problem = "is given twice: names are compared without case"
        if problem:
            raise ConfigurationError(f"{setting}: the header {name!r:.80} {problem}")
        names.add(name.lower())
    return make_headers(items)


def _problem_of_header(name: object, value: object) -> str | None:
    """Why this cannot be a header of the user's, as the predicate of a sentence."""
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        return "has a name that is not valid in HTTP"
    lower = name.lower().replace("_", "-")  # many servers and gateways treat both alike
    if lower in _ADVICE:
        return f"cannot be set here: {_ADVICE[lower]}"
    if _SDK_HEADER.fullmatch(lower):
        return "cannot be set here: the SDK or its HTTP library sets it where it is needed"
    if _GATEWAY_HEADER.fullmatch(lower):
        return "cannot be set here: a proxy or a gateway may send the request elsewhere, change it or repeat it"
    if not isinstance(value, str):
        return f"must have a string as its value, not {type(value).__name__}"
    if not value or value != value.strip() or not value.isascii() or not value.isprintable():
        return "has a value that is empty, begins or ends with white space, or holds other than printable ASCII"
    return None


@frozen(kw_only=True)
class PollTimeouts(Timeouts):
    """Those of polls: an answer must come within a part of the polling interval as well."""

    poll: float

    @classmethod
    def of(cls, timeouts: Timeouts, interval: float) -> "PollTimeouts":
        """``timeouts`` for polls with this interval in seconds."""
        poll = max(interval / 4.0, 10.0)
        limits = {name: min(getattr(timeouts, name) or poll, poll) for name in ("read", "answer")}
        return cls(connect=timeouts.connect, create=timeouts.create, **limits, poll=poll)

    def setting_of(self, name: str) -> str:
        if name in ("read", "answer") and getattr(self, name) == self.poll:
            return "a quarter of poll_interval, at least 10 s"
        return super().setting_of(name)


def checked_timeouts(given: Timeouts | None, default: Timeouts) -> Timeouts:
    """The time limits of requests; None stands for the default."""
    if given is None:
        return default
    if not isinstance(given, Timeouts):
        message = f"timeouts must be a Timeouts, for example Timeouts(read=30), not {type(given).__name__}"
        raise ConfigurationError(message)
    return given


def check_arguments(*, pacing: object, clock: object, journal: object, on_update: object, trust_env: object) -> None:
    """Raise ConfigurationError for an argument of a client that is of another kind than it must be. Journals and clocks
    need not derive from anything."""
    is_journal = isinstance(journal, str) or hasattr(journal, "begin")
    for setting, given, is_valid, example in (
        ("pacing", pacing, isinstance(pacing, Pacing), "a Pacing, for example Pacing(limit=50)"),
        ("clock", clock, hasattr(clock, "sleep"), "an object with now(), wall() and sleep()"),
        ("journal", journal, is_journal, 'a journal or its name, for example "sqlite:///orders.db"'),
        ("on_update", on_update, callable(on_update), "a function"),
        ("trust_env", trust_env, isinstance(trust_env, bool), "True or False"),
    ):
        if given is not None and (not is_valid or isinstance(given, type)):
            raise ConfigurationError(f"{setting} must be {example}, not {type(given).__name__}")


def checked_retry_for(setting: str, given: object) -> float:
    """Seconds for which reads are retried: finite, and 0 or more."""
    if not is_finite(given) or given < 0:
        raise ConfigurationError(f"{setting} must be a finite number of seconds, 0 or more: {given!r:.80}")
    return given


def is_finite(given: object) -> TypeGuard[float]:
    """Whether this is a number, and neither infinite nor nan."""
    return isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)


def checked_app_info(given: tuple[str, str] | None) -> str:
    """The product token of the user's program for the User-Agent header, after a space; empty if there is none."""
    if given is None:
        return ""
    parts = tuple(given) if isinstance(given, tuple | list) else ()
    is_pair = len(parts) == len(("name", "version"))
    if not is_pair or not all(isinstance(part, str) and _TOKEN.fullmatch(part) for part in parts):
        raise ConfigurationError(
            'app_info must be a name and a version, ("shop", "2.1"), each of letters, digits and !#$%&\'*+-.^_`|~ '
            f"without spaces: {given!r:.100}"
        )
    if any(len(part) > LONGEST_NAME for part in parts):
        raise ConfigurationError(f"app_info: the name and the version have at most {LONGEST_NAME} characters each")
    return " " + "/".join(parts)


def user_agent(library: str, app_info: str) -> str:
    """The User-Agent header: the SDK, the HTTP library of the transport, Python, and the user's program."""
    python = f"Python/{sys.version_info.major}.{sys.version_info.minor}"
    return " ".join(filter(None, (f"vidgen-async/{vidgen_async.__version__}", library, python))) + app_info


def checked_states(given: Mapping[str, TerminalStatus] | None) -> Mapping[str, TerminalStatus]:
    """Validate ``terminal_states``: states that section 3 names cannot be mapped."""
    if given is not None and not isinstance(given, Mapping):
        message = f'terminal_states must be a mapping, {{"expired": "failed"}}, not {type(given).__name__}'
        raise ConfigurationError(message)
    states = dict(given or {})
    for state, end in states.items():
        if not isinstance(state, str) or not state or state in KNOWN_STATES:
            message = f"terminal_states: {state!r} must be a state that the service's description does not name"
            raise ConfigurationError(message)
        if not isinstance(end, str) or end not in TERMINAL_STATES:
            raise ConfigurationError(f'terminal_states: {state!r} must count as "completed" or "failed", not {end!r}')
    return MappingProxyType(states)


def _parsed(text: str) -> URL | None:
    try:
        url = URL(text)
        # The host is decoded here, which may not be possible. Only late releases of yarl refuse a backslash.
        return None if "\\" in url.authority else url
    except ValueError:
        return None


def _problem_of(url: URL, text: str) -> str | None:
    """Return why this cannot be the base URL; None if it can."""
    if url.user or url.password:
        return "must not hold a user name or password: the key goes into a header only"
    if url.scheme not in ("http", "https"):
        meant = f": did you mean 'https://{text}'?" if _WITHOUT_SCHEME.fullmatch(text) else ""
        return f"needs a scheme, https:// (or http://){meant}"
    if not url.host:
        return "names no host"
    if url.host in ("http", "https") and url.path.startswith("//"):
        return "has its scheme twice"
    if not can_exist(url):
        return "has a host or port that cannot exist"
    if url.query_string or url.fragment:
        return "must end with its path, without a query or fragment"
    if endpoint := _ENDPOINT.search(url.path):
        return f"must end in {PREFIX}, without the path of an endpoint after it ({endpoint[1]})"
    return None


def make_transport(
    base_url: URL, *, proxy: str | URL | None = None, trust_env: bool = True, max_connections: int = 100
) -> DirectTransport:
    """The network, through the proxy that is given, else that of VIDGEN_PROXY, else those of the environment. A base
    URL on this machine is always reached directly."""
    named = proxy_url(proxy, "proxy") if proxy else None
    if is_on_this_machine(base_url):
        named = None
    used = named or EnvironmentProxies.read(trust_env=trust_env).proxy_for(base_url)
    if used is not None and base_url.scheme == "http":
        warnings.warn(
            "base_url is http://, and a proxy is used: the proxy can read the API key, and may repeat a create",
            UserWarning,
            stacklevel=3,
        )
    return DirectTransport(proxy=named, trust_env=trust_env, max_connections=max_connections)


def checked_budgets(given: Budget | None) -> tuple[Budget, ...]:
    """The budget, or that of the environment; nothing without one."""
    text, price = os.environ.get("VIDGEN_BUDGET"), os.environ.get("VIDGEN_PRICE")
    if given is None and text:
        if not price:
            message = "VIDGEN_BUDGET needs VIDGEN_PRICE: the name of the number in the catalog that is a model's price"
            raise ConfigurationError(message)
        try:
            given = Budget.parse(text, price=price)
        except ValueError as error:
            message = f"VIDGEN_BUDGET: {error}"
            raise ConfigurationError(message) from None
    if given is None:
        return ()
    if not isinstance(given, Budget):
        raise ConfigurationError(f"budget must be a Budget(points=…, price=…), not {type(given).__name__}")
    if (problem := given.find_problem()) is not None:
        raise ConfigurationError(problem)
    return (given,)
