"""Several accounts: names and keys are unique, and each sees what is its own (2.2, 4.6)."""

import pytest

from tests.sandbox.conftest import Caller, picture
from vidgen_async.sandbox import Sandbox


async def test_accounts_are_made_with_the_sandbox_and_while_it_runs(session):
    async with Sandbox(balance=7, accounts={"ann": 30, "ben": 40}) as sandbox:
        sandbox.add_account(name="cleo", api_key="key-of-cleo", balance=50)
        sandbox.add_account()

        replies = [
            (await Caller(session, sandbox.base_url, account.api_key).get("/account")).json
            for account in sandbox.accounts.values()
        ]

    assert [(reply["account"], reply["credits"]) for reply in replies] == [
        ("account-1", 7),
        ("ann", 30),
        ("ben", 40),
        ("cleo", 50),
        ("account-2", 100_000),
    ]
    assert len(sandbox.accounts) == 5


async def test_an_account_and_its_ledger_are_found_by_name(session):
    async with Sandbox(speed=0) as sandbox:
        ann = sandbox.add_account(name="ann", balance=60)
        api = Caller(session, sandbox.base_url, ann.api_key)
        task_id = (await api.create(prompt="[fail]")).json["id"]
        sandbox.clock.advance(10)

        ledger = sandbox.ledger_of("ann")
        sandbox.set_balance(ann, 5)

        assert [(entry.kind, entry.points, entry.task_id) for entry in ledger] == [
            ("opening", 60, None),
            ("charge", -20, task_id),
            ("refund", 20, task_id),
            ("adjustment", -55, None),
        ]
        assert sandbox.account("ann") is ann
        assert (await api.get("/account")).json["credits"] == 5
        assert [entry.kind for entry in sandbox.ledger] == ["opening"]


def test_an_unknown_name_is_a_lookup_error_that_lists_the_names():
    sandbox = Sandbox(accounts={"ann": 1})

    with pytest.raises(LookupError, match="there is no account 'bob'; there are: account-1, ann"):
        sandbox.ledger_of("bob")


@pytest.mark.parametrize("name", ["", " ann", "a\nb", "x" * 101])
def test_a_name_that_no_line_can_show_is_refused(name):
    with pytest.raises(ValueError, match="name: must be 1 to 100 printable characters"):
        Sandbox().add_account(name=name)


@pytest.mark.parametrize("key", ["short", "with a blank", "schlüssel", "tab\tbed-key", "x" * 201, ""])
def test_a_key_that_no_header_carries_whole_is_refused_and_not_shown(key):
    with pytest.raises(ValueError, match="api_key: must be 8 to 200 visible ASCII characters") as caught:
        Sandbox(api_key=key)

    assert not key or key not in str(caught.value)


def test_a_name_or_a_key_is_given_once():
    sandbox = Sandbox(api_key="key-of-mine", accounts={"ann": 1})

    with pytest.raises(ValueError, match="name: there is an account 'ann' already; api_key: it is the key of"):
        sandbox.add_account(name="ann", api_key="key-of-mine")
    assert sandbox.accounts.names == ["account-1", "ann"]


def test_a_made_up_name_steps_aside_for_one_that_was_given():
    sandbox = Sandbox(accounts={"account-2": 1})

    assert [sandbox.add_account().name for _ in range(2)] == ["account-3", "account-4"]


async def test_one_account_sees_neither_tasks_nor_uploads_nor_keys_of_another(service, api, stranger):
    mine = (await api.create("key-of-order")).json["id"]
    image_id = (await api.upload(picture())).json["image_id"]

    theirs = (await stranger.create("key-of-order")).json["id"]

    assert theirs != mine
    assert (await stranger.get(f"/videos/{mine}")).status == 404
    assert (await stranger.create(image_ids=[image_id])).code == "REFERENCE_ASSET_EXPIRED"


async def test_the_submission_limit_is_each_accounts_own(session):
    async with Sandbox(submission_limit=1, speed=0, accounts={"ann": 100}) as sandbox:
        callers = [Caller(session, sandbox.base_url, account.api_key) for account in sandbox.accounts.values()]

        statuses = [(await caller.create()).status for caller in (*callers, *callers)]

    assert statuses == [202, 202, 429, 429]
