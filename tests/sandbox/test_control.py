"""The control paths: their effects on the endpoints of the service, and their protection against foreign pages."""

import asyncio

import pytest

from tests.sandbox.conftest import Caller, picture
from vidgen_async.sandbox import CatalogEntry, Fault, Sandbox
from vidgen_async.sandbox.web.control import plan_text


class Control(Caller):
    """Calls the control paths, which need no key."""

    async def call(self, method: str, path: str, body: object = None, **options):
        sent = {} if body is None else {"json": body}
        return await self.send(method, f"{self.base_url}{path}", bare=True, **sent, **options)

    async def state(self, query: str = ""):
        return (await self.call("GET", f"/sandbox/state{query}")).json


@pytest.fixture
def control(service, session) -> Control:
    return Control(session, service.console_url.rstrip("/"), "")


async def test_control_paths_need_no_key_are_not_logged_and_have_no_faults(service, control):
    service.faults.add("*", Fault.status(500), times=None)

    replies = [await control.call("GET", f"/sandbox/{path}") for path in ("state", "ledger", "creates", "requests")]

    assert [reply.status for reply in replies] == [200, 200, 200, 200]
    assert service.requests == []


async def test_an_unknown_path_or_method_is_refused_with_those_that_there_are(control):
    reply = await control.call("POST", "/sandbox/nothing", {})

    assert (reply.status, reply.code) == (404, "NOT_FOUND")
    for path in ("GET /sandbox/state", "GET, POST, DELETE /sandbox/faults;", "PATCH /sandbox/accounts/{name}"):
        assert path in reply.json["error"]["message"]
    assert (await control.call("GET", "/sandbox")).status == 404
    reply = await control.call("PUT", "/sandbox/clock", {})
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


# The state.


async def test_the_state_shows_everything_with_the_newest_last(service, api, control):
    upload = (await api.upload(picture())).json
    task_id = (await api.create("key-of-order", prompt="\ud800 boat 0")).json["id"]
    await api.create("key-of-order", prompt="boat 1")

    reply = await control.call("GET", "/sandbox/state")
    state = reply.json

    assert reply.body.isascii()
    assert [task["prompt"] for task in state["tasks"]] == ["\ud800 boat 0"]
    assert [(task["id"], task["status"], task["account"]) for task in state["tasks"]] == [
        (task_id, "queued", "account-1")
    ]
    assert [(create["n"], create["status"], create["task_id"]) for create in state["creates"]] == [
        (1, 202, task_id),
        (2, 409, None),
    ]
    assert [entry["kind"] for entry in state["ledger"]] == ["opening", "charge"]
    assert [(asset["id"], asset["is_expired"]) for asset in state["assets"]] == [(upload["id"], False)]
    assert state["counts"] == {"tasks": 1, "ledger": 2, "creates": 2, "assets": 1, "requests": 3}
    assert (state["base_url"], state["now"], state["speed"]) == (service.base_url, service.clock.now(), 0)


async def test_the_state_shows_the_newest_members_of_long_lists_and_counts_all(service, api, control):
    for n in range(3):
        await api.create(prompt=f"boat {n}")
        await api.upload(picture(size=(8 + n, 8)))

    state = await control.state("?limit=2")

    assert [task["prompt"] for task in state["tasks"]] == ["boat 1", "boat 2"]
    assert [create["n"] for create in state["creates"]] == [2, 3]
    assert [entry["points"] for entry in state["ledger"]] == [-20, -20]
    assert len(state["assets"]) == 2
    assert state["counts"] == {"tasks": 3, "ledger": 4, "creates": 3, "assets": 3, "requests": 6}
    assert [(await control.state("?limit=0"))[name] for name in ("tasks", "ledger", "creates", "assets")] == [[]] * 4


