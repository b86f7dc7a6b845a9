"""Which error has which exit code: the rule, and commands against the sandbox."""

import json

import pytest

from vidgen_async import errors
from vidgen_async.cli.run_state import EXIT_CODES, Exit, Stage, TasksFailedError, exit_code
from vidgen_async.sandbox import Fault

from .conftest import PICTURE, ROOT

RULE = [
    (errors.ConfigurationError("x"), Stage.CHECK, Exit.USAGE),
    (errors.DownloadError("no folder"), Stage.CHECK, Exit.USAGE),
    (errors.InvalidRequestError("x"), Stage.UPLOAD, Exit.USAGE),
    (errors.AuthenticationError("x", status=401), Stage.CATALOG, Exit.REFUSED),
    (errors.ServiceUnavailableError("x", status=503), Stage.UPLOAD, Exit.NOT_SENT),
    (errors.ConnectError("x"), Stage.CATALOG, Exit.NOT_SENT),
    (errors.NotSentError("x"), Stage.CREATE, Exit.NOT_SENT),
    (errors.BudgetExceededError("x"), Stage.CREATE, Exit.NOT_SENT),
    (errors.JournalError("x"), Stage.CREATE, Exit.NOT_SENT),
    (errors.RejectedInsufficientCreditsError("x", status=402), Stage.CREATE, Exit.REFUSED),
    (errors.OrderConflictError("x"), Stage.CREATE, Exit.USAGE),
    (errors.UncertainCreateError("x"), Stage.CREATE, Exit.UNCERTAIN),
    (errors.ReceiptNotStoredError("x", task_id="t"), Stage.CREATE, Exit.FAILED),
    (errors.TaskFailedError("x"), Stage.WAIT, Exit.FAILED),
    (errors.NotFoundError("x", status=404), Stage.WAIT, Exit.FAILED),
    (errors.WaitTimeoutError("x"), Stage.WAIT, Exit.TIMEOUT),
    (errors.NotVideoError("x"), Stage.DOWNLOAD, Exit.DOWNLOAD),
    (errors.ConnectError("x"), Stage.DOWNLOAD, Exit.DOWNLOAD),
    (ZeroDivisionError("x"), Stage.DOWNLOAD, Exit.FAILED),
    (errors.NotReadyError("x", status=409), Stage.DOWNLOAD, Exit.FAILED),
    (errors.NotFoundError("x", status=404), Stage.DOWNLOAD, Exit.FAILED),
    (errors.OrderStateError("x"), Stage.JOURNAL, Exit.USAGE),
    (errors.JournalError("x"), Stage.JOURNAL, Exit.NOT_SENT),
    (errors.AuthenticationError("x", status=401), Stage.QUERY, Exit.REFUSED),
    (TasksFailedError("x", code=Exit.TIMEOUT), Stage.WATCH, Exit.TIMEOUT),
]

BOAT = ("create", "A boat", "--model", "gen-2.0", "--no-validate", "--order-id", "order-1187")
FAST = ("--poll-interval", "0.05", "--timeout", "0.2")
CENTS = ("--max-points", "10", "--per", "24h", "--price")
UNKNOWN = "there is no order 'nope'"
RESUME = f"orders resume order-1187 {' '.join(CENTS)}"
REASON = ("--reason", "none")

#: A command, an operation and its fault, and the error: its exit code, its kind, a part of its message, and the first
#: command that it proposes. TASK is a completed task, QUEUED one that stays queued.
COMMANDS = [
    ("get nope", None, 1, "not_found", "404", ""),
    ("wait nope", None, 1, "not_found", "404", ""),
    ("download nope -o x.mp4", None, 1, "not_found", "404", ""),
    ("download QUEUED -o x.mp4", None, 1, "not_ready", "", "vidgen wait QUEUED -o x.mp4"),
    (
        f"wait QUEUED {' '.join(FAST)}",
        None,
        6,
        "wait_timeout",
        "It is still running and is charged",
        "vidgen wait QUEUED",
    ),
    (f"watch QUEUED {' '.join(FAST)}", None, 6, "tasks_failed", "1 of 1 tasks did not complete", ""),
    ("download TASK -o x.mp4", ("videos.content", Fault.html(200)), 7, "not_video", "", "vidgen wait TASK -o x.mp4"),
    ("download TASK -o missing/x.mp4", None, 2, "download", "missing", ""),
    ("models vendorh4", None, 2, "invalid_request", "did you mean 'vendorh3'?", ""),
    ("models", ("models.list", Fault.status(401)), 4, "authentication", "401", ""),
    ("account", ("account.get", Fault.status(503)), 1, "service_unavailable", "503", ""),
    ("account --base-url htp://h", None, 2, "configuration", "--base-url needs a scheme", ""),
    ("create x", None, 2, "invalid_request", "choose one with --model", ""),
    ("create x --model gen-2.0 --check", ("models.list", Fault.status(403)), 4, "unexpected_response", "403", ""),
    (BOAT, ("videos.create", Fault.status(402)), 4, "rejected_insufficient_credits", "", "vidgen orders resume"),
    (BOAT, ("videos.create", Fault.status(503)), 5, "uncertain_create", "", "vidgen orders show order-1187"),
    (BOAT, ("videos.create", Fault.close_after_body()), 5, "uncertain_create", "", "vidgen orders show order-1187"),
    ((*BOAT, *CENTS, "points"), None, 3, "budget_exceeded", "the budget of 10 points", f"vidgen {RESUME} points"),
    ((*BOAT, *CENTS, "cents"), None, 3, "budget_exceeded", "its price is 'cents', which the catalog entry", ""),
    ("orders ls --before nope", None, 2, "order_state", UNKNOWN, ""),
    ("orders show nope", None, 2, "order_state", UNKNOWN, ""),
    ("orders resume nope", None, 2, "order_state", UNKNOWN, ""),
    ("orders adopt nope task_1", None, 2, "order_state", UNKNOWN, ""),
    (("orders", "abandon", "nope", *REASON), None, 2, "order_state", UNKNOWN, ""),
    ("orders withdraw nope", None, 2, "order_state", UNKNOWN, ""),
    (("orders", "resend", "nope", "--expect-attempt", "1", "--yes", *REASON), None, 2, "order_state", UNKNOWN, ""),
]

