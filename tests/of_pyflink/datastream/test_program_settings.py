# SPDX-License-Identifier: Apache-2.0
"""Settings of a program, and plans of its jobs."""

from __future__ import annotations

import copy
import json
import warnings

import pytest
from local_support import local

from pyflinklike.errors import (
    DeclarationError,
    DeclarationValueError,
    PyflinklikeError,
    SparkSetupError,
)
from pyflinklike.pyflink.common import Configuration, ExecutionConfig, Types
from pyflinklike.pyflink.datastream import (
    CheckpointingMode,
    KeyedProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
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


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x", "integer"), ("1.5", "integer"), ("5_0", "integer"), ("x", "boolean"), ("1_0", "float")],
)
def test_a_value_of_another_kind_is_refused(value, kind):
    """With the key, where it is got and where it is set."""
    config = Configuration().set_string("k", value)
    default = {"integer": 0, "boolean": False, "float": 0.0}[kind]

    with pytest.raises(DeclarationValueError, match=f"Could not parse value '{value}' for key 'k'"):
        getattr(config, f"get_{kind}")("k", default)
    with pytest.raises(DeclarationValueError, match=f"Could not parse value '{value}' for key 'k'"):
        getattr(config, f"set_{kind}")("k", value)


def test_an_int_that_is_none_is_refused():
    """PyFlink stores it, and fails where it is got; here nothing is cut off."""
    with pytest.raises(
        DeclarationValueError, match=r"Could not parse value 1\.7 for key 'k' as int"
    ):
        Configuration().set_integer("k", 1.7)


def test_a_text_is_set_as_what_it_says():
    """The text "false" is false."""
    config = Configuration().set_boolean("b", "false").set_integer("i", "5").set_float("f", "2")

    assert (False, 5, 2.0) == (
        config.get_boolean("b", True),
        config.get_integer("i", 0),
        config.get_float("f", 0.0),
    )


def test_values_come_into_a_dict_as_they_were_set():
    """Not as text, which is what to_dict gives."""
    config = Configuration().set_integer("i", 3).set_boolean("b", True).set_float("f", 0.5)
    target = {"i": 0, "other": 1}

    config.set_string("s", "7").set_bytearray("y", bytearray(b"ab")).add_all_to_dict(target)

    assert {"i": 3, "b": True, "f": 0.5, "s": "7", "y": b"ab", "other": 1} == target
    assert "!!binary |-\n  YWI=" == config.to_dict()["y"] == config.get_string("y", "")


def test_a_configuration_shows_its_settings_as_flink_does():
    """What a key calls secret is hidden."""
    config = Configuration().set_integer("i", 3).set_boolean("b", True)
    config.set_string("db.Password", "x").set_string("api-key", "x").set_string("key", "y")

    assert "{i=3, b=true, db.Password=******, api-key=******, key=y}" == str(config)
    assert "{}" == str(Configuration())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ", [" "]),
        ("a", ["a"]),
        ("a;b", ["a", "b"]),
        ("a; b ;;c", ["a", " b ", "", "c"]),
        ("a;'b;c'", ["a", "'b", "c'"]),
        ("https://x;file:///y", ["https://x", "file:///y"]),
        ("a: 1", ["a: 1"]),
        ("-a", ["-a"]),
        ("a,b", ["a,b"]),
        ("- a\n- b", ["a", "b"]),
        ("  - a\n\n  - b\n", ["a", "b"]),
        ("- a # the first\n# none\n- 'b c'", ["a", "b c"]),
        ("- - a\n  - b\n- c", [["a", "b"], "c"]),
        ("-\n  - a\n-", [["a"], None]),
        ("- [a, b]\n- c", [["a", "b"], "c"]),
        ("- https://x\n- b", ["https://x", "b"]),
        ("[]", []),
        ("[a, b,]", ["a", "b"]),
        ("['it''s', \"a\\nb\", 'a;b']", ["it's", "a\nb", "a;b"]),
        ("[a,[b,\n c]]", ["a", ["b", "c"]]),
        ("[1, -2, 0x1F, 0o17, 010]", [1, -2, 31, 15, 10]),
        ("[1.0, 1e3, .inf, -0.0]", [1.0, 1000.0, float("inf"), -0.0]),
        ("[true, False, null, ~, yes]", [True, False, None, None, "yes"]),
    ],
)
def test_a_list_is_read_as_yaml_or_split(text, expected):
    """As PyFlink reads it: each of these was asked there."""
    found = Configuration.parse_list_value(text)

    assert expected == found
    assert list(map(type, expected)) == list(map(type, found))


