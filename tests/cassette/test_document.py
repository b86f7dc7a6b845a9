"""The file format: what is stored, what is invalid, and where large bodies are."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.cassette.recording_harness import (
    NO_BLOB,
    Pieces,
    Timed,
    ask,
    cassette_of,
    counting,
    in_turn,
    interactions_of,
    noise,
    post,
    read,
    record,
    says,
    twice,
    video,
)
from tests.media.sites import video as made_video
from vidgen_async.cassette import Cassette, load
from vidgen_async.errors import CassetteInvalidError
from vidgen_async.transports import (
    AppendingTransport,
    BufferedResponse,
    FakeTransport,
    RecordingTransport,
    ReplayTransport,
)
from vidgen_async.types.http import CHUNK, Request

END = CHUNK


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "one.json"


async def played(path: Path | Cassette, request: Request | None = None) -> bytes:
    return await read(ReplayTransport(path), request or ask())


# -- the file ----------------------------------------------------------------------------------------------------------


async def test_a_cassette_is_one_indented_json_document_with_a_format_and_a_version(path):
    await record(path, counting(), [ask(), post({"prompt": "ein Schiff aus Pappe, groß"})])

    text = path.read_text("utf-8")

    assert text.startswith('{\n "format": "vidgen-cassette",\n "version": 1,\n "meta": {\n')
    assert text.endswith("}\n")
    assert '"prompt": "ein Schiff aus Pappe, groß"' in text
    assert [line for line in text.splitlines() if '"t": [' in line and line.endswith("],")]
    assert sorted(entry.name for entry in path.parent.iterdir()) == [path.name]


async def test_the_document_has_the_times_and_the_service_of_the_recording(path):
    inner = Timed(in_turn(says({"a": 1})))

    await record(path, inner, [ask()])

    document = load(path)
    [one] = document.interactions
    assert document.meta.recorded_at == inner.clock.wall() == ReplayTransport(path).clock.wall()
    assert document.meta.base_url == document.meta.origin + "/openapi/v1" == "https://service.test/openapi/v1"
    assert (one.n, one.op, one.status) == (1, "videos.get", 200)
    assert (one.started, one.answered, one.ended) == (0.0, 0.0, 0.0)


def digest(data: bytes) -> dict[str, object]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def stored(data: bytes) -> dict[str, object]:
    return {"blob": f"sha256-{hashlib.sha256(data).hexdigest()}.mp4", **digest(data), "stored": "all"}


LONG = noise(256_000)
PICTURE = {"image_b64": f"data:image/png;base64,{'QUJD' * 100}"}
#: A request and its response; how each is on the cassette, and the body of the response in a replay if it differs.
RECORDED = {
    "JSON": (
        ask("/videos/x?status=failed&page=1"), says({"a": 1}, Retry_After="5"),
        {"method": "GET", "url": "https://service.test/openapi/v1/videos/x?status=failed&page=1"},
        {"status": 200, "headers": ["content-type: application/json", "retry-after: 5"],
         "body": {"json": {"a": 1}, "style": "spaced"}}, None,
    ),
    "JSON with a secret": (
        post(b'{"a":1.0}'), says(b'{"a":1.0,"token":"abcdefghijklmnop"}', Content_Length="36"),
        {"method": "POST", "url": "https://service.test/openapi/v1/videos",
         "body": {"json": {"a": 1.0}, "style": "compact"}},
        {"status": 200, "headers": ["content-type: application/json", "content-length: 36"],
         "body": {"json": {"a": 1.0, "token": "REDACTED-token-1"}, "style": "compact", "redacted": True}},
        b'{"a":1.0,"token":"REDACTED-token-1"}',
    ),
    "a longer pseudonym": (
        ask("/videos/y"), says(b'{"token":"qrstuvw"}', Content_Length="19"),
        {"method": "GET", "url": "https://service.test/openapi/v1/videos/y"},
        {"status": 200, "headers": ["content-type: application/json", "content-length: 28"],
         "body": {"json": {"token": "REDACTED-token-2"}, "style": "compact", "redacted": True}},
        b'{"token":"REDACTED-token-2"}',
    ),
    "an upload": (
        ask("/files", method="POST", body=Pieces(LONG)), says(b"", 304),
        {"method": "POST", "url": "https://service.test/openapi/v1/files", "body": digest(LONG)},
        {"status": 304, "headers": ["content-type: application/json"]}, None,
    ),
    "an image in JSON": (
        ask("/files", method="POST", body=PICTURE), says(b"\0\1\xff"),
        {"method": "POST", "url": "https://service.test/openapi/v1/files",
         "body": {"json": {"image_b64": "data:image/png;base64,sha256:"
                           f"{hashlib.sha256(PICTURE['image_b64'].encode()).hexdigest()}:422"},
                  "style": "spaced", "redacted": True}},
        {"status": 200, "headers": ["content-type: application/json"], "body": {"b64": "AAH/"}}, None,
    ),
    "a page in another encoding": (
        ask("/page"), says(b"b\xf6se", 502, Content_Type="text/html"),
        {"method": "GET", "url": "https://service.test/openapi/v1/page"},
        {"status": 502, "headers": ["content-type: text/html"], "body": {"text": "böse", "charset": "latin-1"}}, None,
    ),
    "a video": (
        ask("/content"), lambda: video(LONG), {"method": "GET", "url": "https://service.test/openapi/v1/content"},
        {"status": 200, "headers": ["content-type: video/mp4", "content-length: 256000"], "body": stored(LONG)}, None,
    ),
    "bytes with a secret": (
        ask("/secret"), lambda: video(b"\0\xff" * 3000 + b"my-given-secret"),
        {"method": "GET", "url": "https://service.test/openapi/v1/secret"},
        {"status": 200, "headers": ["content-type: video/mp4", "content-length: 6015"],
         "body": digest(b"\0\xff" * 3000 + b"my-given-secret")}, bytes(6015),
    ),
}  # fmt: skip


async def test_each_request_and_response_is_stored_and_replayed_as_documented(path):
    cassette = Cassette(path, secrets=["my-given-secret"])
    asked = [request for request, *_ in RECORDED.values()]
    recording = RecordingTransport(in_turn(*(answer for _, answer, *_ in RECORDED.values())), cassette)
    live = [await read(recording, request) for request in asked]
    await recording.aclose()
    replay = ReplayTransport(cassette)
    responses = [await replay.send(request) for request in asked]

    for name, one, response, body in zip(RECORDED, interactions_of(path), responses, live, strict=True):
        *_, request_form, response_form, other_body = RECORDED[name]
        assert (one["request"], one["response"]) == (request_form, response_form), name
        assert response.status == response_form["status"], name
        assert [f"{key}: {text}" for key, text in response.headers.items()] == response_form["headers"], name
        assert await response.read() == (body if other_body is None else other_body), name
    assert [file.name for file in cassette.blobs.iterdir()] == [stored(LONG)["blob"]]
    assert path.stat().st_size < 8000


@pytest.mark.parametrize(
    "place",
    ["", "/meta", "/interactions/0", "/interactions/0/request", "/interactions/0/response", "/interactions/0/error"],
)
async def test_unknown_fields_are_preserved_when_a_cassette_is_written_again(path, place):
    await record(path, counting(), [ask()])
    data = cassette_of(path)
    data["interactions"][0]["error"] = {"type": "BodyError", "delivery": "answered", "phase": "body", "message": ""}
    found = data
    for name in place.split("/")[1:]:
        found = found[int(name)] if name.isdigit() else found[name]
    found["from_the_future"] = {"kept": [1, 2]}
    path.write_text(json.dumps(data), "utf-8")

    transport = AppendingTransport(counting(), path)
    await read(transport, ask("/account"))
    await transport.aclose()

    found = cassette_of(path)
    assert len(found["interactions"]) == 2
    for name in place.split("/")[1:]:
        found = found[int(name)] if name.isdigit() else found[name]
    assert found["from_the_future"] == {"kept": [1, 2]}


# -- damage ------------------------------------------------------------------------------------------------------------

FIRST = "/interactions/0"
BODY = f"{FIRST}/response/body"

SAME_ORDINAL = [
    {"n": 1, "op": "x", "request": {"method": "GET", "url": "/"}, "response": {"status": 200, "headers": []}}
] * 2
DAMAGES = {
    "another format": ("/format", "/format", "vcr"),
    "a version that is a text": ("/version", "/version", "1"),
    "a version that is no number": ("/version", "/version", True),
    "version 0": ("/version", "/version", 0),
    "a newer version": ("/version", "/version", 2),
    "meta that is a list": ("/meta", "/meta", []),
    "a time that is none": ("/meta/recorded_at", "/meta/recorded_at", "soon"),
    "a base URL that is a number": ("/meta/base_url", "/meta/base_url", 5),
    "a base URL that is none": ("/meta/base_url", "/meta/base_url", "nonsense"),
    "a base URL with an odd port": ("/meta/base_url", "/meta/base_url", "http://service.test:port/openapi/v1"),
    "interactions that are an object": ("/interactions", "/interactions", {}),
    "an interaction that is a number": (FIRST, FIRST, 5),
    "an ordinal that is a text": (f"{FIRST}/n", FIRST, "1"),
    "an op that is a number": (f"{FIRST}/op", FIRST, 1),
    "a request that is a number": (f"{FIRST}/request", f"{FIRST}/request", 1),
    "a URL that is a number": (f"{FIRST}/request/url", f"{FIRST}/request", 1),
    "a method that is a number": (f"{FIRST}/request/method", f"{FIRST}/request", 1),
    "a request's body that is a list": (f"{FIRST}/request/body", f"{FIRST}/request/body", []),
    "a response that is a number": (f"{FIRST}/response", f"{FIRST}/response", 5),
    "no response": (f"{FIRST}/response", FIRST, None),
    "a status that is a text": (f"{FIRST}/response/status", f"{FIRST}/response/status", "200"),
    "a header without a colon": (f"{FIRST}/response/headers", f"{FIRST}/response/headers", ["no colon"]),
    "headers that are no texts": (f"{FIRST}/response/headers", f"{FIRST}/response/headers", [["a"]]),
    "headers that are a number": (f"{FIRST}/response/headers", f"{FIRST}/response/headers", 5),
    "two interactions with one ordinal": ("/interactions", "/interactions", SAME_ORDINAL),
    "two times": (f"{FIRST}/t", f"{FIRST}/t", [1, 2]),
    "a time before the recording": (f"{FIRST}/t", f"{FIRST}/t", [-1, 0, 0]),
    "an immense time": (f"{FIRST}/t", f"{FIRST}/t", [1e300, 0, 0]),
    "an endless time": (f"{FIRST}/t", f"{FIRST}/t", [0, float("inf"), 0]),
    "a year of no calendar": ("/meta/recorded_at", "/meta/recorded_at", "9999-01-01T00:00:00Z"),
    "times that are texts": (f"{FIRST}/t", f"{FIRST}/t", ["1", "2", "3"]),
    "a body that is a list": (BODY, BODY, []),
    "a body of no kind": (BODY, BODY, {}),
    "a text that is a number": (BODY, BODY, {"text": 5}),
    "Base64 that is none": (BODY, BODY, {"b64": "!!!"}),
    "Base64 that is a number": (BODY, BODY, {"b64": 5}),
    "JSON in an unknown style": (BODY, BODY, {"json": {}, "style": "odd"}),
    "JSON in a style that is a list": (BODY, BODY, {"json": {}, "style": []}),
    "a blob without a length": (BODY, BODY, {"blob": NO_BLOB, "stored": "all"}),
    "a blob that is a number": (BODY, BODY, {"blob": 5, "bytes": 3, "stored": "all"}),
    "a blob elsewhere": (BODY, BODY, {"blob": "../../one.json", "bytes": 3, "stored": "all"}),
    "a blob that is missing": (BODY, BODY, {"blob": NO_BLOB, "bytes": 3, "stored": "all"}),
    "a length that is a text": (BODY, BODY, {"bytes": "many"}),
    "a length below nothing": (BODY, BODY, {"bytes": -5}),
    "ends without lengths": (BODY, f"{BODY}/ends", {"blob": NO_BLOB, "bytes": 3, "stored": "ends"}),
    "a blob that is not stored": (BODY, f"{BODY}/ends", {"blob": NO_BLOB, "bytes": 3}),
    "ends that are a text": (BODY, BODY, {"blob": NO_BLOB, "bytes": 5, "stored": "ends", "ends": "ab"}),
    "an error that is a number": (f"{FIRST}/error", f"{FIRST}/error", 5),
    "an error without a type": (f"{FIRST}/error", f"{FIRST}/error", {"type": 5}),
    "an error of an unknown delivery": (
        f"{FIRST}/error", f"{FIRST}/error", {"type": "ConnectError", "delivery": "perhaps", "phase": "wait"}
    ),
}  # fmt: skip


async def damage_told(path: Path, place: str, damage: object) -> CassetteInvalidError | None:
    """The error of a replay of the cassette with another value at this pointer."""
    data = cassette_of(path)
    *way, last = place.split("/")[1:]
    found = data
    for name in way:
        found = found[int(name)] if name.isdigit() else found[name]
    found[int(last) if last.isdigit() else last] = damage
    damaged = path.with_name("damaged.json")
    damaged.write_text(json.dumps(data), "utf-8")
    try:
        await played(damaged)
    except CassetteInvalidError as error:
        return error if error.path == str(damaged) and str(damaged) in str(error) else None
    return None


async def test_the_error_for_a_damaged_cassette_has_the_pointer_to_the_invalid_field(path):
    await record(path, counting(), [ask()])
    told = {name: await damage_told(path, place, damage) for name, (place, _, damage) in DAMAGES.items()}

    wrong = {
        name: error and error.pointer
        for name, error in told.items()
        if error is None or not error.pointer.startswith(DAMAGES[name][1])
    }
    assert wrong == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"5", b"\xff\xfe{}", b"[" * 100_000, b"version: 1\ninteractions: []\n"],
    ids=["empty", "torn", "a list", "a number", "no UTF-8", "too deep", "YAML"],
)
def test_the_error_for_another_file_names_its_path(path, content):
    path.parent.mkdir()
    path.write_bytes(content)

    with pytest.raises(CassetteInvalidError) as caught:
        ReplayTransport(path)

    assert str(path) in str(caught.value)


# -- bodies, byte by byte ----------------------------------------------------------------------------------------------

TEXTS = {
    "every byte": bytes(range(256)),
    "no text": b"\xff\xfe\x00\x01",
    "a BOM": b"\xef\xbb\xbf" + b'{"a": 1}',
    "NUL": b"before\0after",
    "CRLF": b"one\r\ntwo\rthree\n",
    "surrogates of JSON": b'{"a": "\\ud800 alone", "b": "\\udc00"}',
    "surrogates in CESU-8": b"\xed\xa0\x80",
    "compact JSON": '{"a":"ä","b":[1,2.0,1e3,true,null]}'.encode(),
    "spaced JSON": b'{"a": "\\u00e4", "b": [1, 2.5]}',
    "pretty JSON": b'{\n  "a": 1\n}\n',
    "JSON with a key twice": b'{"a": 1, "a": 2}',
    "JSON with long numbers": b'{"a": 1.10, "b": 123456789012345678901234567890, "c": -0.0, "d": 1E5}',
    "no JSON in truth": b'{"a": NaN, "b": Infinity}',
    "a JSON text": b'"a text"',
    "JSON in lines": b'{\r\n  "a": 1\r\n}\r\n',
    "JSON without its secret": b'{\n "token": null,\n "b": 1\n}',
    "a number of many digits": b'{"n":' + b"9" * 5000 + b"}",
    "JSON that is deep": b'{"a":' * 400 + b"1" + b"}" * 400,
    "brackets that are deep": b"[" * 900 + b"]" * 900,
    "a number alone": b"17",
    "control characters": b"not json\r\n\r\nat all \x7f \x1b[0m",
    "many bytes": bytes(range(256)) * 40,
    "UTF-16": b"\xff\xfe{\0}\0",
    "a page": b"<html><body>502 Bad Gateway</body></html>",
    "nothing": b"",
    "one byte": b"\n",
}


@pytest.mark.parametrize("media", ["application/json", "application/octet-stream", "text/plain; charset=latin-1"])
async def test_a_body_without_secrets_is_replayed_byte_by_byte(path, media):
    answers = [says(body, Content_Type=media) for body in TEXTS.values()]
    await record(path, in_turn(*answers), [ask(f"/videos/{at}") for at in range(len(TEXTS))])
    replay = ReplayTransport(path)

    got = {name: await read(replay, ask(f"/videos/{at}")) for at, name in enumerate(TEXTS)}
    assert {name: body for name, body in got.items() if body != TEXTS[name]} == {}


@pytest.mark.parametrize("length", [2048, 2049, CHUNK, 2 * CHUNK, 2 * CHUNK + 1, 300_000])
async def test_binary_bodies_up_to_the_limit_are_stored_completely(path, length):
    data = noise(length)
    await record(path, in_turn(lambda: video(data)), [ask()])

    assert await played(path) == data


# -- large bodies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [200_001, 1_000_000, 7 * CHUNK, 3 * CHUNK + 1])
async def test_a_body_above_the_limit_is_replayed_with_its_length_and_its_ends(path, length):
    data = noise(length)
    cassette = Cassette(path, largest_blob=150_000)
    await record(cassette, in_turn(lambda: video(data)), [ask()])

    response = await ReplayTransport(path).send(ask())
    pieces = [piece async for piece in response.chunks(10_000)]

    assert max(map(len, pieces)) <= 10_000
    whole = b"".join(pieces)
    assert len(whole) == length == int(response.headers["Content-Length"])
    assert (whole[:END], whole[-END:]) == (data[:END], data[-END:])
    assert set(whole[END:-END]) == {0}
    [blob] = cassette.blobs.iterdir()
    assert blob.read_bytes() == data[:END] + data[-END:]
    assert interactions_of(path)[0]["response"]["body"] == {
        "blob": blob.name, **digest(data), "stored": "ends", "ends": [END, END],
    }  # fmt: skip


async def test_two_equal_bodies_share_one_blob(path):
    data = noise(100_000)

    await record(path, in_turn(*[lambda: video(data)] * 2), [ask("/a"), ask("/b")])
    await record(path.with_name("another.json"), in_turn(lambda: video(data)), [ask("/c")])

    assert len(list((path.parent / "blobs").iterdir())) == 1


@pytest.mark.parametrize("index", ["first", "last"])
async def test_an_mp4_with_its_index_at_an_end_is_saved_from_a_cassette_without_its_middle(path, tmp_path, index):
    data = made_video(500_000)
    if index == "last":
        moov, mdat = data.index(b"moov") - 4, data.index(b"mdat") - 4
        data = data[:moov] + data[mdat:] + data[moov:mdat]

    async def handle(_: Request) -> BufferedResponse:
        return video(data)

    async def program(client):
        saved = await client.videos.download("task-1", tmp_path / "x.mp4")
        return len(saved.read_bytes())

    lengths = await twice(Cassette(path, largest_blob=150_000), FakeTransport(handle), program)

    assert lengths == (500_000, 500_000)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 200000\n"
BLOB_DAMAGES = {
    "truncated": (lambda data: data[:1000], "is not what was recorded"),
    "empty": (lambda data: b"", "is not what was recorded"),
    "longer": (lambda data: data + b"\0", "is not what was recorded"),
    "another file of its length": (lambda data: data[:-1] + b"\0", "is not what was recorded"),
    "a pointer": (lambda data: POINTER, "is a Git LFS pointer"),
    "a pointer with line breaks of Windows": (lambda data: POINTER.replace(b"\n", b"\r\n"), "is a Git LFS pointer"),
    "missing": (None, "cannot be read: No such file"),
}


@pytest.mark.parametrize("largest", [1 << 20, 200_000], ids=["the whole body", "both ends"])
@pytest.mark.parametrize(("damage", "problem"), BLOB_DAMAGES.values(), ids=BLOB_DAMAGES)
async def test_no_byte_of_a_blob_that_is_not_the_recorded_one_is_replayed(path, damage, problem, largest):
    cassette = Cassette(path, largest_blob=largest)
    await record(cassette, in_turn(lambda: video(noise(300_000))), [ask()])
    [blob] = (path.parent / "blobs").iterdir()
    data = blob.read_bytes()
    blob.unlink()
    if damage is not None:
        blob.write_bytes(damage(data))

    replay = ReplayTransport(cassette)
    received = b""
    async with await replay.send(ask()) as response:
        chunks = response.chunks()
        with pytest.raises(CassetteInvalidError, match=f"its blob {blob.name} {problem}") as caught:
            received = await anext(chunks)
    assert (received, caught.value.pointer) == (b"", "/interactions/0/response/body/blob")
    with pytest.raises(CassetteInvalidError):
        replay.check()


async def test_a_recording_replaces_a_damaged_blob(path):
    data = noise(200_000)
    blob = path.parent / "blobs" / f"sha256-{hashlib.sha256(data).hexdigest()}.mp4"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(POINTER)
    await record(path, in_turn(lambda: video(data)), [ask()])

    assert await played(path) == data


def test_a_cassette_that_is_a_git_lfs_pointer_says_so(path):
    path.parent.mkdir()
    path.write_bytes(POINTER)
    with pytest.raises(CassetteInvalidError, match=r"is a Git LFS pointer, .* git lfs pull"):
        ReplayTransport(path)


async def test_a_text_that_is_too_long_is_replayed_with_its_length(path):
    data = b'{"a": "' + b"x" * (9 << 20) + b'"}'
    await record(path, in_turn(lambda: video(data, Content_Type="application/json")), [ask()])

    assert len(await played(path)) == len(data)
    assert path.stat().st_size < 2000


def test_a_path_that_is_no_regular_file_is_no_cassette(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(CassetteInvalidError, match="not a regular file"):
        load(tmp_path / "pipe.json")
