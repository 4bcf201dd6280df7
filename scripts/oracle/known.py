# SPDX-License-Identifier: Apache-2.0
"""What is known to differ on PyFlink: jobs, and the rows that say so."""

from __future__ import annotations

from typing import Final

KNOWN: Final = {
    "a_bridged_session_aggregates_all_of_it": "a_bridged_session_aggregates_all_of_it",
    "a_continuous_trigger_fires_at_each_interval": "a_continuous_trigger_fires_at_each_interval",
    "a_wait_that_takes_too_long": "when_its_time_is_up_timeout_says_what_comes_of_an_element",
    "bytes_of_a_type": "bytes_of_a_type",
    "co_process_without_keys": "main_output_beside_side_outputs",
    "dead_letters_of_a_map_and_a_keyed_function": "a_letter_of_a_job_becomes_a_test_as_well",
    "flat_map_to_none": "flat_map_to_none",
    "float_is_rounded_at_the_border": "float_is_rounded_at_the_border",
    "main_output_beside_side_outputs": "main_output_beside_side_outputs",
    "map_to_none": "map_to_none",
    "no_time_is_none": "an_element_without_a_time_has_none",
    "numbers_of_other_types_are_other_keys": "numbers_of_other_types_are_other_keys",
    "row_gets_names_at_the_border": "row_gets_names_at_the_border",
    "rules_behind_rules": "main_output_beside_side_outputs",
    "tuples_with_none": "tuples_with_none",
}
"""Jobs that give something else on PyFlink, and what shows the rows that say so: a test, without
`test_`, or a job of the collection.

The rows are those of `docs/how-to/migrate-from-pyflink.md`; `tests/differences.py` has their tests.
"""

KNOWN_IN_STREAMING: Final = dict.fromkeys(
    [
        "a_keyed_operator_behind_rules",
        "one_stream_is_both_inputs",
        "rules_behind_rules",
        "rules_beside_a_fold",
        "rules_for_elements_whose_key_is_none",
        "rules_for_what_a_keyed_operator_gives",
        "rules_that_a_keyed_operator_gives",
        "rules_that_are_withdrawn",
        "rules_with_keys",
        "rules_without_keys",
        "side_outputs_beside_rules",
    ],
    "bounded_rules_come_first",
)
"""The same for streaming mode only: Flink promises no order of broadcast and other elements."""

_PARTITIONER: Final = "instances_that_the_program_tells"

KNOWN_IN_BATCH: Final = {
    "copies_with_keys": "copies_with_keys",
    "instances_of_further_operators": _PARTITIONER,
    "instances_that_the_program_tells": _PARTITIONER,
    **dict.fromkeys(
        [
            "a_list_that_grows_between_outputs_of_a_window",
            "results_of_windows_have_the_time_of_their_end",
            "session_windows",
            "sessions_of_processing_time_at_the_end",
            "side_outputs_of_windows",
            "state_that_windows_share",
            "tumbling_windows",
            "tumbling_windows_with_an_offset",
            "windows_of_windows",
            "windows_with_a_window_function",
        ],
        "list_and_map_state_are_there_at_the_end_of_a_batch",
    ),
}
"""The same for batch mode only."""
