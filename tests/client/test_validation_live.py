"""Before money is spent: a request is looked at against the live catalog (2.1, 2.4), over real sockets."""

import asyncio
import logging

import pytest
from attrs import evolve
from yarl import URL

from tests.media.test_upload import PNG
from vidgen_async import Client, InvalidRequestError, RejectedError, VideoRequest
from vidgen_async.clock import VirtualClock
from vidgen_async.errors import CassetteError, ConnectError
from vidgen_async.sandbox import Fault
from vidgen_async.transports import BufferedResponse, FakeTransport
from vidgen_async.types.http import Delivery, Request

GOOD = {"model": "gen-2.0", "prompt": "a paper boat", "duration": 5}


def catalogs(service) -> int:
    return sum(request.op == "models.list" for request in service.requests)


async def test_a_model_that_is_not_usable_is_refused_before_anything_is_sent(client, service):
    with pytest.raises(InvalidRequestError, match=r"'gen-2\.5' is in maintenance; available models: .*gen-2\.0"):
        await client.videos.create(**GOOD | {"model": "gen-2.5", "duration": 10})
    assert service.creates == []
    assert catalogs(service) == 1  # it was read for this request: it is not read again


@pytest.mark.rule("2.3 field url", side="sdk")
async def test_an_asset_whose_url_is_a_path_can_be_used_in_every_field(client, service):
    asset = await client.files.upload(PNG)
    path = evolve(asset, url=str(URL(asset.url).relative()))
    again = await client.files.upload(path)
    await client.videos.create(**GOOD, image_urls=[path], reference_images=[path, {"url": path.url}], image_ids=[again])
    assert (await client.videos.check(**GOOD, image_urls=[path])).problems == ()
    [create] = service.creates
    assert create.body["image_urls"] == [asset.url]
    assert create.body["reference_images"] == [{"url": asset.url}] * 2


async def test_a_check_returns_the_problems_of_names_values_and_images_together(client, service):
    fields = {"model": "vendorh3", "promt": "a boat", "duration": 99, "images": ["x"], "order_id": "o"}
    wanted = [
        "local_images: must be a list",
        "promt: no such field (did you mean prompt?)",
        "images: not a field of this service; use image_urls",
        "order_id: not a field of a request; create and generate have this argument",
        "prompt: required",
        "duration: vendorh3 supports 5",
    ]
    check = await client.videos.check(**fields, local_images="hero.png")
    assert [problem[: len(want)] for problem, want in zip(check.problems, wanted, strict=True)] == wanted
    assert check.model.code == "vendorh3"
    del fields["order_id"]
    with pytest.raises(InvalidRequestError) as caught:
        await client.videos.create(**fields, order_id="o", local_images="hero.png")
    assert set(caught.value.problems) == {problem for problem in check.problems if "order_id" not in problem}
    assert service.creates == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("a boat",), "pass the fields by name"),
        (({"model": "vendorh3"},), "pass the fields of a mapping by name"),
        ((VideoRequest(model="vendorh3", prompt="p"), 5), "pass the fields by name"),
    ],
)
async def test_a_check_of_what_is_no_request_returns_why(client, service, given, problem):
    (found,) = (await client.videos.check(*given)).problems
    assert found.startswith(problem)
    assert service.requests == []


async def test_image_ids_that_cannot_be_added_to_are_a_problem_among_others(client):
    for fields in ({"image_ids": "asset-1"}, {"extra": {"image_ids": []}}):
        check = await client.videos.check(model="vendorh3", prompt="", **fields, local_images=[b"no image"])
        assert {problem.partition(":")[0] for problem in check.problems} >= {"prompt", "local_images[0]", *fields}


async def test_many_creates_read_the_catalog_once(client, service):
    await asyncio.gather(*(client.videos.create(**GOOD, order_id=f"o{n}") for n in range(20)))
    assert len(service.creates) == 20
    assert catalogs(service) == 1


@pytest.mark.rule("3 note usable", side="sdk")
async def test_a_model_that_has_come_back_is_found_at_once(client, service):
    service.change_model("gen-2.0", maintenance=True)
    with pytest.raises(InvalidRequestError):
        await client.videos.create(**GOOD, order_id="o")
    service.change_model("gen-2.0", maintenance=False)

    await client.videos.create(**GOOD, order_id="o")

    assert len(service.creates) == 1


