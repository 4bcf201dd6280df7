# SPDX-License-Identifier: Apache-2.0
"""Settings as Flink's configurations write them: lengths of time, names, and keys that are older."""

from __future__ import annotations

from datetime import timedelta

import pytest
from local_support import local

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.pyflink.common import Configuration, Duration, ExecutionConfig, Time
from pyflinklike.pyflink.datastream import (
    CheckpointingMode,
    ExternalizedCheckpointRetention,
)

INTERVAL = "execution.checkpointing.interval"
SECOND, MINUTE = 1_000, 60_000


def with_setting(key, value):
    """An environment with one setting more."""
    return local().configure(Configuration.from_dict({key: value}))


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500", 500),
        (500, 500),
        ("-1", -1),
        ("0", 0),
        ("500 ms", 500),
        ("10 s", 10 * SECOND),
        ("10s", 10 * SECOND),
        (" 10  S ", 10 * SECOND),
        ("3 SECONDS", 3 * SECOND),
        ("1min", MINUTE),
        ("1 m", MINUTE),
        ("2 Minutes", 2 * MINUTE),
        ("1 h 5 min", 65 * MINUTE),
        ("1h5min", 65 * MINUTE),
        ("1 hour", 60 * MINUTE),
        ("2 d", 48 * 60 * MINUTE),
        ("1 day", 24 * 60 * MINUTE),
        ("1500 micros", 1),
        ("1500 \u00b5s", 1),
        ("1500 \u03bcs", 1),
        ("999 ns", 0),
        ("2000000 nanoseconds", 2),
    ],
)
def test_a_length_of_time_is_taken_as_flink_writes_it(text, milliseconds):
    """With any unit, in any case of letters, with and without a blank; a plain number is ms."""
    assert milliseconds == with_setting(INTERVAL, text).get_checkpoint_interval()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "s",
        "10 parsecs",
        "10 mins",
        "1.5 s",
        "-5 s",
        "+5",
        "1_000",
        "5 5",
        "10 s later",
        "PT10S",
        "\u0661 s",
        "9" * 19 + " d",
        "9" * 5_000,
        "ten seconds",
    ],
)
def test_a_length_of_time_that_is_none_is_refused(text):
    """With the key, what was got, and what it takes."""
    with pytest.raises(
        DeclarationValueError,
        match=r"^execution.checkpointing.interval is a length of time such as '500 ms', '10 s'.*, got '.*; set it",
    ):
        with_setting(INTERVAL, text).get_checkpoint_interval()


@pytest.mark.parametrize(
    "key",
    [
        INTERVAL,
        "execution.buffer-timeout",
        "pipeline.auto-watermark-interval",
        "execution.checkpointing.timeout",
        "execution.checkpointing.unaligned",
        "pipeline.object-reuse",
        "execution.checkpointing.mode",
        "execution.checkpointing.externalized-checkpoint-retention",
    ],
)
def test_a_setting_that_cannot_be_read_fails_the_job_before_it_begins(key):
    """Also one that no host heeds: who wrote it meant something else."""
    env = with_setting(key, "10 parsecs")
    env.from_collection([1]).print()

    with pytest.raises(DeclarationValueError, match=f"^{key} is .*, got '10 parsecs'; set it to"):
        env.execute()


def test_getters_of_lengths_of_time_tell_what_the_configuration_has():
    """In ms, as PyFlink's do."""
    env = local(
        execution__buffer_timeout__interval="1 min",
        pipeline__auto_watermark_interval="500 ms",
        metrics__latency__interval="2 s",
        task__cancellation__timeout="3 min",
        execution__checkpointing__timeout="20 min",
        execution__checkpointing__min_pause="1 s",
        execution__checkpointing__aligned_checkpoint_timeout="4 s",
    )
    config, checkpoints = env.get_config(), env.get_checkpoint_config()

    assert (MINUTE, 500, 2 * SECOND, 3 * MINUTE) == (
        env.get_buffer_timeout(),
        config.get_auto_watermark_interval(),
        config.get_latency_tracking_interval(),
        config.get_task_cancellation_timeout(),
    )
    assert (20 * MINUTE, SECOND, Duration.of_seconds(4)) == (
        checkpoints.get_checkpoint_timeout(),
        checkpoints.get_min_pause_between_checkpoints(),
        checkpoints.get_alignment_timeout(),
    )


