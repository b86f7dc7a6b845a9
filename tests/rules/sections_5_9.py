"""Authentication, events, errors, limits and versions (sections 5 to 9)."""

from tests.rules.rule import Rule

RULES = (
    Rule(
        section="5 item 1",
        says="Authorization: Bearer with the complete key, on all endpoints",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/client/test_settings.py::test_a_bad_key_is_refused_with_the_reason_and_never_shown",
            "tests/client/test_client.py::test_no_log_at_any_level_shows_key_prompt_or_signature",
        ),
        sandbox=(
            "tests/sandbox/test_service.py::test_every_endpoint_asks_for_the_key",
            "tests/sandbox/test_service.py::test_only_the_whole_key_as_a_bearer_token_is_accepted",
        ),
    ),
    Rule(
        section="5 item 2",
        says="upstream channel keys are never used",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_refused_key_and_a_refused_link_are_told_apart_by_their_addresses",
        ),
    ),
    Rule(
        section="5 item 3",
        says="Content-Type: application/json is sent with bodies",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_body_must_be_json_and_say_so",
            "tests/sandbox/test_creates.py::test_a_body_that_is_no_json_object_sent_as_json_is_refused",
        ),
    ),
    Rule(
        section="5 item 4",
        says="the key is never in a URL",
        sdk=(
            "tests/client/test_client.py::test_the_key_goes_into_the_header_only_and_to_the_services_origin_only",
            "tests/service/test_endpoints.py::test_every_endpoint_has_its_method_and_path",
        ),
        sandbox=("tests/sandbox/test_service.py::test_a_key_in_the_url_is_not_accepted",),
    ),
    Rule(
        section="5 item 5",
        says="a signed link needs no key; everything else always does",
        sdk=(
            "tests/media/test_download_redirects.py::test_the_services_own_paths_get_the_key_and_its_signed_links_do_not",
            "tests/client/test_client.py::test_the_key_goes_into_the_header_only_and_to_the_services_origin_only",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_vendorh3_redirects_to_a_signed_link_on_another_origin_that_needs_no_key",
            "tests/rules/test_rules_sandbox.py::test_a_signed_link_opens_nothing_but_itself",
        ),
    ),
    Rule(
        section="5 item 6",
        says="players that set no headers use the complete video_url",
        sdk=("tests/rules/test_rules_sdk.py::test_a_signed_link_is_handed_on_whole_and_outlived_by_asking_again",),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_a_player_may_ask_for_the_head_of_a_link_only",
            "tests/sandbox/test_tasks.py::test_vendorh3_redirects_to_a_signed_link_on_another_origin_that_needs_no_key",
        ),
    ),
    Rule(
        section="5 item 7",
        says="whose word a 401 is, the failing address tells; an old link is renewed by asking for the task",
        sdk=(
            "tests/service/test_codec.py::test_the_failing_host_tells_whose_word_a_401_is",
            "tests/media/test_download_redirects.py::test_a_refused_link_is_renewed_once_by_asking_for_the_task_and_its_content",
            "tests/media/test_download_redirects.py::test_a_key_that_was_revoked_meanwhile_is_no_expired_link",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_refused_key_and_a_refused_link_are_told_apart_by_their_addresses",
            "tests/sandbox/test_tasks.py::test_a_link_that_was_changed_lacks_a_parameter_or_has_expired_is_401",
        ),
    ),
    Rule(
        section="6 unshown events",
        says="nothing is pushed: progress is read by polling",
        sdk=("tests/rules/test_rules_sdk.py::test_a_wait_reads_the_task_and_does_nothing_else",),
        sandbox=("tests/rules/test_rules_sandbox.py::test_nothing_is_pushed_and_nothing_can_be_subscribed_to",),
    ),
    Rule(
        section="7 error 400 EMPTY_REFERENCE_ASSET",
        says="uploaded content is empty",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_code_of_section_7_reaches_the_caller_as_its_error",
            "tests/service/test_codec.py::test_the_four_codes_of_a_400_have_their_errors",
            "tests/media/test_upload.py::test_what_is_no_image_is_refused_before_anything_is_sent",
        ),
        sandbox=("tests/sandbox/test_files.py::test_what_is_no_upload_is_refused_with_its_code",),
    ),
    Rule(
        section="7 error 400 INVALID_REFERENCE_IMAGE",
        says="cannot be decoded, or an invalid format",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_code_of_section_7_reaches_the_caller_as_its_error",
            "tests/service/test_codec.py::test_the_four_codes_of_a_400_have_their_errors",
            "tests/media/test_upload.py::test_what_is_no_image_is_refused_before_anything_is_sent",
        ),
        sandbox=("tests/sandbox/test_files.py::test_what_is_no_upload_is_refused_with_its_code",),
    ),
    Rule(
        section="7 error 400 REFERENCE_ASSET_EXPIRED",
        says="deleted, expired, or another account's",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_code_of_section_7_reaches_the_caller_as_its_error",
            "tests/service/test_codec.py::test_the_four_codes_of_a_400_have_their_errors",
            "tests/rules/test_rules_sdk.py::test_an_asset_of_73_hours_must_be_uploaded_again",
        ),
        sandbox=(
            "tests/sandbox/test_files.py::test_an_asset_that_is_expired_foreign_or_lacks_its_token_cannot_be_reused",
            "tests/sandbox/test_creates.py::test_an_upload_that_is_expired_deleted_foreign_or_lacks_its_token_is_refused",
        ),
    ),
    Rule(
        section="7 error 400 UNSUPPORTED_REFERENCE_URL",
        says="only own URLs are reused; others belong into image_urls",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_code_of_section_7_reaches_the_caller_as_its_error",
            "tests/service/test_codec.py::test_the_four_codes_of_a_400_have_their_errors",
            "tests/media/test_upload.py::test_other_addresses_belong_into_image_urls",
        ),
        sandbox=("tests/sandbox/test_files.py::test_what_is_no_upload_is_refused_with_its_code",),
    ),
    Rule(
        section="7 error 400 other",
        says="invalid parameters on creation",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_what_the_service_refuses_with_400_is_a_rejection_that_costs_nothing",
            "tests/rules/test_rules_sdk.py::test_each_status_of_section_7_reaches_the_caller_as_its_error",
        ),
        sandbox=("tests/sandbox/test_creates.py::test_a_body_that_breaks_a_rule_is_refused_and_nothing_is_charged",),
    ),
    Rule(
        section="7 error 401",
        says="an invalid key, an invalid signed link, or upstream",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_status_of_section_7_reaches_the_caller_as_its_error",
            "tests/client/test_client.py::test_a_wrong_key_is_an_authentication_error_of_the_service_key",
            "tests/service/test_codec.py::test_the_failing_host_tells_whose_word_a_401_is",
        ),
        sandbox=(
            "tests/sandbox/test_service.py::test_every_endpoint_asks_for_the_key",
            "tests/sandbox/test_tasks.py::test_a_link_that_was_changed_lacks_a_parameter_or_has_expired_is_401",
        ),
    ),
    Rule(
        section="7 error 402",
        says="not enough credits",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_status_of_section_7_reaches_the_caller_as_its_error",
            "tests/client/test_create_faults.py::test_no_credits_is_both_a_rejection_and_an_insufficient_credits_error",
        ),
        sandbox=("tests/sandbox/test_creates.py::test_too_few_credits_are_402",),
    ),
    Rule(
        section="7 error 404",
        says="no such path or task, or another's",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_status_of_section_7_reaches_the_caller_as_its_error",
            "tests/client/test_client.py::test_an_unknown_task_is_not_found",
            "tests/watcher/test_poll_rules.py::test_404_and_410_end_the_wait_at_once",
        ),
        sandbox=(
            "tests/sandbox/test_service.py::test_an_unknown_path_is_404",
            "tests/sandbox/test_service.py::test_a_path_without_the_prefix_is_404",
            "tests/sandbox/test_tasks.py::test_a_task_of_another_account_or_none_is_404",
        ),
    ),
    Rule(
        section="7 error 409",
        says="the video is not completed or not available",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_status_of_section_7_reaches_the_caller_as_its_error",
            "tests/client/test_client.py::test_a_video_that_is_not_completed_is_not_ready",
        ),
        sandbox=("tests/sandbox/test_tasks.py::test_the_content_of_a_task_that_is_not_completed_is_409",),
    ),
    Rule(
        section="7 error 429",
        says="submission frequency or channel capacity",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_status_of_section_7_reaches_the_caller_as_its_error",
            "tests/client/test_create_faults.py::test_the_services_own_submission_limit_is_a_rate_limit_error",
            "tests/watcher/test_poll_rules.py::TestRateLimit::test_a_429_pauses_the_whole_watcher_for_its_retry_after",
        ),
        sandbox=(
            "tests/sandbox/test_creates.py::test_submission_101_within_a_minute_is_429_and_says_when_to_come_back",
            "tests/sandbox/test_faults.py::test_any_status_can_be_answered_with_any_body",
        ),
    ),
    Rule(
        section="7 error 503",
        says="maintenance, a channel that is down, or an unknown receipt",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_status_of_section_7_reaches_the_caller_as_its_error",
            "tests/client/test_create_faults.py::test_a_lost_or_unreadable_answer_is_uncertain_and_one_post",
            "tests/client/test_client.py::test_reads_survive_a_bad_moment_of_the_service",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_tasks_only_when_it_is_enabled_and_not_in_maintenance",
            "tests/sandbox/test_faults.py::test_a_status_of_failure_may_hide_a_task_that_was_made_and_charged",
        ),
    ),
    Rule(
        section="7 error 502 504",
        says="gateway or upstream fault: ask for the task, make no duplicate",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_status_of_section_7_reaches_the_caller_as_its_error",
            "tests/client/test_create_faults.py::test_a_lost_or_unreadable_answer_is_uncertain_and_one_post",
            "tests/client/test_generate.py::test_a_wait_goes_on_through_every_bad_moment_of_the_service",
        ),
        sandbox=(
            "tests/sandbox/test_faults.py::test_a_page_comes_instead_of_json",
            "tests/sandbox/test_faults.py::test_a_status_of_failure_may_hide_a_task_that_was_made_and_charged",
        ),
    ),
    Rule(
        section="7 rule 1",
        says="failure_reason is read first, and nothing more is concluded from it",
        sdk=(
            "tests/client/test_generate.py::test_a_failed_task_raises_its_reason_and_points_to_the_ledger",
            "tests/watcher/test_poll_rules.py::test_a_failed_task_is_an_error_with_its_reason_and_is_not_looked_at_again",
        ),
        sandbox=("tests/sandbox/test_tasks.py::test_a_failed_task_has_a_reason_no_video_and_its_refund_in_the_ledger",),
    ),
    Rule(
        section="7 rule 2",
        says="the ledger alone decides on a refund",
        sdk=("tests/rules/test_rules_sdk.py::test_a_refund_is_never_read_out_of_a_failure_text",),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_a_failed_task_has_a_reason_no_video_and_its_refund_in_the_ledger",
            "tests/sandbox/test_tasks.py::test_a_failed_task_may_stay_charged_only_the_ledger_tells",
        ),
    ),
    Rule(
        section="7 rule 3",
        says="not shown: the shape of error bodies",
        sdk=(
            "tests/service/test_codec.py::test_code_and_message_are_read_from_every_common_shape_and_the_raw_body_is_kept",
        ),
        sandbox=("tests/sandbox/test_service.py::test_errors_have_a_code_and_a_message_and_every_answer_a_request_id",),
        note="The SDK reads the usual shapes and keeps the raw body; the sandbox's shape is its own.",
    ),
    Rule(
        section="8 limit submissions",
        says="100 per user in a rolling 60 s, then 429",
        sdk=(
            "tests/orders/test_pacing_of_creates.py::test_no_429_comes_from_our_own_rate_whatever_the_latency",
            "tests/orders/test_pacing_of_creates.py::test_a_slot_is_free_again_a_window_after_the_answer_not_after_the_send",
        ),
        sandbox=(
            "tests/sandbox/test_creates.py::test_submission_101_within_a_minute_is_429_and_says_when_to_come_back",
            "tests/sandbox/test_creates.py::test_the_submission_limit_is_each_users_own",
        ),
    ),
    Rule(
        section="8 limit key-length",
        says="8 to 100 characters",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_every_order_has_a_key_of_8_to_100_characters_of_its_own",
            "tests/types/test_orders.py::test_the_key_is_derived_from_the_order_alone_and_fits_the_service",
        ),
        sandbox=(
            "tests/sandbox/test_creates.py::test_a_key_that_is_too_short_or_too_long_is_400",
            "tests/sandbox/test_creates.py::test_a_key_of_8_to_100_characters_is_taken",
        ),
    ),
    Rule(
        section="8 limit polling",
        says="once per 60 s is recommended; stop at completed or failed",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_task_is_polled_every_60_seconds_unless_told_otherwise_and_no_more_once_it_has_ended",
            "tests/client/test_client.py::test_an_interval_below_the_recommended_one_is_warned_about_except_on_this_machine",
            "tests/watcher/test_poll_loop.py::test_a_task_is_polled_once_per_interval_and_never_sooner",
        ),
        note="A recommendation to clients: the service refuses no poll.",
    ),
    Rule(
        section="8 limit retention",
        says="72 hours for ordinary assets",
        sdk=("tests/rules/test_rules_sdk.py::test_an_asset_of_73_hours_must_be_uploaded_again",),
        sandbox=("tests/rules/test_rules_sandbox.py::test_an_asset_can_be_used_for_72_hours_and_not_longer",),
    ),
    Rule(
        section="8 limit link",
        says="vendorh3's links are valid for 7 days",
        sdk=("tests/rules/test_rules_sdk.py::test_a_signed_link_is_handed_on_whole_and_outlived_by_asking_again",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_signed_link_lives_for_7_days_and_its_task_and_video_live_on",
        ),
    ),
    Rule(
        section="8 limit model",
        says="durations, resolutions and reference counts are each model's",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_what_vendorh3_does_not_take_is_not_sent",
            "tests/service/test_capabilities.py::test_a_problem_names_the_field_the_value_and_what_is_allowed",
            "tests/service/test_capabilities.py::test_an_entry_that_tells_no_limits_refuses_nothing",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_its_own_resolution_and_no_other",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
        ),
    ),
    Rule(
        section="8 bullet 1",
        says="the limit is on frequency: earlier tasks need not have ended",
        sdk=("tests/rules/test_rules_sdk.py::test_a_hundred_orders_wait_for_no_earlier_task",),
        sandbox=("tests/rules/test_rules_sandbox.py::test_earlier_tasks_need_not_have_ended",),
    ),
    Rule(
        section="8 bullet 2",
        says="a state that lags is asked for again; no other task is made",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_wait_reads_the_task_and_does_nothing_else",
            "tests/client/test_generate.py::test_a_wait_goes_on_through_every_bad_moment_of_the_service",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_state_may_lag_and_the_same_task_is_right_when_it_is_asked_for_again",
        ),
    ),
    Rule(
        section="8 bullet 3",
        says="not shown: rate limits of other endpoints",
        sdk=(
            "tests/service/test_retries.py::test_retry_after_is_honoured_in_seconds_and_as_a_date",
            "tests/watcher/test_poll_rules.py::TestRateLimit::test_a_429_pauses_the_whole_watcher_for_its_retry_after",
        ),
        sandbox=("tests/sandbox/test_service.py::test_many_reads_at_once_are_answered",),
        note="The SDK heeds any 429; the sandbox limits no read unless it is told to.",
    ),
    Rule(
        section="9 bullet 1",
        says="the version is in the path; a root without openapi is not the interface",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/client/test_settings.py::test_a_base_url_without_the_prefix_is_warned_about_and_the_404s_are_named",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_base_url_carries_the_version_in_its_path",
            "tests/sandbox/test_service.py::test_a_path_without_the_prefix_is_404",
        ),
    ),
    Rule(
        section="9 bullet 2",
        says="the description has version 2026.10.19",
        sdk=("tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_sandbox_says_which_version_of_the_description_it_follows",
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
        ),
        note="No request names it: the SDK is held to its catalog.",
    ),
    Rule(
        section="9 bullet 3",
        says="the snapshot is of that date; the live catalog decides",
        sdk=("tests/rules/test_rules_sdk.py::test_the_catalog_is_always_the_live_one",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_limits_are_those_of_the_live_catalog",
            "tests/sandbox/test_service.py::test_models_appear_and_change_while_the_service_runs",
        ),
    ),
    Rule(
        section="9 bullet 4",
        says="aliases: seconds, aspect_ratio; task_id",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_codec.py::test_odd_types_are_read_as_far_as_they_can_be",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_seconds_means_the_same_as_duration",
            "tests/rules/test_rules_sandbox.py::test_each_ratio_means_the_same_under_either_name",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
        ),
    ),
    Rule(
        section="9 bullet 5",
        says="another interface's fields and states need not fit this one",
        sdk=(
            "tests/service/test_validation.py::test_a_problem_names_its_field",
            "tests/service/test_codec.py::test_only_completed_and_failed_are_terminal_and_other_states_are_kept_as_they_came",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_what_the_back_office_or_an_upstream_knows_is_no_field",
            "tests/sandbox/test_service.py::test_a_path_without_the_prefix_is_404",
        ),
        note="What fits an OpenAI-compatible client is not assumed to fit here.",
    ),
)
