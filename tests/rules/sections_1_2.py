"""What the service does, and its resources (sections 1 and 2)."""

from tests.rules.rule import Rule

RULES = (
    Rule(
        section="1 bullet 1",
        says="a create gives a task id, which is polled until a terminal state",
        sdk=(
            "tests/client/test_client.py::test_a_task_is_created_read_and_waited_for",
            "tests/rules/test_rules_sdk.py::test_a_wait_reads_the_task_and_does_nothing_else",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_an_accepted_create_carries_the_id_that_later_queries_take",
            "tests/sandbox/test_tasks.py::test_a_task_is_queued_then_running_then_completed_on_the_sandboxs_clock",
        ),
    ),
    Rule(
        section="1 bullet 2",
        says="durations, resolutions, limits and price are each model's own; the caller's catalog decides",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",
            "tests/rules/test_rules_sdk.py::test_the_catalog_is_always_the_live_one",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_the_limits_are_those_of_the_live_catalog",
        ),
    ),
    Rule(
        section="1 bullet 3",
        says="a task costs credits; a failed one may be refunded, in the ledger",
        sdk=(
            "tests/client/test_client.py::test_the_account_has_its_balance",
            "tests/rules/test_rules_sdk.py::test_a_refund_is_never_read_out_of_a_failure_text",
        ),
        sandbox=(
            "tests/sandbox/test_creates.py::test_a_created_task_is_queued_and_charged_by_the_callers_price",
            "tests/sandbox/test_tasks.py::test_a_failed_task_has_a_reason_no_video_and_its_refund_in_the_ledger",
            "tests/sandbox/test_tasks.py::test_a_failed_task_may_stay_charged_only_the_ledger_tells",
        ),
    ),
    Rule(
        section="1 bullet 4",
        says="reference images are uploaded first or passed by public URL",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_an_asset_is_used_by_its_id_opened_by_its_url_and_reused_by_it",
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
        ),
        sandbox=(
            "tests/sandbox/test_creates.py::test_an_own_upload_is_taken_by_its_id_and_by_its_url",
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
        ),
    ),
    Rule(
        section="1 bullet 5",
        says="a finished task has a video_url, and a content endpoint that streams or redirects",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_signed_link_is_handed_on_whole_and_outlived_by_asking_again",
            "tests/client/test_generate.py::test_a_video_can_be_streamed_for_a_proxy",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_a_streamed_video_comes_whole_or_in_ranges_from_the_address_that_the_task_shows",
            "tests/sandbox/test_tasks.py::test_vendorh3_redirects_to_a_signed_link_on_another_origin_that_needs_no_key",
        ),
    ),
    Rule(
        section="1 bullet 6",
        says="upstream task ids are for diagnosis only",
        sdk=("tests/rules/test_rules_sdk.py::test_tasks_are_asked_for_by_the_services_id_and_by_no_other",),
        sandbox=("tests/sandbox/test_tasks.py::test_a_task_of_another_account_or_none_is_404",),
    ),
    Rule(
        section="1 bullet 7",
        says="all bodies are JSON, except the video",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_endpoint_is_asked_as_described_with_the_key_of_the_service_alone",
            "tests/service/test_codec.py::test_a_task_that_cannot_be_used_is_a_typed_error_that_quotes_the_answer",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_every_answer_but_the_video_is_json",
            "tests/rules/test_rules_sandbox.py::test_a_body_must_be_json_and_say_so",
        ),
    ),
    Rule(
        section="1 bullet 8",
        says="display names are no parameters, and their words promise nothing",
        sdk=("tests/rules/test_rules_sdk.py::test_a_display_name_is_no_parameter",),
        sandbox=("tests/rules/test_rules_sandbox.py::test_a_display_name_cannot_be_ordered",),
    ),
    Rule(
        section="2.1 field code",
        says="the model ID, sent as model",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
        ),
    ),
    Rule(
        section="2.1 field name",
        says="the display name",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",
            "tests/rules/test_rules_sdk.py::test_a_display_name_is_no_parameter",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_display_name_cannot_be_ordered",
        ),
    ),
    Rule(
        section="2.1 field enabled",
        says="whether the model can be used",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",
            "tests/rules/test_rules_sdk.py::test_a_model_that_cannot_be_used_is_not_ordered",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_tasks_only_when_it_is_enabled_and_not_in_maintenance",
        ),
    ),
    Rule(
        section="2.1 field maintenance",
        says="whether the model is under maintenance",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",
            "tests/rules/test_rules_sdk.py::test_a_model_that_cannot_be_used_is_not_ordered",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_tasks_only_when_it_is_enabled_and_not_in_maintenance",
        ),
    ),
    Rule(
        section="2.1 field durations",
        says="allowed durations, integers of seconds",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",
            "tests/service/test_capabilities.py::test_a_problem_names_the_field_the_value_and_what_is_allowed",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
        ),
    ),
    Rule(
        section="2.1 field resolutions",
        says="allowed resolutions",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",
            "tests/service/test_capabilities.py::test_a_problem_names_the_field_the_value_and_what_is_allowed",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_its_own_resolution_and_no_other",
        ),
    ),
    Rule(
        section="2.1 field maxReferenceImages",
        says="the most reference images; may be absent",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",
            "tests/service/test_codec.py::test_a_catalog_keeps_absent_limits_apart_from_unsupported_ones",
            "tests/service/test_capabilities.py::test_a_problem_names_the_field_the_value_and_what_is_allowed",
            "tests/service/test_capabilities.py::test_an_entry_that_tells_no_limits_refuses_nothing",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
            "tests/sandbox/test_creates.py::test_a_body_within_the_rules_is_taken",
        ),
    ),
    Rule(
        section="2.1 field maxReferenceAudios",
        says="the most reference audios; may be absent",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",
            "tests/service/test_codec.py::test_a_catalog_keeps_absent_limits_apart_from_unsupported_ones",
            "tests/service/test_capabilities.py::test_a_problem_names_the_field_the_value_and_what_is_allowed",
            "tests/service/test_capabilities.py::test_an_entry_that_tells_no_limits_refuses_nothing",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
            "tests/sandbox/test_creates.py::test_a_body_within_the_rules_is_taken",
        ),
    ),
    Rule(
        section="2.1 field maxReferenceVideos",
        says="the most reference videos; may be absent",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",
            "tests/service/test_codec.py::test_a_catalog_keeps_absent_limits_apart_from_unsupported_ones",
            "tests/service/test_capabilities.py::test_a_problem_names_the_field_the_value_and_what_is_allowed",
            "tests/service/test_capabilities.py::test_an_entry_that_tells_no_limits_refuses_nothing",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
            "tests/sandbox/test_creates.py::test_a_body_within_the_rules_is_taken",
        ),
    ),
    Rule(
        section="2.1 note live",
        says="the live catalog of the caller's key decides availability, price and abilities",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_the_catalog_is_always_the_live_one",
            "tests/rules/test_rules_sdk.py::test_a_charge_is_what_the_service_says_and_never_what_a_price_list_said",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_limits_are_those_of_the_live_catalog",
            "tests/rules/test_rules_sandbox.py::test_the_price_that_the_catalog_shows_is_the_one_that_is_charged",
        ),
    ),
    Rule(
        section="2.1 note new",
        says="new models can appear at any time",
        sdk=("tests/rules/test_rules_sdk.py::test_the_catalog_is_always_the_live_one",),
        sandbox=("tests/sandbox/test_service.py::test_models_appear_and_change_while_the_service_runs",),
    ),
    Rule(
        section="2.1 unshown prices",
        says="the names of the price fields",
        sdk=("tests/rules/test_rules_sdk.py::test_prices_are_kept_under_the_names_they_came_with",),
        sandbox=("tests/rules/test_rules_sandbox.py::test_a_standard_price_is_listed_and_the_regular_one_is_charged",),
        note="The SDK keeps what comes in extra; points and memberPoints are the sandbox's own names.",
    ),
    Rule(
        section="2.1 model tierb-video-345b30093bb2",
        says="enabled; 15 and 30 s; 720p; 9 images, no audios, no videos",
        sdk=("tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
        ),
    ),
    Rule(
        section="2.1 model vendorh3",
        says="enabled; 5 to 15 s; 768p; 8 images, 3 audios, no videos",
        sdk=("tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
        ),
    ),
    Rule(
        section="2.1 model sd2_480p_real",
        says="enabled; 15 s; 720p; 9 images, 3 audios, 3 videos",
        sdk=("tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
        ),
    ),
    Rule(
        section="2.1 model sd_2_5_once_720p",
        says="enabled; 30 s; 720p; 30 images, 10 audios, 10 videos",
        sdk=("tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
        ),
    ),
    Rule(
        section="2.1 model gen-2.0",
        says="enabled; 5, 10 and 15 s; 720p; limits absent",
        sdk=("tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
        ),
    ),
    Rule(
        section="2.1 model gen-2.5",
        says="disabled, in maintenance; 10, 16, 20 and 30 s; 720p; limits absent",
        sdk=("tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
        ),
    ),
    Rule(
        section="2.1 model gen-2.5-special",
        says="disabled, in maintenance; 30 s; auto; limits absent",
        sdk=("tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
        ),
    ),
    Rule(
        section="2.1 model gen-2.5-workflow",
        says="disabled, in maintenance; 30 s; 720p; limits absent",
        sdk=("tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
        ),
    ),
    Rule(
        section="2.1 model promo_gen25_discount_720p",
        says="withdrawn: disabled, not in maintenance; 15 and 30 s; 720p; limits absent",
        sdk=("tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
        ),
    ),
    Rule(
        section="2.1 model alt-sd2.5",
        says="disabled, in maintenance; 30 s; 720p; 30 images, 3 audios, no videos",
        sdk=("tests/rules/test_rules_sdk.py::test_a_model_is_read_as_the_snapshot_describes_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_catalog_shows_a_model_as_the_snapshot_does",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
        ),
    ),
    Rule(
        section="2.1 price vendorh3",
        says="15, members 12; at least 1 image; limits as in the snapshot",
        sdk=("tests/rules/test_rules_sdk.py::test_prices_are_kept_under_the_names_they_came_with",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_standard_price_is_listed_and_the_regular_one_is_charged",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
            "tests/sandbox/test_creates.py::test_a_body_that_breaks_a_rule_is_refused_and_nothing_is_charged",
        ),
    ),
    Rule(
        section="2.1 price tierb-video-345b30093bb2",
        says="57, members 55; limits as in the snapshot",
        sdk=("tests/rules/test_rules_sdk.py::test_prices_are_kept_under_the_names_they_came_with",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_standard_price_is_listed_and_the_regular_one_is_charged",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
        ),
    ),
    Rule(
        section="2.1 price sd2_480p_real",
        says="50, members 45; limits as in the snapshot",
        sdk=("tests/rules/test_rules_sdk.py::test_prices_are_kept_under_the_names_they_came_with",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_standard_price_is_listed_and_the_regular_one_is_charged",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
        ),
    ),
    Rule(
        section="2.1 price sd_2_5_once_720p",
        says="90, members 80; limits as in the snapshot",
        sdk=("tests/rules/test_rules_sdk.py::test_prices_are_kept_under_the_names_they_came_with",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_standard_price_is_listed_and_the_regular_one_is_charged",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
        ),
    ),
    Rule(
        section="2.1 note points",
        says="prices are points; 1 currency unit is 10 points",
        sdk=("tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",),
        sandbox=("tests/rules/test_rules_sandbox.py::test_a_standard_price_is_listed_and_the_regular_one_is_charged",),
        note="Everything on the wire is points; neither side converts.",
    ),
    Rule(
        section="2.1 note own-price",
        says="the price read with the caller's own key applies",
        sdk=(
            "tests/client/test_validation_live.py::TestCheck::test_it_shows_the_entry_with_the_callers_prices",
            "tests/rules/test_rules_sdk.py::test_a_charge_is_what_the_service_says_and_never_what_a_price_list_said",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_price_that_the_catalog_shows_is_the_one_that_is_charged",
        ),
    ),
    Rule(
        section="2.1 note no-guess",
        says="a charge is never derived from model names or published prices",
        sdk=("tests/rules/test_rules_sdk.py::test_a_charge_is_what_the_service_says_and_never_what_a_price_list_said",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_the_price_that_the_catalog_shows_is_the_one_that_is_charged",
        ),
    ),
    Rule(
        section="2.1 note commission",
        says="agent commission is no request field",
        sdk=("tests/rules/test_rules_sdk.py::test_what_the_back_office_or_an_upstream_knows_is_no_field",),
        sandbox=("tests/rules/test_rules_sandbox.py::test_what_the_back_office_or_an_upstream_knows_is_no_field",),
    ),
    Rule(
        section="2.2 note balance",
        says="GET /account gives the credit balance",
        sdk=("tests/client/test_client.py::test_the_account_has_its_balance",),
        sandbox=("tests/sandbox/test_service.py::test_the_account_shows_the_balance_which_can_be_set",),
    ),
    Rule(
        section="2.2 unshown fields",
        says="the names of the account's fields",
        sdk=("tests/service/test_codec.py::test_the_balance_is_the_first_documented_name_that_holds_a_number",),
        sandbox=("tests/sandbox/test_service.py::test_the_account_shows_the_balance_which_can_be_set",),
        note="The SDK keeps the whole answer and looks for a balance under a few names.",
    ),
    Rule(
        section="2.3 field id",
        says="the asset id",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_an_asset_is_used_by_its_id_opened_by_its_url_and_reused_by_it",
            "tests/service/test_codec.py::test_an_asset_has_an_absolute_url_and_either_id_stands_for_the_other",
        ),
        sandbox=("tests/sandbox/test_files.py::test_an_asset_has_its_id_twice_and_a_url_below_the_root_with_a_token",),
    ),
    Rule(
        section="2.3 field image_id",
        says="the same id, for image_ids of a create",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_an_asset_is_used_by_its_id_opened_by_its_url_and_reused_by_it",
            "tests/service/test_codec.py::test_an_asset_has_an_absolute_url_and_either_id_stands_for_the_other",
        ),
        sandbox=(
            "tests/sandbox/test_files.py::test_an_asset_has_its_id_twice_and_a_url_below_the_root_with_a_token",
            "tests/sandbox/test_creates.py::test_an_own_upload_is_taken_by_its_id_and_by_its_url",
        ),
    ),
    Rule(
        section="2.3 field url",
        says="the asset's address; with a leading / it gets the service's host, and its query is kept whole",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_an_asset_is_used_by_its_id_opened_by_its_url_and_reused_by_it",
            "tests/media/test_upload.py::test_the_assets_address_gets_the_host_and_keeps_its_token",
            "tests/service/test_endpoints.py::test_an_address_that_starts_with_a_slash_gets_the_host_and_keeps_every_byte",
        ),
        sandbox=(
            "tests/sandbox/test_files.py::test_an_asset_has_its_id_twice_and_a_url_below_the_root_with_a_token",
            "tests/sandbox/test_files.py::test_an_assets_url_serves_the_picture_to_whoever_has_the_whole_token",
        ),
    ),
    Rule(
        section="2.3 field mime",
        says="the image's media type",
        sdk=("tests/rules/test_rules_sdk.py::test_an_asset_is_used_by_its_id_opened_by_its_url_and_reused_by_it",),
        sandbox=(
            "tests/sandbox/test_files.py::test_the_format_is_recognised_from_the_content_whatever_the_data_uri_says",
        ),
    ),
    Rule(
        section="2.3 field name",
        says="the file name",
        sdk=("tests/rules/test_rules_sdk.py::test_an_asset_is_used_by_its_id_opened_by_its_url_and_reused_by_it",),
        sandbox=("tests/sandbox/test_files.py::test_an_asset_has_its_id_twice_and_a_url_below_the_root_with_a_token",),
    ),
    Rule(
        section="2.3 note shape",
        says="the url is /api/reference-assets/<id>/content/<name> with a token",
        sdk=("tests/rules/test_rules_sdk.py::test_an_asset_is_used_by_its_id_opened_by_its_url_and_reused_by_it",),
        sandbox=("tests/sandbox/test_files.py::test_an_asset_has_its_id_twice_and_a_url_below_the_root_with_a_token",),
    ),
    Rule(
        section="2.3 note retention",
        says="ordinary assets are kept for 72 hours, then uploaded again",
        sdk=("tests/rules/test_rules_sdk.py::test_an_asset_of_73_hours_must_be_uploaded_again",),
        sandbox=("tests/rules/test_rules_sandbox.py::test_an_asset_can_be_used_for_72_hours_and_not_longer",),
    ),
    Rule(
        section="2.3 note gone",
        says="an expired or deleted asset cannot be reused",
        sdk=("tests/rules/test_rules_sdk.py::test_an_asset_of_73_hours_must_be_uploaded_again",),
        sandbox=(
            "tests/sandbox/test_creates.py::test_an_upload_that_is_expired_deleted_foreign_or_lacks_its_token_is_refused",
            "tests/sandbox/test_files.py::test_an_asset_that_is_expired_foreign_or_lacks_its_token_cannot_be_reused",
        ),
    ),
    Rule(
        section="2.4 field model",
        says="required; a model ID that is enabled and not in maintenance",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
            "tests/service/test_validation.py::test_missing_fields_are_named",
            "tests/rules/test_rules_sdk.py::test_a_model_that_cannot_be_used_is_not_ordered",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_the_two_required_fields_are_required",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_tasks_only_when_it_is_enabled_and_not_in_maintenance",
        ),
    ),
    Rule(
        section="2.4 field prompt",
        says="required; at least one character",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
            "tests/service/test_validation.py::test_missing_fields_are_named",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_the_two_required_fields_are_required",
        ),
    ),
    Rule(
        section="2.4 field duration",
        says="seconds, one of the model's durations",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
            "tests/rules/test_rules_sdk.py::test_what_vendorh3_does_not_take_is_not_sent",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_each_of_its_durations_and_no_other",
        ),
    ),
    Rule(
        section="2.4 field seconds",
        says="alias of duration",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_seconds_means_the_same_as_duration",
        ),
    ),
    Rule(
        section="2.4 field aspect_ratio",
        says="alias of ratio",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_each_ratio_means_the_same_under_either_name",
        ),
    ),
    Rule(
        section="2.4 field ratio",
        says="9:16, 1:1, 3:4, 4:3 or 16:9",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_each_ratio_means_the_same_under_either_name",
        ),
    ),
    Rule(
        section="2.4 field resolution",
        says="the model's real value; vendorh3 takes 768p alone, never 2K",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
            "tests/rules/test_rules_sdk.py::test_what_vendorh3_does_not_take_is_not_sent",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_its_own_resolution_and_no_other",
            "tests/sandbox/test_creates.py::test_a_body_that_breaks_a_rule_is_refused_and_nothing_is_charged",
        ),
    ),
    Rule(
        section="2.4 field mode",
        says="a string",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/sandbox/test_creates.py::test_a_body_within_the_rules_is_taken",
        ),
    ),
    Rule(
        section="2.4 field attachments",
        says="an array of objects",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/sandbox/test_creates.py::test_a_body_within_the_rules_is_taken",
        ),
    ),
    Rule(
        section="2.4 field reference_images",
        says="objects with a url; no empty files",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
            "tests/media/test_upload.py::test_what_is_no_image_is_refused_before_anything_is_sent",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
            "tests/sandbox/test_files.py::test_what_is_no_upload_is_refused_with_its_code",
        ),
        note="Files on other hosts are not fetched by the sandbox: emptiness shows at the upload.",
    ),
    Rule(
        section="2.4 field image_urls",
        says="public URLs; vendorh3 1 to 8, tierb-video-345b30093bb2 up to 9",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
            "tests/rules/test_rules_sdk.py::test_what_vendorh3_does_not_take_is_not_sent",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
            "tests/sandbox/test_creates.py::test_a_body_that_breaks_a_rule_is_refused_and_nothing_is_charged",
        ),
    ),
    Rule(
        section="2.4 field image_ids",
        says="ids that POST /files returned",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
            "tests/rules/test_rules_sdk.py::test_an_asset_is_used_by_its_id_opened_by_its_url_and_reused_by_it",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_uploads_count_among_the_images",
        ),
    ),
    Rule(
        section="2.4 field reference_videos",
        says="objects with a url; only where the model supports videos",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
            "tests/rules/test_rules_sdk.py::test_what_vendorh3_does_not_take_is_not_sent",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
        ),
    ),
    Rule(
        section="2.4 field video_urls",
        says="public URLs; only where the model supports videos",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
            "tests/rules/test_rules_sdk.py::test_what_vendorh3_does_not_take_is_not_sent",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
            "tests/sandbox/test_creates.py::test_a_body_that_breaks_a_rule_is_refused_and_nothing_is_charged",
        ),
    ),
    Rule(
        section="2.4 field reference_audios",
        says="objects with a url",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
            "tests/sandbox/test_creates.py::test_a_body_that_breaks_a_rule_is_refused_and_nothing_is_charged",
        ),
    ),
    Rule(
        section="2.4 field audio_urls",
        says="public URLs; vendorh3 up to 3, tierb-video-345b30093bb2 none",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",
            "tests/service/test_validation.py::test_a_problem_names_its_field",
            "tests/rules/test_rules_sdk.py::test_what_vendorh3_does_not_take_is_not_sent",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
            "tests/sandbox/test_creates.py::test_a_body_that_breaks_a_rule_is_refused_and_nothing_is_charged",
        ),
    ),
    Rule(
        section="2.4 unshown mode",
        says="the values of mode",
        sdk=("tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",),
        sandbox=("tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",),
        note="Any string goes through.",
    ),
    Rule(
        section="2.4 unshown attachments",
        says="the shape of an attachment",
        sdk=("tests/rules/test_rules_sdk.py::test_each_field_of_a_create_reaches_the_service_under_its_name",),
        sandbox=("tests/rules/test_rules_sandbox.py::test_each_field_of_a_create_is_taken_and_is_checked",),
        note="Any object goes through as it is.",
    ),
    Rule(
        section="2.4 rule 1",
        says="references follow the model's abilities, under the service's names: never images or audios",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_what_the_back_office_or_an_upstream_knows_is_no_field",
            "tests/rules/test_rules_sdk.py::test_an_upstreams_field_names_cannot_be_slipped_in",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_what_the_back_office_or_an_upstream_knows_is_no_field",
            "tests/rules/test_rules_sandbox.py::test_an_upstreams_field_is_refused_also_where_unknown_fields_are_taken",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
        ),
    ),
    Rule(
        section="2.4 rule 2",
        says="placeholder assets are not submitted",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_placeholders_are_not_sent",
            "tests/service/test_validation.py::TestReferences::test_a_placeholder_is_no_file",
            "tests/service/test_validation.py::TestReferences::test_a_placeholder_is_refused_by_every_service",
            "tests/service/test_validation.py::TestReferences::test_an_illustrative_id_is_no_upload",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_placeholders_are_refused_and_nothing_is_charged",
            "tests/rules/test_rules_sandbox.py::test_an_illustrative_token_opens_no_asset",
        ),
    ),
    Rule(
        section="2.4 rule 3",
        says="an asset's URL is public and leads to a real file: no local path, no expired link",
        sdk=(
            "tests/service/test_validation.py::test_a_problem_names_its_field",
            "tests/service/test_validation.py::TestReferences::test_a_host_that_the_service_cannot_reach_is_refused",
            "tests/service/test_validation.py::TestReferences::test_what_is_wrong_with_a_url_is_said_without_its_secrets",
        ),
        sandbox=(
            "tests/sandbox/test_creates.py::test_a_body_that_breaks_a_rule_is_refused_and_nothing_is_charged",
            "tests/sandbox/test_creates.py::test_an_upload_that_is_expired_deleted_foreign_or_lacks_its_token_is_refused",
        ),
        note="Neither side fetches from other hosts: an HTML page there is seen by the real service alone.",
    ),
    Rule(
        section="2.4 rule 4",
        says="vendorh3 needs an image and takes no videos",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_what_vendorh3_does_not_take_is_not_sent",
            "tests/service/test_capabilities.py::test_vendorh3_needs_an_image_from_any_field_that_may_hold_one",
        ),
        sandbox=(
            "tests/sandbox/test_creates.py::test_a_body_that_breaks_a_rule_is_refused_and_nothing_is_charged",
            "tests/rules/test_rules_sandbox.py::test_a_model_takes_references_up_to_its_limit_however_they_are_given",
        ),
    ),
    Rule(
        section="2.4 rule 5",
        says="limits come from the live catalog",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_the_catalog_is_always_the_live_one",
            "tests/client/test_validation_live.py::test_an_ability_that_is_new_is_found_at_once",
        ),
        sandbox=("tests/rules/test_rules_sandbox.py::test_the_limits_are_those_of_the_live_catalog",),
    ),
    Rule(
        section="2.5 field id",
        says="the service's task id",
        sdk=("tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
        ),
    ),
    Rule(
        section="2.5 field task_id",
        says="the same as id",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",
            "tests/service/test_codec.py::test_odd_types_are_read_as_far_as_they_can_be",
            "tests/service/test_codec.py::test_a_task_id_that_differs_from_the_id_is_kept",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
        ),
    ),
    Rule(
        section="2.5 field status",
        says="queued, running, completed or failed",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",
            "tests/service/test_codec.py::test_only_completed_and_failed_are_terminal_and_other_states_are_kept_as_they_came",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
            "tests/sandbox/test_tasks.py::test_a_task_is_queued_then_running_then_completed_on_the_sandboxs_clock",
        ),
    ),
    Rule(
        section="2.5 field model",
        says="the model ID",
        sdk=("tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
        ),
    ),
    Rule(
        section="2.5 field points",
        says="credits charged for the task",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",
            "tests/rules/test_rules_sdk.py::test_a_charge_is_what_the_service_says_and_never_what_a_price_list_said",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
            "tests/sandbox/test_creates.py::test_a_created_task_is_queued_and_charged_by_the_callers_price",
        ),
    ),
    Rule(
        section="2.5 field video_url",
        says="the complete address, or null: the content endpoint or a signed link",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",
            "tests/rules/test_rules_sdk.py::test_a_signed_link_is_handed_on_whole_and_outlived_by_asking_again",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
            "tests/sandbox/test_tasks.py::test_a_streamed_video_comes_whole_or_in_ranges_from_the_address_that_the_task_shows",
            "tests/sandbox/test_tasks.py::test_vendorh3_redirects_to_a_signed_link_on_another_origin_that_needs_no_key",
        ),
    ),
    Rule(
        section="2.5 field failure_reason",
        says="the reason of a failure, or null",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",
            "tests/watcher/test_poll_rules.py::test_a_failed_task_is_an_error_with_its_reason_and_is_not_looked_at_again",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
            "tests/sandbox/test_tasks.py::test_a_failed_task_has_a_reason_no_video_and_its_refund_in_the_ledger",
        ),
    ),
    Rule(
        section="2.5 field upstream_task_id",
        says="for diagnosis only, or null; never for queries",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",
            "tests/rules/test_rules_sdk.py::test_tasks_are_asked_for_by_the_services_id_and_by_no_other",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
            "tests/sandbox/test_tasks.py::test_a_task_of_another_account_or_none_is_404",
        ),
    ),
    Rule(
        section="2.5 field provider",
        says="listed among the main fields",
        sdk=("tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
        ),
    ),
    Rule(
        section="2.5 field created_at",
        says="seconds",
        sdk=("tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
        ),
    ),
    Rule(
        section="2.5 field updated_at",
        says="seconds",
        sdk=("tests/rules/test_rules_sdk.py::test_a_task_is_read_as_the_service_shows_it",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
            "tests/sandbox/test_tasks.py::test_a_task_shows_all_its_fields_and_its_times_in_whole_seconds",
        ),
    ),
    Rule(
        section="2.5 unshown provider",
        says="the type of provider",
        sdk=(
            "tests/service/test_codec.py::test_odd_types_are_read_as_far_as_they_can_be",
            "tests/service/test_codec.py::test_a_task_is_read_with_all_its_fields",
        ),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_completed_task_tells_what_it_is_what_it_cost_and_where_its_video_is",
        ),
        note="The SDK keeps whatever comes; the sandbox sends a string.",
    ),
    Rule(
        section="2.5 note link",
        says="vendorh3's video_url is a signed link: exp and sig are kept",
        sdk=(
            "tests/rules/test_rules_sdk.py::test_a_signed_link_is_handed_on_whole_and_outlived_by_asking_again",
            "tests/media/test_download_redirects.py::test_another_origin_gets_the_signed_link_byte_for_byte_and_no_key",
        ),
        sandbox=(
            "tests/sandbox/test_tasks.py::test_a_link_that_was_changed_lacks_a_parameter_or_has_expired_is_401",
            "tests/sandbox/test_tasks.py::test_vendorh3_redirects_to_a_signed_link_on_another_origin_that_needs_no_key",
        ),
    ),
    Rule(
        section="2.5 note 7-days",
        says="7 days are the link's life, not the task's or the video's",
        sdk=("tests/rules/test_rules_sdk.py::test_a_signed_link_is_handed_on_whole_and_outlived_by_asking_again",),
        sandbox=(
            "tests/rules/test_rules_sandbox.py::test_a_signed_link_lives_for_7_days_and_its_task_and_video_live_on",
        ),
    ),
)