def test_what_is_set_is_in_the_configuration():
    """Under Flink's keys, so that another environment can take it over; lengths may have any form."""
    env = local()
    env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE)
    env.set_buffer_timeout(Time.seconds(1))
    env.get_config().set_auto_watermark_interval(timedelta(seconds=2))
    config = env.get_checkpoint_config()
    config.set_checkpoint_timeout(Duration.of_minutes(3)).set_max_concurrent_checkpoints(2)
    config.set_tolerable_checkpoint_failure_number(4).enable_unaligned_checkpoints()

    again = local()
    again.configure(env._program.configuration)
    found = again.get_checkpoint_config()

    assert (500, CheckpointingMode.AT_LEAST_ONCE, SECOND, 2 * SECOND) == (
        again.get_checkpoint_interval(),
        again.get_checkpointing_mode(),
        again.get_buffer_timeout(),
        again.get_config().get_auto_watermark_interval(),
    )
    assert (3 * MINUTE, 2, 4, True) == (
        found.get_checkpoint_timeout(),
        found.get_max_concurrent_checkpoints(),
        found.get_tolerable_checkpoint_failure_number(),
        found.is_unaligned_checkpoints_enabled(),
    )


def test_a_setter_without_effect_takes_its_parameter_by_name():
    """And no other one."""
    config = local().get_checkpoint_config()

    assert (
        MINUTE == config.set_checkpoint_timeout(checkpoint_timeout=MINUTE).get_checkpoint_timeout()
    )
    assert config.set_force_unaligned_checkpoints().is_force_unaligned_checkpoints()
    with pytest.raises(TypeError, match="missing a required argument: 'checkpoint_timeout'"):
        config.set_checkpoint_timeout(timeout=MINUTE)


@pytest.mark.parametrize(
    "name", ["at_least_once", "AT_LEAST_ONCE", "At-Least-Once", " at_least_once "]
)
def test_names_of_enums_are_taken_in_any_case(name):
    """As Flink does."""
    env = local(execution__checkpointing__mode=name)

    assert CheckpointingMode.AT_LEAST_ONCE is env.get_checkpointing_mode()


def test_a_retention_is_taken_in_any_case_and_by_its_older_methods():
    """Those of Flink 1 said the same, and were taken for a switch."""
    retention = ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
    key = "execution__checkpointing__externalized_checkpoint_retention"
    env = local(**{key: "delete_on_cancellation"})
    assert retention is env.get_checkpoint_config().get_externalized_checkpoint_retention()

    config = local().get_checkpoint_config()
    with pytest.warns(DeprecationWarning, match="is of Flink 1"):
        config.enable_externalized_checkpoints(retention)

    with pytest.warns(DeprecationWarning, match="is of Flink 1"):
        found = config.get_externalized_checkpoint_cleanup()
    assert retention is found
    assert config.is_externalized_checkpoints_enabled()
    with pytest.raises(
        DeclarationTypeError, match="ExternalizedCheckpointRetention, got True; giv"
    ):
        config.enable_externalized_checkpoints(True)


