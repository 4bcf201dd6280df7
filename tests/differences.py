# SPDX-License-Identifier: Apache-2.0
"""What differs from PyFlink in a job: the lines of the guide to migration, each with a test that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

GUIDE: Final = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "migrate-from-pyflink.md"

DIFFERENCES: Final = {
    "timestamp of an element without one, in `ctx`, window assigners and triggers": "test_differences::test_an_element_without_a_time_has_none",
    "watermark of a bounded input": "test_local_time::test_all_elements_come_before_the_watermark_where_nothing_is_said",
    "`TimestampAssigner` in `from_source`": "test_differences::test_the_timestamp_assigner_of_a_source_counts",
    "`with_idleness` after `with_timestamp_assigner`": "test_differences::test_idleness_keeps_the_timestamp_assigner",
    "elements of a broadcast input": "test_differences::test_bounded_rules_come_first",
    "event timers that `on_timer` registers at the end of a batch": "test_batch_end::test_the_timers_of_each_key_fire_by_the_rules",
    "processing timers left at the end of a streaming job": "test_local_time::test_processing_timers_fire_when_the_clock_is_there_and_not_at_the_end",
    "processing-time timers and windows in streaming mode": "test_processing_timers::test_a_timer_of_a_job_that_ends_fires_when_its_key_group_is_called_and_at_the_end",
    "`assign_timestamps_and_watermarks` behind a keyed operator, in streaming mode": "test_times_between_operators::test_an_operator_behind_sees_the_watermarks_of_the_new_times",
    "state with processing-time TTL, in a timer at the end of the input": "test_differences::test_state_may_expire_before_the_timers_of_the_next_micro_batch",
    "continuous triggers at the end of the input": "window_jobs::a_continuous_trigger_fires_at_each_interval",
    "the last retry of an async call, when its time is up": "test_differences::test_when_its_time_is_up_timeout_says_what_comes_of_an_element",
    "`flat_map` and process functions that return None": "stateless_jobs::flat_map_to_none",
    "a side output that nobody reads": "stateless_jobs::main_output_beside_side_outputs",
    "None from a function without an output type": "stateless_jobs::map_to_none",
    "None in a field of `Types.TUPLE`": "stateless_jobs::tuples_with_none",
    "`Types.PRIMITIVE_ARRAY(Types.BYTE())`": "stateless_jobs::bytes_of_a_type",
    "a FLOAT from `execute_and_collect`": "stateless_jobs::float_is_rounded_at_the_border",
    "the output type: row names, 32 bits of a FLOAT": "stateless_jobs::row_gets_names_at_the_border",
    "untyped elements in a `FileSink`": "test_differences::test_untyped_elements_are_text_in_files",
    "`execute_and_collect` and `sink_to` of a `KeyedStream`": "keyed_jobs::collecting_a_keyed_stream",
    "`KeyedStream.print(id)`": "test_differences::test_the_print_of_a_keyed_stream_keeps_its_identifier",
    "`union` of streams of different types": "test_differences::test_streams_of_other_types_can_be_united",
    "`execute_and_collect` of a job that is killed": "test_differences::test_what_was_collected_may_come_again",
    "a function that raises, with `pyflinklike.dead-letters.tag`": "test_dead_letters_of_jobs::test_a_letter_of_a_job_becomes_a_test_as_well",
    "your own schemas": "test_kafka_job_sources::test_a_schema_of_the_programs_own",
    "keys 1, 1.0 and True without a type": "keyed_jobs::numbers_of_other_types_are_other_keys",
    "a FLOAT in state": "test_types::test_floats_are_rounded_at_once",
    "`aggregate` and `reduce` of sessions that one element merges": "window_jobs::a_bridged_session_aggregates_all_of_it",
    "list and map state in an event timer in batch mode": "test_differences::test_list_and_map_state_are_there_at_the_end_of_a_batch",
    "`get_type()` of a `KeyedStream`": "test_differences::test_the_type_of_a_keyed_stream_is_that_of_its_elements",
    "`assign_timestamps_and_watermarks` of a `KeyedStream`": "test_differences::test_a_keyed_stream_may_be_given_times",
    "`set_uid_hash`": "test_differences::test_the_hash_of_an_operator_has_no_effect",
    "default parallelism": "test_differences::test_one_instance_where_parallelism_is_not_set",
    "`set_parallelism(2)` of `from_collection`, or after `force_non_parallel()`": "test_differences::test_the_last_parallelism_counts",
    "`set_parallelism` before `key_by` in batch mode": "partition_jobs::copies_with_keys",
    "`partition_custom` in batch mode or `execute_and_collect`": "partition_jobs::instances_that_the_program_tells",
    "name, uid and `cache` of `union`, `shuffle`, `rebalance`, `rescale`, `forward`, `broadcast`": "test_differences::test_what_is_no_operator_takes_settings",
    "values that are not text in `Configuration.from_dict` and `set_string`": "test_program_settings::test_what_is_no_text_is_stored_as_its_text",
    "a job started again with its `execution.checkpointing.dir`": "test_job_folders::test_the_same_program_goes_on",
    "another program under that name": "test_job_folders::test_another_program_is_refused_by_name",
    "`execution.state-recovery.path` at a restart on Spark": "test_job_savepoint_folders::test_a_job_begins_with_a_savepoint_once",
    "`pipeline.max-parallelism` with a savepoint": "test_job_savepoints::test_a_job_that_is_cut_in_two_gives_what_it_must",
    "the checkpoint of a cancelled job": "test_job_folders::test_the_retention_says_what_a_cancelled_job_leaves",
    "no checkpoint interval": "test_job_outputs::test_a_micro_batch_is_there_once_wherever_the_driver_was_killed",
    "a partition that never had a record": "test_watermark_feed::test_the_least_watermark_of_all_splits",
    "offsets of the consumer group": "test_kafka_job_sources::test_a_source_commits_nothing",
    "starting offsets that the topic no longer has": "test_kafka_job_sources::test_an_offset_that_is_not_there_is_refused",
    "`DeliveryGuarantee` of a `KafkaSink`": "test_kafka_job_sinks::test_a_sink_that_asks_for_exactly_once_is_refused_when_its_job_starts",
    "an element of `from_collection` outside its type": "test_local_runner::test_an_element_of_a_collection_that_does_not_fit_says_which_one_it_is",
    "a float as `Types.STRING()` in `from_collection`": "test_differences::test_a_float_is_no_text",
    "a `KeyedCoProcessFunction` unless both streams have keys": "test_differences::test_keyed_co_process_functions_need_keys",
    "a `KeyedProcessFunction` on a stream without keys": "test_objects_without_classes::test_a_function_of_another_kind_is_refused",
    "an object as function, assigner or trigger that lacks one of its methods": "test_objects_without_classes::test_what_an_object_lacks_is_named",
    "a class instead of an instance": "test_objects_without_classes::test_a_class_of_functions_is_no_callable",
    "a `ReduceFunction` or `AggregateFunction` of windows with `open` or `close`, which PyFlink never calls": "test_objects_without_classes::test_a_function_that_folds_a_window_cannot_be_opened",
    "a trigger that cannot merge, for session windows": "test_triggers::test_a_trigger_that_cannot_merge_is_refused_for_sessions",
}
"""Tests as `module::test`, or jobs of the collection, by the first cell of a row, or by the words of a list item before a colon."""


def lines_of_guide() -> list[str]:
    """Return the first cells and the list items of the section about differences, in order."""
    section = GUIDE.read_text(encoding="utf-8").split("## What differs in a job\n")[1]
    section = section.split("\n## ")[0]
    found = []
    for line in section.splitlines():
        if line.startswith("| ") and not line.endswith("| PyFlink | here |"):
            found.append(line[2:].partition(" | ")[0])
        elif line.startswith("- "):
            found.append(line[2:].partition(":")[0])
    return found