@pytest.mark.rule("2.4 rule 5", side="sdk")
async def test_an_ability_that_is_new_is_found_at_once(client, service):
    await client.models.list()
    service.change_model("gen-2.0", durations=(5, 60))

    await client.videos.create(**GOOD | {"duration": 60})

    assert service.creates[0].status == 202
    assert catalogs(service) == 2


async def test_a_listed_catalog_is_used(client, service):
    await client.models.list()
    await client.videos.create(**GOOD)
    assert catalogs(service) == 1


async def test_a_catalog_that_cannot_be_had_refuses_nothing_and_is_warned_about(client, service, caplog):
    service.faults.add("models.list", Fault.status(404), times=None)
    with caplog.at_level(logging.WARNING, "vidgen_async"):
        for n in range(3):
            await client.videos.create(**GOOD, order_id=f"o{n}")

    assert [create.status for create in service.creates] == [202] * 3
    assert catalogs(service) == 1  # it is left alone for a while
    warnings = [record.getMessage() for record in caplog.records]
    assert warnings[0].startswith(
        "could not fetch the catalog; skipping validation of model gen-2.0 against it: models.list"
    )
    assert len(warnings) == 1


@pytest.mark.slow
async def test_what_the_request_says_by_itself_is_checked_without_a_catalog(client, service):
    service.faults.add("models.list", Fault.close_after_body(), times=None)
    with pytest.raises(InvalidRequestError, match="ratio"):
        await client.videos.create(**GOOD, ratio="2:1")
    assert service.creates == []


async def test_without_validation_the_service_decides(client, service):
    with pytest.raises(RejectedError, match="duration"):
        await client.videos.create(**GOOD | {"duration": 7}, validate=False)
    assert catalogs(service) == 0
    assert service.creates[0].body["duration"] == 7


async def test_generate_validates_and_can_be_told_not_to(client, service):
    with pytest.raises(InvalidRequestError):
        await client.videos.generate(**GOOD | {"duration": 7})
    assert service.creates == []
    with pytest.raises(RejectedError):
        await client.videos.generate(**GOOD | {"duration": 7}, validate=False)


class TestCheck:
    @pytest.mark.rule("2.1 note own-price", side="sdk")
    async def test_it_shows_the_entry_with_the_callers_prices(self, client):
        check = await client.videos.check(**GOOD)

        assert check.is_ok
        assert check.model is not None
        assert check.model.extra == {"points": 20}

    async def test_it_says_why_there_was_no_catalog(self, client, service):
        service.faults.add("models.list", Fault.status(401), times=None)
        check = await client.videos.check(**GOOD)

        assert (check.is_ok, check.model) == (True, None)
        assert getattr(check.catalog_error, "status", None) == 401

    async def test_a_problem_of_the_model_alone_asks_for_no_catalog(self, client, service):
        check = await client.videos.check(model=" ", prompt="p")
        assert check.problems == ("model: must not be empty",)
        assert catalogs(service) == 0


def catalog_of(*entries: str) -> BufferedResponse:
    """A catalog of these entries, by default of a model that can be used."""
    entries = entries or ('{"code": "m", "enabled": true, "maintenance": false}',)
    return BufferedResponse(200, f'{{"models": [{", ".join(entries)}]}}'.encode())


