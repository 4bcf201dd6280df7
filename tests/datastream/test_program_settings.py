# SPDX-License-Identifier: Apache-2.0
"""Settings of a program, and plans of its jobs."""

from __future__ import annotations

import copy
import json

import pytest
from local_support import local

from pyflinklike.common import Configuration, ExecutionConfig, Types
from pyflinklike.datastream import (
    CheckpointingMode,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
)
from pyflinklike.errors import (
    DeclarationError,
    DeclarationValueError,
    HostError,
    PyflinklikeError,
)


def test_a_configuration_keeps_text():
    """And gives what is asked for."""
    config = Configuration().set_integer("i", 3).set_boolean("b", True).set_float("f", 0.5)
    config.set_string("s", "x").set_bytearray("y", bytearray(b"z"))

    assert (3, True, 0.5, "x") == (
        config.get_integer("i", 0),
        config.get_boolean("b", False),
        config.get_float("f", 0.0),
        config.get_string("s", ""),
    )
    assert bytearray(b"z") == config.get_bytearray("y", bytearray())
    assert {"i": "3", "b": "true", "f": "0.5", "s": "x"}.items() <= config.to_dict().items()
    assert 7 == config.get_integer("none", 7)


def test_a_value_of_another_kind_is_refused():
    """With the key."""
    with pytest.raises(DeclarationValueError, match="Could not parse value 'x' for key 'k' as int"):
        Configuration().set_string("k", "x").get_integer("k", 0)


def test_configurations_are_added_copied_and_compared():
    """By their keys and values."""
    config = Configuration.from_dict({"a": "1"})
    other = Configuration(config).set_string("b", "2")

    assert config == copy.deepcopy(config)
    assert config != other
    assert {"a": "1", "x.a": "1", "x.b": "2"} == config.add_all(other, "x.").to_dict()
    assert (True, False) == (config.remove_config("a"), config.remove_config("a"))


def test_settings_that_no_host_heeds_are_told():
    """With PyFlink's defaults."""
    config = ExecutionConfig()

    assert (200, 30_000, True, False) == (
        config.get_auto_watermark_interval(),
        config.get_task_cancellation_interval(),
        config.is_closure_cleaner_enabled(),
        config.is_object_reuse_enabled(),
    )
    config.enable_object_reuse().disable_closure_cleaner().set_task_cancellation_interval(5)
    assert (5, False, True) == (
        config.get_task_cancellation_interval(),
        config.is_closure_cleaner_enabled(),
        config.is_object_reuse_enabled(),
    )
    with pytest.raises(AttributeError, match="has no attribute 'surprise'"):
        config.surprise()


def test_settings_of_checkpoints_are_told():
    """With PyFlink's defaults."""
    env = local()
    assert (-1, CheckpointingMode.EXACTLY_ONCE) == (
        env.get_checkpoint_interval(),
        env.get_checkpointing_mode(),
    )

    env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE)
    env.get_checkpoint_config().set_max_concurrent_checkpoints(2)

    config = env.get_checkpoint_config()
    assert (500, CheckpointingMode.AT_LEAST_ONCE) == (
        env.get_checkpoint_interval(),
        env.get_checkpointing_mode(),
    )
    assert (2, 600_000) == (
        config.get_max_concurrent_checkpoints(),
        config.get_checkpoint_timeout(),
    )


@pytest.mark.parametrize("number", [0, -2, True, 1.5])
def test_a_parallelism_that_is_none_is_refused(number):
    """For all operators, and for one."""
    with pytest.raises(DeclarationValueError):
        local().set_parallelism(number)
    with pytest.raises(DeclarationValueError):
        local().from_collection([1]).set_parallelism(number)


def test_settings_of_the_process_come_before_those_of_the_program(monkeypatch):
    """So that a script can be sent elsewhere, unless it says where it runs."""
    monkeypatch.setenv("PYFLINKLIKE_CONFIGURATION", "parallelism.default=3; execution.target=local")
    get = StreamExecutionEnvironment.get_execution_environment

    assert 3 == get().get_parallelism()
    assert 5 == get(Configuration().set_integer("parallelism.default", 5)).get_parallelism()


def test_a_setting_that_is_wrong_fails_the_job():
    """Before it begins."""
    for settings in ({"execution__runtime_mode": "fast"}, {"state__backend__type": "paper"}):
        env = local(**settings)
        env.from_collection([1]).print()
        with pytest.raises(DeclarationValueError, match="is one of"):
            env.execute()


class Nothing(KeyedProcessFunction):
    def process_element(self, value, ctx):
        pass


def test_a_plan_is_that_of_flink():
    """Operators with the way in which elements come to them; the next job is still to come."""
    env = local(parallelism__default="2")
    stream = env.from_collection([(1, 2)], Types.TUPLE([Types.INT(), Types.INT()]))
    counted = stream.map(lambda v: v).key_by(lambda v: v[0]).process(Nothing())
    counted.name("count").rebalance().print()

    plan = json.loads(env.get_execution_plan())["nodes"]

    assert [
        ("Data Source", "Source: Collection Source"),
        ("Operator", "Map"),
        ("Operator", "count"),
        ("Data Sink", "Sink: Print to Std. Out"),
    ] == [(node["pact"], node["type"]) for node in plan]
    strategies = [node["predecessors"][0]["ship_strategy"] for node in plan[1:]]
    assert ["REBALANCE", "HASH", "REBALANCE"] == strategies
    assert [plan[0]["id"]] == [each["id"] for each in plan[1]["predecessors"]]
    env.execute()
    with pytest.raises(DeclarationError):
        env.get_execution_plan()


def test_a_picture_has_every_node():
    """In Mermaid's language."""
    env = local()
    stream = env.from_collection([1])
    stream.union(stream.map(lambda n: n).set_description('the "same"')).print()

    assert [
        "flowchart LR",
        '  n1(["Collection Source"])',
        "  n2[\"the 'same'\"]",
        "  n1 --> n2",
        '  n3["Union"]',
        "  n1 --> n3",
        "  n2 --> n3",
        '  n4(["Print to Std. Out"])',
        "  n3 --> n4",
    ] == env.explain().splitlines()


@pytest.mark.parametrize("key", ["execution.state-recovery.path", "execution.savepoint.path"])
def test_a_job_in_batch_mode_begins_with_nothing(key):
    """It would begin with empty state, though the program names a checkpoint."""
    values = {"execution.target": "local", "execution.runtime-mode": "BATCH", key: "/kept/job"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))
    env.from_collection([1]).print()

    told = "got '/kept/job' for a job in batch mode; leave the key out"
    with pytest.raises(HostError, match=told):
        env.execute()


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (
            "job.json",
            "a savepoint for a job in this process, got '.*', the folder of a job on Spark",
        ),
        ("else", r"a savepoint has a _manifest\.json, which is written last, got none"),
    ],
)
def test_a_job_begins_with_a_savepoint_or_not_at_all(file, told, tmp_path):
    """A folder of a job on Spark is none, and the error says how to make one of it."""
    (tmp_path / file).touch()
    values = {"execution.target": "local", "execution.savepoint.path": str(tmp_path)}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))
    env.from_collection([1]).print()

    with pytest.raises(PyflinklikeError, match=told):
        env.execute()


def test_two_operators_with_one_uid_are_refused():
    """PyFlink refuses them, too: each would find the other one's state."""
    keyed = local().from_collection([1]).key_by(str)
    both = keyed.sum().uid("one").union(keyed.max().uid("one"))

    with pytest.raises(DeclarationError, match="got 'one' for 'Sum' and 'Max'; give one of them"):
        both.execute_and_collect()
