"""``generate --resume``: it performs the remaining steps of an interrupted run and orders nothing twice."""

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

pytestmark = pytest.mark.slow

ORDER = "order-1187"
FAST = ("--poll-interval", "0.05")
BOAT = ("generate", "A paper boat", "--model", "gen-2.0", "--duration", "5", "-o", "boat.mp4", *FAST)
HERO = ("generate", "A hero", "--model", "vendorh3", "--image", PICTURE, "-o", "boat.mp4", *FAST)


def test_after_an_interrupted_upload_nothing_is_stored_and_the_same_command_works(here, service, tmp_path, fails):
    service.add_fault("files.create", Fault.stall())
    err = fails(130, *HERO, "--order-id", ORDER, when={"uploading": interrupt})
    assert err.splitlines()[-1].endswith("Nothing was ordered or charged.")

    err = fails(2, "generate", "--resume", ORDER, "-o", "boat.mp4")
    assert f"there is no order '{ORDER}' in the journal " in err
    assert "for account 'default' at http://127.0.0.1:" in err
    assert "nothing was ever sent" not in err
    assert service.creates == []

    service.behave()
    assert here(*HERO, "--order-id", ORDER)[0] == 0
    assert len(service.creates) == 1


def test_resume_sends_an_order_that_found_no_connection(service, saved, fails):
    service.refuse()
    err = fails(3, *BOAT, "--order-id", ORDER, "--no-validate")
    assert "Running this command again is safe. To retry the order:" in err
    service.accept()
    saved(err)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_after_an_interrupted_send_the_response_is_awaited_and_stored(here, service, saved, which):
    service.set_speed(0)
    service.add_fault("videos.create", Fault.stall(1))
    service.on_task = partial(interrupt, which)

    def answer():
        interrupt(signal.SIGHUP)  # as a closed terminal sends it once more
        service.set_speed(1000)

    code, out, err = here(*BOAT, "--order-id", ORDER, when={"waiting a few seconds for the response": answer})
    assert (code, out) == (128 + which, "")
    assert f"order: {ORDER}" in err
    task_id = service.creates[0].task_id
    assert f"Task {task_id} was accepted and is charged; an interruption does not stop it.\nhint: to resume:" in err
    assert err.splitlines()[-1] == f"  vidgen generate --resume {ORDER} -o boat.mp4 --poll-interval 0.05"
    saved(err)


def test_resume_does_not_send_an_uncertain_order(here, service, tmp_path, fails):
    service.add_fault("videos.create", Fault.close_after_body())
    assert here(*BOAT, "--order-id", ORDER)[0] == 5
    err = fails(5, "generate", "--resume", ORDER, "-o", "boat.mp4")
    assert "vidgen orders resend" in err
    assert list(tmp_path.iterdir()) == []
    assert len(service.creates) == 1


@pytest.mark.parametrize(("which", "how"), SIGNALS.items())
def test_resume_completes_an_interrupted_wait(here, service, saved, which, how):
    service.set_speed(0)
    code, _, err = here(*BOAT, "--order-id", ORDER, when={"queued": partial(interrupt, which)})
    assert code == 128 + which
    assert f"error: {how.lower()} while waiting for the task." in err
    assert "is still running at the service and is charged" in err
    saved(err)


def test_an_interrupted_download_leaves_no_file_and_resume_saves_the_video(service, saved, tmp_path, fails):
    service.add_fault("videos.content", Fault.drip(2000))
    err = fails(130, *BOAT, "--order-id", ORDER, when={"size: ": interrupt})
    assert "interrupted while downloading the video." in err
    assert "is completed and charged" in err
    assert list(tmp_path.iterdir()) == []
    saved(err)


def test_the_proposed_command_repeats_the_options_that_find_the_order(service, fails, works):
    service.set_speed(0)
    options = ("--base-url", service.base_url, "--account", "left", "--journal", "sqlite:///mine.db")
    err = fails(6, *BOAT, "--order-id", ORDER, "--timeout", "0.2", "--force", *options)
    command = shlex.split(err.splitlines()[-1])
    service.set_speed(1000)
    err = works(*command[1:])[1]
    assert "--force" in command
    assert len(service.creates) == 1


class HurriedClock(LoopClock):
    """Sleeps for a twentieth of the time."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 20)


def test_an_interrupted_send_reports_until_when_it_counts_as_being_sent_and_resume_waits(
    here, service, monkeypatch, fails
):
    monkeypatch.setattr(service_connection, "Client", partial(service_connection.Client, clock=HurriedClock()))
    service.set_speed(1)
    service.add_fault("videos.create", Fault.stall(30))
    service.on_task = interrupt
    err = fails(130, *BOAT, "--order-id", ORDER)
    assert re.search(r"Until \d\d:\d\d:\d\d UTC it is treated as still being sent\.", err)
    commands = [line.strip() for line in err.splitlines() if line.startswith("  vidgen ")]
    assert commands[0].startswith(f"vidgen generate --resume {ORDER} -o boat.mp4")

    waits = "an earlier run was sending the order; waiting for its outcome until "
    assert here(*BOAT, "--order-id", ORDER, when={waits: interrupt})[0] == 130
    assert len(service.creates) == 1