def test_a_text_in_quotes_is_split():
    """PyFlink's parser fails at what is behind the first quotes."""
    assert ['"a"', "b"] == Configuration.parse_list_value('"a";b')


def test_what_is_no_text_is_stored_as_its_text():
    """PyFlink's is an error of Java's."""
    config = Configuration.from_dict({"a": 1, "b": True}).set_string("c", 0.5)

    assert {"a": "1", "b": "true", "c": "0.5"} == config.to_dict()


@pytest.mark.parametrize(
    "text",
    ["[a", "[a] b", "[a,,b]", "[{a: 1}]", "- a: 1", "- a\nb", "- a\n  b", "[2020-01-01]", "- &x a"],
)
def test_a_list_that_is_none_is_refused(text):
    """What is no YAML, and maps and times, which no setting has."""
    with pytest.raises(DeclarationValueError, match="a list of YAML has texts, numbers"):
        Configuration.parse_list_value(text)


NO_OPERATORS = {
    "KeyedStream": lambda stream: stream.key_by(str),
    "CachedDataStream": lambda stream: stream.cache(),
}
SETTINGS = {
    "name": ["n"],
    "get_name": [],
    "uid": ["u"],
    "set_uid_hash": ["0" * 32],
    "set_parallelism": [1],
    "set_max_parallelism": [8],
    "force_non_parallel": [],
    "set_buffer_timeout": [10],
    "start_new_chain": [],
    "disable_chaining": [],
    "slot_sharing_group": ["g"],
    "set_description": ["d"],
}


@pytest.mark.filterwarnings("ignore:DataStream.cache has no effect")
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", NO_OPERATORS)
def test_a_stream_that_is_no_operator_has_no_settings(kind, setting):
    """As in PyFlink; the message says what has them."""
    stream = NO_OPERATORS[kind](local().from_collection([1]).map(str))

    with pytest.raises(DeclarationError, match=f"for {kind} is not supported, got .*; "):
        getattr(stream, setting)(*SETTINGS[setting])


@pytest.mark.parametrize("setting", SETTINGS)
def test_an_operator_takes_each_setting(setting):
    """And goes on with it."""
    stream = local().from_collection([1, 2]).map(str)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(stream, setting)(*SETTINGS[setting])

    assert ["1", "2"] == list(stream.execute_and_collect())


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("set_parallelism", 0, "must be at least 1, got 0"),
        ("set_max_parallelism", 0, "max_parallelism is from 1 to 32768, got 0"),
        ("set_max_parallelism", 40_000, "max_parallelism is from 1 to 32768, got 40000"),
        ("set_buffer_timeout", -2, "timeout must be >= -1, got -2"),
        ("slot_sharing_group", None, "takes a name or a SlotSharingGroup, got None"),
        ("slot_sharing_group", 5, "takes a name or a SlotSharingGroup, got 5"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(setting, value, told):
    """As in PyFlink, also where it has no effect here."""
    stream = local().from_collection([1]).map(str)

    with pytest.raises(DeclarationError, match=told):
        getattr(stream, setting)(value)


@pytest.mark.parametrize(
    "behind",
    [
        lambda stream: stream.rebalance(),
        lambda stream: stream.union(stream),
        lambda stream: stream.key_by(str),
    ],
    ids=["rebalance", "union", "key_by"],
)
def test_side_outputs_are_those_of_an_operator(behind):
    """Behind it there are none, which nobody would see."""
    stream = local().from_collection([1]).map(str)

    with pytest.raises(
        DeclarationError,
        match=r"for the stream that an operator such as process.* call get_side_output first",
    ):
        behind(stream).get_side_output(OutputTag("late"))


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


def test_settings_of_checkpoints_have_pyflinks_defaults():
    """As its getters tell them."""
    env = local()
    assert (-1, CheckpointingMode.EXACTLY_ONCE) == (
        env.get_checkpoint_interval(),
        env.get_checkpointing_mode(),
    )
    assert 600_000 == env.get_checkpoint_config().get_checkpoint_timeout()


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
    with pytest.raises(SparkSetupError, match=told):
        env.execute()


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (
            "job.json",
            "a savepoint for a job in this process, got '.*', the folder of a job on Spark",
        ),
        ("else", r"a savepoint has a _manifest\.json, which is written last, got no such file"),
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
