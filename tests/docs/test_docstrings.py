"""What is public says what it promises: shapes, units, errors, cancellation, and the section that it obeys."""

import inspect
import re

import vidgen_async
import vidgen_async.errors
import vidgen_async.journal
import vidgen_async.sandbox
import vidgen_async.transports
from vidgen_async.client.resources import AccountInfo, Files, Models
from vidgen_async.client.videos import Videos
from vidgen_async.clock import Clock
from vidgen_async.journal import Journal, SpendingJournal
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
PROTOCOLS = (Journal, SpendingJournal, Transport, Response, Body, Clock)


def members(cls: type) -> list[tuple[str, object]]:
    return [
        (name, member)
        for name, member in vars(cls).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod))
    ]


def test_every_public_name_is_described():
    described = [
        (name, inspect.getdoc(thing) or "")
        for name, thing in PUBLIC
        if inspect.isclass(thing) or inspect.isfunction(thing)
    ]
    assert [name for name, text in described if len(text) <= 20] == []
    assert len(described) > 50


def test_every_call_to_the_service_names_its_section():
    texts = {
        f"{cls.__name__}.{name}": (inspect.getdoc(method) or "") + (cls.__doc__ or "") for cls, name, method in CALLS
    }
    assert {name for name, text in texts.items() if not SECTION.search(text)} == set()


def test_every_call_says_what_holds_when_it_is_cancelled_or_is_a_read_of_which_the_client_says_it():
    texts = {f"{cls.__name__}.{name}": inspect.getdoc(method) or "" for cls, name, method in CALLS}
    said = re.compile(r"[Cc]ancel|Retried like every read|nothing|and sends nothing")
    assert {name for name, text in texts.items() if not said.search(text)} == set()
    assert "Cancelling a call stops that call" in (vidgen_async.Client.__doc__ or "")


def test_everything_that_can_be_done_to_an_order_is_described():
    assert {name for name, method in ORDER_CALLS if len(inspect.getdoc(method) or "") <= 50} == set()


def test_every_public_method_and_property_is_described_here_or_in_its_protocol():
    promised = {name for protocol in PROTOCOLS for name, member in members(protocol) if inspect.getdoc(member)}
    missing = {
        f"{cls.__module__}.{cls.__name__}.{name}"
        for cls in (thing for _, thing in PUBLIC if inspect.isclass(thing))
        for name, member in members(cls)
        if not inspect.getdoc(member) and not (cls.__doc__ and name in promised)
    }
    assert missing == set()
