"""The links in answers: the URLs under which clients reach the sandbox, and the signatures of links to videos.

The URLs may differ from the addresses at which the sandbox listens: a container or a proxy shows another name and port.
The Host of a request has those that its client uses, so the links in an answer follow it, unless they are configured.
``X-Forwarded-*`` is ignored: any client can send it.
"""

import base64
import hashlib
import hmac
import re
import secrets
from urllib.parse import parse_qsl, quote

from attrs import define, field, frozen

from vidgen_async.sandbox.http import PREFIX, Refusal

WEEK = 7 * 86400.0
#: A Host that may become part of a link. Others are ignored: they could change the link, or a header.
_HOST = r"(?P<name>[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?P<port>:[0-9]{1,5})?"
_ORIGIN = re.compile(rf"(?P<scheme>https?)://(?P<host>{_HOST})/?", re.IGNORECASE)


@frozen
class Addresses:
    """The origin of the service, and that of the signed links: ``http://HOST:PORT``."""

    service: str
    links: str

    @property
    def base_url(self) -> str:
        return self.service + PREFIX.rstrip("/")


def name_in(host: str | None) -> str | None:
    """Return the name or IP address in a Host, in lower case and without brackets; None if it is not valid."""
    found = re.fullmatch(_HOST, host or "")
    return found["name"].strip("[]").lower() if found and int((found["port"] or ":0")[1:]) < 65536 else None


def check_origin(name: str, url: str | None) -> str | None:
    if url is None:
        return None
    found = _ORIGIN.fullmatch(url)
    if found is None or not name_in(found["host"]):
        raise ValueError(f"{name} must be like http://localhost:8080, without a path, not {url!r}")
    scheme, host = found["scheme"].lower(), found["host"].lower()
    return f"{scheme}://{host.removesuffix(':443' if scheme == 'https' else ':80')}"


@define
class PublicAddresses:
    """The configured addresses, or None for those of each request."""

    public_url: str | None
    public_links_url: str | None
    listening: Addresses = Addresses("", "")

    def for_host(self, host: str | None) -> Addresses:
        """Return the addresses for a client that sent this Host; by default the links have its name and our port."""
        service = self.public_url or (f"http://{host}" if name_in(host) else self.listening.service)
        found, port = _ORIGIN.fullmatch(service), self.listening.links.rpartition(":")[2]
        beside = f"http://{found['name']}:{port}" if found else self.listening.links
        return Addresses(service, self.public_links_url or beside)


@define
class LinkSigner:
    """Signs links with ``exp`` and ``sig`` (2.5, section 5). The secret is random, and part of a stored state."""

    lifetime: float = WEEK
    secret: bytes = field(factory=lambda: secrets.token_bytes(32), repr=False)

    def sign(self, path: str, now: float, lifetime: float | None = None) -> str:
        """Return ``path`` with its query, percent-encoded so that a client that changes the encoding gets a 401."""
        expires = int(now + (self.lifetime if lifetime is None else lifetime))
        return f"{path}?exp={expires}&sig={quote(self._signature(path, str(expires)), safe='')}"

    def check(self, path: str, query: str, now: float) -> None:
        """Raise a Refusal (401) for a link that was changed, is incomplete, or has expired."""
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        expires = parameters.get("exp", "")
        signature = self._signature(path, expires).encode()
        if not hmac.compare_digest(signature, parameters.get("sig", "").encode("utf-8", "replace")):
            raise Refusal(401, "INVALID_LINK", "the signature of the link is invalid")
        if now >= int(expires):
            raise Refusal(401, "LINK_EXPIRED", "the link has expired; query the task again for the latest one")

    def token(self, path: str) -> str:
        return base64.urlsafe_b64encode(self._digest(f"asset {path}")).decode()

    def _signature(self, path: str, expires: str) -> str:
        return base64.b64encode(self._digest(f"link {path} {expires}")).decode()

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self.secret, text.encode("utf-8", "replace"), hashlib.sha256)
