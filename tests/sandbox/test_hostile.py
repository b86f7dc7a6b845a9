"""Hostile input: it is refused with a message, and has no effect on other requests."""

import io
import json
import math
from collections.abc import AsyncIterator

import pytest
from attrs import evolve

from vidgen_async.sandbox import Sandbox, SandboxClock
from vidgen_async.sandbox.input_rules import DEEPEST, parse_json

JSON = {"Content-Type": "application/json"}
MIB = 1 << 20
HUGE = "1" + "0" * 400


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def strict(text: bytes):
    """Parse JSON as a browser does: NaN and Infinity are errors."""

    def refused(name: str) -> float:
        raise ValueError(name)

    return json.loads(text, parse_constant=refused)


async def sent(size: int) -> AsyncIterator[bytes]:
    """A body in chunks, without a Content-Length."""
    for _ in range(0, size, MIB // 4):
        yield b" " * (MIB // 4)


@pytest.fixture
def root(service) -> str:
    return service.console_url.rstrip("/")


# Bodies that are not JSON, or nested too deep.


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400", nested(100), nested(980), nested(100_000)])
@pytest.mark.parametrize("bare", [True, False])
async def test_a_create_that_is_not_json_is_refused_and_the_state_stays_json(service, api, root, value, bare):
    body = f'{{"model": "gen-2.0", "prompt": {value}}}'

    reply = await api.send("POST", "/videos", data=body, headers=JSON, bare=bare)
    replies = [await api.get(f"{root}/sandbox/{page}", bare=True) for page in ("state", "creates", "requests")]

    assert reply.status == (401 if bare else 400)
    assert [shown.status for shown in replies] == [200, 200, 200]
    assert strict(replies[0].body)["creates"] == strict(replies[1].body)["creates"]
    assert strict(replies[1].body)["creates"][0]["body"] is None
    assert service.tasks == {}


async def test_a_create_with_the_maximum_depth_is_answered_and_shown(api, root):
    body = {"model": "gen-2.0", "prompt": "x", "attachments": [{"deep": json.loads(nested(DEEPEST - 3))}]}

    reply = await api.post("/videos", body)
    shown = await api.get(f"{root}/sandbox/creates", bare=True)

    assert reply.status == 202
    assert shown.json["creates"][0]["body"] == body


def test_json_beyond_the_maximum_depth_is_refused():
    assert parse_json(nested(DEEPEST)) == json.loads(nested(DEEPEST))
    for depth in (DEEPEST + 1, 100_000):
        with pytest.raises(ValueError, match="too deep"):
            parse_json(nested(depth))


@pytest.mark.parametrize("seconds", [math.inf, math.nan, -1.0])
@pytest.mark.parametrize("name", ["queued_for", "running_for"])
def test_the_times_of_tasks_must_be_finite_and_not_negative(name, seconds):
    with pytest.raises(ValueError, match=name):
        Sandbox(**{name: seconds})


# Numbers beyond every limit.


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/sandbox/clock", '{"speed": %s}', "speed"),
        ("/sandbox/clock", '{"advance": %s}', "advance"),
        ("/sandbox/accounts", '{"balance": %s}', "balance"),
        ("/sandbox/faults", '{"op": "*", "fault": "stall", "args": {"seconds": %s}}', "seconds"),
        ("/sandbox/faults", '{"op": "*", "fault": "stall", "times": %s}', "times"),
    ],
)
async def test_a_number_beyond_every_limit_is_refused(service, api, root, path, body, field):
    for value in (HUGE, "-" + HUGE, "9" * 5000, "1e400", "NaN", "Infinity"):
        reply = await api.send("POST", f"{root}{path}", data=body % value, headers=JSON, bare=True)

        expected = f"{field}: must be" if value.endswith(HUGE) else "the body must be JSON"
        assert (reply.status, reply.code) == (400, "INVALID_PARAMETER"), value
        assert expected in reply.json["error"]["message"], value
        assert (service.clock.speed, service.faults.planned, len(service.accounts)) == (0, [], 1), value


