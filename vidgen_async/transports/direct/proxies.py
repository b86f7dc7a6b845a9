"""The proxy of a request, from the environment as httpx, requests and curl read it."""

import os
import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from socket import inet_aton
from urllib.request import getproxies_environment

from attrs import field, frozen
from yarl import URL

from vidgen_async.errors import ConfigurationError

#: Between the entries of NO_PROXY.
_SEPARATOR = re.compile(r"[,\s]+")
_HOST_NAME = re.compile(r"[\w-]{1,63}(\.[\w-]{1,63})*\.?", re.ASCII)
_WITHOUT_SLASHES = re.compile(r"https?:(?!//)", re.IGNORECASE)


def proxy_url(value: str | URL, setting: str, advice: str = "") -> URL:
    """The URL of a proxy; ``http://`` before it may be absent, as in HTTPS_PROXY. ConfigurationError if it cannot be
    used: the message names the setting and shows nothing of the value, which may hold a user name and password."""
    url = _parsed(value)
    problem = "is not a URL (a user name or password in it must be percent-encoded)" if url is None else _problem(url)
    if url is None or problem:
        raise ConfigurationError(f"{setting} {problem}{advice}")
    return url


def _parsed(value: object) -> URL | None:
    text = str(value).strip()
    if not isinstance(value, str | URL) or not text.isprintable():
        return None
    try:
        url = URL(text if "://" in text or _WITHOUT_SLASHES.match(text) else f"http://{text}")
        url.host, url.port  # noqa: B018 - here, where those that cannot be read are an error of this setting
    except ValueError:
        return None
    return url


def _problem(url: URL) -> str | None:
    """Why this cannot be a proxy, as the predicate of a sentence."""
    if url.scheme not in ("http", "https") or not url.raw_host:
        return "must begin with http:// or https:// and name a host (SOCKS is not supported)"
    if url.raw_path not in ("", "/") or url.raw_query_string or url.raw_fragment:
        return "must end after its host and port (a / ? or # in a user name or password must be percent-encoded)"
    if not can_exist(url):
        return "has a host or port that cannot exist"
    user, password = url.user or "", url.password or ""
    if ":" in user:
        return "has a user name with a colon, which HTTP cannot transmit"
    if any(ord(char) > 255 for char in user + password):
        return "has a user name or password with characters that are not Latin-1, which HTTP cannot transmit"
    return None


def can_exist(url: URL) -> bool:
    host = url.raw_host or ""
    return bool(_address(host) or _HOST_NAME.fullmatch(host)) and bool(url.port)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """The address, also in the short forms of IPv4 (``127.1``); None if it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    try:
        return IPv4Address(inet_aton(host))
    except (OSError, ValueError):
        return None


def is_on_this_machine(url: URL) -> bool:
    """Whether the host is ``localhost``, a loopback address or the unspecified one, in any of their forms."""
    host = (url.host or "").rstrip(".")
    address = _address(host)
    if address is None:
        return host == "localhost" or host.endswith(".localhost")
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


@frozen
class EnvironmentProxies:
    """``VIDGEN_PROXY``, else ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, in capitals or not.

    Not aiohttp's own ``trust_env``: it also reads netrc, and fails where that has an entry for the host.
    """

    proxies: Mapping[str, tuple[str, str]] = field(repr=False)
    """The variables and their values."""
    no_proxy: tuple[str, ...]

    @classmethod
    def read(cls, *, trust_env: bool = True) -> "EnvironmentProxies":
        """Read the environment as it is now; without ``trust_env``, only VIDGEN_PROXY."""
        proxies = getproxies_environment()
        excluded = proxies.pop("no", "")
        # As there, lower case wins.
        by_case = sorted(filter(os.environ.get, os.environ), key=lambda name: name.endswith("_proxy"))
        variables = {name[:-6].lower(): name for name in by_case if name.lower().endswith("_proxy")}
        return cls(
            proxies={
                scheme: (variables[scheme], value)
                for scheme, value in proxies.items()
                if value.strip() and (trust_env or scheme == "vidgen")
            },
            no_proxy=tuple(filter(None, _SEPARATOR.split(excluded.lower()))),
        )

    def proxy_for(self, url: URL) -> URL | None:
        """The proxy for this URL, or None. This machine is always reached directly.

        Raises:
            ConfigurationError: It cannot be used; the message names the variable.
        """
        found = self.setting_for(url)
        if found is None:
            return None
        variable, value = found
        if found == self.proxies.get("vidgen"):
            return proxy_url(value, variable)
        advice = "; NO_PROXY='*' or trust_env=False ignores it"
        return proxy_url(value, f"the proxy of the environment variable {variable}", advice)

    def setting_for(self, url: URL) -> tuple[str, str] | None:
        """The variable that names the proxy for this URL, and its value; None if it is reached directly."""
        if is_on_this_machine(url):
            return None
        if "vidgen" in self.proxies:
            return self.proxies["vidgen"]
        host = (url.host or "").lower().rstrip(".")
        is_excluded = any(_matches(entry, host, url.port) for entry in self.no_proxy)
        return None if is_excluded else self.proxies.get(url.scheme) or self.proxies.get("all")


def _matches(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of NO_PROXY (``*``; a name, its end, an address or a network, maybe with a port) matches."""
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
