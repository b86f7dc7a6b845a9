"""The links in answers are those that work for the client: by its Host, or as configured."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from attrs import evolve

from tests.free_ports import find_port
from tests.sandbox.conftest import Caller, picture
from vidgen_async import Client
from vidgen_async.sandbox import Sandbox

EVERYWHERE = "0.0.0.0"  # noqa: S104


@asynccontextmanager
async def open_sandbox(session: aiohttp.ClientSession, **options) -> AsyncIterator[tuple[Sandbox, Caller]]:
    """A sandbox whose models make videos of one second, and a caller of it."""
    async with Sandbox(speed=0, **options) as sandbox:
        for code in ("gen-2.0", "vendorh3"):
            small = evolve(sandbox.models[code], durations=(1,), resolutions=("180p",), min_reference_images=0)
            sandbox.add_model(small)
        port = sandbox._service.port
        yield sandbox, Caller(session, f"http://127.0.0.1:{port}/openapi/v1", sandbox.api_key)


async def links_for(sandbox: Sandbox, api: Caller, headers: dict[str, str]) -> dict[str, str]:
    """Return the origin of every link that a client with these headers receives."""
    created = [(await api.create(model=code)).json["id"] for code in ("gen-2.0", "vendorh3")]
    sandbox.clock.advance(10)
    content, signed = [(await api.get(f"/videos/{task}", headers=headers)).json["video_url"] for task in created]
    redirect = (await api.get(f"/videos/{created[1]}/content", headers=headers)).headers["location"]
    origin = api.base_url.removesuffix("/openapi/v1")
    links = {"content": content, "signed": signed, "redirect": redirect}
    openapi = await api.get(f"{origin}/openapi.json", bare=True, headers=headers)
    if openapi.status == 200:
        state = (await api.get(f"{origin}/sandbox/state", bare=True, headers=headers)).json
        policy = (await api.get(f"{origin}/", bare=True, headers=headers)).headers["content-security-policy"]
        links |= {
            "openapi": openapi.json["servers"][0]["url"],
            "state": state["base_url"],
            "state links": state["links_url"] + "/",
            "state task": state["tasks"][-1]["video_url"],
            "policy": policy.partition("media-src ")[2].partition(";")[0] + "/",
        }
    return {name: "/".join(link.split("/")[:3]) for name, link in links.items()}


SERVICE_LINKS = {"content", "openapi", "state"}


@pytest.mark.parametrize("host", ["localhost:9000", "localhost", "LOCALHOST:80", "10.1.2.3:9000", "[::1]:9000"])
async def test_every_link_has_the_host_of_the_request(session, host):
    async with open_sandbox(session, host=EVERYWHERE) as (sandbox, api):
        links = await links_for(sandbox, api, {"Host": host})
        name = host[: host.rindex(":")] if ":" in host.rpartition("]")[2] else host

        assert len(links) == 8
        for link, origin in links.items():
            expected = host if link in SERVICE_LINKS else f"{name}:{sandbox._links.port}"
            assert origin == f"http://{expected}", link


@pytest.mark.parametrize("host", ["sandbox:9000", "vidgen_sandbox:9000", "sandbox.internal.test:9000"])
async def test_the_links_of_the_service_follow_any_name_and_its_pages_only_answer_to_their_own(session, host):
    async with open_sandbox(session, host=EVERYWHERE) as (sandbox, api):
        links = await links_for(sandbox, api, {"Host": host})

        name = host.partition(":")[0]
        links_origin = f"http://{name}:{sandbox._links.port}"
        assert links == {"content": f"http://{host}", "signed": links_origin, "redirect": links_origin}


@pytest.mark.parametrize(
    "host",
    [
        "",
        " ",
        ":80",
        "evil.test/v",
        "evil.test?x",
        "evil.test#x",
        "ann@evil.test",
        "evil.test:99999",
        "evil.test:port",
        "evil.test:80:80",
        "evil.test, localhost",
        "evil.test;script-src *",
        'evil.test"><script>',
        "evil.test\\@localhost",
        "évil.test",
        "[::1",
        "[::1]evil.test",
        "[evil.test]",
        "e" * 254,
        "%0d%0aSet-Cookie:x=1",
    ],
)
async def test_a_host_that_is_none_changes_no_link(session, host):
    async with open_sandbox(session, host=EVERYWHERE) as (sandbox, api):
        links = await links_for(sandbox, api, {"Host": host})

        listening = f"http://127.0.0.1:{sandbox._service.port}"
        links_origin = f"http://127.0.0.1:{sandbox._links.port}"
        assert links == {"content": listening, "signed": links_origin, "redirect": links_origin}


async def test_x_forwarded_headers_are_ignored(session):
    headers = {"X-Forwarded-Host": "evil.test", "X-Forwarded-Proto": "https", "Forwarded": "host=evil.test;proto=https"}
    async with open_sandbox(session) as (sandbox, api):
        links = await links_for(sandbox, api, headers)

        assert "evil.test" not in "".join(links.values())
        assert {link.partition(":")[0] for link in links.values()} == {"http"}


async def test_a_request_without_a_host_gets_links_to_where_the_sandbox_listens(session):
    async with open_sandbox(session, host=EVERYWHERE) as (sandbox, api):
        task = (await api.create()).json["id"]
        sandbox.clock.advance(10)
        reader, writer = await asyncio.open_connection("127.0.0.1", sandbox._service.port)
        writer.write(f"GET /openapi/v1/videos/{task} HTTP/1.0\r\nAuthorization: Bearer {api.key}\r\n\r\n".encode())
        body = (await reader.read()).partition(b"\r\n\r\n")[2]
        writer.close()

    assert json.loads(body)["video_url"] == f"{api.base_url}/videos/{task}/content"


@pytest.mark.parametrize("scheme", ["http", "https"])  # behind a proxy with TLS
async def test_an_asset_is_reused_by_its_url_at_the_host_of_the_client(session, scheme):
    headers = {"Host": "sandbox:9000"}
    async with open_sandbox(session, host=EVERYWHERE) as (sandbox, api):
        asset = (await api.upload(picture())).json
        url = f"{scheme}://sandbox:9000{asset['url']}"

        again = [await api.post("/files", {field: url}, headers=headers) for field in ("image_url", "image_b64")]
        body = {"model": "gen-2.0", "prompt": "A paper boat", "image_urls": [url]}
        await api.post("/videos", body, headers=headers)
        foreign = await api.post("/files", {"image_url": url})

        assert [reply.json for reply in again] == [asset, asset]
        assert next(iter(sandbox.tasks.values())).film.pictures == (asset["name"],)
        assert foreign.code == "UNSUPPORTED_REFERENCE_URL"


@asynccontextmanager
async def forwarded(port: int, to: int) -> AsyncIterator[None]:
    """Forward connections to another port, as a container does."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", to)
        await asyncio.gather(copy(reader, outer), copy(inner, writer))

    async with await asyncio.start_server(forward, "127.0.0.1", port):
        yield


