"""An order outlives the version of the SDK that wrote it: its bytes and its key are those in the journal."""

import pytest

from tests.proof.processes import check

pytestmark = pytest.mark.slow

ORDER = "order-1187"


async def test_a_resend_by_an_upgraded_sdk_sends_the_stored_bytes_under_the_stored_key(on_service):
    prompt = f"{ORDER}: status=503 ok"
    await on_service.run([["create", ORDER, prompt]], namespace="before")

    told = await on_service.run([["resend", ORDER, "upgraded", 1]], namespace="after", upgraded=True)

    first, second = on_service.record.posts()
    assert (second.key, second.sha256) == (first.key, first.sha256)
    assert told[0]["task"] == second.task_id
    check(on_service.record, on_service.journal, told=told, resends={ORDER: 1})


async def test_a_rejected_order_that_an_upgraded_sdk_resumes_is_sent_as_stored(on_service):
    prompt = f"{ORDER}: status=402 ok"
    await on_service.run([["create", ORDER, prompt]], namespace="before")

    told = await on_service.run([["resume", ORDER]], namespace="after", upgraded=True)

    first, second = on_service.record.posts()
    assert (second.key, second.sha256) == (first.key, first.sha256)
    check(on_service.record, on_service.journal, told=told)


async def test_a_create_whose_body_an_upgraded_sdk_writes_differently_sends_nothing(on_service):
    create = ["create", ORDER, f"{ORDER}: status=402 ok"]
    await on_service.run([create], namespace="before")

    told = await on_service.run([create], namespace="after", upgraded=True)
    fresh = await on_service.run([["create", "another", "another: ok"]], namespace="after", upgraded=True)

    assert told[0]["error"] == "OrderConflictError"
    assert [post.order for post in on_service.record.posts()] == [ORDER, "another"]
    first, second = on_service.record.posts()
    assert first.sha256 != second.sha256
    check(on_service.record, on_service.journal, told=fresh)