class TestTime:
    """On a virtual clock, with a service of a few lines."""

    @pytest.fixture
    def clock(self):
        return VirtualClock()

    def client(self, clock, answer, **options):
        """A client whose service gives this answer, or what this function of the number of the request returns."""
        asked: list[float] = []

        async def handle(request: Request) -> BufferedResponse:
            asked.append(clock.now())
            return answer if isinstance(answer, BufferedResponse) else await answer(len(asked))

        transport = FakeTransport(handle)
        made = Client("key-1", base_url="https://service.net/openapi/v1", transport=transport, clock=clock, **options)
        return made, asked

    async def test_a_copy_is_good_for_five_minutes(self, clock):
        client, asked = self.client(clock, catalog_of())
        async with client:
            for pause in (0, 299, 2):
                await clock.sleep(pause)
                assert (await client.videos.check(model="m", prompt="p")).is_ok
        assert asked == [0, 301]

    async def test_a_silent_catalog_holds_a_create_up_for_five_seconds_and_then_is_left_alone(self, clock):
        async def answer(_):
            await clock.sleep(3600)
            raise AssertionError

        client, asked = self.client(clock, answer)
        async with client:
            check = await client.videos.check(model="m", prompt="p")
            assert clock.now() == 5
            assert "no catalog was received within 5 s" in str(check.catalog_error)
            await client.videos.check(model="m", prompt="p")
            assert (clock.now(), asked) == (5, [0])
            await clock.sleep(30)
            await client.videos.check(model="m", prompt="p")
            assert asked == [0, 35]

    async def test_the_time_limit_of_retries_applies_to_the_catalog_too(self, clock):
        client, asked = self.client(clock, BufferedResponse(503, b""), retry_reads_for=0)
        async with client:
            check = await client.videos.check(model="m", prompt="p")
        assert "503" in str(check.catalog_error)
        assert (clock.now(), asked) == (0, [0])

    async def test_after_no_connection_the_next_create_looks_again_at_once(self, clock):
        async def answer(_):
            if clock.now() < 6:
                raise ConnectError("refused", delivery=Delivery.NOT_SENT)
            return catalog_of('{"code": "m", "enabled": false, "maintenance": true}')

        client, asked = self.client(clock, answer)
        async with client:
            checks = await asyncio.gather(*(client.videos.check(model="m", prompt="p") for _ in range(5)))
            assert all(check.is_ok for check in checks)
            assert clock.now() <= 5
            await clock.sleep(6 - clock.now())
            assert not (await client.videos.check(model="m", prompt="p")).is_ok
            assert asked[-1] == 6

    async def test_a_copy_of_the_last_minutes_counts_where_no_newer_one_can_be_had(self, clock):
        async def answer(n):
            return catalog_of('{"code": "m", "enabled": false}') if n == 1 else BufferedResponse(400, b"{}")

        client, _ = self.client(clock, answer)
        async with client:
            assert not (await client.videos.check(model="m", prompt="p")).is_ok
            await clock.sleep(290)
            assert not (await client.videos.check(model="m", prompt="p")).is_ok
            await clock.sleep(20)
            assert (await client.videos.check(model="m", prompt="p")).is_ok

    async def test_a_new_look_for_a_bad_request_does_not_hold_up_a_good_one(self, clock):
        async def answer(n):
            await clock.sleep(4 if n > 1 else 0)
            return catalog_of()

        client, _ = self.client(clock, answer)
        async with client:
            assert (await client.videos.check(model="m", prompt="p")).is_ok
            await clock.sleep(1)
            bad = asyncio.ensure_future(client.videos.check(model="unknown", prompt="p"))
            await clock.sleep(1)
            assert (await client.videos.check(model="m", prompt="p")).is_ok
            assert clock.now() == 2
            assert not (await bad).is_ok

    @pytest.mark.parametrize(
        "entry",
        [
            '{"id": "m"}',
            '{"code": "m", "enabled": "yes", "maintenance": false}',
            '{"code": "m", "enabled": true, "maintenance": false, "maxReferenceImages": -1}',
        ],
    )
    async def test_what_cannot_be_read_in_the_catalog_refuses_nothing(self, clock, entry):
        client, _ = self.client(clock, catalog_of(entry))
        async with client:
            assert (await client.videos.check(model="m", prompt="p", image_ids=["a", "b"])).problems == ()

    async def test_of_several_entries_of_a_model_the_usable_one_counts(self, clock):
        usable = '{"code": "m", "enabled": true, "maintenance": false}'
        client, _ = self.client(clock, catalog_of('{"code": "m", "enabled": false}', usable))
        async with client:
            assert (await client.videos.check(model="m", prompt="p")).is_ok

    async def test_a_catalog_of_very_many_models_makes_a_short_message(self, clock):
        entries = (f'{{"code": "model-{n}", "enabled": true, "maintenance": false}}' for n in range(3_000))
        client, _ = self.client(clock, catalog_of(*entries))
        async with client:
            (problem,) = (await client.videos.check(model="model-x", prompt="p")).problems
        assert problem.endswith("model-18, model-19 and 2980 more")

    async def test_a_miss_in_a_cassette_is_not_swallowed(self, clock):
        async def answer(_):
            raise CassetteError("no such interaction")

        client, _ = self.client(clock, answer)
        async with client:
            with pytest.raises(CassetteError):
                await client.videos.check(model="m", prompt="p")

    async def test_a_check_that_is_cancelled_leaves_the_next_one_free(self, clock):
        async def answer(n):
            if n == 1:
                await asyncio.Event().wait()
            return catalog_of()

        client, _ = self.client(clock, answer)
        async with client:
            with clock.hold():
                first = asyncio.ensure_future(client.videos.check(model="m", prompt="p"))
                await asyncio.sleep(0)
                first.cancel()
                await asyncio.gather(first, return_exceptions=True)
            assert (await client.videos.check(model="m", prompt="p")).model is not None