@pytest.mark.parametrize("limit", ["-1", "x", "1.5", "", "9" * 5000])
async def test_a_limit_that_is_not_a_number_is_400(control, limit):
    reply = await control.call("GET", f"/sandbox/state?limit={limit}")

    assert reply.status == 400
    assert "limit: must be a whole number of 0 to 999999, not " in reply.json["error"]["message"]


async def test_ten_thousand_tasks_do_not_make_the_state_slow_or_long(service, api, control):
    await api.create()
    (task,) = service.tasks.values()
    service.tasks.update({f"task_{n}": task for n in range(10_000)})
    service.account("account-1").ledger.extend(service.ledger[1:] * 10_000)

    async with asyncio.timeout(1):
        state = await control.state()

    assert (len(state["tasks"]), len(state["ledger"])) == (200, 200)
    assert state["counts"]["tasks"] == 10_001


async def test_the_ledger_has_one_account_or_all_in_order_of_time(service, api, stranger, control):
    for caller, fields in ((api, {}), (stranger, {"model": "sd2_480p_real"}), (api, {"prompt": "[fail]"})):
        service.clock.advance(1)
        await caller.create(**fields)
    service.clock.advance(100)

    whole = (await control.call("GET", "/sandbox/ledger")).json["ledger"]
    one = (await control.call("GET", "/sandbox/ledger?account=account-2")).json["ledger"]
    unknown = await control.call("GET", "/sandbox/ledger?account=nobody")

    assert [(int(entry["account"][-1]), entry["kind"]) for entry in whole] == [
        *((1, "opening"), (2, "opening"), (1, "charge"), (2, "charge"), (1, "charge"), (1, "refund")),
    ]
    assert [entry["kind"] for entry in (await control.state("?limit=2"))["ledger"]] == ["charge", "refund"]
    assert [(entry["account"], entry["points"]) for entry in one] == [("account-2", 100_000), ("account-2", -50)]
    assert unknown.status == 400
    assert "there is no account 'nobody'; there are: account-1, account-2" in unknown.json["error"]["message"]
    other = await control.call("GET", "/sandbox/ledger?x=1")
    assert other.status == 400
    assert '"x": there is no such field; there are: account' in other.json["error"]["message"]


# Faults.


async def test_a_planned_fault_is_applied_once_and_removed(service, api, control):
    fields = {"op": "videos.create", "fault": "status", "args": {"code": 503, "made": True}}
    planned = await control.call("POST", "/sandbox/faults", fields)
    listed = (await control.call("GET", "/sandbox/faults")).json["planned"]

    reply = await api.create()

    assert planned.status == 201
    assert listed == [planned.json]
    assert planned.json | {"id": ""} == {
        "id": "",
        "op": "videos.create",
        "fault": "status 503",
        "times": 1,
        "after": 0,
    }
    assert (reply.status, len(service.tasks)) == (503, 1)
    assert (await control.state())["faults"] == []


async def test_times_and_after_of_a_fault_are_respected(api, control):
    fields = {"op": "account.get", "fault": "html", "times": 2, "after": 1, "args": {"status": 502}}
    await control.call("POST", "/sandbox/faults", fields)

    assert [(await api.get("/account")).status for _ in range(4)] == [200, 502, 502, 200]


async def test_one_fault_or_all_faults_can_be_removed(api, control):
    ids = []
    for fault in ("html", "garble", "without_id"):
        fields = {"op": "*", "fault": fault, "times": None}
        ids.append((await control.call("POST", "/sandbox/faults", fields)).json["id"])

    one = await control.call("DELETE", f"/sandbox/faults/{ids[0]}")
    again = await control.call("DELETE", f"/sandbox/faults/{ids[0]}")
    garbled = (await api.get("/account")).body
    everything = await control.call("DELETE", "/sandbox/faults")

    assert [planned["id"] for planned in one.json["planned"]] == ids[1:]
    assert again.status == 404
    assert ids[1] in again.json["error"]["message"]
    assert garbled.startswith(b'{"id": "task_')
    assert (everything.status, everything.json) == (200, {"planned": []})
    assert (await api.get("/account")).json["credits"] == 100_000


