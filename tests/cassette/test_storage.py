"""A cassette is stored atomically, after a scan for secrets; otherwise the old one is unchanged."""

import base64
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cassette.planted_secrets import (
    Exchange,
    all_logs,
    answered,
    asked,
    files_in,
    in_base64,
    leaks,
    picture,
    said,
    text_of_error,
)
from tests.cassette.recording_harness import read
from tests.cassette.sample_cassettes import BASE, LINK, boat, changed, document, look, save, save_part
from vidgen_async.cassette import Cassette, Document, Finding, RecordedRequest, load, recover, scan
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import CassetteBusyError, CassetteError, CassetteSecretError
from vidgen_async.redaction.pseudonyms import Secrets
from vidgen_async.transports import AppendingTransport, FakeTransport, RecordingTransport

SECRET = "Zq7-planted-kX9"
TOKEN = "sk-live-aB3dE5fG7hI9jK1lM3"


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "a.cassette.json"


async def recording(path: Path, *exchanges: Exchange, **settings: Any) -> RecordingTransport:
    """A recording that is ready to be published."""
    outcomes = [exchange.outcome for exchange in exchanges]

    async def service(_):
        return outcomes.pop(0)

    inner = FakeTransport(service)
    inner.clock = VirtualClock()
    transport = RecordingTransport(inner, Cassette(path, **settings), auto_publish=False)
    for exchange in exchanges:
        async with await transport.send(exchange.request) as response:
            await response.read()
    return transport


async def published(path: Path, *exchanges: Exchange, **settings: Any) -> Document:
    """The cassette of these exchanges."""
    transport = await recording(path, *exchanges, **settings)
    transport.publish()
    await transport.aclose()
    return load(path)


def with_request(**changes: Any) -> Document:
    request = {"method": "GET", "url": f"{BASE}/videos/task_1"} | changes
    return document(look(1, request=RecordedRequest(**request)))


# -- the scan ----------------------------------------------------------------------------------------------------------

FINDINGS: list[tuple[str, Document]] = [
    ("/interactions/0/request/url", with_request(url=f"{BASE}/videos?token={SECRET}")),
    ("/interactions/0/request/url", with_request(url=f"https://elsewhere.test/a?x={SECRET}")),
    ("/interactions/0/request/url", with_request(url=f"{BASE}/videos?x={SECRET}")),
    ("/interactions/0/request/url", with_request(url=f"https://me:{SECRET}@api.vidgen.test/a")),
    ("/interactions/0/request/headers/0", with_request(headers=(("authorization", SECRET),))),
    ("/interactions/0/request/headers/0", with_request(headers=(("x-api-key", SECRET),))),
    ("/interactions/0/request/body/json/token", with_request(body={"json": {"token": SECRET}})),
    ("/interactions/0/request/body/text", with_request(body={"text": f"token={SECRET}"})),
    ("/interactions/0/response/headers/0", document(look(1, headers=(("set-cookie", f"sid={SECRET}"),)))),
    ("/interactions/0/response/headers/0", document(look(1, headers=(("location", f"{LINK}&more={SECRET}"),)))),
    ("/interactions/0/response/headers/1", document(look(1, headers=(("etag", "1"), ("etag", TOKEN))))),
    ("/interactions/0/response/body/json/a/1/sig", document(look(1, body={"json": {"a": [1, {"sig": SECRET}]}}))),
    ("/interactions/0/response/body/json/pin", document(look(1, body={"json": {"pin": 918273645}}))),
    ("/interactions/0/response/body/json/a", document(look(1, body={"json": {"a": json.dumps({"key": SECRET})}}))),
    ("/interactions/0/response/body/text", document(look(1, body={"text": f"refused: Bearer {SECRET}"}))),
    ("/interactions/0/extra", document(look(1, extra={"extra": f"Bearer {SECRET}"}))),
    ("/meta/base_url", document(look(1), base_url=f"https://me:{SECRET}@api.vidgen.test/openapi/v1")),
    ("/meta/by", document(look(1), extra={"by": TOKEN})),
]


@pytest.mark.parametrize(("where", "made"), FINDINGS, ids=[f"{at}:{where}" for at, (where, _) in enumerate(FINDINGS)])
def test_a_scan_reports_the_pointer_to_a_secret_and_never_its_value(where, made):
    found = scan(made)
    assert [finding.where for finding in found] == [where]
    assert not leaks({"found": repr(found)}, SECRET)
    assert not leaks({"found": repr(found)}, TOKEN)


def test_a_scan_reports_a_secret_that_is_a_name_without_showing_it():
    found = scan(document(look(1, body={"json": {"a": {TOKEN: 1}}})))
    assert found
    assert not leaks({"found": repr(found)}, TOKEN)