GENERATE = ("generate", "x", "-o", "a.mp4")
MODEL = ("--model", "gen-2.0")
STATE = "/nowhere/at/all/x.db"
#: Commands that are wrong usage, by what the message contains: nothing is sent.
USAGE = [
    ("no such command 'fly'", [("fly",)]),
    ("missing option '-o'", [("generate", "x")]),
    ("there is no such file: missing.png", [(*GENERATE, "--image", "missing.png"), ("upload", PICTURE, "missing.png")]),
    ("'--ratio': '2:1' is not one of", [(*GENERATE, "--ratio", "2:1")]),
    ("--sandbox and --base-url cannot be combined", [(*GENERATE, "--sandbox", "--base-url", "http://h/openapi/v1")]),
    ("--sandbox and --journal", [(*GENERATE, "--sandbox", "--journal", "memory:")]),
    ("--sandbox and --account", [(*GENERATE, "--sandbox", "--account", "b")]),
    ("'five' is not a valid whole number.", [(*GENERATE, "--duration", "five")]),
    ("'soon' is not a valid number.", [("wait", "t", "--timeout", "soon")]),
    ("'--timeout': 0.0 is not in the range", [(*GENERATE, "--timeout", "0")]),
    ("--prompt-file", [("create", "x", "--promt-file", "a.txt")]),
    ("missing argument 'PROMPT'", [("create", *MODEL)]),
    ("PROMPT and --prompt-file cannot be combined", [("create", "x", "--prompt-file", "p.txt")]),
    ("cannot read the prompt from p.txt: No such file", [("create", "--prompt-file", "p.txt")]),
    ("it is not UTF-8 text", [("create", "--prompt-file", PICTURE)]),
    ("NAME=JSON", [("create", "x", "--field", "seed")]),
    ("the value of field seed is not valid JSON", [("create", "x", "--field", "seed=x")]),
    ("the field duration has its own option: --duration", [("create", "x", "--field", "duration=5")]),
    ("'--duration': 0 is not in the range", [("create", "x", *MODEL, "--duration", "0")]),
    ("sqlite:///", [("create", "x", *MODEL, "--journal", "mysql://u:not-for-others@h/d")]),
    ("--prompt-file: must not be empty", [("create", *MODEL, "--prompt-file", "")]),
    ("--order-id: must not be empty", [("create", "x", *MODEL, "--order-id", given) for given in ("", "  ")]),
    ("--resume: must not be empty", [("generate", "-o", "a.mp4", "--resume", given) for given in ("", "  ")]),
    ("--proxy: must not be empty", [("models", "--proxy", "")]),
    ("--base-url: must not be empty", [("models", "--base-url", "")]),
    ("--schema: must not be empty", [("journal", "schema", "--schema", "")]),
    ("--user: must not be empty", [("journal", "schema", "--user", "")]),
    ("a name in PostgreSQL has 1 to 63 bytes", [("journal", "schema", "--schema", "x" * 64)]),
    ("this release has schema version", [("journal", "schema", "--from-version", "99")]),
    ("-1 is not in the range", [("journal", "schema", "--from-version", "-1")]),
    *(
        (f"--resume uses the stored request: leave out {named}.", [("generate", "-o", "a.mp4", "--resume", "o", *more)])
        for named, *more in (
            ("PROMPT", "A prompt"),
            ("--image, --model", *MODEL, "--image", PICTURE),
            ("--order-id", "--order-id", "x"),
            ("--sandbox", "--sandbox"),
            ("--field", "--field", "seed=1"),
        )
    ),
    ("a task id must be text", [("get", ".."), ("wait", "..")]),
    ("-o - takes one task", [("wait", "task-1", "task-2", "-o", "-")]),
    ("or --journal", [("watch",)]),
    ("put task ids before it", [("watch", "--journal", "task_1")]),
    ("the form I/N", [("watch", "--journal", "--shard", given) for given in ("3/3", "-1/3", "1", "a/b")]),
    ("add --journal", [("watch", "task_1", "--shard", "0/3")]),
    ("--max-points needs --price or VIDGEN_PRICE", [("create", "x", *MODEL, "--max-points", "5")]),
    (
        "--per and --price need --max-points",
        [("orders", "resume", "x", *more) for more in (CENTS[2:4], ("--price", "p"))],
    ),
    (
        "--per is a duration such as 24h",
        [("create", "x", *MODEL, *CENTS[:3], given, "--price", "p") for given in ("1", "1y")],
    ),
    ("--per must be a number of seconds above 0", [(*GENERATE, *MODEL, *CENTS[:3], "0h", "--price", "points")]),
    ("is not the name of a time zone", [("spend", "--tz", name) for name in ("Mars", "Europe", "../x", "")]),
    ("--csv cannot be combined with --json", [("spend", "--csv", "--json")]),
    ("--format csv cannot be combined", [("orders", "export", "--format", "csv", "--json")]),
    (
        "neither a duration, such as 5m, 2h or 7d (units: s, m, h, d, w), nor a date",
        [("orders", "ls", "--since", given) for given in ("yesterday", "1", "0001-01-01", "")],
    ),
    (
        "such as 90d",
        [("cassette", "check", "c", f"--max-age={age}") for age in ("90", "d", "-1d", "1.5d", "90 days", "1y", "")],
    ),
    ("must be OP=NAME", [("sandbox", "--fault", "videos.create")]),
    ("op: must be one of", [("sandbox", "--fault", "a=stall", "--fault", "*=edit")]),
    ("fault: must be one of", [("sandbox", "--fault", "a=stall", "--fault", "*=edit")]),
    ("code: must be a whole number of 200 to 999, not 1", [("sandbox", "--fault", "*=status,code=1")]),
    ("'b=x': the credits must be a whole number", [("sandbox", "--account", "b=x")]),
    ("--public-url must be like http://localhost:8080, without a path, not 's'", [("sandbox", "--public-url", "s")]),
    ("--public-links-url must be like http://localhost:8080", [("sandbox", "--public-links-url", "http://a/b")]),
    ("the same account name is given twice", [("sandbox", "--account", "b", "--account", "b=3")]),
    ("there is already an account 'account-1'", [("sandbox", "--account", "account-1")]),
    (f"{STATE} cannot be read or written: No such file", [("sandbox", "--state", STATE)]),
]


