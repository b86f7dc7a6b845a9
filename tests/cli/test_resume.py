"""``generate --resume``: wherever an earlier run was stopped, the rest is done, and nothing ordered twice."""

import re
import shlex
import signal

import pytest

from vidgen_async.sandbox import Fault

from .conftest import PICTURE

ORDER = "order-1187"
FAST = ("--poll-interval", "0.05")
BOAT = ("generate", "A paper boat", "--model", "gen-2.0", "--duration", "5", "-o", "boat.mp4", *FAST)
HERO = ("generate", "A hero", "--model", "vendorh3", "--image", PICTURE, "-o", "boat.mp4", *FAST)


@pytest.fixture
def saved(vidgen, service, tmp_path):
    """Runs the command that an interrupted run has shown last; it must save the video of the only order."""

    def resume(shown: str) -> None:
        command = shlex.split(shown.splitlines()[-1], comments=True)
        assert command[:4] == ["vidgen", "generate", "--resume", ORDER]
        service.set_speed(1000)
        code, out, err = vidgen(*command[1:]).end()
        assert code == 0, err
        assert out.startswith("saved boat.mp4")
        assert (tmp_path / "boat.mp4").stat().st_size > 10_000
        assert len(service.creates) == 1
        assert service.creates[0].task_id in err

    return resume


def test_stopped_during_the_upload_nothing_is_on_record_and_the_same_command_does_it_all(vidgen, service, tmp_path):
    service.play("files.create", Fault.stall())
    command = vidgen(*HERO, "--order-id", ORDER)
    command.until("uploading")
    command.interrupt()
    code, _, err = command.end()
    assert code == 130
    assert err.splitlines()[-1].endswith("Nothing was ordered or charged.")

    code, _, err = vidgen("generate", "--resume", ORDER, "-o", "boat.mp4").end()
    assert code == 2
    assert f"there is no order '{ORDER}' in the journal " in err
    assert "for account 'default' at http://127.0.0.1:" in err
    assert "nothing was ever sent" not in err
    assert service.creates == []

    service.behave()
    assert vidgen(*HERO, "--order-id", ORDER).end()[0] == 0
    assert len(service.creates) == 1


def test_an_order_that_found_no_connection_is_sent_by_resume(vidgen, service, saved):
    service.refuse()
    code, _, err = vidgen(*BOAT, "--order-id", ORDER, "--no-validate").end()
    assert code == 3
    assert "Running this again is safe. To send it after all:" in err
    service.accept()
    saved(err)


def test_stopped_while_the_order_is_sent_its_answer_is_kept(vidgen, service, saved):
    service.set_speed(1)
    service.play("videos.create", Fault.stall(0.7))
    command = vidgen(*BOAT, "--order-id", ORDER)
    command.until("sending the order")
    service.wait_for_create()
    command.interrupt()
    code, _, err = command.end()
    assert code == 130
    saved(err)


def test_stopped_at_once_while_the_order_is_sent_a_person_decides_and_resume_goes_on(vidgen, service, tmp_path):
    service.set_speed(1)
    service.play("videos.create", Fault.stall(3))
    command = vidgen(*BOAT, "--order-id", ORDER)
    command.until("sending the order")
    service.wait_for_create()
    command.interrupt()
    command.until("waiting a few seconds")
    command.interrupt()
    code, _, err = command.end()
    assert code == 130
    commands = [shlex.split(line, comments=True) for line in err.splitlines() if line.startswith("  vidgen ")]
    assert [command[:3] for command in commands] == [
        ["vidgen", "generate", "--resume"],
        ["vidgen", "orders", "show"],
        ["vidgen", "orders", "adopt"],
        ["vidgen", "orders", "abandon"],
        ["vidgen", "orders", "resend"],
    ]

    task_id = service.wait_for_task()
    adopt = [task_id if word == "TASK_ID" else word for word in commands[2][1:]]
    assert vidgen(*adopt).end()[0] == 0
    code, out, err = vidgen(*commands[0][1:]).end()
    assert code == 0, err
    assert out.startswith("saved boat.mp4")
    assert len(service.creates) == 1


def test_an_order_whose_answer_was_lost_is_not_sent_by_resume(vidgen, service, tmp_path):
    service.play("videos.create", Fault.close_after_body())
    assert vidgen(*BOAT, "--order-id", ORDER).end()[0] == 5
    code, out, err = vidgen("generate", "--resume", ORDER, "-o", "boat.mp4").end()
    assert (code, out) == (5, "")
    assert "nobody knows whether the service took it" in err
    assert list(tmp_path.iterdir()) == []
    assert len(service.creates) == 1


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_waiting_the_rest_is_done(vidgen, service, saved, which):
    service.set_speed(0)
    command = vidgen(*BOAT, "--order-id", ORDER)
    command.until("queued")
    command.interrupt(which)
    code, _, err = command.end()
    assert code == 128 + which
    saved(err)


def test_killed_while_waiting_the_order_is_still_on_record(vidgen, service, saved):
    service.set_speed(0)
    command = vidgen(*BOAT, "--order-id", ORDER)
    command.until("queued")
    command.interrupt(signal.SIGKILL)
    assert command.end()[0] == -signal.SIGKILL
    saved(f"vidgen generate --resume {ORDER} -o boat.mp4 --poll-interval 0.05")


def test_stopped_while_downloading_the_video_is_had_without_another_order(vidgen, service, saved, tmp_path):
    service.play("videos.content", Fault.drip(2000))
    command = vidgen(*BOAT, "--order-id", ORDER)
    command.until("the video has")
    command.interrupt()
    code, _, err = command.end()
    assert code == 130
    assert list(tmp_path.iterdir()) == []
    saved(err)


def test_an_order_that_was_carried_out_to_the_end_can_be_had_once_more(vidgen, service, saved, tmp_path):
    assert vidgen(*BOAT, "--order-id", ORDER).end()[0] == 0
    again = f"vidgen generate --resume {ORDER} -o boat.mp4 --poll-interval 0.05"
    code, _, err = vidgen(*shlex.split(again)[1:]).end()
    assert code == 2
    assert "--force replaces it" in err
    saved(f"{again} --force")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("A prompt",), "PROMPT"),
        (("--model", "gen-2.0", "--image", PICTURE), "--image, --model"),
        (("--order-id", "x"), "--order-id"),
        (("--sandbox",), "--sandbox"),
        (("--field", "seed=1"), "--field"),
    ],
)
def test_nothing_of_a_request_is_taken_with_resume(here, service, arguments, named):
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


def test_an_interrupted_send_says_until_when_nobody_can_decide_and_resume_waits(vidgen, service, tmp_path):
    service.set_speed(1)
    service.play("videos.create", Fault.stall(30))
    command = vidgen(*BOAT, "--order-id", ORDER)
    command.until("sending the order")
    service.wait_for_create()
    command.interrupt()
    code, _, err = command.end()
    assert code == 130
    assert re.search(r"Until \d\d:\d\d:\d\d UTC it counts as being sent\.", err)
    commands = [line.strip() for line in err.splitlines() if line.startswith("  vidgen ")]
    assert commands[0].startswith(f"vidgen generate --resume {ORDER} -o boat.mp4")

    again = vidgen(*BOAT, "--order-id", ORDER)
    again.until("the order was being sent; waiting for what became of it, until ")
    again.interrupt()
    assert again.end()[0] == 130
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