async def test_the_sdk_works_through_mapped_ports(session, tmp_path):
    port, links_port = find_port(), find_port()
    async with (
        open_sandbox(session, host=EVERYWHERE, public_links_url=f"http://localhost:{links_port}") as (sandbox, _),
        forwarded(port, sandbox._service.port),
        forwarded(links_port, sandbox._links.port),
        Client(sandbox.api_key, base_url=f"http://localhost:{port}/openapi/v1", poll_interval=1) as client,
    ):
        asset = await client.files.upload(picture())
        again = await client.files.upload(asset.url)
        fields = {"prompt": "A paper boat", "image_ids": [asset.image_id], "image_urls": [asset.url]}
        receipts = [await client.videos.create(model=code, **fields) for code in ("gen-2.0", "vendorh3")]
        sandbox.clock.advance(10)
        for receipt in receipts:
            path = await client.videos.download(receipt, tmp_path / f"{receipt.task_id}.mp4")
            assert path.read_bytes() == await sandbox.video(receipt.task_id)

        assert again.id == asset.id
        origins = {(request.origin, request.headers["Host"]) for request in sandbox.requests}
        assert origins == {("service", f"localhost:{port}"), ("links", f"localhost:{links_port}")}


async def test_an_asset_is_reused_by_its_url_at_the_public_url_also_if_a_proxy_changes_the_host(session):
    async with open_sandbox(session, public_url="https://Sandbox.test:443/") as (_, api):
        asset = (await api.upload(picture())).json

        reply = await api.post("/files", {"image_url": f"https://sandbox.test{asset['url']}"})

        assert (reply.status, reply.json) == (200, asset)


