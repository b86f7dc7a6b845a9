"""What users of other recorders suffer from, and the tests here that say that ours do not.

Each row is a verified report about another recorder, numbered as in our research. Rows that are not here are about what
is no part of this package (exports to and imports from other formats, recordings that expire).
"""

import ast
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from attrs import evolve, frozen

HERE = Path(__file__).parent


@frozen
class Row:
    """A report, in words, and the tests: ``file::name``."""

    n: int
    says: str
    tests: tuple[str, ...]


def _row(n: int, says: str, *tests: str) -> Row:
    return Row(n, says, tuple(f"test_{test}" for test in tests))


ROWS = (
    _row(
        1,
        "the recorder drained the body that was to be streamed",
        "recording.py::test_a_body_is_streamed_while_it_is_recorded_in_pieces_of_any_size",
        "recording.py::test_a_piece_is_handed_on_before_the_next_one_has_come",
        "recording.py::test_a_long_video_is_never_held_in_memory",
    ),
    _row(
        3,
        "a stream never came to its end",
        "recording.py::test_a_stream_of_any_size_of_pieces_comes_to_its_end",
        "recording.py::test_an_empty_body_gives_no_piece",
    ),
    _row(
        4,
        "a body that had been read could not be streamed",
        "recording.py::test_reading_twice_gives_the_same_bytes_and_so_does_streaming_afterwards",
    ),
    _row(
        5,
        "matching consumed the upload",
        "recording.py::test_an_upload_arrives_whole_and_its_digest_is_on_the_cassette",
        "request_matching.py::test_the_same_request_is_found_however_it_is_written",
    ),
    _row(
        6,
        "equal reads were answered with the first answer",
        "request_matching.py::test_equal_requests_get_their_answers_in_the_order_in_which_they_were_recorded",
    ),
    _row(
        7,
        "all answers of one place but the last were lost",
        "request_matching.py::test_equal_requests_get_their_answers_in_the_order_in_which_they_were_recorded",
    ),
    _row(
        8,
        "answers were swapped between callers",
        "request_matching.py::test_a_slow_first_and_a_fast_second_each_keep_their_own_answer",
        "request_matching.py::test_whatever_comes_first_each_caller_gets_its_own_answer",
    ),
    _row(
        9,
        "a lane that was used up looked like a request that was never recorded",
        "request_matching.py::test_one_poll_too_many_names_the_lane_and_what_was_played_of_it",
        "request_matching.py::test_repeat_last_gives_the_last_answer_each_time_with_a_body_of_its_own",
    ),
    _row(
        10,
        "what becomes of a repeated request in each mode was undefined",
        "modes.py::test_each_mode_takes_its_answers_from_where_it_says",
        "modes.py::test_without_a_cassette_only_recording_modes_go_live",
    ),
    _row(
        11,
        "what had just been recorded was played",
        "modes.py::test_append_never_plays_what_it_recorded_in_the_same_session",
    ),
    _row(
        12,
        "of two recordings at a time one got nothing",
        "recording.py::test_two_clients_with_two_cassettes_at_a_time_stay_apart",
    ),
    _row(
        15,
        "secrets were recorded",
        "recording.py::test_the_key_the_signature_and_the_idempotency_key_are_nowhere",
    ),
    _row(
        19,
        "an answer was redacted in another way than the request that was made of it",
        "request_matching.py::test_a_redacted_address_leads_to_the_request_that_was_made_with_it",
        "replay.py::test_a_refused_link_is_renewed_in_a_replay_as_it_was_live",
    ),
    _row(
        23,
        "binary bodies were garbled",
        "document.py::test_a_body_without_secrets_is_played_byte_by_byte",
        "document.py::test_binary_bodies_up_to_the_limit_are_kept_whole",
    ),
    _row(
        25,
        "errors could not be recorded",
        "replay_of_failures.py::test_a_failure_of_the_network_is_played_with_its_class_and_its_evidence",
        "replay_of_failures.py::test_every_class_of_error_is_played_with_every_delivery",
        "replay_of_failures.py::test_a_truncated_body_is_played_up_to_where_it_broke_off",
        "replay_of_failures.py::test_a_cassette_with_failures_is_valid_and_names_them",
    ),
    _row(
        26,
        "chains of redirects were recorded wrongly",
        "recording.py::test_a_redirect_is_two_interactions_and_the_key_goes_to_the_first_origin_alone",
        "recording.py::test_a_307_to_a_create_is_never_followed_and_is_one_interaction",
        "replay.py::test_every_hop_of_a_chain_of_redirects_is_played",
    ),
    _row(
        27,
        "a redirect without a Location crashed",
        "replay.py::test_a_redirect_without_a_location_is_a_plain_answer",
    ),
    _row(
        28,
        "a missing cassette gave a message about something else",
        "modes.py::test_a_replay_without_a_cassette_says_to_record_it",
        "modes.py::test_without_a_cassette_only_recording_modes_go_live",
    ),
    _row(
        29,
        "a miss told only the address",
        "request_matching.py::test_a_miss_lists_the_nearest_interactions_with_what_is_different",
        "request_matching.py::test_a_miss_tells_the_differing_field_of_a_body_by_its_pointer",
        "request_matching.py::test_a_miss_never_tells_a_prompt",
    ),
    _row(
        30,
        "recording anew that failed lost the old cassette",
        "modes.py::test_a_recording_that_fails_half_way_leaves_the_old_cassette_byte_by_byte",
        "modes.py::test_the_old_cassette_stands_until_the_new_one_is_whole",
    ),
    _row(
        32,
        "nothing was ever used up",
        "request_matching.py::test_a_read_a_write_and_a_read_of_one_place_are_played_in_their_order",
    ),
    _row(
        33,
        "all POSTs to one place were equal",
        "request_matching.py::test_different_requests_to_one_place_get_their_own_answers",
        "request_matching.py::test_the_same_request_is_found_however_it_is_written",
        "replay.py::test_creates_are_told_apart_by_what_they_ask_for",
    ),
    _row(
        37,
        "nobody noticed what was never played",
        "replay.py::test_what_was_never_played_is_an_error_of_the_check_that_names_it",
    ),
    _row(
        38,
        "a replay could reach the network",
        "replay.py::test_a_whole_journey_is_played_without_a_network",
        "modes.py::test_a_replay_never_makes_the_live_transport",
    ),
    _row(
        39,
        "a miss looked like a timeout, and was tried again",
        "request_matching.py::test_a_miss_is_no_error_of_the_network",
        "request_matching.py::test_a_miss_comes_through_everything_that_survives_a_bad_network",
        "request_matching.py::test_a_swallowed_miss_is_raised_again_by_the_check",
    ),
    _row(
        40,
        "an answer that was played twice had one body",
        "request_matching.py::test_repeat_last_gives_the_last_answer_each_time_with_a_body_of_its_own",
        "request_matching.py::test_repeat_last_streams_a_blob_again",
    ),
    _row(
        41,
        "of many requests at a time only the first was answered",
        "request_matching.py::test_fifty_sends_at_once_are_all_answered",
        "recording.py::test_fifty_at_a_time_are_recorded_each_with_its_own_answer",
    ),
    _row(
        43,
        "polls slept in real time",
        "replay_time.py::test_an_hour_of_polls_takes_no_time_and_every_interval_of_it_passes",
        "replay_time.py::test_a_retry_after_is_waited_for_in_virtual_time",
    ),
    _row(
        44,
        "a loop of polls could not be recorded",
        "request_matching.py::test_equal_requests_get_their_answers_in_the_order_in_which_they_were_recorded",
        "request_matching.py::test_one_poll_too_many_names_the_lane_and_what_was_played_of_it",
    ),
    _row(
        45,
        "tests side by side wrote one recording",
        "modes.py::test_two_recordings_of_one_cassette_at_a_time_are_one_too_many",
        "modes.py::test_any_number_of_replays_share_a_cassette",
    ),
    _row(
        47,
        "repositories grew by every video",
        "document.py::test_above_the_limit_only_both_ends_the_length_and_the_digest_are_kept",
        "document.py::test_the_same_body_twice_is_one_blob",
    ),
    _row(
        48,
        "loading and playing took minutes",
        "replay.py::test_the_work_for_an_answer_does_not_grow_with_the_cassette",
        "replay.py::test_the_work_for_an_answer_is_that_of_some_dozens_of_calls",
        "replay.py::test_the_work_of_loading_grows_with_the_cassette_and_no_faster",
    ),
    _row(
        50,
        "a request was silently sent twice",
        "recording.py::test_a_connection_dropped_after_the_request_is_one_request_and_maybe_sent",
    ),
)

