"""URLs of references that the service could not use (2.4, rules 2 and 3).

Like the names of the fields, these patterns repeat those of the SDK on purpose; a test compares both. Hosts of private
networks are accepted here, because the sandbox runs in one.
"""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, unquote, urlsplit

_EXAMPLE_HOST = re.compile(
    r"(.*\.)?(example(\.(com|org|net|edu))?|invalid|placeholder\.(com|co)|placehold\.(co|it)"
    r"|(your[-_]?)?domain\.(com|org|net|tld))\.?|your[-_]?(host|domain|site|server|bucket|cdn)|your[-_]bucket([-_]name)?\..*",
    re.IGNORECASE,
)
#: Parts of a URL that were to be filled in.
_UNFILLED = re.compile(
    r"<[^<>/]*>|\{[a-z_. -]*\}|%3C[a-z_ -]*%3E|%24%7B[a-z_. -]*%7D|/path/to/your[-_/ ]|/(\.{3}|…)(?=[/?#]|$)"
    r"|/reference-assets/(\$?(asset|image)[-_]?id/|[^/]*/content/file[-_]?name(?=[?#]|$))"
    r"|(?<=[/=])(([a-z]{2,12}[-_])+x{8,}|x{8}(-x{4}){3}-x{12})(?=[/?&#.]|$)",
    re.IGNORECASE,
)
#: Parameters that give access, and values of them that were to be filled in.
_ACCESS = re.compile(r"(.*[-_.])?(token|sig|signature)", re.IGNORECASE)
_NO_SECRET = re.compile(
    r"<[^<>]*>|\$\w+|\$?\{+[a-z_. -]*\}+|%[a-z_]+%|\[[a-z_ -]*\]|.*(\.{3}|…)|\*{3,}|([a-z]{2,12}[-_])*x{3,}([-_]x+)*"
    r"|todo|tbd|changeme|replace[-_ ]?me|placeholder|null|none|undefined|your[-_ ].*|token|signature|sig|string|secret",
    re.IGNORECASE,
)
#: Parameters with the end of a link, in seconds or milliseconds since 1970.
_END_NAMES = {"exp", "expires", "expire", "expiry", "expires_at", "expiresat", "expiration"}


def problem_of_url(value: object, now: float) -> str | None:
    """Return why the service could not read this URL, or None. Signed links expire in real time, too."""
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and "\\" not in parts.netloc
        _ = parts.port  # ValueError if it is no port
    except ValueError:
        is_http = False
    if not isinstance(value, str) or not is_http or value != value.strip():
        return "must be a public http or https URL"
    query = parse_qsl(parts.query, keep_blank_values=True)
    secrets = [text.strip() for name, text in query if _ACCESS.fullmatch(name)]
    is_example = _EXAMPLE_HOST.fullmatch(parts.hostname or "")
    if parts.username or parts.password is not None:
        return "must be readable without a login"
    if unquote(parts.path).lower().endswith((".html", ".htm")):
        return "must lead to a file and no HTML page"
    if is_example or _UNFILLED.search(value) or any(map(_NO_SECRET.fullmatch, secrets)):
        return "must be the URL of a real file and no placeholder"
    if secrets and any(end.timestamp() <= min(now, time.time()) for end in _ends(query)):
        return "must be a link that has not expired"
    return None


def _ends(parameters: Iterable[tuple[str, str]]) -> Iterator[datetime]:
    """Return when a signed link expires, as its service states it: Azure, S3, Google Cloud and others."""
    query = {name.lower(): text for name, text in parameters}
    for name in _END_NAMES & query.keys():
        if re.fullmatch(r"\d{10}|\d{13}", query[name]):
            yield datetime.fromtimestamp(int(query[name][:10]), UTC)
    with suppress(KeyError, ValueError):
        yield datetime.fromisoformat(query["se"]).replace(tzinfo=UTC)
    for prefix in ("x-amz-", "x-goog-", "x-oss-", "x-tos-"):
        with suppress(KeyError, ValueError, OverflowError):
            start = datetime.strptime(query[f"{prefix}date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            yield start + timedelta(seconds=int(query[f"{prefix}expires"]))
