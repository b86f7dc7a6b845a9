"""Eleven secrets where a service and its callers put them, and which of them end up on a disk."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

KEY = "vgKey4fT8xQ2mL7pZ1c"
IDEMPOTENCY_KEY = "vgIdem9wR3nK5yH0sJ6d"
_ASKED_SIG, _ASKED_EXP = "vgAskedSig7bN4vC1xG", "1893455999"
_MOVED_SIG, _COOKIE = "vgMovedSig2kD9fP6tW", "vgCookie5hM8rE3uB0"
_GIVEN_SIG, _TOKEN = "vgGivenSig1qS7jL4oX", "vgToken6zA2gV9iN5"
_ASSET_TOKEN, _HOOK = "vgAsset3eU8cT1mY7", "vgHook0pF5wK2bR9"

#: How each would look on a disk, when white space and backslashes are taken out.
PLANTED: Mapping[str, str] = {
    "Authorization": f"Bearer{KEY}",
    "Idempotency-Key": IDEMPOTENCY_KEY,
    "sig of the URL": _ASKED_SIG,
    "exp of the URL": _ASKED_EXP,
    "sig in Location": _MOVED_SIG,
    "Set-Cookie": _COOKIE,
    "sig in a JSON answer": _GIVEN_SIG,
    "token in a JSON answer": _TOKEN,
    "token of an asset's URL": _ASSET_TOKEN,
    "webhook in a JSON request": _HOOK,
    "key in an error's text": f"key={KEY}",
}


@frozen
class Exchange:
    """One request, and the answer that the service has for it."""

    method: str
    path: str
    answer: Mapping[str, object]
    status: int = 200
    answer_headers: Mapping[str, str] = field(factory=dict)
    headers: Mapping[str, str] = field(factory=dict)
    body: Mapping[str, object] | None = None

    @property
    def answer_body(self) -> bytes:
        return json.dumps(self.answer).encode()


EXCHANGES = (
    Exchange(
        "POST",
        "/videos",
        {"id": "task-1", "asset": {"url": f"/api/reference-assets/a1/content/cat.png?token={_ASSET_TOKEN}"}},
        status=202,
        answer_headers={"Set-Cookie": f"session={_COOKIE}; Path=/"},
        headers={"Idempotency-Key": IDEMPOTENCY_KEY},
        body={"model": "gen-2.0", "prompt": "a cat", "webhook": f"https://hooks.test/done?key={_HOOK}"},
    ),
    Exchange("GET", "/videos/task-1", {"video_url": f"https://cdn.test/1.mp4?sig={_GIVEN_SIG}", "token": _TOKEN}),
    Exchange(
        "GET",
        f"/files/1.mp4?exp={_ASKED_EXP}&sig={_ASKED_SIG}",
        {},
        status=307,
        answer_headers={"Location": f"https://cdn.test/1.mp4?sig={_MOVED_SIG}"},
    ),
    Exchange("GET", "/account", {"error": {"message": f"unknown API key={KEY}"}}, status=401),
)


def leaked(directory: Path) -> list[str]:
    """The places whose secret stands in a file below ``directory``."""
    files = (path.read_bytes() for path in directory.rglob("*") if path.is_file())
    found = "\n".join(re.sub(r"[\s\\]+", "", data.decode("utf-8", "replace")) for data in files)
    return [place for place, text in PLANTED.items() if text in found]
