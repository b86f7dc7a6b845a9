"""Known defects of other recorders, and the tests that show that this one does not have them.

Each row is a verified report about another recorder. Numbers that are missing are of reports about features that
this package does not have (exports to and imports from other formats, recordings that expire).
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
    """A report, and its tests as ``file::name``."""

    n: int
    says: str
    tests: tuple[str, ...]


def _row(n: int, says: str, *tests: str) -> Row:
    return Row(n, says, tuple(f"test_{test}" for test in tests))


ROWS = (
    _row(
        1,
        "the recorder drained the body that was to be streamed",
        "recording.py::test_a_body_is_streamed_in_chunks_of_any_size_while_it_is_recorded",
        "recording.py::test_a_chunk_is_passed_on_before_the_next_one_is_received",
        "recording.py::test_a_long_video_is_never_held_in_memory",
    ),
    _row(
        3,
        "a stream never came to its end",
        "recording.py::test_a_stream_with_chunks_of_any_size_ends",
        "recording.py::test_an_empty_body_has_no_chunk",
    ),
    _row(
        4,
        "a body that had been read could not be streamed",
        "recording.py::test_reading_twice_gives_the_same_bytes_and_so_does_streaming_afterwards",
    ),
    _row(
        5,
        "matching consumed the upload",
        "recording.py::test_an_upload_arrives_completely_and_its_digest_is_on_the_cassette",
        "request_matching.py::test_equal_requests_match_in_any_notation",
    ),
    _row(
        6,
        "equal reads were answered with the first answer",
        "request_matching.py::test_equal_requests_get_their_responses_in_recorded_order",
    ),
    _row(
        7,
        "all answers of one place but the last were lost",
        "request_matching.py::test_equal_requests_get_their_responses_in_recorded_order",
    ),
    _row(
        8,
        "answers were swapped between callers",
        "request_matching.py::test_a_slow_first_and_a_fast_second_request_get_their_own_responses",
        "request_matching.py::test_each_caller_gets_its_own_response_in_any_order",
    ),
    _row(
        9,
        "a lane that was used up looked like a request that was never recorded",
        "request_matching.py::test_the_error_for_one_poll_too_many_names_the_request_and_the_count",
        "request_matching.py::test_repeat_last_returns_the_last_response_each_time_with_its_own_body",
    ),
    _row(
        10,
        "what becomes of a repeated request in each mode was undefined",
        "modes.py::test_each_mode_gets_its_responses_from_the_documented_source",
        "modes.py::test_without_a_cassette_only_recording_modes_send_requests",
    ),
    _row(
        11,
        "what had just been recorded was played",
        "modes.py::test_append_never_replays_what_it_recorded_itself",
    ),
    _row(
        12,
        "of two recordings at a time one got nothing",
        "recording.py::test_two_clients_record_two_cassettes_concurrently",
    ),
    _row(
        15,
        "secrets were recorded",
        "recording.py::test_the_key_the_signature_and_the_idempotency_key_are_hidden",
    ),
    _row(
        19,
        "an answer was redacted in another way than the request that was made of it",
        "request_matching.py::test_a_request_made_from_a_redacted_address_matches_its_interaction",
        "replay.py::test_a_refused_link_is_renewed_in_a_replay_as_in_the_recording",
    ),
    _row(
        23,
        "binary bodies were garbled",
        "document.py::test_a_body_without_secrets_is_replayed_byte_by_byte",
        "document.py::test_binary_bodies_up_to_the_limit_are_stored_completely",
    ),
    _row(
        25,
        "errors could not be recorded",
        "replay_of_failures.py::test_a_network_failure_is_replayed_with_its_class_and_its_evidence",
        "replay_of_failures.py::test_every_class_of_error_is_replayed_with_every_delivery",
        "replay_of_failures.py::test_a_truncated_body_is_replayed_up_to_its_last_byte",
        "replay_of_failures.py::test_a_cassette_with_failures_is_valid_and_readable",
    ),
    _row(
        26,
        "chains of redirects were recorded wrongly",
        "recording.py::test_a_redirect_is_two_interactions_and_only_the_first_origin_gets_the_key",
        "recording.py::test_a_307_to_a_create_is_never_followed_and_is_one_interaction",
        "replay.py::test_every_redirect_of_a_chain_is_replayed",
    ),
    _row(
        27,
        "a redirect without a Location crashed",
        "replay.py::test_a_redirect_without_a_location_is_an_ordinary_response",
    ),
    _row(
        28,
        "a missing cassette gave a message about something else",
        "modes.py::test_the_error_of_a_replay_without_a_cassette_advises_to_record_it",
        "modes.py::test_without_a_cassette_only_recording_modes_send_requests",
    ),
    _row(
        29,
        "a miss told only the address",
        "request_matching.py::test_a_miss_lists_the_nearest_interactions_with_their_differences",
        "request_matching.py::test_a_miss_names_a_different_field_of_a_body_by_its_pointer",
        "request_matching.py::test_a_miss_never_shows_a_prompt",
    ),
    _row(
        30,
        "recording anew that failed lost the old cassette",
        "modes.py::test_a_recording_that_fails_leaves_the_old_cassette_unchanged",
        "modes.py::test_the_old_cassette_stays_until_the_new_one_is_complete",
    ),
    _row(
        32,
        "nothing was ever used up",
        "request_matching.py::test_a_read_a_write_and_a_read_of_one_url_are_replayed_in_order",
    ),
    _row(
        33,
        "all POSTs to one place were equal",
        "request_matching.py::test_different_requests_to_one_url_get_their_own_responses",
        "request_matching.py::test_equal_requests_match_in_any_notation",
        "replay.py::test_creates_are_matched_by_their_bodies",
    ),
    _row(
        37,
        "nobody noticed what was never played",
        "replay.py::test_the_check_names_interactions_that_were_not_replayed",
    ),
    _row(
        38,
        "a replay could reach the network",
        "replay.py::test_an_order_is_replayed_from_create_to_download_without_a_network",
        "modes.py::test_a_replay_never_creates_the_live_transport",
    ),
    _row(
        39,
        "a miss looked like a timeout, and was tried again",
        "request_matching.py::test_a_miss_is_no_error_of_the_network",
        "request_matching.py::test_a_miss_is_raised_by_calls_that_survive_network_failures",
        "request_matching.py::test_a_suppressed_miss_is_raised_by_the_check",
    ),
    _row(
        40,
        "an answer that was played twice had one body",
        "request_matching.py::test_repeat_last_returns_the_last_response_each_time_with_its_own_body",
        "request_matching.py::test_repeat_last_streams_a_blob_again",
    ),
    _row(
        41,
        "of many requests at a time only the first was answered",
        "request_matching.py::test_fifty_concurrent_sends_get_their_responses",
        "recording.py::test_fifty_concurrent_requests_are_recorded_each_with_its_own_response",
    ),
    _row(
        43,
        "polls slept in real time",
        "replay_time.py::test_an_hour_of_polls_is_replayed_at_once_with_every_interval",
        "replay_time.py::test_a_retry_after_is_waited_for_in_virtual_time",
    ),
    _row(
        44,
        "a loop of polls could not be recorded",
        "request_matching.py::test_equal_requests_get_their_responses_in_recorded_order",
        "request_matching.py::test_the_error_for_one_poll_too_many_names_the_request_and_the_count",
    ),
    _row(
        45,
        "tests side by side wrote one recording",
        "modes.py::test_a_second_recording_of_the_same_cassette_is_refused",
        "modes.py::test_any_number_of_replays_share_a_cassette",
    ),
    _row(
        47,
        "repositories grew by every video",
        "document.py::test_above_the_limit_only_both_ends_the_length_and_the_digest_are_stored",
        "document.py::test_two_equal_bodies_share_one_blob",
    ),
    _row(
        48,
        "loading and playing took minutes",
        "replay.py::test_the_work_for_a_response_does_not_grow_with_the_cassette",
        "replay.py::test_the_work_for_a_response_is_a_few_dozen_calls",
        "replay.py::test_the_work_of_loading_is_linear_in_the_cassette",
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
    """The errors in the table, one per line."""
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


def test_every_report_has_a_row_and_every_row_has_tests():
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
def test_an_invalid_row_is_named(rows, problem):
    assert problems_of(rows) == [problem]