NUMBERS = (
    1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 19, 23, 25, 26, 27, 28, 29, 30, 32, 33, 37, 38, 39, 40, 41, 43, 44, 45, 47,
    48, 50,
)  # fmt: skip


@cache
def named_in(file: str) -> frozenset[str]:
    path = HERE / file
    if not path.is_file():
        return frozenset()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse(path.read_text("utf-8")).body
    return frozenset(f"{file}::{one.name}" for one in body if isinstance(one, functions) and one.name[:5] == "test_")


def problems_of(rows: Sequence[Row]) -> list[str]:
    """Everything that is wrong with the table, one line each."""
    times = Counter(row.n for row in rows)
    problems = [f"{n}: stands {times[n]} times" for n in sorted({*NUMBERS, *times}) if times[n] != (n in NUMBERS)]
    problems += [f"{row.n}: has no statement" for row in rows if not row.says]
    problems += [f"{row.n}: no test" for row in rows if not row.tests]
    return problems + [
        f"{row.n}: there is no {test}"
        for row in rows
        for test in row.tests
        if test not in named_in(test.partition("::")[0])
    ]


def test_every_report_has_its_row_and_every_row_its_tests():
    assert problems_of(ROWS) == []


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (ROWS[1:], "1: stands 0 times"),
        ((*ROWS, ROWS[0]), "1: stands 2 times"),
        ((*ROWS, evolve(ROWS[0], n=52)), "52: stands 1 times"),
        ((evolve(ROWS[0], says=""), *ROWS[1:]), "1: has no statement"),
        ((evolve(ROWS[0], tests=()), *ROWS[1:]), "1: no test"),
        (
            (evolve(ROWS[0], tests=("test_replay.py::test_gone",)), *ROWS[1:]),
            "1: there is no test_replay.py::test_gone",
        ),
        ((evolve(ROWS[0], tests=("test_gone.py::test_x",)), *ROWS[1:]), "1: there is no test_gone.py::test_x"),
    ],
)
def test_a_row_that_is_wrong_is_named(rows, problem):
    assert problems_of(rows) == [problem]
