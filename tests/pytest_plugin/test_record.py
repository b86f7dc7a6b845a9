"""Recording: from where, and what is written when."""

from functools import partial

import pytest

from vidgen_async.cassette import load, recover

from .conftest import AUTO, FAST_SANDBOX

RECORD = "--vidgen-mode=record"
FROM_THE_SANDBOX = "--vidgen-record-from=sandbox"

READS_ACCOUNT = "async def test_one(vidgen_client):\n    await vidgen_client.account.get()\n"


@pytest.fixture
def record(project, service):
    """Runs pytest with the service in its environment."""
    return partial(project.pytest, VIDGEN_API_KEY=service.api_key, VIDGEN_BASE_URL=service.base_url)


@pytest.fixture
def cassette(project):
    return project.home / "cassettes" / "test_shop" / "test_one.json"


def ops(path):
    return [one.op for one in load(path).interactions]


# -- from a sandbox: no key, no charge ---------------------------------------------------------------------------------

SHOP = """
    import pytest
    from vidgen_async import UncertainCreateError
    from vidgen_async.sandbox import Fault

    FIELDS = {"model": "gen-2.0", "prompt": "a boat", "duration": 5, "order_id": "order-1"}

    async def test_one(vidgen_client):
        task = await vidgen_client.videos.wait(await vidgen_client.videos.create(**FIELDS))
        assert task.status == "completed"
        assert vidgen_client.watcher.stats.interval_now < 30, "a sandbox is polled once a second"

    async def test_fault(vidgen_client, vidgen_sandbox):
        vidgen_sandbox.faults.add("videos.create", Fault.close_after_body())
        with pytest.raises(UncertainCreateError):
            await vidgen_client.videos.create(**FIELDS)

    async def test_old(vidgen_client):
        await vidgen_client.models.list()

    async def test_nothing(vidgen_client): pass

    class TestOwn:
        @pytest.fixture
        def vidgen_sandbox(self, vidgen_sandbox):
            vidgen_sandbox.balance = 7
            return vidgen_sandbox

        async def test_poor(self, vidgen_client):
            assert (await vidgen_client.account.get()).balance == 7
"""
ALL_PASSED = {test: {"PASSED"} for test in ("test_one", "test_fault", "test_old", "test_nothing", "TestOwn::test_poor")}


@pytest.mark.slow
def test_a_recording_from_the_sandbox_needs_no_key_and_its_replay_nothing(project):
    project.tests(SHOP)
    project.tests(FAST_SANDBOX, "conftest.py")
    project.cassette("test_shop/test_old", 500, 485)

    recorded = project.pytest(RECORD, FROM_THE_SANDBOX, VIDGEN_JOURNAL="sqlite:///orders.db")

    assert (recorded.outcomes, recorded.code) == (ALL_PASSED, 0)
    directory = project.home / "cassettes" / "test_shop"
    found = {path.name: ops(path) for path in directory.iterdir()}
    assert found.pop("test_one.json")[:3] == ["models.list", "videos.create", "videos.get"]
    assert found == {
        "test_fault.json": ["models.list", "videos.create"],
        "test_old.json": ["models.list"],
        "test_nothing.json": [],
        "TestOwn.test_poor.json": ["account.get"],
    }
    assert list(project.home.glob("orders.db*")) == [], "no order of a test is stored"

    replayed = project.pytest()

    assert (replayed.outcomes, replayed.code) == (ALL_PASSED, 0)


# -- from the service --------------------------------------------------------------------------------------------------


def test_the_service_of_the_environment_is_recorded(project, record, service, cassette):
    project.tests("""
        import os

        async def test_one(vidgen_cassette, vidgen_client):
            assert vidgen_cassette.mode == "record"
            assert vidgen_cassette.base_url == os.environ["VIDGEN_BASE_URL"]
            assert vidgen_cassette.api_key == os.environ["VIDGEN_API_KEY"]
            assert not vidgen_cassette.path.exists()
            await vidgen_client.account.get()
    """)

    ran = record(RECORD)

    assert ran.outcomes == {"test_one": {"PASSED"}}
    assert [request.op for request in service.requests] == ["account.get"]
    assert ops(cassette) == ["account.get"]
    assert service.api_key not in cassette.read_text()


