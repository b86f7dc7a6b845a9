"""States and endpoints (sections 3 and 4)."""

from tests.rules.rule import Rule

RULES = (
    Rule(
        section="3 state queued",
        says="wait, then query again",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_wait_reads_the_task_and_does_nothing_else",
            "tests/watcher/test_poll_rules.py::test_a_state_that_is_not_terminal_is_looked_at_again",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_a_task_is_queued_then_running_then_completed_on_the_sandboxs_clock",
        ),
    ),
    Rule(
        section="3 state running",
        says="wait, then query again",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_wait_reads_the_task_and_does_nothing_else",
            "tests/watcher/test_poll_rules.py::test_a_state_that_is_not_terminal_is_looked_at_again",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_a_task_is_queued_then_running_then_completed_on_the_sandboxs_clock",
        ),
    ),
    Rule(
        section="3 state completed",
        says="read the latest video_url",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_signed_link_is_handed_on_whole_and_outlived_by_asking_again",
            "tests/watcher/test_poll_rules.py::test_a_completed_task_is_returned_as_it_came",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_a_task_is_queued_then_running_then_completed_on_the_sandboxs_clock",
            "tests/sandbox/test_tasks.py::test_a_link_that_was_changed_lacks_a_parameter_or_has_expired_is_401",
        ),
    ),
    Rule(
        section="3 state failed",
        says="show failure_reason; the ledger tells of the refund",
        sdk=(
            "tests/client/test_generate.py::test_a_failed_task_raises_its_reason_and_points_to_the_ledger",
            "tests/rules/test_rules_sdk.py::test_a_refund_is_never_read_out_of_a_failure_text",
        ),
        sandbox=("tests/sandbox/test_tasks.py::test_a_failed_task_has_a_reason_no_video_and_its_refund_in_the_ledger",),
    ),
    Rule(
        section="3 note terminal",
        says="completed and failed are terminal: polling stops",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_task_is_polled_every_60_seconds_unless_told_otherwise_and_no_more_once_it_has_ended",
        ),
        sandbox=("tests/rules/test_rules_sandbox.py::test_a_terminal_state_is_never_left",),
    ),
    Rule(
        section="3 note usable",
        says="a model is usable only when it is enabled and not in maintenance",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",
            "tests/rules/test_rules_sdk.py::test_a_model_that_cannot_be_used_is_not_ordered",
            "tests/service/test_capabilities.py::test_a_model_is_usable_when_it_is_enabled_and_not_in_maintenance",
            "tests/client/test_validation_live.py::test_a_model_that_has_come_back_is_found_at_once",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_tasks_only_when_it_is_enabled_and_not_in_maintenance",
        ),
    ),
    Rule(
        section="3 unshown transitions",
        says="what moves a task from state to state",
        sdk=(
            "tests/watcher/test_waiting.py::TestWatch::test_it_yields_every_change_and_the_terminal_task_last",
            "tests/watcher/test_poll_rules.py::test_an_unknown_state_is_warned_about_once_per_task_and_state",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_a_task_is_queued_then_running_then_completed_on_the_sandboxs_clock",
        ),
        note="The SDK takes the states as they come; in the sandbox time moves a task on.",
    ),
    Rule(
        section="4 note base",
        says="all paths are below a base URL that ends in /openapi/v1",
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
        section="4 note key",
        says="every endpoint requires the key",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/service/test_endpoints.py::test_every_endpoint_has_its_method_and_path",
        ),
        sandbox=("tests/sandbox/test_service.py::test_every_endpoint_asks_for_the_key",),
    ),
    Rule(
        section="4 note json",
        says="bodies are sent as application/json",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
        ),
        sandbox=("tests/rules/test_rules_sandbox.py::test_a_body_must_be_json_and_say_so",),
    ),
    Rule(
        section="4 endpoint GET /models",
        says="catalog, states and the caller's prices",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/service/test_endpoints.py::test_every_endpoint_has_its_method_and_path",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_standard_price_is_listed_and_the_regular_one_is_charged",
        ),
    ),
    Rule(
        section="4 endpoint GET /account",
        says="credit balance",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/service/test_endpoints.py::test_every_endpoint_has_its_method_and_path",
        ),
        sandbox=("tests/sandbox/test_service.py::test_the_account_shows_the_balance_which_can_be_set",),
    ),
    Rule(
        section="4 endpoint POST /files",
        says="upload an image or reuse an own asset",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/service/test_endpoints.py::test_every_endpoint_has_its_method_and_path",
        ),
        sandbox=(
            "tests/sandbox/test_files.py::test_the_format_is_recognised_from_the_content_whatever_the_data_uri_says",
            "tests/sandbox/test_files.py::test_an_own_asset_is_reused_by_its_full_url",
        ),
    ),
    Rule(
        section="4 endpoint POST /videos",
        says="create a task",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/service/test_endpoints.py::test_every_endpoint_has_its_method_and_path",
        ),
        sandbox=("tests/sandbox/test_creates.py::test_a_created_task_is_queued_and_charged_by_the_callers_price",),
    ),
    Rule(
        section="4 endpoint GET /videos/{id}",
        says="read a task",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/service/test_endpoints.py::test_every_endpoint_has_its_method_and_path",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
        ),
    ),
    Rule(
        section="4 endpoint GET /videos/{id}/content",
        says="read or download the video",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/service/test_endpoints.py::test_every_endpoint_has_its_method_and_path",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_a_streamed_video_comes_whole_or_in_ranges_from_the_address_that_the_task_shows",
        ),
    ),
    Rule(
        section="4.1 request none",
        says="no parameters, no body",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
        ),
        sandbox=("tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",),
    ),
    Rule(
        section="4.1 response 200",
        says="an object with a models array",
        sdk=(
            "tests/client/test_client.py::test_the_catalog_is_the_live_one",
            "tests/service/test_codec.py::test_a_catalog_without_models_is_a_typed_error",
        ),
        sandbox=("tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",),
    ),
    Rule(
        section="4.2 request none",
        says="no parameters, no body",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
        ),
        sandbox=("tests/sandbox/test_service.py::test_the_account_shows_the_balance_which_can_be_set",),
    ),
    Rule(
        section="4.2 response 200",
        says="the account with its balance",
        sdk=("tests/client/test_client.py::test_the_account_has_its_balance",),
        sandbox=("tests/sandbox/test_service.py::test_the_account_shows_the_balance_which_can_be_set",),
    ),
    Rule(
        section="4.3 body either",
        says="image_b64 or image_url, at least one",
        sdk=(
            "tests/media/test_upload.py::test_an_image_may_come_in_any_form",
            "tests/media/test_upload.py::test_an_asset_of_the_services_own_is_reused_by_its_full_address",
        ),
        sandbox=("tests/sandbox/test_files.py::test_what_is_no_upload_is_refused_with_its_code",),
    ),
    Rule(
        section="4.3 body image_b64",
        says="a complete data URI, or plain Base64 of a real image",
        sdk=(
            "tests/media/test_upload.py::test_a_data_uri_goes_out_as_it_is",
            "tests/media/test_upload.py::test_a_data_uri_is_looked_at_first",
            "tests/media/test_upload.py::test_an_image_may_come_in_any_form",
        ),
        sandbox=(
            "tests/sandbox/test_files.py::test_the_format_is_recognised_from_the_content_whatever_the_data_uri_says",
            "tests/sandbox/test_files.py::test_what_is_no_upload_is_refused_with_its_code",
        ),
    ),
    Rule(
        section="4.3 body image_url",
        says="the full URL of an asset that the caller uploaded",
        sdk=(
            "tests/media/test_upload.py::test_an_asset_of_the_services_own_is_reused_by_its_full_address",
            "tests/rules/test_rules_sdk.py::test_an_asset_is_used_by_its_id_opened_by_its_url_and_reused_by_it",
        ),
        sandbox=("tests/sandbox/test_files.py::test_an_own_asset_is_reused_by_its_full_url",),
    ),
    Rule(
        section="4.3 note format",
        says="the format is recognised from the content",
        sdk=("tests/media/test_upload.py::test_the_type_is_told_from_the_bytes_and_not_from_the_name",),
        sandbox=(
            "tests/sandbox/test_files.py::test_the_format_is_recognised_from_the_content_whatever_the_data_uri_says",
        ),
    ),
    Rule(
        section="4.3 note old-habit",
        says="an own asset's URL is accepted in image_b64 too",
        sdk=("tests/media/test_upload.py::test_an_asset_of_the_services_own_is_reused_by_its_full_address",),
        sandbox=(
            "tests/sandbox/test_files.py::test_an_own_assets_path_is_accepted_where_older_clients_put_it",
            "tests/sandbox/test_files.py::test_an_own_asset_is_reused_by_its_full_url",
        ),
        note="The SDK has no such habit: it sends image_url.",
    ),
    Rule(
        section="4.3 note external",
        says="external URLs are never fetched",
        sdk=("tests/media/test_upload.py::test_other_addresses_belong_into_image_urls",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_an_upload_fetches_no_url_of_another_host",
            "tests/sandbox/test_files.py::test_what_is_no_upload_is_refused_with_its_code",
        ),
    ),
    Rule(
        section="4.3 note foreign",
        says="another user's assets cannot be reused",
        sdk=("tests/rules/test_rules_sdk.py::test_each_code_of_section_7_reaches_the_caller_as_its_error",),
        sandbox=(
            "tests/sandbox/test_files.py::test_an_asset_that_is_expired_foreign_or_lacks_its_token_cannot_be_reused",
        ),
    ),
    Rule(
        section="4.3 note no-multipart",
        says="the body is JSON, not multipart",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/media/test_upload.py::test_an_image_may_come_in_any_form",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_body_must_be_json_and_say_so",
            "tests/sandbox/test_files.py::test_what_is_no_json_is_refused",
        ),
    ),
    Rule(
        section="4.3 note no-paths",
        says="local paths are not image data",
        sdk=(
            "tests/media/test_upload.py::test_an_image_may_come_in_any_form",
            "tests/media/test_upload.py::test_a_path_that_leads_nowhere_is_named",
        ),
        sandbox=("tests/rules/test_rules_sandbox.py::test_a_local_path_is_no_image_data",),
    ),
    Rule(
        section="4.3 response 200",
        says="the asset, saved",
        sdk=("tests/rules/test_rules_sdk.py::test_an_asset_is_used_by_its_id_opened_by_its_url_and_reused_by_it",),
        sandbox=("tests/sandbox/test_files.py::test_an_asset_has_its_id_twice_and_a_url_below_the_root_with_a_token",),
    ),
    Rule(
        section="4.3 response 400",
        says="an empty or invalid image",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_code_of_section_7_reaches_the_caller_as_its_error",
            "tests/media/test_upload.py::test_a_refusal_is_its_own_error_and_is_not_repeated",
        ),
        sandbox=("tests/sandbox/test_files.py::test_what_is_no_upload_is_refused_with_its_code",),
    ),
    Rule(
        section="4.4 header Idempotency-Key",
        says="optional, 8 to 100 characters",
        sdk=("tests/rules/test_rules_sdk.py::test_every_order_has_a_key_of_8_to_100_characters_of_its_own",),
        sandbox=(
            "tests/sandbox/test_creates.py::test_a_key_that_is_too_short_or_too_long_is_400",
            "tests/sandbox/test_creates.py::test_a_key_of_8_to_100_characters_is_taken",
            "tests/sandbox/test_creates.py::test_without_a_key_every_create_makes_a_task",
        ),
    ),
    Rule(
        section="4.4 note one-key",
        says="one key per order; a network retry reuses it",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_an_order_that_goes_out_again_is_the_same_bytes_under_the_same_key",
            "tests/rules/test_rules_sdk.py::test_every_order_has_a_key_of_8_to_100_characters_of_its_own",
            "tests/client/test_create_faults.py::test_an_uncertain_order_whose_task_was_made_gets_it_by_a_resend_under_the_same_key",
        ),
        sandbox=(
            "tests/sandbox/test_creates.py::test_the_same_key_and_body_again_is_the_same_answer_and_no_new_charge",
            "tests/sandbox/test_creates.py::test_many_creates_with_one_key_at_the_same_moment_make_one_task",
        ),
    ),
    Rule(
        section="4.4 body request",
        says="the create request of 2.4",
        sdk=("tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",),
        sandbox=("tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",),
    ),
    Rule(
        section="4.4 response 202",
        says="task created",
        sdk=("tests/client/test_client.py::test_a_task_is_created_read_and_waited_for",),
        sandbox=("tests/rules/test_rules_sandbox.py::test_an_accepted_create_carries_the_id_that_later_queries_take",),
    ),
    Rule(
        section="4.4 response 400",
        says="invalid parameters",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_what_the_service_refuses_with_400_is_a_rejection_that_costs_nothing",
            "tests/client/test_create_faults.py::test_a_refusal_is_rejected_and_one_post",
        ),
        sandbox=("tests/sandbox/test_creates.py::test_a_body_that_breaks_a_rule_is_refused_and_nothing_is_charged",),
    ),
    Rule(
        section="4.4 response 402",
        says="not enough credits",
        sdk=(
            "tests/client/test_create_faults.py::test_no_credits_is_both_a_rejection_and_an_insufficient_credits_error",
        ),
        sandbox=("tests/sandbox/test_creates.py::test_too_few_credits_are_402",),
    ),
    Rule(
        section="4.4 response 429",
        says="submission limit reached",
        sdk=("tests/client/test_create_faults.py::test_the_services_own_submission_limit_is_a_rate_limit_error",),
        sandbox=(
            "tests/sandbox/test_creates.py::test_submission_101_within_a_minute_is_429_and_says_when_to_come_back",
        ),
    ),
    Rule(
        section="4.4 response 503",
        says="model unavailable",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_503_says_nothing_about_the_receipt_and_nothing_is_sent_again",
            "tests/rules/test_rules_sdk.py::test_a_model_that_cannot_be_used_is_not_ordered",
        ),
        sandbox=(
            "tests/sandbox/test_creates.py::test_a_model_that_is_not_usable_is_503",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_tasks_only_when_it_is_enabled_and_not_in_maintenance",
        ),
    ),
    Rule(
        section="4.4 unshown body",
        says="the 202 body, but for the task id, which is saved and used for all later queries",
        sdk=(
            "tests/service/test_codec.py::test_the_id_of_a_create_is_id_or_task_id_and_nothing_else",
            "tests/orders/test_create_outcomes.py::test_a_receipt_holds_the_task_and_what_else_the_answer_said",
            "tests/rules/test_rules_sdk.py::test_tasks_are_asked_for_by_the_services_id_and_by_no_other",
        ),
        sandbox=("tests/rules/test_rules_sandbox.py::test_an_accepted_create_carries_the_id_that_later_queries_take",),
        note="The SDK keeps the rest in extra; the sandbox shows the task's fields.",
    ),
    Rule(
        section="4.4 note no-resend",
        says="after a timeout, a 503 or an answer without an upstream number nothing is sent again by itself",
        sdk=(
            "tests/client/test_create_faults.py::test_a_lost_or_unreadable_answer_is_uncertain_and_one_post",
            "tests/client/test_create_faults.py::test_a_caller_cancelled_at_any_await_changes_nothing_but_the_caller",
        ),
        sandbox=(
            "tests/sandbox/test_faults.py::test_a_status_of_failure_may_hide_a_task_that_was_made_and_charged",
            "tests/sandbox/test_faults.py::test_silence_lasts_until_the_caller_goes_away_and_the_task_is_made",
        ),
    ),
    Rule(
        section="4.5 path id",
        says="the task id that the create returned",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_tasks_are_asked_for_by_the_services_id_and_by_no_other",
            "tests/service/test_endpoints.py::test_ids_are_quoted_as_one_path_segment",
        ),
        sandbox=("tests/rules/test_rules_sandbox.py::test_an_accepted_create_carries_the_id_that_later_queries_take",),
    ),
    Rule(
        section="4.5 note other-ids",
        says="never an upstream id, a channel's, or one out of a video URL",
        sdk=("tests/rules/test_rules_sdk.py::test_tasks_are_asked_for_by_the_services_id_and_by_no_other",),
        sandbox=("tests/sandbox/test_tasks.py::test_a_task_of_another_account_or_none_is_404",),
    ),
    Rule(
        section="4.5 response 200",
        says="the video task",
        sdk=("tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
        ),
    ),
    Rule(
        section="4.5 note latest",
        says="a query gives the latest address: ask again when playback fails",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_signed_link_is_handed_on_whole_and_outlived_by_asking_again",
            "tests/media/test_download_redirects.py::test_a_refused_link_is_renewed_once_by_asking_for_the_task_and_its_content",
        ),
        sandbox=("tests/sandbox/test_tasks.py::test_a_link_that_was_changed_lacks_a_parameter_or_has_expired_is_401",),
    ),
    Rule(
        section="4.6 path id",
        says="as for GET /videos/{id}",
        sdk=("tests/rules/test_rules_sdk.py::test_tasks_are_asked_for_by_the_services_id_and_by_no_other",),
        sandbox=("tests/sandbox/test_tasks.py::test_a_task_of_another_account_or_none_is_404",),
    ),
    Rule(
        section="4.6 header Range",
        says="optional, handled as the channel can",
        sdk=(
            "tests/media/test_stream.py::test_a_range_goes_through_as_it_is_and_its_bytes_come_back",
            "tests/media/test_stream.py::test_a_channel_without_ranges_answers_with_the_whole",
            "tests/media/test_download_resume.py::test_a_200_to_a_range_begins_anew_also_when_the_file_is_shorter",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_a_streamed_video_comes_whole_or_in_ranges_from_the_address_that_the_task_shows",
            "tests/sandbox/test_tasks.py::test_one_model_is_streamed_without_ranges",
        ),
    ),
    Rule(
        section="4.6 response 200",
        says="the video's bytes",
        sdk=(
            "tests/media/test_download_checks.py::test_every_byte_arrives_as_it_was_sent",
            "tests/media/test_stream.py::test_the_whole_video_comes_through",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_a_streamed_video_comes_whole_or_in_ranges_from_the_address_that_the_task_shows",
        ),
    ),
    Rule(
        section="4.6 response 206",
        says="a part, where supported",
        sdk=(
            "tests/media/test_download_resume.py::test_a_broken_transfer_goes_on_where_it_was",
            "tests/client/test_generate.py::test_a_video_can_be_streamed_for_a_proxy",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_a_streamed_video_comes_whole_or_in_ranges_from_the_address_that_the_task_shows",
        ),
    ),
    Rule(
        section="4.6 response 307",
        says="a redirect to the complete address",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/media/test_download_redirects.py::test_another_origin_gets_the_signed_link_byte_for_byte_and_no_key",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_vendorh3_redirects_to_a_signed_link_on_another_origin_that_needs_no_key",
        ),
    ),
    Rule(
        section="4.6 response 401",
        says="not authenticated by the service",
        sdk=("tests/media/test_download_checks.py::test_a_refusal_of_the_service_is_its_own_error_at_once",),
        sandbox=("tests/sandbox/test_service.py::test_every_endpoint_asks_for_the_key",),
    ),
    Rule(
        section="4.6 response 404",
        says="no such task, or another user's",
        sdk=("tests/media/test_download_checks.py::test_a_refusal_of_the_service_is_its_own_error_at_once",),
        sandbox=("tests/sandbox/test_tasks.py::test_a_task_of_another_account_or_none_is_404",),
    ),
    Rule(
        section="4.6 response 409",
        says="not completed or not available",
        sdk=(
            "tests/client/test_client.py::test_a_video_that_is_not_completed_is_not_ready",
            "tests/media/test_download_checks.py::test_a_refusal_of_the_service_is_its_own_error_at_once",
        ),
        sandbox=("tests/sandbox/test_tasks.py::test_the_content_of_a_task_that_is_not_completed_is_409",),
    ),
    Rule(
        section="4.6 note key",
        says="the service's key is required",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
        ),
        sandbox=(
            "tests/sandbox/test_service.py::test_every_endpoint_asks_for_the_key",
            "tests/rules/test_rules_sandbox.py::test_a_signed_link_opens_nothing_but_itself",
        ),
    ),
    Rule(
        section="4.6 note no-forward",
        says="the key is not forwarded to another domain",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/media/test_download_redirects.py::test_another_origin_gets_the_signed_link_byte_for_byte_and_no_key",
            "tests/media/test_download_redirects.py::test_other_port_host_and_scheme_are_other_origins",
            "tests/media/test_download_redirects.py::test_a_way_that_left_the_service_gets_no_key_when_it_comes_back",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_vendorh3_redirects_to_a_signed_link_on_another_origin_that_needs_no_key",
        ),
    ),
    Rule(
        section="4.6 note media",
        says="a correct body is video/mp4, not a JSON error",
        sdk=(
            "tests/media/test_download_checks.py::test_what_is_no_video_is_never_saved",
            "tests/media/test_stream.py::test_what_is_no_video_is_an_error_when_the_block_is_entered",
        ),
        sandbox=("tests/rules/test_rules_sandbox.py::test_every_answer_but_the_video_is_json",),
    ),
    Rule(
        section="4.6 note streamed",
        says="some models are streamed through the service",
        sdk=("tests/media/test_stream.py::test_a_channel_without_ranges_answers_with_the_whole",),
        sandbox=("tests/sandbox/test_tasks.py::test_one_model_is_streamed_without_ranges",),
    ),
)
