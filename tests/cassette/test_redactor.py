"""What the redactor hides and what it does not, and that a redacted response still leads to the next request."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cassette.planted_secrets import BASE, ELSEWHERE, Exchange, answered, record, sent
from tests.media.sites import video
from vidgen_async import Client
from vidgen_async.cassette import Cassette, Document, load
from vidgen_async.cassette.body_decoding import body_bytes
from vidgen_async.cassette.body_encoding import BodyCapture, answer_body
from vidgen_async.cassette.redactor import FOREVER, Redactor
from vidgen_async.clock import VirtualClock
from vidgen_async.redaction.secret_names import find_secret_form
from vidgen_async.transports import BufferedResponse, FakeTransport, RecordingTransport, ReplayTransport
from vidgen_async.types.http import Request, make_headers

SIGNED = f"{ELSEWHERE}/v/1.mp4?exp=1798761600&sig=aB3dE5fG7hI9"
TASK = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
PICTURE = Path(__file__).resolve().parents[2] / "examples" / "boat.png"


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(origin="https://api.example.test")


async def recorded(directory: Path, *exchanges: Exchange, **settings: Any) -> Document:
    left = await record(exchanges, directory, **settings)
    assert not left.errors
    return load(left.path)


def without_numbers(text: str) -> str:
    return re.sub(r"(REDACTED-[a-z]+)-\d+", r"\1", text)


# -- headers ---------------------------------------------------------------------------------------------------------


def test_only_headers_on_the_list_are_recorded_in_their_order_with_their_duplicates(redactor):
    dropped = [
        ("Authorization", "Bearer abcdefgh"),
        ("Cookie", "a=b"),
        ("X-New", "1"),
        ("Server", "x"),
        ("Date", "now"),
    ]
    kept = [
        ("ETag", '"abc"'),
        ("Retry-After", "5"),
        ("X-RateLimit-Left", "7"),
        ("ETag", 'W/"x"'),
        ("Range", "bytes=1-"),
    ]
    ids = [("X-Request-Id", name) for name in ("req-17", "req-18", "req-17")]
    assert redactor.headers(make_headers([*dropped, *kept, ("Location", SIGNED), *ids])) == (
        *((name.lower(), value) for name, value in kept),
        ("location", f"{ELSEWHERE}/v/1.mp4?exp={FOREVER}&sig=REDACTED-sig-1"),
        *(("x-request-id", f"REDACTED-request-{number}") for number in (1, 2, 1)),
    )


@pytest.mark.parametrize(
    "header",
    [
        {"Authorization": "Bearer Zq7-secret-k9"},
        {"Authorization": "Basic bWU6WnE3LXNlY3JldC1rOQ=="},
        {"Cookie": "a=1; sid=Zq7-secret-k9"},
        {"Set-Cookie": "sid=Zq7-secret-k9; Path=/"},
        {"X-Api-Key": "Zq7-secret-k9"},
    ],
)
def test_a_secret_in_a_header_is_hidden_everywhere_else_too(redactor, header):
    assert redactor.headers(make_headers(header)) == ()
    assert "Zq7" not in redactor.text("refused for Zq7-secret-k9")


# -- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (f"{BASE}/videos/task_1", f"{BASE}/videos/task_1"),
        (f"{BASE}/videos?page=2&limit=50", f"{BASE}/videos?page=2&limit=50"),
        (f"{BASE}/videos?page=2&token=abcdefg", f"{BASE}/videos?page=2&token=REDACTED-token-1"),
        (f"{BASE}/videos?token=", f"{BASE}/videos?token="),
        (f"{BASE}/videos?exp=1798761600", f"{BASE}/videos?exp={FOREVER}"),
        (f"{BASE}/videos?download;sig=xyzxyz", f"{BASE}/videos?download;sig=REDACTED-sig-1"),
        (f"{BASE}/videos?page=2&hdnts=abcdefg", f"{BASE}/videos?page=2&hdnts=REDACTED-hdnts-1"),
        (f"{BASE}/videos?imageId=img_1&new=7", f"{BASE}/videos?imageId=img_1&new=REDACTED-new-1"),
        (f"{BASE}/videos?abcdefg", f"{BASE}/videos?REDACTED-query-1"),
        ("/api/x?upsig=abcdefg&pw=dog", "/api/x?upsig=REDACTED-upsig-1&pw=REDACTED-pw-1"),
        ("/api/x?token=abcdefg&page=2", "/api/x?token=REDACTED-token-1&page=2"),
        (f"{ELSEWHERE}/a.mp4?anything=abcdefg", f"{ELSEWHERE}/a.mp4?anything=REDACTED-anything-1"),
        (f"{ELSEWHERE}/a.mp4?abcdefg", f"{ELSEWHERE}/a.mp4?REDACTED-query-1"),
        (
            f"{ELSEWHERE}/cb#access_token=abcdefg&x=1",
            f"{ELSEWHERE}/cb#access_token=REDACTED-accesstoken-1&x=REDACTED-x-1",
        ),
        (f"{ELSEWHERE}/a.mp4#t=10", f"{ELSEWHERE}/a.mp4#t=REDACTED-t-1"),
        ("https://me:pass-word@cdn.other.test/a", "https://cdn.other.test/a"),
        ("https://hooks.other.test/services/T0/B0/x", "https://hooks.other.test/REDACTED-webhook-1"),
        ("https://hooks.other.test/", "https://hooks.other.test/"),
    ],
)
def test_only_the_secret_parts_of_an_address_are_hidden(redactor, address, shown):
    assert redactor.url(address) == shown


def test_an_address_is_redacted_in_the_same_way_in_every_place(redactor):
    shown = redactor.url(SIGNED)
    assert redactor.json({"video_url": SIGNED})["video_url"] == shown
    assert redactor.text(f"see {SIGNED} now") == f"see {shown} now"
    assert json.loads(redactor.json({"inner": json.dumps([SIGNED])})["inner"]) == [shown]


def test_an_address_in_another_encoding_has_the_same_pseudonym(redactor):
    one, other = (redactor.url(f"{BASE}/x?token={value}") for value in ("a%2Fb%2Bcdef", "a/b+cdef"))
    assert one == other == f"{BASE}/x?token=REDACTED-token-1"


def test_a_password_in_an_address_is_hidden_everywhere_else_too(redactor):
    redactor.url("https://me:pass%2Dword%21@cdn.other.test/a")
    assert "pass-word!" not in redactor.text("refused: pass-word! is wrong")


def test_before_the_service_is_known_every_address_is_redacted_as_foreign():
    assert Redactor().url(f"{BASE}/x?page=two-and-more") == f"{BASE}/x?page=REDACTED-page-1"


# -- JSON ------------------------------------------------------------------------------------------------------------


def test_an_expiry_stays_a_number_in_the_future(redactor):
    value = {"exp": 1798761600, "expires_at": "2026-12-31T00:00:00Z", "expires": 1798761600000, "a": {"exp": 1.5}}
    shown = redactor.json(value)
    assert shown["exp"] == shown["a"]["exp"] == FOREVER
    assert shown["expires"] == FOREVER * 1000
    assert shown["expires_at"].startswith("2100-01-01")


def test_values_below_a_secret_name_are_hidden_at_any_depth(redactor):
    shown = redactor.json({"session": {"id": "s-1", "list": [{"n": 77}, True, None]}})
    assert json.dumps(shown).count("REDACTED") == 2
    assert shown["session"]["list"][1:] == [True, None]


def test_an_address_under_a_secret_name_keeps_its_host(redactor):
    shown = redactor.json({"webhook_url": f"{ELSEWHERE}/a/b?c=d"})["webhook_url"]
    assert shown.startswith(f"{ELSEWHERE}/REDACTED-")


def test_the_words_of_the_service_stay_readable(redactor):
    value = {
        "id": TASK,
        "task_id": TASK,
        "status": "completed",
        "model": "sd_2_5_once_720p",
        "points": 57,
        "failure_reason": None,
        "image_id": "img_8c1f2a",
        "upstream_task_id": "up-77",
        "created_at": 1796000000,
        "balance": 1234.5,
        "enabled": True,
        "maxReferenceImages": 9,
        "error": {"code": "REFERENCE_ASSET_EXPIRED", "message": "the asset has expired; upload the file again"},
        "prompt": "a cat in basic clothing holds a bearer token of love; secret: garden, password: dragon",
        "total_tokens": 17,
    }
    assert redactor.json(value) == value


@pytest.mark.parametrize(
    ("said_before", "word"),
    [
        ({"message": "token: expired"}, "REFERENCE_ASSET_EXPIRED"),
        ({"session_state": "completed"}, "completed"),
        ({"token_type": "bearer"}, "bearer"),
        ({"auth": {"method": "required"}}, "required"),
        ({"password": "null"}, "null"),
        ({"url": f"{ELSEWHERE}/a.mp4?response-content-type=video%2Fmp4&sig=abcdef12345"}, "video/mp4"),
        ({"url": f"{ELSEWHERE}/a.mp4?X-Amz-Expires=604800&X-Amz-Signature=abcdef12345"}, "604800"),
        ({"url": f"{ELSEWHERE}/a.mp4?quality=running&sig=abcdef12345"}, "running"),
        ({"url": f"{ELSEWHERE}/a.mp4?size=1920x1080&sig=abcdef12345"}, "1920x1080"),
    ],
)
def test_an_ordinary_word_under_a_secret_name_stays_readable_elsewhere(redactor, said_before, word):
    redactor.json(said_before)
    assert redactor.text(f"it is {word}") == f"it is {word}"


@pytest.mark.parametrize("address", [f"{ELSEWHERE}/v/{TASK}/a.mp4?sig=abcdef12345", f"{ELSEWHERE}/a.mp4?task={TASK}"])
def test_a_task_id_in_an_address_on_another_host_stays_readable(redactor, address):
    shown = redactor.json({"id": TASK, "video_url": address})
    assert shown["id"] == TASK
    assert redactor.url(f"{BASE}/videos/{TASK}") == f"{BASE}/videos/{TASK}"


def test_image_data_in_a_request_becomes_a_digest_that_differs_for_other_images(redactor):
    one, same, other = (
        redactor.json({"image_b64": f"data:image/png;base64,{data * 60}"}, is_request=True)["image_b64"]
        for data in ("AAAA", "AAAA", "BBBB")
    )
    assert one == same != other
    assert one.startswith("data:image/png;base64,sha256:")
    assert len(one) < 120


def test_a_second_redaction_changes_nothing():
    value = {"url": SIGNED, "token": "abcdefgh", "m": f"Bearer abcdefgh12345 and {SIGNED}", "exp": 1798761600}
    once = Redactor().json(value)
    assert Redactor(is_numbered=False).json(once) == once


# -- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["sig=sk-live-aaaaaaaaaaaaaaaaaaaaaa.SECRET1", "token=eyJhbGciOi.eyJzdWIi.aaa:SECRET1"]
)
def test_a_secret_that_begins_like_another_is_hidden_completely(redactor, text):
    assert "SECRET1" not in redactor.text(text)


@pytest.mark.parametrize("written", ["https:%s", "see https:%s, or not", "a=1 %s"])
def test_a_text_without_secrets_stays_as_it_is(redactor, written):
    text = written % "//api.example.test/a?mode=c%2Fd&page=f&amp;download \\ \\u00e4 \r\n\t end"
    assert redactor.text(text) == text


# -- bodies ----------------------------------------------------------------------------------------------------------


TEXTS = st.text("abcxyzAZ0189 ,.:;-_/\\\"'<>&%+={}[]\0\b\n\r\t\x7f\x80äß\u2028\ufeffЖ船😀\ud800\udfff", max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(JSON, st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}]))
def test_any_json_without_secret_names_is_replayed_byte_for_byte(value, style):
    data = json.dumps(value, **style).encode("utf-8", "surrogatepass")
    capture = BodyCapture(1 << 20)
    capture.add(data)
    body, _ = answer_body(capture, make_headers({"Content-Type": "application/octet-stream"}), Redactor())
    assert body_bytes(json.loads(json.dumps(body))) == data


# -- prompts ---------------------------------------------------------------------------------------------------------


async def test_prompts_are_recorded_by_default(tmp_path):
    document = await recorded(tmp_path, sent({"prompt": "a basic boat: token of dawn", "model": "gen-2.0"}))
    assert document.interactions[0].request.body["json"]["prompt"] == "a basic boat: token of dawn"


async def test_only_the_secret_in_a_prompt_is_hidden(tmp_path):
    document = await recorded(tmp_path, sent({"prompt": "a boat with sk-live-aB3dE5fG7hI9jK1lM3 on it"}))
    prompt = document.interactions[0].request.body["json"]["prompt"]
    assert without_numbers(prompt) == "a boat with REDACTED-key on it"


async def test_different_prompts_have_different_pseudonyms(tmp_path):
    document = await recorded(
        tmp_path,
        *(sent({"prompt": text, "n": 1}) for text in ("one boat", "another boat", "one boat")),
        prompts="pseudonym",
    )
    prompts = [interaction.request.body["json"]["prompt"] for interaction in document.interactions]
    assert prompts == [f"REDACTED-prompt-{number}" for number in (1, 2, 1)]


# -- from an answer to the next request ------------------------------------------------------------------------------

ASSET = "https://api.example.test/api/reference-assets/as_1/content/boat.png?token=tK9mQ2xW7e"
LINKS = [f"{ELSEWHERE}/v/task-1.mp4?exp=1798761600&sig={sig}" for sig in ("aB3dE5fG7hI9", "zY8xW6vU4tS2")]
HOP = f"{ELSEWHERE}/hop?sig=hOp1hOp2hOp3"


class Service:
    """A service for a complete order; a link is valid once the one before it was refused."""

    def __init__(self) -> None:
        self.refused = 0
        self.film = video(5000)

    async def __call__(self, request: Request) -> BufferedResponse:
        url = str(request.url)
        if request.url.host == "cdn.other.test":
            return self._elsewhere(url)
        if url.endswith("/files"):
            asset = {"id": "as_1", "image_id": "as_1", "url": ASSET, "mime": "image/png", "name": "boat.png"}
            return answered(json.dumps(asset))
        if request.method == "POST":
            return answered(json.dumps({"id": "task-1", "status": "queued"}), status=202)
        if url.endswith("/content"):
            return answered(b"", status=307, headers=[("Location", HOP)])
        return answered(json.dumps({"id": "task-1", "model": "vendorh3", "status": "completed", "points": 12,
                                    "video_url": LINKS[self.refused]}))  # fmt: skip

    def _elsewhere(self, url: str) -> BufferedResponse:
        if url == HOP:
            return answered(b"", status=302, headers=[("Location", LINKS[self.refused])])
        if url == LINKS[0]:
            self.refused = 1
            return answered('{"message": "invalid signature aB3dE5fG7hI9"}', status=401)
        assert url == LINKS[1]
        return answered(self.film, kind="video/mp4", headers=[("Content-Length", str(len(self.film)))])


async def journey(client: Client, target: Path) -> str:
    asset = await client.files.upload(PICTURE)
    receipt = await client.videos.create(
        model="vendorh3", prompt="a boat", duration=5, image_urls=[str(asset.url)], validate=False
    )
    task = await client.videos.wait(receipt)
    await client.videos.download(task, to=target)
    return str(task.video_url)


@pytest.mark.parametrize("prompts", ["keep", "pseudonym"])
async def test_requests_made_from_redacted_links_match_their_interactions(prompts, tmp_path):
    cassette = Cassette(tmp_path / "a.cassette.json", prompts=prompts)
    service = Service()
    inner = FakeTransport(service)
    inner.clock = VirtualClock()
    async with Client("the-real-key-1", base_url=BASE, transport=RecordingTransport(inner, cassette)) as client:
        live = await journey(client, tmp_path / "live.mp4")
    replay = ReplayTransport(cassette)

    async with Client("any-key-will-do", base_url=replay.base_url, transport=replay) as client:
        played = await journey(client, tmp_path / "played.mp4")

    replay.check()
    assert live == LINKS[0]
    assert f"exp={FOREVER}&sig=REDACTED-sig-" in played
    assert (tmp_path / "played.mp4").read_bytes() == (tmp_path / "live.mp4").read_bytes() == service.film
    text = cassette.path.read_text()
    assert '"task-1"' in text
    for secret in ("aB3dE5fG7hI9", "zY8xW6vU4tS2", "hOp1hOp2hOp3", "tK9mQ2xW7e", "the-real-key-1"):
        assert secret not in text


# -- bounds ----------------------------------------------------------------------------------------------------------


HOSTILE = [
    "a", "\\", "-", "%25", "&amp;", "a.b-c+d", "token=", "key-", "eyJ", "https://", "a: ",
    "-----BEGIN PRIVATE KEY-----", "{[",
]  # fmt: skip


@pytest.mark.needs_dev
def test_redaction_of_a_hostile_text_takes_linear_time():
    length, took = 80_000, {}
    texts = {piece: (piece * length)[:length] for piece in HOSTILE}
    texts |= {"a long path": f"{ELSEWHERE}/{'a' * length}", "a long domain": "a" * 60 + "@" + "b." * (length // 3)}
    for name, text in texts.items():
        redactor, started = Redactor(origin="https://api.example.test"), time.thread_time()
        redactor.json({"a": text})
        took[name] = time.thread_time() - started
    # Many times as long as it takes; what grows with the square of the length takes longer.
    assert max(took.values()) < 5, took


def test_a_pseudonym_next_to_other_letters_is_not_hidden_as_a_key():
    assert find_secret_form("REDACTED-key-1AAAABBBBCCCCDDDDEEEE") is None
    assert find_secret_form("key-1AAAABBBBCCCCDDDDEEEE") == "key"
