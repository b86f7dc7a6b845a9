"""What is shown of a resource when it is printed: names and numbers of undocumented fields, and no secret."""

import pytest

from vidgen_async import Account, CatalogModel, VideoRequest

SECRETS = {
    "api_key": 71001,
    "pin": 71002,
    "exp": 71003,
    "sig": "s71004",
    "session": {"n": 71005},
    "prompt": 71006,
    "phone": 71007,
    "text": "s71008",
    "key": True,
    "long": 10**5000,
    "Bearer s71009aaaaaaaa": 1,
    "max_tokens": "s71010",
}


def test_an_account_shows_its_balance_and_its_numbers():
    account = Account(extra={"account": "ann", "credits": 1200.5, "wallet": {"frozen": 3, "vip": True, "since": None}})
    assert repr(account) == (
        "Account(balance=1200.5, extra={'account': <str>, 'credits': 1200.5, "
        "'wallet': {'frozen': 3, 'vip': True, 'since': None}})"
    )
    assert str(Account(extra={"credits": "120.5"})) == "Account(balance=120.5, extra={'credits': <str>})"
    assert repr(Account()) == "Account(balance=None, extra={})"


@pytest.mark.parametrize("make", [Account, CatalogModel, VideoRequest])
@pytest.mark.parametrize("nested", [False, True])
def test_what_may_be_secret_in_an_undocumented_field_is_not_shown(make, nested):
    required = {CatalogModel: {"code": "m"}, VideoRequest: {"model": "m", "prompt": "p"}}.get(make, {})
    value = make(**required, extra={"inner": SECRETS} if nested else SECRETS)
    assert "710" not in repr(value)
    assert "True" not in repr(value).partition("extra=")[2]
    assert "'max_tokens': <str>" in repr(value)


def test_prices_of_a_model_are_shown():
    model = CatalogModel(
        code="m", extra={"points": 15, "memberPoints": 12, "tiers": [1], "deep": {"a": {"b": {"c": 1}}}}
    )
    assert repr(model).endswith(
        "extra={'points': 15, 'memberPoints': 12, 'tiers': <list>, 'deep': {'a': {'b': <dict>}}})"
    )
