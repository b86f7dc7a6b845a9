"""Several accounts: names and keys are unique, and each account has its own tasks and uploads (2.2, 4.6)."""

import pytest

from tests.sandbox.conftest import Caller, picture
from vidgen_async.sandbox import Sandbox


async def test_accounts_can_be_added_on_creation_and_later(session):
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
def test_a_name_that_is_not_printable_is_refused(name):
    with pytest.raises(ValueError, match="name: must be 1 to 100 printable characters"):
        Sandbox().add_account(name=name)


@pytest.mark.parametrize("key", ["short", "with a blank", "schlüssel", "tab\tbed-key", "x" * 201, ""])
def test_a_key_that_a_header_cannot_hold_is_refused_and_not_shown(key):
    with pytest.raises(ValueError, match="api_key: must be 8 to 200 visible ASCII characters") as caught:
        Sandbox(api_key=key)

    assert not key or key not in str(caught.value)


def test_names_and_keys_are_unique():
    sandbox = Sandbox(api_key="key-of-mine", accounts={"ann": 1})

    with pytest.raises(ValueError, match="name: there is already an account 'ann'; api_key: this is the key of"):
        sandbox.add_account(name="ann", api_key="key-of-mine")
    assert sandbox.accounts.names == ["account-1", "ann"]


def test_a_generated_name_is_never_one_that_is_in_use():
    sandbox = Sandbox(accounts={"account-2": 1})

    assert [sandbox.add_account().name for _ in range(2)] == ["account-3", "account-4"]


async def test_an_account_cannot_use_tasks_uploads_or_keys_of_another(service, api, stranger):
    mine = (await api.create("key-of-order")).json["id"]
    image_id = (await api.upload(picture())).json["image_id"]

    theirs = (await stranger.create("key-of-order")).json["id"]

    assert theirs != mine
    assert (await stranger.get(f"/videos/{mine}")).status == 404
    assert (await stranger.create(image_ids=[image_id])).code == "REFERENCE_ASSET_EXPIRED"


@pytest.mark.rule("8 limit submissions", side="sandbox")
async def test_each_account_has_its_own_submission_limit(session):
    async with Sandbox(submission_limit=1, speed=0, accounts={"ann": 100}) as sandbox:
        callers = [Caller(session, sandbox.base_url, account.api_key) for account in sandbox.accounts.values()]

        statuses = [(await caller.create()).status for caller in (*callers, *callers)]

    assert statuses == [202, 202, 429, 429]
