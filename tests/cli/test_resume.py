"""``generate --resume``: wherever an earlier run was stopped, the rest is done, and nothing ordered twice."""

import re
import shlex
import signal
from functools import partial

import pytest

from tests.signals import interrupt
from vidgen_async.cli import service_connection
from vidgen_async.cli.command_runner import SIGNALS
from vidgen_async.clock import LoopClock
from vidgen_async.sandbox import Fault

from .conftest import PICTURE

ORDER = "order-1187"
FAST = ("--poll-interval", "0.05")
BOAT = ("generate", "A paper boat", "--model", "gen-2.0", "--duration", "5", "-o", "boat.mp4", *FAST)
HERO = ("generate", "A hero", "--model", "vendorh3", "--image", PICTURE, "-o", "boat.mp4", *FAST)


def test_stopped_during_the_upload_nothing_is_on_record_and_the_same_command_does_it_all(here, service, tmp_path):
    service.play("files.create", Fault.stall())
    code, _, err = here(*HERO, "--order-id", ORDER, when={"uploading": interrupt})
    assert code == 130
    assert err.splitlines()[-1].endswith("Nothing was ordered or charged.")

    code, _, err = here("generate", "--resume", ORDER, "-o", "boat.mp4")
    assert code == 2
    assert f"there is no order '{ORDER}' in the journal " in err
    assert "for account 'default' at http://127.0.0.1:" in err
    assert "nothing was ever sent" not in err
    assert service.creates == []

    service.behave()
    assert here(*HERO, "--order-id", ORDER)[0] == 0
    assert len(service.creates) == 1


@pytest.mark.slow
def test_an_order_that_found_no_connection_is_sent_by_resume(here, service, saved):
    service.refuse()
    code, _, err = here(*BOAT, "--order-id", ORDER, "--no-validate")
    assert code == 3
    assert "Running this again is safe. To send it after all:" in err
    service.accept()
    saved(err)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_stopped_while_the_order_is_sent_its_answer_is_waited_for_and_kept(here, service, saved, which):
    service.set_speed(0)
    service.play("videos.create", Fault.stall(1))
    service.on_task = partial(interrupt, which)

    def answer():
        interrupt(signal.SIGHUP)  # as a terminal sends it once more when it is closed
        service.set_speed(1000)

    code, out, err = here(*BOAT, "--order-id", ORDER, when={"waiting a few seconds for its answer": answer})
    assert (code, out) == (128 + which, "")
    assert f"order: {ORDER}" in err
    task_id = service.creates[0].task_id
    assert f"Task {task_id} was accepted and is charged; an interruption does not stop it. To go on:" in err
    assert err.splitlines()[-1] == f"  vidgen generate --resume {ORDER} -o boat.mp4 --poll-interval 0.05"
    saved(err)


def test_an_order_whose_answer_was_lost_is_not_sent_by_resume(here, service, tmp_path):
    service.play("videos.create", Fault.close_after_body())
    assert here(*BOAT, "--order-id", ORDER)[0] == 5
    code, out, err = here("generate", "--resume", ORDER, "-o", "boat.mp4")
    assert (code, out) == (5, "")
    assert "nobody knows whether the service took it" in err
    assert list(tmp_path.iterdir()) == []
    assert len(service.creates) == 1


@pytest.mark.parametrize(("which", "how"), SIGNALS.items())
def test_stopped_while_waiting_the_rest_is_done(here, service, saved, which, how):
    service.set_speed(0)
    code, _, err = here(*BOAT, "--order-id", ORDER, when={"queued": partial(interrupt, which)})
    assert code == 128 + which
    assert f"{how} while waiting for the task." in err
    assert "still runs at the service and is charged" in err
    saved(err)