async def test_every_fault_with_plain_arguments_is_available_with_what_a_form_needs(control):
    shown = (await control.call("GET", "/sandbox/faults")).json

    available = {fault["name"]: fault for fault in shown["available"]}
    methods = {name for name, found in vars(Fault).items() if isinstance(found, classmethod)}
    assert set(available) == methods - {"edit"}
    assert all(fault["description"] for fault in available.values())
    assert available["cut"]["args"] == [
        {"name": "after", "type": "number", "default": 0.5, "required": False},
        {"name": "made", "type": "boolean", "default": True, "required": False},
    ]
    assert available["redirect"]["args"][0] == {
        "name": "location",
        "type": "string",
        "default": None,
        "required": True,
    }
    assert shown["ops"] == [
        *("models.list", "account.get", "files.create", "videos.create", "videos.get", "videos.content"),
        *("link", "asset", "unknown", "*"),
    ]


async def test_every_available_fault_can_be_planned_with_its_defaults(control):
    needed = {"status": {"code": 418}, "redirect": {"location": "http://a.test/"}, "drip": {"bytes_per_second": 9}}

    for fault in (await control.call("GET", "/sandbox/faults")).json["available"]:
        defaults = {arg["name"]: arg["default"] for arg in fault["args"]} | needed.get(fault["name"], {})
        fields = {"op": "link", "fault": fault["name"], "args": defaults}

        reply = await control.call("POST", "/sandbox/faults", fields)

        assert reply.status == 201, reply.body


async def test_arguments_that_are_bytes_can_be_sent_as_text_without_loss(api, control):
    (garble,) = [f for f in (await control.call("GET", "/sandbox/faults")).json["available"] if f["name"] == "garble"]
    body = garble["args"][0]["default"]
    await control.call("POST", "/sandbox/faults", {"op": "*", "fault": "garble", "args": {"body": body}})
    await control.call("POST", "/sandbox/faults", {"op": "*", "fault": "rewrite", "args": {"body": "é", "length": 1}})

    bodies = [(await api.get("/account")).body for _ in range(2)]

    assert bodies == [b'{"id": "task_\xff\xfe', "é".encode()[:1]]


