"""Text that is neither a path nor a URL: plain Base64 (4.3), and how messages show other text."""

import base64
import hashlib
import io
import traceback
from urllib.parse import quote

import pytest

from tests.media.test_upload import DATA, KINDS, LARGE, PNG, sent_image, service
from vidgen_async.errors import InvalidRequestError

__all__ = ["service"]

NOISE = base64.b64encode(b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(100))).decode()


@pytest.mark.parametrize("mime", KINDS)
async def test_an_image_in_base64_is_accepted(mime, service, uploads_of):
    await uploads_of(service).upload(base64.b64encode(KINDS[mime]).decode())
    assert sent_image(service) == (mime, KINDS[mime])


def wrapped(text: str) -> dict[str, object]:
    """The ways to hand over a text."""
    file = io.BytesIO(text.encode())
    return {"str": text, "bytes": text.encode(), "bytearray": bytearray(text, "utf-8"), "file": file}


@pytest.mark.parametrize("form", ["bytes", "bytearray", "file", "path"])
@pytest.mark.parametrize(
    "text",
    [DATA, f"\ufeff{DATA}", base64.encodebytes(PNG).decode(), base64.urlsafe_b64encode(PNG).decode(), f'"{DATA}"\n'],
    ids=["plain", "BOM", "lines", "URL-safe", "quotes"],
)
async def test_bytes_and_files_may_contain_base64(text, form, service, uploads_of, tmp_path):
    path = tmp_path / "image.txt"
    path.write_text(text, encoding="utf-8")
    await uploads_of(service).upload({**wrapped(text), "path": path}[form])
    assert sent_image(service) == ("image/png", PNG)


@pytest.mark.parametrize("form", ["str", "bytes", "bytearray", "file"])
@pytest.mark.parametrize("around", ["{}", "\n {}\r\n", "\ufeff{}", '"{}"', "'{}'\n", '\ufeff "{}"'])
@pytest.mark.parametrize("data", [f"image/png;base64,{DATA}", f"image/png,{quote(PNG, safe='')}"], ids=["base64", "%"])
async def test_what_is_around_a_data_uri_does_not_matter(data, around, form, service, uploads_of):
    await uploads_of(service).upload(wrapped(around.format(f"data:{data}"))[form])
    assert sent_image(service) == ("image/png", PNG)


@pytest.mark.parametrize("size", [900, 901, 902, 5000])
@pytest.mark.parametrize("prefix", ["", "data:image/bmp;base64,"])
async def test_padding_may_be_percent_encoded(size, prefix, service, uploads_of):
    image = KINDS["image/bmp"] + b"\0" * size
    await uploads_of(service).upload(prefix + quote(base64.urlsafe_b64encode(image), safe=""))
    assert sent_image(service) == ("image/bmp", image)


@pytest.mark.parametrize("form", ["str", "bytes", "file"])
async def test_base64_that_is_cut_names_where_it_was_and_not_what_it_was(form, service, uploads_of):
    with pytest.raises(InvalidRequestError, match="is not Base64 after character 0 of its data") as caught:
        await uploads_of(service).upload(wrapped(f"{DATA[:-4]}!")[form])
    assert DATA[:20] not in str(caught.value)


async def test_a_path_that_exists_without_the_white_space_around_it_is_named(service, uploads_of, tmp_path):
    path = tmp_path / "hero.png"
    path.write_bytes(PNG)
    with pytest.raises(InvalidRequestError, match=r"does not exist, but '.*hero\.png' does, without white space"):
        await uploads_of(service).upload(f" {path}\n")
    assert service.posts == []


async def test_a_file_of_that_name_has_precedence(service, uploads_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = base64.b64encode(KINDS["image/gif"][:30]).decode().replace("/", "A")
    (tmp_path / name).write_bytes(PNG)
    await uploads_of(service).upload(name)
    assert sent_image(service) == ("image/png", PNG)


@pytest.mark.parametrize(
    "text",
    [
        NOISE,
        NOISE[:100],
        f"~/{NOISE[:100]}",
        "\n".join(NOISE[at : at + 76] for at in range(0, 400, 76)),
        f"{DATA[:-4]}!",
        f"{base64.b64encode(LARGE).decode()}!",
        f"{base64.b64encode(LARGE).decode()}é",
        f"{base64.b64encode(LARGE[:49150]).decode()}{DATA}",
        f"data:image/png;base64,{DATA}é",
        f"data:image/png;base64,{DATA}!",
    ],
    ids=range(10),
)
async def test_text_that_is_not_an_image_is_refused_and_not_quoted_by_any_error_in_the_chain(text, service, uploads_of):
    with pytest.raises(InvalidRequestError) as caught:
        await uploads_of(service).upload(text)
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    for part in (text[24:44], text[-30:-10]):
        assert part not in told
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert service.posts == []


@pytest.mark.parametrize("name", ["/9j/abcd", "R0lGODlhabcd", "pictures/hero.png"])
async def test_a_short_text_is_a_path_even_if_it_can_be_decoded(name, service, uploads_of):
    with pytest.raises(InvalidRequestError, match=f"the file '{name}' does not exist"):
        await uploads_of(service).upload(name)
