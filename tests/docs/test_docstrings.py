"""What is public says what it promises: shapes, units, errors, cancellation, and the section that it obeys."""

import inspect
import re

import pytest

import vidgen_async
import vidgen_async.errors
import vidgen_async.journal
import vidgen_async.sandbox
import vidgen_async.transports
from vidgen_async.client.resources import AccountInfo, Files, Models
from vidgen_async.client.videos import Videos
from vidgen_async.clock import Clock
from vidgen_async.journal import Journal
from vidgen_async.orders import Orders
from vidgen_async.transports import Response, Transport
from vidgen_async.types.http import Body

SECTION = re.compile(r"\(\d\.\d|section \d|, \d\.\d\)")
MODULES = (vidgen_async, vidgen_async.transports, vidgen_async.journal, vidgen_async.sandbox)
PUBLIC = [(name, getattr(module, name)) for module in MODULES for name in module.__all__]
CALLS = [
    (cls, name, method)
    for cls in (Models, AccountInfo, Files, Videos)
    for name, method in vars(cls).items()
    if inspect.isfunction(method) and not name.startswith("_")
]
ORDER_CALLS = [
    (name, method) for name, method in vars(Orders).items() if inspect.isfunction(method) and not name.startswith("_")
]
PROTOCOLS = (Journal, Transport, Response, Body, Clock)


def members(cls: type) -> list[tuple[str, object]]:
    return [
        (name, member)
        for name, member in vars(cls).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod))
    ]


@pytest.mark.parametrize(("name", "thing"), PUBLIC, ids=[name for name, _ in PUBLIC])
def test_every_public_name_is_described(name, thing):
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert inspect.getdoc(thing), f"{name} has no docstring"
        assert len(inspect.getdoc(thing) or "") > 20


@pytest.mark.parametrize(("cls", "name", "method"), CALLS, ids=[f"{cls.__name__}.{name}" for cls, name, _ in CALLS])
def test_every_call_to_the_service_names_its_section(cls, name, method):
    assert SECTION.search((inspect.getdoc(method) or "") + (cls.__doc__ or "")), f"{cls.__name__}.{name}"


@pytest.mark.parametrize(("cls", "name", "method"), CALLS, ids=[f"{cls.__name__}.{name}" for cls, name, _ in CALLS])
def test_every_call_says_what_holds_when_it_is_cancelled_or_is_a_read_of_which_the_client_says_it(cls, name, method):
    text = inspect.getdoc(method) or ""
    assert re.search(r"[Cc]ancel|A read, as any other|nothing|and sends nothing", text), f"{cls.__name__}.{name}"
    assert "Cancelling a call stops that call" in (vidgen_async.Client.__doc__ or "")


@pytest.mark.parametrize(("name", "method"), ORDER_CALLS, ids=[name for name, _ in ORDER_CALLS])
def test_everything_that_can_be_done_to_an_order_is_described(name, method):
    assert len(inspect.getdoc(method) or "") > 50, name


@pytest.mark.parametrize("cls", [cls for _, cls in PUBLIC if inspect.isclass(cls)], ids=lambda cls: cls.__name__)
def test_every_public_method_and_property_is_described_here_or_in_its_protocol(cls):
    promised = {name for protocol in PROTOCOLS for name, member in members(protocol) if inspect.getdoc(member)}
    missing = [
        name for name, member in members(cls) if not inspect.getdoc(member) and not (cls.__doc__ and name in promised)
    ]
    assert missing == [], f"{cls.__module__}.{cls.__name__}"