@pytest.mark.parametrize(
    ("key", "value", "ask"),
    [
        ("pipeline.operator-chaining", "false", lambda env: not env.is_chaining_enabled()),
        ("pipeline.operator-chaining.enabled", "False", lambda env: not env.is_chaining_enabled()),
        ("execution.buffer-timeout", "1 s", lambda env: env.get_buffer_timeout() == SECOND),
        ("execution.buffer-timeout.enabled", "false", lambda env: env.get_buffer_timeout() == -1),
        (
            "execution.checkpointing.unaligned",
            "TRUE",
            lambda env: env.is_unaligned_checkpoints_enabled(),
        ),
        (
            "execution.checkpointing.alignment-timeout",
            "2 s",
            lambda env: (
                env.get_checkpoint_config().get_alignment_timeout().to_milliseconds() == 2000
            ),
        ),
        ("state.savepoints.dir", "/s", lambda env: env.get_default_savepoint_directory() == "/s"),
        (
            "state.backend.changelog.enabled",
            "true",
            lambda env: env.is_changelog_state_backend_enabled(),
        ),
        (
            "task.cancellation-interval",
            "7",
            lambda env: env.get_config().get_task_cancellation_interval() == 7,
        ),
    ],
)
def test_older_keys_are_heeded(key, value, ask):
    """A script of Flink 1 has them."""
    assert ask(with_setting(key, value))


def test_the_key_of_today_comes_before_an_older_one():
    """Also where it was set by a method."""
    env = local(execution__buffer_timeout="1 s")

    env.set_buffer_timeout(5)

    assert 5 == env.get_buffer_timeout()


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("state.backend", "HASHMAP"),
        ("state.backend", "filesystem"),
        ("state.backend.type", "jobmanager"),
        (
            "state.backend.type",
            "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory",
        ),
    ],
)
def test_a_state_backend_is_taken_by_all_its_names(key, name):
    """Those of Flink 1, too."""
    env = with_setting(key, name)

    assert [2] == list(env.from_collection([1]).map(lambda n: n + 1).execute_and_collect())


def test_another_state_backend_is_refused_under_its_older_key():
    """It is not left out without a word."""
    env = with_setting("state.backend", "forst")
    env.from_collection([1]).print()

    with pytest.raises(DeclarationValueError, match="is one of hashmap, rocksdb, got 'forst'; set"):
        env.execute()


@pytest.mark.parametrize("target", ["LOCAL", " Local "])
def test_a_target_is_taken_in_any_case(target):
    """As Flink does."""
    env = with_setting("execution.target", target)

    assert [1] == list(env.from_collection([1]).execute_and_collect())


def test_generic_types_and_java_classes_are_kept_for_their_getters():
    """PyFlink has them, for Java's serializers."""
    config = ExecutionConfig()
    assert not config.has_generic_types_disabled()

    with pytest.warns(UserWarning, match="has no effect here: any object that pickles"):
        config.disable_generic_types()
    config.register_pojo_type("a.B").register_kryo_type("a.C")
    config.register_type_with_kryo_serializer("a.D", "a.E").add_default_kryo_serializer("F", "G")

    assert config.has_generic_types_disabled()
    assert (["a.B"], ["a.C"], {"a.D": "a.E"}, {"F": "G"}) == (
        config.get_registered_pojo_types(),
        config.get_registered_kryo_types(),
        config.get_registered_types_with_kryo_serializer_classes(),
        config.get_default_kryo_serializer_classes(),
    )
    assert not config.enable_generic_types().has_generic_types_disabled()


def test_job_parameters_that_are_no_json_are_refused():
    """With the key, and not as an error of a parser."""
    env = local(pipeline__global_job_parameters="{a: 1")

    with pytest.raises(
        DeclarationValueError, match="is a map as JSON, or key:value,key:value, got"
    ):
        env.get_config().get_global_job_parameters()


def test_what_is_set_is_checked_where_it_is_set():
    """And not by the getter."""
    env = local()
    config = env.get_checkpoint_config()
    calls = [
        lambda: config.set_max_concurrent_checkpoints("2"),
        lambda: config.set_tolerable_checkpoint_failure_number(True),
        lambda: config.set_checkpoint_timeout("10 s"),
        lambda: config.set_checkpointing_mode("at_least_once"),
        lambda: env.set_buffer_timeout("10 s"),
        lambda: env.get_config().set_auto_watermark_interval(1.5),
        lambda: env.get_config().set_latency_tracking_interval("1 s"),
    ]

    for call in calls:
        with pytest.raises(DeclarationTypeError, match=r", got .*; (give|write) for example"):
            call()