@pytest.mark.parametrize(
    "body", [{"b64": "AAFCZWFyZXI="}, {"bytes": 5, "sha256": "0" * 64}, {"text": "ok"}, {"json": []}]
)
def test_a_scan_of_a_cassette_without_secrets_finds_nothing(body):
    assert scan(document(look(1, body=body))) == []
    assert scan(boat()) == []


def test_a_scan_finds_the_known_secrets_of_a_recording():
    secrets = Secrets()
    secrets.hide("ordinary words", "given")
    found = scan(document(look(1, body={"text": "some ordinary words in a text"})), secrets)
    assert found == [Finding("/interactions/0/response/body/text", "known value")]


def test_a_scan_finds_a_secret_in_inline_bytes():
    data = b"\0\1" + TOKEN.encode() + b"\xff"
    made = document(look(1, body={"b64": base64.b64encode(data).decode()}))
    assert scan(made) == [Finding("/interactions/0/response/body", "something in its bytes")]


# -- what is found is not published ------------------------------------------------------------------------------------


async def test_a_recording_with_a_secret_is_not_published_and_nothing_changes(path):
    save(path, boat())
    before = files_in(path.parent)
    transport = await recording(path, said({"a": 1}))
    part = transport.part
    part.write_bytes(part.read_bytes().replace(b'"a":1', f'"a":"Bearer {SECRET}"'.encode()))
    kept = part.read_bytes()

    with all_logs() as lines, pytest.raises(CassetteSecretError) as caught:
        transport.publish()

    assert caught.value.where == "/interactions/0/response/body/json/a"
    assert "/interactions/0/response/body/json/a" in str(caught.value)
    assert not leaks({"error": text_of_error(caught.value), "logs": "\n".join(lines)}, SECRET)
    assert not transport.is_published
    assert files_in(path.parent) == before | {part.name: kept}
    transport.give_up()
    await transport.aclose()


def test_a_recovered_recording_with_a_secret_is_not_published(path):
    save(path, boat())
    before = files_in(path.parent)
    part = save_part(path.with_name(f"{path.name}.part"), changed(boat(), 3, body={"json": {"sig": SECRET}}))

    with pytest.raises(CassetteSecretError) as caught:
        recover(part).publish()

    assert caught.value.where == "/interactions/2/response/body/json/sig"
    assert not leaks({"error": text_of_error(caught.value)}, SECRET)
    assert files_in(path.parent) == before | {part.name: part.read_bytes()}


# -- what was learnt late ----------------------------------------------------------------------------------------------


async def test_a_value_in_another_script_that_is_learnt_late_is_removed_from_bytes(path):
    secret = "пароль-секрет-kX9"
    data = (b"\0\xff" * count + secret.encode() + b"\xff" for count in (9, 3000))
    videos = (Exchange(asked(), answered(video, kind="video/mp4")) for video in data)
    transport = await recording(path, *videos, said({"token": secret}))
    assert not leaks(files_in(path.parent), secret)
    transport.publish()
    await transport.aclose()
    assert [set(interaction.body) for interaction in load(path).interactions[:2]] == [{"bytes", "sha256"}] * 2


async def test_a_rewritten_part_file_is_still_private_and_locked(path):
    transport = await recording(path, said({"a": f"it was {SECRET}"}), Exchange(asked(key=SECRET), answered()))
    assert not leaks(files_in(path.parent), SECRET)
    assert list(files_in(path.parent)) == [transport.part.name]
    assert transport.part.stat().st_mode & 0o777 == 0o600
    with pytest.raises(CassetteBusyError):
        await recording(path, said({}))
    transport.publish()
    await transport.aclose()


async def test_a_value_that_a_request_makes_known_is_removed_before_the_request_is_sent(path):
    found = []

    async def service(_):
        found.append(leaks(files_in(path.parent), SECRET))
        return answered(json.dumps({"a": f"it was {SECRET}"}))

    transport = RecordingTransport(FakeTransport(service), path)
    await read(transport, asked())
    await read(transport, asked(key=SECRET))
    await transport.aclose()
    assert found == [[], []]


async def test_a_value_that_its_own_response_makes_known_is_never_written(path, monkeypatch):
    written, write = [], os.write
    monkeypatch.setattr(os, "write", lambda file, data: written.append(bytes(data)) or write(file, data))
    await published(path, said({"a": f"it was {SECRET}", "token": SECRET}))
    assert written
    assert not leaks({"written": b"".join(written)}, SECRET)


async def test_a_value_that_is_learnt_late_has_one_pseudonym_everywhere(path):
    first = said({"ticket": SECRET, "status": "running"})
    second = Exchange(asked(f"/videos/1?token={SECRET}"), answered())
    made = await published(path, first, second)
    one, other = made.interactions
    assert one.body["json"] == {"ticket": "REDACTED-token-1", "status": "running"}
    assert other.request.url.endswith("/videos/1?token=REDACTED-token-1")