async def test_headers_and_body_of_a_status_are_sent_unchanged(api, control):
    args = {"code": 429, "body": {"a": [1, None]}, "headers": {"Retry-After": "7"}, "content_type": "text/x"}
    await control.call("POST", "/sandbox/faults", {"op": "account.get", "fault": "status", "args": args})

    reply = await api.get("/account")

    assert (reply.status, reply.json) == (429, {"a": [1, None]})
    assert (reply.headers["retry-after"], reply.headers["content-type"]) == ("7", "text/x")


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        ({}, ["op: required", "fault: required"]),
        (
            {"op": "videos.make", "fault": "edit", "times": 0, "after": -1, "args": [], "x": 1},
            [
                "op: must be one of models.list, account.get, files.create, videos.create, videos.get, videos.content,",
                'not "videos.make"',
                "fault: must be one of status, html, redirect,",
                'not "edit"',
                "times: must be a whole number of 1 to 1000000, or null, not 0",
                "after: must be a whole number of 0 to 1000000, not -1",
                "args: must be an object",
                '"x": there is no such field; there are: op, fault, times, after, args',
            ],
        ),
        (
            {
                "op": "*",
                "fault": "status",
                "args": {"code": 99, "made": "yes", "headers": {"A": "b\r\nc", "ä": "d"}, "y": 1},
            },
            [
                "args.code: must be a whole number of 200 to 999, not 99",
                'args.made: must be true or false, not "yes"',
                "args.headers['A']: must be a header's value, in one line",
                'must be a header\'s name, not "\\u00e4"',
                'args: "y": there is no such field; there are: code, body, headers, content_type, made',
            ],
        ),
        ({"op": "*", "fault": "drip", "args": {}}, ["args.bytes_per_second: required"]),
        ({"op": "*", "fault": "drip", "args": {"bytes_per_second": 0}}, ["must be a number of 0.1 to 1e+09, not 0"]),
        (
            {"op": "*", "fault": "stall", "args": {"seconds": True}},
            ["seconds: must be a number of 0 to 1e+09, or null"],
        ),
        ({"op": "*", "fault": "redirect", "args": {"location": "a\nb"}}, ["location: must be a header's value"]),
        ({"op": "*", "fault": "not_http", "args": {"raw": "\ud800"}}, ['raw: must be a string, not "\\ud800"']),
        ({"op": "*", "fault": "not_http", "args": {"raw": None}}, ["raw: must be a string, not null"]),
        ({"op": ["*"], "fault": {}}, ["op: must be one of", "fault: must be one of"]),
    ],
)
async def test_every_problem_of_a_fault_is_reported_and_nothing_is_planned(control, fields, problems):
    reply = await control.call("POST", "/sandbox/faults", fields)

    assert (reply.status, reply.code) == (400, "INVALID_PARAMETER")
    for problem in problems:
        assert problem in reply.json["error"]["message"]
    assert (await control.state())["faults"] == []


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("videos.create=close_after_body", ("videos.create", "close after body", 1)),
        ("*=stall:always", ("*", "stall", None)),
        ("account.get=status,code=503,made=true:2", ("account.get", "status 503", 2)),
        ('link=redirect,location="http://a.test:80/",status=302', ("link", "redirect 302", 1)),
        ("link=redirect,location=/a,b=c:3", None),
    ],
)
async def test_a_fault_can_be_written_as_one_argument_of_the_command_line(service, written, fault):
    if fault is None:
        with pytest.raises(ValueError, match="there is no such field"):
            plan_text(service.faults, written)
    else:
        planned = plan_text(service.faults, written)
        assert (planned.op, planned.fault.name, planned.times) == fault


# Time, accounts, models, failures, uploads, reset.


async def test_the_clock_is_advanced_and_its_speed_set(service, api, control):
    task_id = (await api.create()).json["id"]
    before = service.clock.now()

    reply = await control.call("POST", "/sandbox/clock", {"advance": 3600, "speed": 60})

    assert reply.json["speed"] == service.clock.speed == 60
    assert reply.json["now"] >= before + 3600
    assert (await api.get(f"/videos/{task_id}")).json["status"] == "completed"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "speed or advance: required"),
        ({"speed": -1}, "speed: must be a number of 0 to 1e+06, not -1"),
        ({"advance": "1"}, 'advance: must be a number of 0 to 1e+09, not "1"'),
        ({"speed": float("nan")}, "the body must be JSON"),
        ({"advance": 1, "speed": None}, "speed: must be a number"),
    ],
)
async def test_an_invalid_change_leaves_the_clock_unchanged(service, control, fields, problem):
    before = service.clock.now()

    reply = await control.call("POST", "/sandbox/clock", fields)

    assert reply.status == 400
    assert problem in reply.json["error"]["message"]
    assert (service.clock.now(), service.clock.speed) == (before, 0)


async def test_a_new_account_has_a_key_that_works_and_a_balance(session, service, control):
    added = await control.call("POST", "/sandbox/accounts", {"name": "ann", "api_key": "key-of-ann", "balance": 30})
    plain = await control.call("POST", "/sandbox/accounts", {})

    ann = Caller(session, service.base_url, "key-of-ann")
    replies = [await ann.create() for _ in range(2)]

    assert (added.status, added.json) == (201, {"name": "ann", "api_key": "key-of-ann", "balance": 30})
    assert (plain.json["name"], plain.json["balance"]) == ("account-2", 100_000)
    assert [reply.status for reply in replies] == [202, 402]
    shown = (await control.call("GET", "/sandbox/accounts")).json["accounts"]
    assert [(account["name"], account["balance"]) for account in shown] == [
        ("account-1", 100_000),
        ("ann", 10),
        ("account-2", 100_000),
    ]


