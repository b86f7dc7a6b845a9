"""Tests on a cassette: without a network, without a key, and with an end that hides nothing."""

import pytest

from .conftest import AUTO, BASE_URL

pytestmark = pytest.mark.slow

STRICT = AUTO.replace("auto", "strict")
NOTHING = "filterwarnings('error')"
READS_ONCE = "assert (await vidgen_client.account.get()).balance == 500"


def test_the_default_is_a_replay_without_a_key_and_without_the_extra_of_the_sandbox(project):
    """In a process of its own, which imports all that it needs and finds the plugin by its entry point."""
    (project.home / "PIL.py").write_text("raise ModuleNotFoundError(\"No module named 'PIL'\", name='PIL')")
    project.tests(f"""
        async def test_one(vidgen_cassette, vidgen_client):
            assert vidgen_cassette.mode == "replay"
            assert vidgen_cassette.base_url == "{BASE_URL}"
            assert vidgen_cassette.path.parts[-3:] == ("cassettes", "test_shop", "test_one.json")
            assert [(await vidgen_client.account.get()).balance for _ in range(2)] == [500, 485]
            assert vidgen_cassette.transport.played == [1, 2]
            assert vidgen_cassette.clock is vidgen_cassette.transport.clock
            await vidgen_cassette.clock.sleep(86400)
            assert vidgen_cassette.api_key not in repr(vidgen_cassette)

        class TestShop:
            async def test_two(self, vidgen_client):
                {READS_ONCE}

        async def test_three(vidgen_sandbox): pass
    """)
    project.cassette("test_shop/test_one", 500, 485)
    project.cassette("test_shop/TestShop.test_two", 500)

    ran = project.pytest_process()

    assert ran.outcomes == {"test_one": {"PASSED"}, "TestShop::test_two": {"PASSED"}, "test_three": {"ERROR"}}
    message = "test_shop.py::test_three: the sandbox needs PIL: pip install 'vidgen-async[sandbox]'"
    assert f"\n{message}\n" in ran.text
    assert "Traceback" not in ran.text
    assert "vidgen cassettes" not in ran.text


@pytest.mark.parametrize(
    ("ini", "plugins", "marks"),
    [
        (f"{AUTO}\nasyncio_default_test_loop_scope = module", ["asyncio"], [NOTHING]),
        (AUTO.replace("function", "session"), ["asyncio"], [NOTHING]),
        (
            STRICT,
            ["asyncio", "anyio"],
            ["asyncio", "asyncio(loop_scope='class')", "asyncio(loop_scope='session')", "anyio"],
        ),
        # Each runs a part of these tests, and which one depends on the order of the plugins.
        (AUTO, ["asyncio", "anyio"], [NOTHING, "anyio", "usefixtures('anyio_backend')"]),
        (AUTO, ["anyio", "asyncio"], ["anyio"]),
        (f"{AUTO}\nasyncio_default_test_loop_scope = module", ["asyncio", "anyio"], ["anyio"]),
        (STRICT, ["asyncio", "anyio"], ["asyncio(loop_scope='class')\n        @pytest.mark.anyio"]),
        ("", ["anyio"], ["anyio"]),
        ("anyio_mode = auto", ["anyio"], [NOTHING]),
    ],
)
def test_client_and_sandbox_run_on_the_loop_of_the_test_with_every_plugin(project, ini, plugins, marks):
    project.ini(ini)
    of_a_class = """
        @pytest.mark.vidgen_cassette(name="shared")
        @pytest.mark.{mark}
        class Test{number}:
            async def test_one(self, vidgen_sandbox, dependent):
                assert (await dependent.account.get()).balance == 500
                async with Client(vidgen_sandbox.api_key, base_url=vidgen_sandbox.base_url) as client:
                    assert (await client.account.get()).balance == vidgen_sandbox.balance
    """
    project.tests(
        """
        import pytest
        from vidgen_async import Client

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.fixture
        def dependent(vidgen_client):
            yield vidgen_client
            print("it was", "closed" if vidgen_client.is_closed else "open", "for what was set up later")
        """
        + "".join(of_a_class.format(mark=mark, number=number) for number, mark in enumerate(marks))
    )
    project.cassette("shared", 500)

    ran = project.pytest(plugins=("vidgen_async", *plugins))

    assert ran.outcomes == {f"Test{number}::test_one": {"PASSED"} for number in range(len(marks))}, ran.text
    assert ran.text.count("it was open for what was set up later") == len(marks)