def test_stopped_while_downloading_no_half_file_is_left_and_the_video_is_had_without_another_order(
    here, service, saved, tmp_path
):
    service.play("videos.content", Fault.drip(2000))
    code, _, err = here(*BOAT, "--order-id", ORDER, when={"the video has": interrupt})
    assert code == 130
    assert "Interrupted while downloading the video." in err
    assert "is completed and charged" in err
    assert list(tmp_path.iterdir()) == []
    saved(err)


def test_an_order_that_was_carried_out_to_the_end_can_be_had_once_more(here, saved):
    assert here(*BOAT, "--order-id", ORDER)[0] == 0
    again = f"vidgen generate --resume {ORDER} -o boat.mp4 --poll-interval 0.05"
    code, _, err = here(*shlex.split(again)[1:])
    assert code == 2
    assert "--force replaces it" in err
    saved(f"{again} --force")


def test_nothing_of_a_request_is_taken_with_resume(here, service):
    for named, arguments in {
        "PROMPT": ("A prompt",),
        "--image, --model": ("--model", "gen-2.0", "--image", PICTURE),
        "--order-id": ("--order-id", "x"),
        "--sandbox": ("--sandbox",),
        "--field": ("--field", "seed=1"),
    }.items():
        code, out, err = here("generate", "--resume", ORDER, "-o", "boat.mp4", *arguments)
        assert (code, out) == (2, "")
        assert f"--resume takes the request from the record: leave out {named}." in err
    assert service.creates == []


def test_the_options_that_lead_to_the_order_are_repeated(here, service):
    service.set_speed(0)
    options = ("--base-url", service.base_url, "--account", "left", "--journal", "sqlite:///mine.db")
    code, _, err = here(*BOAT, "--order-id", ORDER, "--timeout", "0.2", "--force", *options)
    assert code == 6
    command = shlex.split(err.splitlines()[-1])
    service.set_speed(1000)
    code, _, err = here(*command[1:])
    assert code == 0, err
    assert "--force" in command
    assert len(service.creates) == 1


class HurriedClock(LoopClock):
    """Waits for a twentieth of the time."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 20)


@pytest.mark.slow
def test_an_interrupted_send_says_until_when_nobody_can_decide_and_resume_waits(here, service, monkeypatch):
    monkeypatch.setattr(service_connection, "Client", partial(service_connection.Client, clock=HurriedClock()))
    service.set_speed(1)
    service.play("videos.create", Fault.stall(30))
    service.on_task = interrupt
    code, _, err = here(*BOAT, "--order-id", ORDER)
    assert code == 130
    assert re.search(r"Until \d\d:\d\d:\d\d UTC it counts as being sent\.", err)
    commands = [line.strip() for line in err.splitlines() if line.startswith("  vidgen ")]
    assert commands[0].startswith(f"vidgen generate --resume {ORDER} -o boat.mp4")

    waits = "the order was being sent; waiting for what became of it, until "
    assert here(*BOAT, "--order-id", ORDER, when={waits: interrupt})[0] == 130
    assert len(service.creates) == 1


def test_to_resume_looks_into_a_journal_that_there_is_and_makes_none(here, service, tmp_path, data_home):
    code, out, err = here("generate", "--resume", ORDER, "-o", "boat.mp4", "--journal", "sqlite:///mine.db")
    assert (code, out) == (2, "")
    assert f"there is no journal at {tmp_path / 'mine.db'}" in err
    assert here("generate", "--resume", ORDER, "-o", "boat.mp4")[0] == 2
    assert [*tmp_path.iterdir(), *data_home.iterdir()] == []


def test_the_pictures_of_an_order_under_way_are_not_uploaded_again_and_its_video_is_had(here, service):
    assert here("create", *HERO[1:5], PICTURE, "--order-id", ORDER)[0] == 0
    code, out, err = here(*HERO, "--order-id", ORDER)
    assert code == 0, err
    assert out.startswith("saved boat.mp4")
    assert "its pictures were not uploaded again and nothing was sent" in err
    assert service.asked("files.create") == 1
    assert len(service.creates) == 1