async def test_a_name_or_key_that_is_in_use_or_invalid_is_refused_without_showing_the_key(service, control):
    fields = {"name": "account-1", "api_key": service.api_key, "balance": -1}
    message = (await control.call("POST", "/sandbox/accounts", fields)).json["error"]["message"]
    bad = (await control.call("POST", "/sandbox/accounts", {"name": " ", "api_key": "se cret"})).json["error"][
        "message"
    ]

    assert "name: there is already an account 'account-1'" in message
    assert "api_key: this is the key of the account 'account-1'" in message
    assert "balance: must be a whole number of 0 to 1000000000000, not -1" in message
    assert service.api_key not in message
    assert "name: must be 1 to 100 printable characters" in bad
    assert "api_key: must be 8 to 200 visible ASCII characters" in bad
    typed = (await control.call("POST", "/sandbox/accounts", {"name": 7, "api_key": ["se cret"]})).json["error"]
    assert typed["message"] == (
        "name: must be 1 to 100 printable characters, without a space at either end, or null, not 7; "
        "api_key: must be 8 to 200 visible ASCII characters, or null"
    )
    assert "se cret" not in bad
    assert len(service.accounts) == 1


@pytest.mark.rule("2.2 note", "2.2 unshown", "4 endpoint GET /account", "4.2 request", "4.2 response", side="sandbox")
async def test_a_balance_is_set_by_an_adjustment_in_the_ledger(service, api, control):
    service.add_account(name="a/ö")

    reply = await control.call("PATCH", "/sandbox/accounts/account-1", {"balance": 19})
    other = await control.call("PATCH", "/sandbox/accounts/a%2F%C3%B6", {"balance": 3})

    assert (reply.status, reply.json["balance"], other.json["balance"]) == (200, 19, 3)
    assert (await api.get("/account")).json["credits"] == 19
    assert (await api.create()).status == 402
    assert [(entry.kind, entry.points) for entry in service.ledger][1:] == [("adjustment", 19 - 100_000)]
    assert (await control.call("PATCH", "/sandbox/accounts/nobody", {"balance": 3})).status == 404
    assert (await control.call("PATCH", "/sandbox/accounts/account-1", {})).status == 400


async def test_a_model_is_changed_with_the_field_names_of_the_wire(api, control):
    changes = {"enabled": False, "maxReferenceImages": None, "durations": [3, 4], "name": "Else", "memberPoints": 1}
    reply = await control.call("PATCH", "/sandbox/models/vendorh3", changes)

    entries = {entry["code"]: entry for entry in (await api.get("/models")).json["models"]}
    assert reply.status == 200
    assert reply.json == entries["vendorh3"]
    assert entries["vendorh3"]["durations"] == [3, 4]
    assert (entries["vendorh3"]["enabled"], entries["vendorh3"]["memberPoints"]) == (False, 1)
    assert "maxReferenceImages" not in entries["vendorh3"]
    assert (await api.create(model="vendorh3")).status == 503
    assert (await control.call("PATCH", "/sandbox/models/nothing", {})).status == 404


@pytest.mark.rule("2.1 note new", "9 bullet 3", side="sandbox")
async def test_a_new_model_appears_in_the_catalog_and_accepts_tasks(service, api):
    service.add_model(CatalogEntry(code="new-1", name="New", durations=(2,), points=3))

    assert (await api.get("/models")).json["models"][-1]["code"] == "new-1"
    assert (await api.create(model="new-1")).json["points"] == 3