@pytest.mark.slow
def test_another_client_of_the_test_is_recorded_and_its_transport_closed_by_the_fixture(project, record, cassette):
    project.tests("""
        import pytest
        from vidgen_async import Client
        from vidgen_async.errors import TransportClosedError

        left = []

        async def test_one(vidgen_cassette):
            own = vidgen_cassette
            async with Client(own.api_key, base_url=own.base_url, transport=own.transport, poll_interval=1) as client:
                await client.account.get()

        async def test_two(vidgen_cassette):
            own = vidgen_cassette
            client = Client(own.api_key, base_url=own.base_url, transport=own.transport, poll_interval=1)
            await client.account.get()
            left.append(own)

        async def test_three():
            with pytest.raises(TransportClosedError):
                await Client("key", base_url=left[0].base_url, transport=left[0].transport.inner).account.get()
    """)

    ran = record(RECORD)

    assert ran.outcomes == {test: {"PASSED"} for test in ("test_one", "test_two", "test_three")}
    assert ops(cassette) == ops(cassette.with_name("test_two.json")) == ["account.get"]


@pytest.mark.slow
def test_recording_from_the_service_names_the_missing_settings(project):
    project.tests(READS_ACCOUNT)
    for environment, missing in NEEDED:
        ran = project.pytest(RECORD, **environment)

        assert ran.outcomes == {"test_one": {"ERROR"}}
        needs = f"recording from the service needs {missing} in the environment, and its"
        assert f"test_shop.py::test_one: {needs}" in ran.text
        again = "pytest test_shop.py::test_one --vidgen-mode=record --vidgen"
        assert f"charged; a sandbox costs nothing: {again}" in ran.text
        assert "vidgen_async/" not in ran.text
        assert not (project.home / "cassettes").exists()


#: What is in the environment, and what else is needed.
NEEDED = [({}, "VIDGEN_API_KEY and VIDGEN_BASE_URL"), ({"VIDGEN_API_KEY": "vg-key-1"}, "VIDGEN_BASE_URL")]


def test_a_proxy_that_cannot_be_used_is_reported_without_its_password(project):
    project.tests(READS_ACCOUNT)
    facts = {"VIDGEN_API_KEY": "vg-key-1", "VIDGEN_BASE_URL": "https://service.test/openapi/v1"}
    ran = project.pytest(RECORD, VIDGEN_PROXY="socks5://user:hush-hush@h:1", **facts)
    assert ran.outcomes == {"test_one": {"ERROR"}}
    assert "test_shop.py::test_one: VIDGEN_PROXY must begin with http:// or https://" in ran.text
    assert "hush-hush" not in ran.text


def test_the_ini_file_may_name_the_source_of_recordings(project, record, service):
    project.ini(f"{AUTO}\nvidgen_record_from = sandbox")
    project.tests(READS_ACCOUNT)
    assert record(RECORD).outcomes == {"test_one": {"PASSED"}}
    assert service.requests == []


# -- auto --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_auto_records_a_missing_cassette_and_replays_an_existing_one(project, record, service, cassette):
    project.tests(READS_ACCOUNT)
    for _ in range(2):
        assert record("--vidgen-mode=auto").outcomes == {"test_one": {"PASSED"}}
    assert [request.op for request in service.requests] == ["account.get"]
    assert ops(cassette) == ["account.get"]


def test_auto_never_records_on_a_ci_system(project, record, service, cassette):
    project.tests(READS_ACCOUNT)

    ran = record("--vidgen-mode=auto", TF_BUILD="True")

    assert ran.outcomes == {"test_one": {"ERROR"}}
    assert (
        "test_one.json; nothing is recorded on a CI system (TF_BUILD is set). Record it: pytest test_shop.py::test_one"
        in ran.text
    )
    assert service.requests == []
    assert not cassette.exists()


# -- append ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_append_replays_recorded_interactions_and_records_the_others(project, record, service, cassette):
    project.tests(READS_ACCOUNT)
    record(RECORD)
    project.tests(f"{READS_ACCOUNT}    await vidgen_client.models.list()\n")

    ran = record("--vidgen-mode=append")

    assert ran.outcomes == {"test_one": {"PASSED"}}
    assert [request.op for request in service.requests] == ["account.get", "models.list"]
    assert ops(cassette) == ["account.get", "models.list"]


@pytest.mark.slow
def test_nothing_is_appended_from_a_sandbox_to_an_existing_cassette(project, cassette):
    project.tests(READS_ACCOUNT)
    arguments = ("--vidgen-mode=append", FROM_THE_SANDBOX)
    assert project.pytest(*arguments).outcomes == {"test_one": {"PASSED"}}
    before = cassette.read_bytes()

    ran = project.pytest(*arguments)

    assert ran.outcomes == {"test_one": {"ERROR"}}
    again = "record a new one: pytest test_shop.py::test_one --vidgen-mode=record --vidgen-record-from=sandbox\n"
    assert f"nothing can be appended from it; {again}" in ran.text
    assert cassette.read_bytes() == before