def test_the_client_is_closed_after_the_test(project):
    project.tests(f"""
        clients = []

        async def test_one(vidgen_client):
            clients.append(vidgen_client)
            {READS_ONCE}

        async def test_two():
            assert clients[0].is_closed
    """)
    project.cassette("test_shop/test_one", 500)
    assert project.pytest().outcomes == {"test_one": {"PASSED"}, "test_two": {"PASSED"}}


def test_a_test_without_an_event_loop_may_replay_a_cassette(project):
    project.ini("")
    project.tests("""
        import asyncio
        from vidgen_async import Client

        async def ask(cassette):
            async with Client(cassette.api_key, base_url=cassette.base_url, transport=cassette.transport) as client:
                return await client.account.get()

        def test_one(vidgen_cassette):
            assert asyncio.run(ask(vidgen_cassette)).balance == 500

        def test_two(vidgen_client): pass

        def test_three(vidgen_sandbox): pass
    """)
    project.cassette("test_shop/test_one", 500)
    project.cassette("test_shop/test_two", 500)

    ran = project.pytest(plugins=("vidgen_async",))

    assert ran.outcomes == {"test_one": {"PASSED"}, "test_two": {"ERROR"}, "test_three": {"ERROR"}}
    for fixture, test in (("vidgen_client", "two"), ("vidgen_sandbox", "three")):
        message = f"{fixture} needs an event loop, and test_shop.py::test_{test} has none: make it an async test of"
        assert f"\n{message} pytest-asyncio or anyio" in ran.text


def test_a_replay_ignores_the_journal_and_the_key_of_the_environment(project):
    project.tests(f"async def test_one(vidgen_client):\n    {READS_ONCE}")
    project.cassette("test_shop/test_one", 500)
    facts = {"VIDGEN_API_KEY": "vg-key-1", "VIDGEN_BASE_URL": "http://127.0.0.1:9/openapi/v1"}

    ran = project.pytest(**facts, VIDGEN_JOURNAL="sqlite:///orders.db")

    assert ran.outcomes == {"test_one": {"PASSED"}}
    assert not list(project.home.glob("orders.db*"))


def test_a_missing_cassette_names_its_path_and_the_command_that_records_it(project):
    project.tests(f"async def test_one(vidgen_client):\n    {READS_ONCE}")

    ran = project.pytest()

    assert ran.outcomes == {"test_one": {"ERROR"}}
    path, command = "cassettes/test_shop/test_one.json", "pytest test_shop.py::test_one --vidgen-mode=record"
    assert (
        f"test_shop.py::test_one: there is no cassette at {path}. Record it: {command} (or, for no points, with"
        in ran.text
    )
    assert "Traceback" not in ran.text
    assert "vidgen_async/" not in ran.text


def test_the_command_is_quoted_and_relative_to_the_working_directory(project):
    project.tests("""
        import pytest

        @pytest.mark.parametrize("word", ["a b"])
        async def test_one(word, vidgen_client): pass
    """)
    ran = project.pytest("--vidgen-cassettes=all of them")
    path = "all of them/test_shop/test_one[a_b]-14e99c8f3a8f.json"
    command = "pytest 'test_shop.py::test_one[a b]' --vidgen-mode=record '--vidgen-cassettes=all of them'"
    assert f"there is no cassette at {path}. Record it: {command} (or, for no points, with" in ran.text


@pytest.mark.parametrize("by", ["option", "ini"])
def test_one_directory_may_hold_the_cassettes_of_all_tests(project, by):
    for file in ("a/test_shop.py", "b/test_shop.py"):
        project.tests("def test_one(vidgen_cassette): pass", file)
        project.cassette(f"{file.removesuffix('.py')}/test_one")
    (project.home / "cassettes").rename(project.home / "tapes")
    if by == "ini":
        project.ini(f"{AUTO}\nvidgen_cassettes = tapes")

    ran = project.pytest("--import-mode=importlib", *(["--vidgen-cassettes=tapes"] if by == "option" else []))

    assert "2 passed" in ran.text


def test_a_damaged_cassette_is_reported_in_one_sentence(project):
    project.tests("def test_one(vidgen_cassette): pass")
    project.cassette("test_shop/test_one").write_text("{")
    ran = project.pytest()
    assert ran.outcomes == {"test_one": {"ERROR"}}
    assert "cassettes/test_shop/test_one.json" in ran.text
    assert "vidgen_async/" not in ran.text


