"""Signed links to videos on the second origin (2.5, section 5)."""

import base64
import hashlib
import hmac
import secrets
from urllib.parse import parse_qsl, quote

from attrs import define, field

from vidgen_async.sandbox.responses import Refusal

WEEK = 7 * 86400.0


@define
class LinkSigner:
    """Signs links with ``exp`` and ``sig``, and checks them. The secret is random, and part of a stored state."""

    lifetime: float = WEEK
    secret: bytes = field(factory=lambda: secrets.token_bytes(32), repr=False)

    def sign(self, path: str, now: float, lifetime: float | None = None) -> str:
        """Return ``path`` with its query. The signature is Base64 with ``+``, ``/`` and ``=`` percent-encoded, so that
        a client that changes the encoding of a query gets a 401."""
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