# -- what is published -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["record", "append"])
def test_the_recording_of_a_test_that_does_not_pass_is_not_published(project, record, mode):
    project.tests("""
        import pytest

        async def ask(client):
            await client.models.list()
            await client.account.get()

        async def test_fails(vidgen_client):
            await ask(vidgen_client)
            assert False

        async def test_is_skipped(vidgen_client):
            await ask(vidgen_client)
            pytest.skip("not today")

        async def test_is_expected_to_fail(vidgen_client):
            await ask(vidgen_client)
            pytest.xfail("not today")

        @pytest.fixture
        def broken(vidgen_client):
            yield
            raise RuntimeError("broken")

        async def test_fails_when_it_is_torn_down(vidgen_client, broken):
            await ask(vidgen_client)

        @pytest.mark.xfail(strict=True)
        async def test_fails_by_passing(vidgen_client):
            await ask(vidgen_client)
    """)
    tests = ["fails", "is_skipped", "is_expected_to_fail", "fails_when_it_is_torn_down", "fails_by_passing"]
    before = {test: project.cassette(f"test_shop/test_{test}", 1) for test in tests}
    text = before["fails"].read_bytes()
    # pytest itself shows no section of a test that was skipped.
    hook = "def pytest_runtest_logreport(report): print([text for _, text in report.sections if report.skipped])"
    project.tests(hook, "conftest.py")

    ran = record(f"--vidgen-mode={mode}")

    for path in before.values():
        part = path.with_name(f"{path.name}.part")
        assert path.read_bytes() == text
        assert [one.op for one in recover(part).document.interactions][-2:] == ["models.list", "account.get"]
        named = f"{path} was not recorded; the finished interactions are in {part}"
        assert ran.text.count(named) == 1
    assert "2 failed, 1 passed, 1 skipped, 1 xfailed, 1 error" in ran.text


@pytest.mark.slow
def test_a_cassette_that_cannot_be_published_fails_the_test_and_leaves_the_recording(project, record, cassette):
    project.tests(
        f"{READS_ACCOUNT}    (vidgen_cassette.path / 'in the way').mkdir(parents=True)\n".replace(
            "one(", "one(vidgen_cassette, "
        )
    )

    ran = record(RECORD)

    assert ran.outcomes == {"test_one": {"PASSED", "ERROR"}}
    assert f"{cassette} cannot be written" in ran.text
    assert f"was not recorded; the finished interactions are in {cassette}.part\n" in ran.text


# -- two processes -----------------------------------------------------------------------------------------------------


@pytest.mark.needs_dev
def test_two_processes_can_replay_one_cassette_but_not_record_it_at_the_same_time(project):
    project.tests("""
        import pytest, time
        from pathlib import Path

        pytestmark = pytest.mark.vidgen_cassette(name="recorded")
        begun, refused = Path("begun").absolute(), Path("refused").absolute()

        def wait_for(path):
            deadline = time.monotonic() + 60
            while not path.exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)

        @pytest.mark.xdist_group("one")
        async def test_first(vidgen_client):
            await vidgen_client.account.get()
            begun.touch()
            wait_for(refused)

        @pytest.mark.xdist_group("two")
        async def test_second(vidgen_client, request):
            request.addfinalizer(refused.touch)
            wait_for(begun)
            await vidgen_client.account.get()

        async def plays(vidgen_client):
            assert (await vidgen_client.account.get()).balance == 500

        played = pytest.mark.vidgen_cassette(name="played")
        test_plays_in_one = pytest.mark.xdist_group("one")(played(plays))
        test_plays_in_two = pytest.mark.xdist_group("two")(played(plays))

        @pytest.mark.vidgen_cassette(name="unused")
        async def test_unused(vidgen_client): pass
    """)
    for name in ("played", "unused"):
        project.cassette(name, 500)

    parallel = ("-n", "2", "--dist", "loadgroup", "--vidgen-mode=auto", FROM_THE_SANDBOX)
    ran = project.pytest_process(*parallel, plugins=("vidgen_async", "asyncio", "xdist"))

    assert "1 failed, 4 passed, 1 error" in ran.text
    assert "vidgen_async.errors.CassetteBusyError: " in ran.text
    recorded = project.home / "cassettes" / "recorded.json"
    assert "was not recorded" not in ran.text
    assert ops(recorded) == ["account.get"]
    assert ran.outcomes["test_unused"] == {"PASSED", "ERROR"}