@pytest.mark.parametrize("beyond", [math.inf, math.nan, -1.0])
def test_speed_and_advance_must_be_finite_and_not_negative(beyond):
    with pytest.raises(ValueError, match="speed must be"):
        SandboxClock(beyond)
    with pytest.raises(ValueError, match="seconds must be 0 or more, and finite"):
        SandboxClock().advance(beyond)


async def test_a_range_with_thousands_of_digits_is_ignored(service, api):
    service.add_model(evolve(service.models["gen-2.0"], durations=(1,), resolutions=("180p",)))
    task_id = (await api.create(duration=1, ratio="1:1")).json["id"]
    service.clock.advance(10)
    content = f"/videos/{task_id}/content"
    whole = (await api.get(content)).body

    for byte_range in ("bytes={}-", "bytes=0-{}", "bytes=-{}"):
        reply = await api.get(content, headers={"Range": byte_range.format("9" * 5000)})
        assert (reply.status, reply.body) == (200, whole), byte_range


# Bodies beyond every limit.


async def test_a_body_above_its_limit_is_413_and_discarded(service, api):
    replies = [
        await api.send("POST", "/videos", data=sent(2 * MIB), headers=JSON, bare=True),
        await api.send("POST", "/videos", data=io.BytesIO(b" " * (MIB + 1)), headers=JSON),
    ]

    assert [(reply.status, reply.code) for reply in replies] == [(413, "BODY_TOO_LARGE")] * 2
    assert [(create.raw, create.body_arrived, create.status) for create in service.creates] == [(b"", False, 413)] * 2


async def test_a_body_of_exactly_its_limit_is_read(service, api):
    body = json.dumps({"model": "gen-2.0", "prompt": "x"}).encode().ljust(MIB)

    reply = await api.send("POST", "/videos", data=body, headers=JSON)

    assert (reply.status, len(service.creates[0].raw)) == (202, MIB)


@pytest.mark.slow
async def test_an_upload_may_have_at_most_64_mib(api):
    body = json.dumps({"image_b64": "bm8gaW1hZ2U="}).encode()

    at_limit = await api.send("POST", "/files", data=io.BytesIO(body.ljust(64 * MIB)), headers=JSON)
    refused = await api.send("POST", "/files", data=io.BytesIO(body.ljust(64 * MIB + 1)), headers=JSON)

    assert (at_limit.status, at_limit.code) == (400, "INVALID_REFERENCE_IMAGE")
    assert (refused.status, refused.code) == (413, "BODY_TOO_LARGE")


async def test_a_body_of_a_control_path_is_limited_and_not_read_if_it_is_foreign(service, api, root):
    foreign = {"Content-Type": "text/plain", "Origin": "http://evil.test"}

    refused = await api.send("POST", f"{root}/sandbox/clock", data=sent(2 * MIB), headers=JSON, bare=True)
    not_read = await api.send("POST", f"{root}/sandbox/clock", data=sent(2 * MIB), headers=foreign, bare=True)

    assert (refused.status, refused.code, refused.headers["cache-control"]) == (413, "BODY_TOO_LARGE", "no-store")
    assert (not_read.status, not_read.code) == (403, "FOREIGN_ORIGIN")


# The ledger.


async def test_each_balance_in_the_ledger_is_a_running_sum_even_if_refunds_are_booked_late(service, api, root):
    await api.create(prompt="[fail]")
    service.clock.advance(10)
    service.account("account-1").book(service.clock.now(), "adjustment", 5)

    for query in ("", "?account=account-1"):
        entries = (await api.get(f"{root}/sandbox/ledger{query}", bare=True)).json["ledger"]

        assert [entry["balance"] for entry in entries] == [
            sum(entry["points"] for entry in entries[: n + 1]) for n in range(len(entries))
        ]
