"""The types for checkers list exactly what exists at run time, and enforce nothing there."""

from typing import get_args

from tests.rules.catalog_snapshot import RATIOS
from vidgen_async import VideoRequest, VideoTask
from vidgen_async.cassette.settings import Mode, ModeName
from vidgen_async.service.endpoints import create_body
from vidgen_async.types import OrderState, OrderStateName, Ratio, TaskStatus, TerminalStatus
from vidgen_async.types.resources import ACTIVE_STATES, KNOWN_STATES, TERMINAL_STATES, GenerateStage


def test_the_names_of_a_type_are_those_of_its_enumeration_or_of_the_description():
    assert get_args(OrderStateName) == tuple(OrderState)
    assert get_args(ModeName) == tuple(Mode)
    assert get_args(Ratio) == RATIOS
    assert (set(get_args(TaskStatus)), set(get_args(TerminalStatus))) == (KNOWN_STATES, TERMINAL_STATES)
    assert {"queued", "running", "completed", "failed"} == KNOWN_STATES
    assert KNOWN_STATES - TERMINAL_STATES == {*ACTIVE_STATES} == {*get_args(GenerateStage)} & KNOWN_STATES


def test_values_that_the_description_does_not_list_are_used_unchanged():
    task = VideoTask(id="task-1", status="expired")
    assert (task.status, task.is_terminal, task.to_dict()["status"]) == ("expired", False, "expired")
    assert b'"ratio":"21:9"' in create_body(VideoRequest(model="m", prompt="p", ratio="21:9"))
    assert b'"ratio":"21:9"' in create_body(VideoRequest(model="m", prompt="p", extra={"ratio": "21:9"}))
