"""Logs tell what happens to orders and tasks, and never a secret: at any level, with every logger at DEBUG."""

import asyncio
import base64
import io
import json
import logging

import pytest
from PIL import Image

from vidgen_async import Client, RejectedError, TaskFailedError, UncertainCreateError, VidgenError
from vidgen_async.events import OUTCOMES
from vidgen_async.sandbox import Fault, Sandbox

PROMPT = "the secret plan of the paper boat"
LOGGERS = ("vidgen_async", "aiohttp", "asyncio", "")


def echoes(key: str) -> list[dict[str, str]]:
    """Bodies in which a service tells the key or the prompt back."""
    return [
        {"code": f"Bearer {key}"},
        {"type": PROMPT},
        {"message": f"prompt '{PROMPT[:26]}…' was rejected"},
        {"message": f"<b>{PROMPT.upper()}</b>"},
        {"message": f"input_value={json.dumps(json.dumps(PROMPT))} token: {key[:20]}"},
    ]


@pytest.fixture
def picture() -> bytes:
    file = io.BytesIO()
    Image.effect_noise((64, 64), 80).save(file, "PNG")
    return file.getvalue()


async def walk(client: Client, service: Sandbox, picture: bytes, tmp_path) -> list[str]:
    """Everything that the SDK does, well and badly; the secrets of the service's own that it came across."""
    asset = await client.files.upload(picture)
    video = {"model": "vendorh3", "prompt": PROMPT, "duration": 5, "image_ids": [asset.image_id]}
    receipt = await client.videos.create(**video)
    task = await client.videos.wait(receipt)
    service.faults.add("link", Fault.status(401))
    await client.videos.download(task, tmp_path / "boat.mp4")
    for fault in (Fault.status(400, {"error": {"code": "NO", "message": f"bad prompt: {PROMPT}"}}), Fault.status(402)):
        service.faults.add("videos.create", fault)
        with pytest.raises(RejectedError):
            await client.videos.create(**video, order_id="refused")
    service.faults.add("videos.create", Fault.html())
    with pytest.raises(UncertainCreateError):
        await client.videos.create(**video, order_id="uncertain")
    for number, body in enumerate(echoes(service.api_key)):
        for status, kind in ((200, UncertainCreateError), (400, RejectedError)):
            service.faults.add("videos.create", Fault.status(status, body))
            with pytest.raises(kind):
                await client.videos.create(**video, order_id=f"echo-{number}-{status}")
    service.faults.add("models.list", Fault.status(503, f"key {service.api_key}"))
    await client.models.list()
    service.faults.add("videos.get", Fault.edit(lambda body: body | {"status": f"dreams of {PROMPT}"}))
    failed = await client.videos.create(**video | {"prompt": f"{PROMPT} [fail: no {PROMPT}]"})
    with pytest.raises(TaskFailedError):
        await client.videos.wait(failed)
    with pytest.raises(VidgenError):
        await client.videos.get("no-such-task")
    signed = [str(task.video_url), str(asset.url)]
    return [text.partition("sig=")[2] or text.partition("token=")[2] for text in signed]


@pytest.mark.slow
@pytest.mark.rule("5 item 1", side="sdk")
@pytest.mark.usefixtures("debugging")
async def test_every_record_names_its_event_and_none_holds_a_secret_a_prompt_or_image_data(
    service, picture, tmp_path, caplog
):
    for name in LOGGERS:
        caplog.set_level(logging.DEBUG, name)
    async with Client(service.api_key, base_url=service.base_url, poll_interval=0.05, retry_reads_for=5) as client:
        tokens = await walk(client, service, picture, tmp_path)
    assert all(tokens)

    formatter = logging.Formatter("%(message)s")
    logged = "\n".join(f"{formatter.format(record)} {vars(record)}" for record in caplog.records)
    encoded = base64.b64encode(picture).decode()
    for secret in (service.api_key, service.api_key[:20], PROMPT, "paper boat", "secret plan", *tokens):
        assert secret not in logged
        assert secret.upper() not in logged
    for part in (encoded[:60], encoded[100:160]):
        assert part not in logged
    records = [record for record in caplog.records if record.name.startswith("vidgen_async.")]
    events = {getattr(record, "event_name", None) for record in records}
    assert None not in events
    assert events >= {"order.id_created", "order.accepted", "order.uncertain"}
    assert events >= {"request.retried", "task.ended", "task.unknown_state"}
    settled = [record for record in records if record.event_name in set(OUTCOMES)]
    assert [record.outcome for record in settled[:4]] == ["accepted", "rejected", "rejected", "uncertain"]
    assert settled[-1].outcome == "accepted"
    assert all(record.order_id for record in settled)


@pytest.fixture
async def debugging():
    loop = asyncio.get_running_loop()
    before = loop.get_debug()
    loop.set_debug(True)
    yield
    loop.set_debug(before)
