"""The precedence of the settings, and the messages about invalid ones."""

import pytest

from .conftest import AUTO

RAISES_THE_MODE = """
    import pytest

    async def test_plain(vidgen_cassette):
        raise RuntimeError(f"the mode is {vidgen_cassette.mode}")

    @pytest.mark.vidgen_cassette(mode="append")
    async def test_marked(vidgen_cassette):
        raise RuntimeError(f"the mode is {vidgen_cassette.mode}")
"""
KEY = {"VIDGEN_API_KEY": "vg-key-1", "VIDGEN_BASE_URL": "http://127.0.0.1:9/openapi/v1"}


@pytest.mark.parametrize(
    ("option", "variable", "ini", "plain", "marked"),
    [
        ((), "", "", "replay", "append"),
        ((), "", "vidgen_mode = record", "record", "append"),
        ((), "record", "vidgen_mode = append", "record", "record"),
        (("--vidgen-mode=auto",), "record", "vidgen_mode = record", "replay", "replay"),
    ],
)
def test_the_option_takes_precedence_over_the_environment_that_over_the_marker_and_that_over_the_ini_file(
    project, option, variable, ini, plain, marked
):
    project.ini(f"{AUTO}\n{ini}")
    project.tests(RAISES_THE_MODE)
    project.cassette("test_shop/test_plain")
    project.cassette("test_shop/test_marked")

    ran = project.pytest(*option, **KEY, VIDGEN_CASSETTE_MODE=variable)

    assert f"FAILED test_shop.py::test_plain - RuntimeError: the mode is {plain}\n" in ran.text
    assert f"FAILED test_shop.py::test_marked - RuntimeError: the mode is {marked}\n" in ran.text


@pytest.mark.parametrize(
    ("option", "ini", "message"),
    [
        ((), "vidgen_mode = once", "vidgen_mode is 'once': it must be replay, record, append or auto"),
        ((), "vidgen_record_from = moon", "vidgen_record_from is 'moon': it must be service or sandbox"),
        (("--vidgen-mode=once",), "", "argument --vidgen-mode: invalid choice: 'once'"),
        (("--vidgen-record-from=moon",), "", "argument --vidgen-record-from: invalid choice: 'moon'"),
    ],
)
def test_an_unknown_value_is_a_usage_error(project, option, ini, message):
    project.ini(f"{AUTO}\n{ini}")
    project.tests("def test_nothing(): pass")

    ran = project.pytest(*option)

    assert ran.code == pytest.ExitCode.USAGE_ERROR
    assert message in ran.text


def test_an_unknown_value_in_the_environment_fails_only_the_tests_that_use_it(project):
    project.tests("def test_nothing(): pass\nasync def test_one(vidgen_cassette): pass")

    ran = project.pytest(VIDGEN_CASSETTE_MODE="once")

    assert ran.outcomes == {"test_nothing": {"PASSED"}, "test_one": {"ERROR"}}
    message = "VIDGEN_CASSETTE_MODE is 'once': it must be replay, record, append or auto"
    assert f"\nvidgen_async: {message}\n" in ran.text
    assert f"\ntest_shop.py::test_one: {message}\n" in ran.text
    assert "Traceback" not in ran.text


ARGUMENTS = ("name", "mode", "exhausted", "prompts", "ignore", "secrets", "allow_unused")
MARKER = "the marker vidgen_cassette"
NAME = f"{MARKER} takes as 'name' a relative path of plain words, such as \"orders/one\""
#: Arguments of the marker, and the message about each.
WRONG = {
    "nmae='one'": f"{MARKER} has no argument 'nmae'; it has {', '.join(ARGUMENTS)}",
    "'one'": f"{MARKER} takes arguments by name only, such as name=…; it was given ('one',)",
    "name='../one'": f"{NAME}, not '../one'",
    "name=None": f"{NAME}, not None",
    "mode='once', secrets=['hush-hush']": "unknown cassette mode 'once': it is one of replay, record, append, auto",
    "exhausted='first'": "Cassette(exhausted=…) is 'error' or 'repeat-last', not 'first'",
    "prompts=[]": "Cassette(prompts=…) is 'keep' or 'pseudonym', not []",
    "ignore=['prompt']": "Cassette(ignore=…) holds JSON pointers like '/prompt', not 'prompt'",
    "ignore=5": "Cassette(ignore=…) holds JSON pointers like '/prompt', not 5",
    "secrets=['hush-hush', 1]": "Cassette(secrets=…) holds texts",
    "secrets=5": "Cassette(secrets=…) holds texts",
}


