"""A probe: evidence of delivery is only added, and *not sent* needs proof."""

from itertools import product

import pytest

from vidgen_async.types.http import Delivery, Phase, Probe


@pytest.mark.parametrize(("known", "update"), list(product(Delivery, repeat=2)))
def test_evidence_is_only_added(known: Delivery, update: Delivery) -> None:
    probe = Probe()
    probe.learn(known)
    probe.learn(update)
    assert probe.delivery is max(known, update, key=["not_sent", "maybe_sent", "answered"].index)


def test_a_delivery_of_not_sent_alone_proves_nothing() -> None:
    probe = Probe()
    assert (probe.delivery, probe.is_proven_not_sent) == (Delivery.NOT_SENT, False)


def test_a_failure_before_the_gate_proves_that_nothing_was_sent() -> None:
    probe = Probe()
    probe.record_not_sent(Phase.CONNECT)
    assert (probe.is_proven_not_sent, probe.phase) == (True, Phase.CONNECT)


async def test_a_gate_that_raises_proves_that_nothing_was_sent() -> None:
    async def gate() -> None:
        message = "the journal is gone"
        raise OSError(message)

    probe = Probe(gate=gate)
    with pytest.raises(OSError, match="the journal is gone"):
        await probe.pass_gate()
    assert probe.is_proven_not_sent


async def test_after_the_gate_nothing_proves_that_nothing_was_sent() -> None:
    probe = Probe()
    await probe.pass_gate()
    probe.record_not_sent(Phase.CONNECT)
    assert (probe.delivery, probe.is_proven_not_sent, probe.phase) == (Delivery.MAYBE_SENT, False, Phase.SEND)


async def test_the_gate_is_passed_once_only() -> None:
    count = 0

    async def gate() -> None:
        nonlocal count
        count += 1

    probe = Probe(gate=gate)
    await probe.pass_gate()
    with pytest.raises(RuntimeError, match="a second request was about to be sent"):
        await probe.pass_gate()
    assert count == 1
