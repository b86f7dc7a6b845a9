"""A transport that claims to honour the gate and forgets the probe: what it brings back is evidence all the same."""

import pytest

from vidgen_async import Client, UncertainCreateError
from vidgen_async.sandbox import Fault, Sandbox
from vidgen_async.transports import DirectTransport, Response
from vidgen_async.types.http import Probe, Request

VIDEO = {"model": "gen-2.0", "prompt": "a boat", "duration": 5}


class Forgetful:
    honours_gate = True

    def __init__(self) -> None:
        self.inner = DirectTransport()

    async def send(self, request: Request, *, probe: Probe | None = None) -> Response:
        return await self.inner.send(request)

    async def aclose(self) -> None:
        await self.inner.aclose()


async def test_an_answer_is_a_receipt_and_nothing_is_sent_again():
    async with (
        Sandbox() as service,
        Client(service.api_key, base_url=service.base_url, transport=Forgetful()) as client,
    ):
        receipt = await client.videos.create(**VIDEO, order_id="order-1", validate=False)
        assert [create.task_id for create in service.creates] == [receipt.task_id]


async def test_a_lost_answer_is_uncertain_and_nothing_is_sent_again():
    async with (
        Sandbox() as service,
        Client(service.api_key, base_url=service.base_url, transport=Forgetful()) as client,
    ):
        service.faults.add("videos.create", Fault.close_after_body())
        with pytest.raises(UncertainCreateError):
            await client.videos.create(**VIDEO, order_id="order-1", validate=False)
        assert len(service.creates) == 1