async def test_every_problem_of_a_model_is_reported(service, control):
    changes = {"code": "a", "durations": [], "resolutions": ["9p"], "enabled": 1, "delivery": "x", "max": 1}
    reply = await control.call("PATCH", "/sandbox/models/gen-2.0", changes)

    assert reply.status == 400
    for problem in (
        '"code", "max": there is no such field; there are: name, enabled, maintenance, durations',
        "durations: must be an array, not empty, each item a whole number of 1 to 600, not []",
        'resolutions[0]: must be auto or 100p to 2199p, not "9p"',
        "enabled: must be true or false, not 1",
        "delivery: must be one of ranges, no ranges, signed link",
    ):
        assert problem in reply.json["error"]["message"]
    assert service.models["gen-2.0"].durations == (1, 2, 5)


async def test_the_next_task_fails_with_or_without_a_refund(service, api, control):
    await control.call("POST", "/sandbox/fail-next", {"reason": "too dark", "refund": False})
    await control.call("POST", "/sandbox/fail-next", {})
    ids = [(await api.create()).json["id"] for _ in range(3)]
    service.clock.advance(10)

    tasks = [(await api.get(f"/videos/{task_id}")).json for task_id in ids]

    assert [task["status"] for task in tasks] == ["failed", "failed", "completed"]
    assert tasks[0]["failure_reason"] == "too dark"
    assert [entry.task_id for entry in service.ledger if entry.kind == "refund"] == [ids[1]]
    wrong = await control.call("POST", "/sandbox/fail-next", {"reason": "", "refund": 1})
    assert "reason: must be" in wrong.json["error"]["message"]
    assert "refund: must be" in wrong.json["error"]["message"]


async def test_a_deleted_upload_cannot_be_used(api, control):
    image_id = (await api.upload(picture())).json["image_id"]

    reply = await control.call("DELETE", f"/sandbox/assets/{image_id}")

    assert (reply.status, reply.json) == (200, {"deleted": image_id})
    assert (await api.create(image_ids=[image_id])).code == "REFERENCE_ASSET_EXPIRED"
    assert (await control.call("DELETE", f"/sandbox/assets/{image_id}")).status == 404


async def test_a_reset_removes_everything_except_keys_catalog_and_time(service, api, control):
    await control.call("PATCH", "/sandbox/models/gen-2.0", {"points": 7})
    first = (await api.create("key-of-order", prompt="[fail]")).json["id"]
    image_id = (await api.upload(picture())).json["id"]
    service.faults.add("*", Fault.html())
    service.fail_next_task()
    service.clock.advance(5000)
    now = service.clock.now()

    reply = await control.call("POST", "/sandbox/reset", {})

    assert reply.json == {"counts": {"tasks": 0, "ledger": 1, "creates": 0, "assets": 0, "requests": 0}}
    assert (await api.get("/account")).json["credits"] == 100_000
    assert (await api.get(f"/videos/{first}")).status == 404
    assert (await api.create(image_ids=[image_id])).status == 400
    again = (await api.create("key-of-order", prompt="another body")).json
    assert (again["points"], again["id"] != first) == (7, True)
    assert [create.n for create in service.creates] == [1, 2]
    assert service.clock.now() == now
    service.clock.advance(10)
    assert (await api.get(f"/videos/{again['id']}")).json["status"] == "completed"
    assert [entry.kind for entry in service.ledger] == ["opening", "charge"]


async def test_a_reset_clears_the_submission_window(session):
    async with Sandbox(submission_limit=1, speed=0) as sandbox:
        api = Caller(session, sandbox.base_url, sandbox.api_key)
        before = [(await api.create()).status for _ in range(2)]
        sandbox.reset()

        assert [*before, (await api.create()).status] == [202, 429, 202]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "the body must be JSON"),
        (b"[" * 100_000, "the body must be JSON"),
        (b"\xff", "the body must be JSON"),
        (b"[1]", "the body must be a JSON object, not [1]"),
        (b"null", "the body must be a JSON object, not null"),
        (b'{"limit": 1}', '"limit": there is no such field'),
    ],
)
async def test_a_body_that_is_not_an_object_or_has_unknown_fields_is_400(control, body, problem):
    headers = {"Content-Type": "application/json"}
    for path in ("reset", "fail-next", "clock", "faults", "accounts"):
        reply = await control.call("POST", f"/sandbox/{path}", data=body, headers=headers)

        assert (reply.status, reply.code) == (400, "INVALID_PARAMETER"), path
        assert problem in reply.json["error"]["message"], path


