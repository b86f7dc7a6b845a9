"""References that the service could not use (2.4, rules 2 and 3): placeholders, and what it cannot reach.

The service reads a URL from the public internet, without login or cookie. One that is itself on this machine or in a
private network may reach more: hosts are then let through.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from yarl import URL

from vidgen_async.redaction.messages import excerpt

UPLOAD = "upload a local image with files.upload"

#: Hosts that are reserved for examples, or that stand for one to be filled in. Similar ones exist (your-server.de is a
#: hosting company): to refuse a real file is worse than to accept a placeholder.
_EXAMPLE_HOST = re.compile(
    r"(?:^|\.)(?:example(?:\.(?:com|org|net|edu))?|invalid|placeholder\.(?:com|co)|placehold\.(?:co|it)|"
    r"(?:your[-_]?)?domain\.(?:com|org|net|tld))$|"
    r"^your[-_]?(?:host|domain|site|server|bucket|cdn)$|^your[-_]bucket(?:[-_]name)?\.",
    re.IGNORECASE,
)
#: Names that only a machine or a private network knows.
_PRIVATE_HOST = re.compile(
    r"(?:^|\.)(?:localhost|localdomain|local|internal|intranet|private|corp|home|lan|home\.arpa|test|onion)$",
    re.IGNORECASE,
)
#: Other ways to write an IPv4 address: their last part is a number.
_NUMBER = re.compile(r"\d+|0x[\da-f]*", re.IGNORECASE)
#: What was to be filled in. A GUID in braces has digits and is none.
_BLANK = (
    r"<[^<>]*>|\$\w+|\$?\{+[a-z_. -]*\}+|%[a-z_]+%|\[[a-z_ -]*\]|.*(?:\.{3}|…)|x{3,}|\*{3,}|"
    r"todo|tbd|changeme|replace[-_ ]?me|placeholder|null|none|undefined"
)
#: An id whose characters were replaced: ``asset-xxxxxxxx``, ``xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx``.
_MASKED = r"(?:[a-z]{2,12}[-_])*x{3,}(?:[-_]x+)*"
_NO_SECRET = re.compile(rf"{_BLANK}|{_MASKED}|your[-_ ].*|token|signature|sig|string|secret", re.IGNORECASE)
_NO_ID = re.compile(
    rf"{_BLANK}|{_MASKED}|your[-_ ].*|.*[-_ ]here|"
    r"(?:(?:my|the|an?|example|dummy|sample)[-_ ])?(?:asset|image|img|file|reference)[-_ ]?(?:id|name)s?|"
    r"(?:example|dummy|sample)(?:[-_ ](?:id|asset|image))?|id|string|foo|bar",
    re.IGNORECASE,
)
#: Parameters that hold the end of a link.
_EXPIRY_NAMES = {"exp", "expires", "expire", "expiry", "expires_at", "expiresat", "expiration"}
#: Parameters that give access: in an illustration they hold no real value.
_ACCESS = re.compile(r"(?:.*[-_.])?(?:token|sig|signature)", re.IGNORECASE)
#: Parts of a URL that were to be filled in. Braces that are encoded may be those of a file's name.
_UNFILLED = re.compile(
    r"<[^<>/]*>|\{[a-z_. -]*\}|%3C[a-z_ -]*%3E|%24%7B[a-z_. -]*%7D|/path/to/your[-_/ ]|/(?:\.{3}|…)(?=[/?#]|$)|"
    r"/reference-assets/(?:\$?(?:asset|image)[-_]?id/|[^/]*/content/file[-_]?name(?=[?#]|$))|"
    r"(?<=[/=])(?:(?:[a-z]{2,12}[-_])+x{8,}|x{8}(?:-x{4}){3}-x{12})(?=[/?&#.]|$)",
    re.IGNORECASE,
)


def is_placeholder(text: str) -> bool:
    """Whether it stands for an id that was to be filled in: ``<asset_id>``, ``your_image_id``, ``xxx`` …"""
    return _NO_ID.fullmatch(text.strip()) is not None


def problem_of_url(value: object, service: URL | None = None, now: datetime | None = None) -> str | None:
    """Why ``service`` could not read a file there; None if there is no reason to refuse it. Shows no secret. ``now``
    tells whether a link that says when it expires has expired."""
    if not isinstance(value, str):
        return f"must be a string, not {type(value).__name__}"
    try:
        url = URL(value)
        is_http = url.scheme in ("http", "https") and bool(url.host) and "\\" not in url.authority
    except (ValueError, IndexError):  # yarl raises an IndexError for some hosts with brackets
        is_http = False
    if not is_http or value != value.strip():
        return f"must be a public http or https URL ({UPLOAD}): {excerpt(value)!r}"
    problem = _problem_of_parts(url, value) or _problem_of_host(url.host or "", service) or _problem_of_age(url, now)
    return None if problem is None else f"{problem}: {excerpt(value)!r}"


def _problem_of_parts(url: URL, text: str) -> str | None:
    if url.user is not None or url.password is not None:
        return "must be readable without a login"
    secrets = (part.strip() for name, part in url.query.items() if _ACCESS.fullmatch(name))
    if _UNFILLED.search(text) or any(map(_NO_SECRET.fullmatch, secrets)):
        return "a placeholder, not the URL of a real file"
    if url.path.lower().endswith((".html", ".htm")):
        return "must lead to a file, not to an HTML page"
    return None


def _problem_of_host(host: str, service: URL | None) -> str | None:
    host = host.rstrip(".")
    if _EXAMPLE_HOST.search(host):
        return "an example host, not the URL of a real file"
    if is_public(host) or (service is not None and not is_public(service.host or "")):
        return None
    return f"the service cannot reach this host ({UPLOAD})"


def _problem_of_age(url: URL, now: datetime | None) -> str | None:
    """For links that are signed and state until when, in one of the usual ways."""
    is_signed = any(map(_ACCESS.fullmatch, url.query))
    if now is None or not is_signed:
        return None
    expired_at = min((end for end in _expiries(url) if end <= now), default=None)
    return None if expired_at is None else f"the link expired at {expired_at:%Y-%m-%d %H:%M:%S} UTC"


def _expiries(url: URL) -> Iterator[datetime]:
    """The moments at which a link says that it expires."""
    query = {name.lower(): value for name, value in url.query.items()}
    for name in _EXPIRY_NAMES & query.keys():  # seconds or milliseconds since 1970
        if re.fullmatch(r"\d{10}|\d{13}", query[name]):
            yield datetime.fromtimestamp(int(query[name][:10]), UTC)
    with suppress(KeyError, ValueError):  # Azure
        yield datetime.fromisoformat(query["se"]).replace(tzinfo=UTC)
    for prefix in ("x-amz-", "x-goog-", "x-oss-", "x-tos-"):
        with suppress(KeyError, ValueError, OverflowError):
            began_at = datetime.strptime(query[f"{prefix}date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            yield began_at + timedelta(seconds=int(query[f"{prefix}expires"]))


def is_public(host: str) -> bool:
    """Whether a host may be reached from everywhere: a global address, or a name with a public ending."""
    try:
        return ip_address(host).is_global
    except ValueError:
        pass
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return False
    return "." in host and _PRIVATE_HOST.search(host) is None
