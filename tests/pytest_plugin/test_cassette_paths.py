"""Where the cassette of a test is."""

from pathlib import Path

from vidgen_async.pytest_plugin.session import LONGEST, cassettes_of, file_name
from vidgen_async.pytest_plugin.settings import is_name

ROOT = Path("/home/project")
TEST_FILE = ROOT / "tests" / "orders" / "test_shop.py"

#: Tests that a careless mapping would give one file.
DISTINCT = [
    "test_one",
    "TestShop.test_one",
    "test_one[a]",
    "test_one[A]",
    "test_one[a/b]",
    "test_one[a_b]",
    "test_one[a b]",
    "test_one[a:b]",
    "test_one[../../../a]",
    "test_one[]",
    "test_one[\u00e9]",
    "test_one[e\u0301]",
    "test_one[\udcff]",
    "test_one[" + "a" * LONGEST + "]",
    "test_one[" + "a" * LONGEST + "b]",
    "test_one[a\0]",
    "test_one[a\n]",
]


def test_a_plain_name_is_unchanged():
    names = ("test_one", "TestShop.test_one", "TestShop.TestOrders.test_one[gen-2.0-5]")
    assert [file_name(name) for name in names] == [f"{name}.json" for name in names]


def test_no_two_tests_share_a_file_even_if_the_file_system_ignores_case():
    assert len({file_name(test).lower() for test in DISTINCT}) == len(DISTINCT)


def test_no_plain_name_equals_the_replacement_of_another_name():
    replacement = file_name("test_one[a b]").removesuffix(".json")
    assert file_name(replacement) != f"{replacement}.json"


def test_a_file_name_is_valid_on_every_file_system():
    def is_valid(name):
        is_plain = name.isascii() and name.isprintable() and set(name).isdisjoint('/\\:*?"<>| ')
        return is_plain and len(f".{name}.part.old") <= 143

    assert [name for name in map(file_name, DISTINCT) if not is_valid(name)] == []


def test_the_file_of_a_test_never_changes():
    assert file_name("test_one[a b]") == "test_one[a_b]-14e99c8f3a8f.json"


def test_cassettes_are_beside_the_test_file():
    assert cassettes_of(TEST_FILE, None, ROOT) == ROOT / "tests" / "orders" / "cassettes"


def test_in_one_directory_for_all_cassettes_each_directory_of_tests_has_its_own():
    together = Path("/mnt/cassettes")
    assert cassettes_of(TEST_FILE, together, ROOT) == together / "tests" / "orders"
    assert cassettes_of(TEST_FILE, together, Path("/elsewhere")) == together / "home" / "project" / "tests" / "orders"


def test_a_name_may_be_a_path_below_the_directory():
    assert [name for name in ("one", "orders/one", "v2.0/one-more[a]") if not is_name(name)] == []


def test_a_name_may_not_be_any_other_path():
    names = ("", "/one", "one/", "../one", "one/../../two", ".", "a b", "a\\b", "a:b", "a\n", 1, None)
    assert [name for name in names if is_name(name)] == []