# Protection against foreign pages.

CHANGES = [
    ("POST", "/sandbox/reset"),
    ("POST", "/sandbox/faults"),
    ("DELETE", "/sandbox/faults"),
    ("PATCH", "/sandbox/accounts/account-1"),
]


@pytest.mark.parametrize(("method", "path"), CHANGES)
async def test_a_page_of_another_origin_cannot_change_anything(service, api, control, method, path):
    await api.create()
    service.faults.add("*", Fault.html())

    for origin in ("https://evil.test", "null", "http://127.0.0.1:1", "http://localhost", ""):
        reply = await control.call(method, path, {}, headers={"Origin": origin})

        assert (reply.status, reply.code) == (403, "FOREIGN_ORIGIN"), origin
        assert (len(service.tasks), len(service.faults.planned)) == (1, 1), origin


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST"])
async def test_its_own_origin_is_accepted_with_every_name_of_the_sandbox(service, control, name):
    host = f"{name}:{service.console_url.split(':')[2].rstrip('/')}"

    headers = {"Host": host, "Origin": f"http://{host.lower()}"}
    reply = await control.call("POST", "/sandbox/reset", {}, headers=headers)

    assert reply.status == 200


@pytest.mark.parametrize(("method", "path"), CHANGES)
async def test_an_html_form_cannot_change_anything(service, api, control, method, path):
    await api.create()

    for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        reply = await control.call(method, path, data=b"{}", headers={"Content-Type": media_type})

        assert (reply.status, reply.code) == (415, "UNSUPPORTED_MEDIA_TYPE"), media_type
        assert len(service.tasks) == 1, media_type


async def test_a_post_without_a_body_and_type_is_refused(service, control):
    assert (await control.call("POST", "/sandbox/reset")).status == 415


@pytest.mark.parametrize(("method", "path"), [("GET", "/sandbox/state"), ("GET", "/"), *CHANGES])
async def test_a_request_with_a_foreign_host_is_refused(service, control, method, path):
    for host in ("evil.test", "evil.test:80", "127.0.0.1.evil.test", "localhost.evil.test", "[::1", ""):
        reply = await control.call(method, path, {} if method != "GET" else None, headers={"Host": host})

        assert (reply.status, reply.code) == (403, "FOREIGN_HOST"), host
        assert service.api_key.encode() not in reply.body, host


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3:80", "[::1]:80", "localhost:1"])
async def test_ip_addresses_and_localhost_are_always_accepted_as_host(control, host):
    assert (await control.call("GET", "/sandbox/state", headers={"Host": host})).status == 200


async def test_the_host_of_the_sandbox_is_accepted(session):
    async with Sandbox(host="localhost") as sandbox:
        control = Control(session, sandbox.console_url.rstrip("/"), "")

        assert (await control.state())["base_url"].startswith("http://localhost:")


async def test_pages_are_not_cached_and_not_readable_by_other_origins(control):
    shown = await control.call("GET", "/sandbox/state", headers={"Origin": "https://evil.test"})
    preflight = await control.call("OPTIONS", "/sandbox/reset", headers={"Origin": "https://evil.test"})

    assert (shown.headers["cache-control"], shown.headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert shown.headers["cross-origin-resource-policy"] == "same-origin"
    for reply in (shown, preflight):
        assert not [name for name in reply.headers if name.startswith("access-control")]
    assert preflight.status == 405
