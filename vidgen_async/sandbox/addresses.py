"""The URLs under which clients reach the sandbox: they may differ from the addresses at which it listens.

A container or a proxy shows another name and port. The Host of a request has those that its client uses, so the links
in an answer follow it, unless they are configured. ``X-Forwarded-*`` is ignored: any client can send it.
"""

import re
from collections.abc import Collection

from attrs import define, field, frozen

from vidgen_async.sandbox.routes import PREFIX

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


@define(kw_only=True)
class PublicAddresses:
    """The configured addresses, or None for those of each request."""

    public_url: str | None = None
    public_links_url: str | None = None
    #: Where the sandbox listens.
    listening: Addresses = field(default=Addresses("", ""))

    def __attrs_post_init__(self) -> None:
        self.public_url = _check_origin("public_url", self.public_url)
        self.public_links_url = _check_origin("public_links_url", self.public_links_url)

    def for_host(self, host: str | None) -> Addresses:
        """Return the addresses for the client of a request with this Host; None if there is no request.

        Without a configured one, the links have the name of the service and the port at which the sandbox listens.
        """
        service = self.public_url or (f"http://{host}" if name_in(host) else self.listening.service)
        return Addresses(service, self.public_links_url or self._links_beside(service))

    def own_hosts(self, host: str | None) -> Collection[str]:
        """Return the hosts, with their ports, that mean this service in a request with this Host."""
        urls = (self.listening.service, self.public_url or "")
        return {(host or "").lower(), *(url.partition("://")[2].lower() for url in urls)} - {""}

    def _links_beside(self, service: str) -> str:
        found = _ORIGIN.fullmatch(service)
        port = self.listening.links.rpartition(":")[2]
        return f"http://{found['name']}:{port}" if found else self.listening.links


def name_in(host: str | None) -> str | None:
    """Return the name or IP address in a Host, in lower case and without brackets; None if it is not valid."""
    found = re.fullmatch(_HOST, host or "")
    return found["name"].strip("[]").lower() if found and int((found["port"] or ":0")[1:]) < 65536 else None


def _check_origin(name: str, url: str | None) -> str | None:
    if url is None:
        return None
    found = _ORIGIN.fullmatch(url)
    if found is None or not name_in(found["host"]):
        raise ValueError(f"{name} must be like http://localhost:8080, without a path, not {url!r}")
    scheme, host = found["scheme"].lower(), found["host"].lower()
    return f"{scheme}://{host.removesuffix(':443' if scheme == 'https' else ':80')}"