@pytest.mark.slow
def test_an_invalid_argument_of_the_marker_is_named_and_no_secret_is_shown(project):
    project.tests(
        "import pytest\n"
        + "".join(
            f"@pytest.mark.vidgen_cassette({marker})\ndef test_{number}(vidgen_cassette): pass\n"
            for number, marker in enumerate(WRONG)
        )
    )
    for number in range(len(WRONG)):
        project.cassette(f"test_shop/test_{number}")

    ran = project.pytest("--tb=line", "-rE")

    for number, message in enumerate(WRONG.values()):
        assert f"test_shop.py::test_{number}: {message}\n" in ran.text
    assert ran.outcomes == {f"test_{number}": {"ERROR"} for number in range(len(WRONG))}
    assert "hush-hush" not in ran.text


def test_of_several_markers_the_closest_one_is_used_for_each_argument(project):
    project.tests("""
        import pytest

        pytestmark = pytest.mark.vidgen_cassette(name="of-the-module", allow_unused=True)

        @pytest.mark.vidgen_cassette(name="of-the-class")
        class TestShop:
            def test_one(self, vidgen_cassette):
                assert vidgen_cassette.path.name == "of-the-class.json"

            @pytest.mark.vidgen_cassette(name="of-the-test")
            def test_two(self, vidgen_cassette):
                assert vidgen_cassette.path.name == "of-the-test.json"
    """)
    for name in ("of-the-class", "of-the-test"):
        project.cassette(name, 500)

    assert project.pytest().outcomes == {"TestShop::test_one": {"PASSED"}, "TestShop::test_two": {"PASSED"}}


def test_the_arguments_of_the_marker_apply_to_matching(project):
    project.tests("""
        import pytest

        @pytest.mark.vidgen_cassette(name="shared", exhausted="repeat-last")
        async def test_one(vidgen_client):
            assert [(await vidgen_client.account.get()).balance for _ in range(3)] == [500, 485, 485]

        @pytest.mark.vidgen_cassette(name="shared", ignore=["/n"], secrets=["hush"])
        @pytest.mark.vidgen_cassette(prompts="pseudonym", allow_unused=True)
        async def test_two(vidgen_cassette):
            cassette = vidgen_cassette.transport.cassette
            assert (cassette.ignore, cassette.prompts, cassette.secrets) == (("/n",), "pseudonym", ("hush",))
            assert cassette.exhausted == "error"
    """)
    project.cassette("shared", 500, 485)

    assert project.pytest().outcomes == {"test_one": {"PASSED"}, "test_two": {"PASSED"}}


def test_the_header_shows_the_mode_unless_it_is_replay(project):
    project.tests("def test_nothing(): pass")
    assert "vidgen_async: " not in project.pytest().text
    ran = project.pytest("--vidgen-mode=append", "--vidgen-record-from=sandbox")
    assert "\nvidgen_async: mode append, from the sandbox\n" in ran.text


def test_the_fixtures_and_the_marker_are_described(project):
    text = project.pytest("--fixtures").text
    for fixture in ("vidgen_cassette", "vidgen_client", "vidgen_sandbox"):
        assert f"\n{fixture} -- " in text
        assert "no docstring available" not in text.split(f"\n{fixture} -- ")[1].splitlines()[1]
    assert "@pytest.mark.vidgen_cassette(*, name, mode," in project.pytest("--markers").text
    assert "--vidgen-cassettes=DIR" in project.pytest("--help").text