async def test_bytes_without_the_value_that_is_learnt_late_are_unchanged(path):
    data = picture("harmless")
    made = await published(
        path, Exchange(asked(), answered(data, kind="image/png")), Exchange(asked(key=SECRET), answered())
    )
    assert (path.parent / "blobs" / made.interactions[0].body["blob"]).read_bytes() == data


async def test_a_value_on_the_old_cassette_that_is_a_secret_now_is_hidden_when_it_is_appended_to(path):
    save(path, document(look(1, body={"text": "some ordinary words in a text"})))

    async def service(_):
        return answered()

    transport = AppendingTransport(FakeTransport(service), Cassette(path, secrets=["ordinary words"]))
    async with await transport.send(asked()) as response:
        await response.read()
    await transport.aclose()

    assert load(path).interactions[0].body == {"text": "some REDACTED-given-1 in a text"}


async def test_a_blob_that_another_cassette_references_is_not_removed(path):
    data = picture(SECRET)
    other = path.with_name("other.cassette.json")
    await (await recording(other, Exchange(asked(), answered(data, kind="image/png")))).aclose()
    blobs = files_in(path.parent / "blobs")
    made = await published(
        path, Exchange(asked(), answered(data, kind="image/png")), Exchange(asked(key=SECRET), answered())
    )
    assert "blob" not in made.interactions[0].body
    assert files_in(path.parent / "blobs") == blobs


# -- good recordings are published -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "exchanges",
    [
        [Exchange(asked(url="https://cdn.other.test/a.mp4?sig=abcdefghijkl", key=None), answered()),
         said({"next": "https://api.example.test/openapi/v1/videos?page=3"})],
        [Exchange(asked(url="https://api.example.test/another/prefix/models"), answered()),
         said({"next": "https://api.example.test/files?page=3"})],
        [Exchange(asked(url="http://127.0.0.1:8080/openapi/v1/models"), answered()),
         said({"next": "http://127.0.0.1:8080/openapi/v1/videos?page=3"})],
        [Exchange(asked(url="https://api.example.test/openapi/v1/videos?page=2", key=None), answered())],
        [said({SECRET: 1}), said({"token": SECRET, "a": {SECRET: [SECRET]}}),
         Exchange(asked(f"/x?{SECRET}=1"), answered())],
        [said([json.dumps({"data": json.dumps({"access_token": [{"value": SECRET}]})})])],
        [said({"notify": "https://hooks.other.test/services/T0", "webhook_url": "https://cdn.other.test/a?b=c#d=e"})],
        [Exchange(asked(), answered(b"<p>\xfc token=abcdefghijk</p>", kind="text/html"))],
        [said({"token": "Zq7X1dk9"}),
         Exchange(asked(url="https://cdn.other.test/" + in_base64("Zq7X1dk9", b"u", b": and more"), key=None),
                  answered())],
        [said({"token": None, "keys": [], "session": {}, "cookie": "", "password": False})],
    ],
)  # fmt: skip
async def test_a_redacted_recording_is_never_refused_and_a_scan_finds_nothing(exchanges, path):
    made = await published(path, *exchanges)
    assert scan(made) == []


# -- atomically --------------------------------------------------------------------------------------------------------


def _no_space(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail_at(step: str, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    if step == "flush":
        monkeypatch.setattr(os, "fsync", _no_space)
    elif step == "open":
        real_open = os.open
        monkeypatch.setattr(
            os,
            "open",
            lambda path, flags, *rest: _no_space() if flags & os.O_EXCL else real_open(path, flags, *rest),
        )
    else:
        real_replace = Path.replace
        monkeypatch.setattr(
            Path, "replace", lambda self, target: _no_space() if Path(target) == path else real_replace(self, target)
        )


@pytest.mark.parametrize("step", ["open", "flush", "replace"])
@pytest.mark.parametrize("has_old", [True, False])
async def test_at_whatever_step_publishing_fails_the_old_cassette_stays_and_a_retry_works(
    step, has_old, path, monkeypatch
):
    if has_old:
        save(path, boat())
    transport = await recording(path, said({"a": 1}))
    before = files_in(path.parent)
    with monkeypatch.context() as broken:
        fail_at(step, broken, path)
        with pytest.raises(CassetteError, match="cannot be written"):
            transport.publish()
    assert files_in(path.parent) == before
    assert not transport.is_published

    transport.publish()

    assert load(path).interactions[0].body["json"] == {"a": 1}
    assert not transport.part.exists()
    await transport.aclose()


async def test_a_late_value_that_cannot_be_removed_loses_no_response_and_prevents_publication(path, monkeypatch):
    with monkeypatch.context() as broken:
        fail_at("open", broken, path)
        transport = await recording(path, said({"a": f"it was {SECRET}"}), said({"token": SECRET}))
    with pytest.raises(CassetteError, match="incomplete"):
        transport.publish()
    assert not path.exists()
    transport.give_up()
    await transport.aclose()