def test_the_exit_code_depends_on_the_error_and_the_stage():
    assert [(error, stage, code) for error, stage, code in RULE if exit_code(error, stage) is not code] == []


def test_the_documentation_lists_the_same_exit_codes():
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text("utf-8")
    assert [code for code, meaning in EXIT_CODES if f"| {code} | {meaning} |\n" not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize(("command", "fault", "code", "kind", "message", "proposed"), COMMANDS)
def test_an_error_is_its_exit_code_and_one_object(here, service, command, fault, code, kind, message, proposed):
    tasks = {}
    for name, speed in (("TASK", 1000), ("QUEUED", 0)):
        if name in command:
            service.set_speed(speed)
            tasks[name] = here("create", "x", "--model", "gen-2.0", "--no-validate")[1].strip()
    if "TASK" in command:
        assert here("wait", tasks["TASK"], *FAST[:2])[0] == 0
    orders = len(service.creates)
    if fault is not None:
        service.add_fault(*fault, times=None)
    words = command.split() if isinstance(command, str) else command
    ended, _, err = here(*(tasks.get(word, word) for word in words), "--json", "--retry-for", "0")
    error = json.loads(err.splitlines()[-1])["error"]
    assert (ended, error["exit_code"], error["kind"]) == (code, code, kind)
    assert message in error["message"]
    for name, task_id in tasks.items():
        proposed = proposed.replace(name, task_id)
    assert error.get("commands", [""])[0].startswith(proposed)
    assert len(service.creates) == orders + (command is BOAT)


@pytest.mark.parametrize(("words", "commands"), USAGE)
def test_wrong_usage_is_exit_code_2_and_names_the_mistake(service, words, commands, fails):
    for command in commands:
        err = fails(2, *command)
        assert words in " ".join(err.split()), command
        assert "not-for-others" not in err
    assert (service.creates, service.count_requests("files.create")) == ([], 0)