# -- the end of a test -------------------------------------------------------------------------------------------------

SWALLOWS = "with contextlib.suppress(Exception): await vidgen_client.models.list()"


def test_unused_interactions_fail_a_test_that_passed_unless_they_are_allowed(project):
    project.tests(f"""
        import pytest

        async def test_one(vidgen_client):
            {READS_ONCE}

        @pytest.mark.vidgen_cassette(name="test_shop/test_one", allow_unused=True)
        async def test_two(vidgen_client):
            {READS_ONCE}
    """)
    project.cassette("test_shop/test_one", 500, 485)

    ran = project.pytest()

    assert ran.code == pytest.ExitCode.TESTS_FAILED
    assert ran.outcomes == {"test_one": {"PASSED", "ERROR"}, "test_two": {"PASSED"}}
    assert "1 interaction was never replayed:" in ran.text
    assert f"n=2 GET {BASE_URL}/account (account.get)" in ran.text


def test_a_suppressed_miss_fails_a_test_that_passed_even_if_unused_interactions_are_allowed(project):
    project.tests(f"""
        import contextlib
        import pytest

        @pytest.mark.vidgen_cassette(allow_unused=True)
        async def test_one(vidgen_client):
            {SWALLOWS}
    """)
    project.cassette("test_shop/test_one", 500)

    ran = project.pytest()

    assert ran.code == pytest.ExitCode.TESTS_FAILED
    assert ran.outcomes == {"test_one": {"PASSED", "ERROR"}}
    assert f"CassetteMissError: {project.home}/cassettes/test_shop/test_one.json has no interaction for GET" in ran.text


def test_requests_in_the_teardown_of_other_fixtures_are_replayed(project):
    project.tests(f"""
        import pytest_asyncio

        @pytest_asyncio.fixture
        async def shop(vidgen_client):
            yield
            assert (await vidgen_client.account.get()).balance == 485

        async def test_one(shop, vidgen_client):
            {READS_ONCE}
    """)
    project.cassette("test_shop/test_one", 500, 485)
    assert project.pytest().outcomes == {"test_one": {"PASSED"}}


def test_a_failing_test_has_no_second_error_and_its_report_shows_the_miss(project):
    project.tests(f"""
        import contextlib
        import pytest

        async def test_one(vidgen_client):
            {SWALLOWS}
            assert "the page" == "an apology"

        async def test_two(vidgen_client):
            await vidgen_client.models.list()

        @pytest.fixture
        def broken(vidgen_client):
            raise RuntimeError("broken")

        async def test_three(broken): pass

        async def test_four(vidgen_client):
            pytest.skip("not today")

        @pytest.mark.xfail(strict=True)
        async def test_five(vidgen_client):
            assert False
    """)
    for test in ("one", "two", "three", "four", "five"):
        project.cassette(f"test_shop/test_{test}", 500)

    ran = project.pytest()

    assert ran.outcomes == {
        "test_one": {"FAILED"},
        "test_two": {"FAILED"},
        "test_three": {"ERROR"},
        "test_five": {"XFAIL"},
    }
    assert "never played" not in ran.text
    sections = ran.text.count("vidgen cassette ----")
    assert sections == 1, "beside the first failure alone: the second is the miss itself"
    assert f"vidgen cassette {'-' * 3}" in ran.text.split("test_two ___")[0]
    assert f"test_one.json has no interaction for GET {BASE_URL}/models" in ran.text


@pytest.mark.needs_dev
def test_the_sandbox_needs_no_pyav(project):
    """In a process of its own, which has not imported it."""
    (project.home / "av.py").write_text("raise ModuleNotFoundError(\"No module named 'av'\", name='av')")
    project.tests("""
        from vidgen_async import Client

        async def test_one(vidgen_sandbox, tmp_path):
            vidgen_sandbox.clock.speed = 1000
            key, url = vidgen_sandbox.api_key, vidgen_sandbox.base_url
            async with Client(key, base_url=url, poll_interval=0.01) as client:
                await client.videos.generate(model="gen-2.0", prompt="a boat", to=tmp_path / "boat.mp4")
    """)

    ran = project.pytest_process()

    assert ran.outcomes == {"test_one": {"PASSED"}}
    assert "PyAV is not installed" in ran.text