@pytest.mark.parametrize("host", ["localhost:1", "evil.test", "sandbox.test"])
@pytest.mark.parametrize(
    ("options", "service", "links"),
    [
        ({"public_url": "https://sandbox.test/"}, "https://sandbox.test", "http://sandbox.test:{port}"),
        ({"public_url": "http://[::1]:8080"}, "http://[::1]:8080", "http://[::1]:{port}"),
        (
            {"public_url": "HTTPS://Sandbox.test", "public_links_url": "https://videos.test:8443"},
            "https://sandbox.test",
            "https://videos.test:8443",
        ),
        ({"public_links_url": "http://localhost:9001"}, None, "http://localhost:9001"),
    ],
)
async def test_configured_addresses_are_used_whatever_the_host(session, host, options, service, links):
    async with open_sandbox(session, host=EVERYWHERE, **options) as (sandbox, api):
        found = await links_for(sandbox, api, {"Host": host})

        links = links.format(port=sandbox._links.port)
        service_here = service or f"http://127.0.0.1:{sandbox._service.port}"
        assert found == {name: (service or f"http://{host}") if name in SERVICE_LINKS else links for name in found}
        assert (sandbox.base_url, sandbox.links_url) == (f"{service_here}/openapi/v1", links)
        assert sandbox.console_url == f"{service_here}/"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "sandbox.test",
        "//sandbox.test",
        "ftp://sandbox.test",
        "http://",
        "http://sandbox.test/openapi/v1",
        "http://sandbox.test?x",
        "http://sandbox.test#x",
        "http://ann:hush@sandbox.test",
        "http://sandbox.test:99999",
        "http://sandbox.test:port",
        "http://sandbox test",
        "http://sandbox.test\r\nX: y",
        "http://sandbox.test\n",
    ],
)
@pytest.mark.parametrize("name", ["public_url", "public_links_url"])
def test_a_public_url_that_is_no_origin_is_refused(name, url):
    with pytest.raises(ValueError, match=f"^{name} must be like http://localhost:8080, without a path"):
        Sandbox(**{name: url})


async def test_the_pages_answer_to_the_name_and_the_origin_of_the_public_url(session):
    async with open_sandbox(session, host=EVERYWHERE, public_url="https://sandbox.test") as (_, api):
        url = api.base_url.removesuffix("/openapi/v1") + "/sandbox/reset"
        statuses = {}
        for host in ("sandbox.test", "127.0.0.1:1", "evil.test"):
            for origin in ("https://sandbox.test", "https://evil.test"):
                headers = {"Host": host, "Origin": origin}
                statuses[host, origin] = (await api.post(url, {}, bare=True, headers=headers)).status

        assert [found for found, status in statuses.items() if status == 200] == [
            ("sandbox.test", "https://sandbox.test"),
            ("127.0.0.1:1", "https://sandbox.test"),
        ]
        assert set(statuses.values()) == {200, 403}


@pytest.mark.parametrize(("host", "shown"), [(EVERYWHERE, "127.0.0.1"), ("::", "[::1]"), ("127.0.0.1", "127.0.0.1")])
async def test_a_sandbox_that_listens_everywhere_shows_an_address_that_works_here(session, host, shown):
    try:
        async with Sandbox(host=host) as sandbox:
            answer = await session.get(sandbox.base_url + "/models")
            assert answer.status == 401
            assert sandbox.base_url.startswith(f"http://{shown}:")
    except OSError:
        pytest.skip("this machine has no IPv6")
