"""The proxy of a request, from the environment as httpx, requests and curl read it."""

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.request import getproxies_environment

from attrs import frozen
from yarl import URL

from vidgen_async.errors import ConfigurationError

#: Between the entries of NO_PROXY.
_SEPARATOR = re.compile(r"[,\s]+")


def proxy_url(value: str | URL) -> URL:
    """The URL of a proxy; ValueError names the problem, without its user name and password."""
    try:
        url = URL(value)
        url.port  # noqa: B018 - here, where a port that is not a number is an error of this setting
    except (TypeError, ValueError):
        # The message of yarl quotes the URL.
        message = "is not a URL (a user name or password in it must be percent-encoded)"
        raise ValueError(message) from None
    if url.scheme not in ("http", "https") or not url.host:
        message = f"must begin with http:// or https:// and name a host, not with {url.scheme or 'nothing'!r}"
        raise ValueError(message)
    return url


def is_on_this_machine(url: URL) -> bool:
    """Whether the host is a loopback address or ``localhost``."""
    host = url.host or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@frozen
class EnvironmentProxies:
    """``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, in capitals or not.

    Not aiohttp's own ``trust_env``: it also reads netrc, and fails where that has an entry for the host.
    """

    proxies: Mapping[str, str]
    no_proxy: tuple[str, ...]

    @classmethod
    def read(cls) -> "EnvironmentProxies":
        """Read the environment as it is now."""
        proxies = getproxies_environment()
        excluded = proxies.pop("no", "")
        return cls(
            proxies={scheme: value.strip() for scheme, value in proxies.items() if value.strip()},
            no_proxy=tuple(filter(None, _SEPARATOR.split(excluded.lower()))),
        )

    def proxy_for(self, url: URL) -> URL | None:
        """The proxy for this URL, or None. This machine is always reached directly.

        Raises:
            ConfigurationError: It cannot be used; the message names the variable.
        """
        name = url.scheme if url.scheme in self.proxies else "all"
        value = self.proxies.get(name)
        if value is None or is_on_this_machine(url) or self._is_excluded(url):
            return None
        try:
            return proxy_url(value if "://" in value else f"http://{value}")
        except ValueError as error:
            variable = f"{name.upper()}_PROXY"
            variable = variable if variable in os.environ else variable.lower()
            message = (
                f"the proxy of the environment variable {variable} {error}; NO_PROXY='*' or trust_env=False ignores it"
            )
            raise ConfigurationError(message) from None

    def _is_excluded(self, url: URL) -> bool:
        return any(_matches(entry, (url.host or "").lower().rstrip("."), url.port) for entry in self.no_proxy)


def _matches(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of NO_PROXY is this host. It is ``*``, a name or its end, an address or a network; maybe with a
    port."""
    name, _, number = entry.rpartition(":")
    if number.isdigit() and name and (name.endswith("]") or ":" not in name):
        if int(number) != port:
            return False
        entry = name
    entry = entry.strip("[]").rstrip(".")
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        name = entry.lstrip("*").lstrip(".")
        return entry == "*" or (bool(name) and (host == name or host.endswith(f".{name}")))
