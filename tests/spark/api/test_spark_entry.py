# SPDX-License-Identifier: Apache-2.0
"""What `key_by` and `process` check on the driver, before any data moves."""

from __future__ import annotations

import threading

import pytest
from spark_support import Feed, bounded, pickle_by_value

from pyflinklike import KeyedProcessFunction, Row, Types
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    SparkSetupError,
)
from pyflinklike.spark import key_by
from pyflinklike.spark._wire.schema import output_schema

pickle_by_value(__name__)

SCHEMA = "key string, `odd name` long, ts timestamp, list array<int>"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
PACKAGE = "org.apache.spark.sql.execution.streaming.state"


class Nothing(KeyedProcessFunction):
    def process_element(self, value, ctx):
        return []


@pytest.fixture
def df(spark):
    """A batch of one record."""
    return bounded(spark, [("a", 1, None, [])], SCHEMA)


def test_key_columns_are_checked_when_they_are_named(df):
    """What is no DataFrame, no column, a missing one, one that cannot be compared or a reserved name is refused by key_by."""
    with pytest.raises(DeclarationTypeError, match=r"a Spark DataFrame, got \['a'\]"):
        key_by(["a"], "key")
    with pytest.raises(DeclarationValueError, match=r"at least one column, got none.*'odd name'"):
        key_by(df)
    with pytest.raises(DeclarationValueError, match=r"got 'user'; choose from \['key', 'odd name'"):
        key_by(df, "key", "user")
    with pytest.raises(DeclarationTypeError, match=r"the name of a column, got Column"):
        key_by(df, df["key"])
    with pytest.raises(DeclarationTypeError, match=r"can be compared, got array<int>"):
        key_by(df, "key", "list")
    with pytest.raises(
        DeclarationValueError, match=r"\['__key_group'\] are system columns.*rename"
    ):
        key_by(df.withColumnRenamed("key", "__key_group"), "ts")


class NoFunction:
    def __repr__(self):
        return "NoFunction()"


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"function": Nothing}, DeclarationTypeError, r"that is the class: give an instance of it, Nothing\(...\)"),
        ({"function": NoFunction()}, DeclarationTypeError, r"KeyedProcessFunction or KeyedBatchFunction is required"),
        ({"output_type": "user strin"}, DeclarationValueError, r'must be DDL such as .*, got \'user strin\''),
        ({"output_type": ["a"]}, DeclarationTypeError, r"DDL, a StructType or Types.ROW_NAMED.*got \['a'\]"),
        ({"output_type": Types.INSTANT()}, DeclarationTypeError, r"types that Spark has, got .*Instant"),
        ({"output_type": "i interval year to month"}, DeclarationTypeError, r"a type that Arrow knows, got interval"),
        ({"output_type": "a int, A int"}, DeclarationValueError, r"must differ in name, got \['a'\]|must be DDL"),
        ({"event_time": "when"}, DeclarationValueError, r"event_time takes a column.*got 'when'; choose from"),
        ({"event_time": "odd name"}, DeclarationTypeError, r"timestamp column, got 'odd name' of type bigint; convert"),
        ({"event_time": 1}, DeclarationTypeError, r"event_time takes the name of a column, got 1"),
        ({"max_parallelism": 0}, DeclarationValueError, r"max_parallelism must be in 1..32768, got 0"),
        ({"max_parallelism": 32_769}, DeclarationValueError, r"in 1..32768, got 32769"),
        ({"max_parallelism": True}, DeclarationTypeError, r"must be an int, got True"),
        ({"state_backend": "rocksdb"}, DeclarationTypeError, r"must be a StateBackend, got 'rocksdb'; for example"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)  # fmt: skip
def test_arguments_of_process_are_checked_at_once(df, options, error, match):
    """Each wrong argument is a DeclarationError that says what it must be, before any query starts."""
    given = {"function": Nothing(), "output_type": "n long", **options}
    with pytest.raises(error, match=match):
        key_by(df, "key").process(**given)


@pytest.mark.telling
def test_a_function_that_does_not_pickle_names_what_it_holds(df):
    """A lock, or a lambda around one, is reported by attribute when process is called."""

    class Holds(Nothing):
        def __init__(self, **attributes):
            vars(self).update(attributes)

    lock = threading.Lock()
    with pytest.raises(
        DeclarationError, match=r"Holds whose pickling fails.*attribute lock=<unlocked.*open\(\)"
    ):
        key_by(df, "key").process(Holds(fine=1, lock=lock), "n long")
    with pytest.raises(DeclarationError, match=r"look at its attribute call=<function.*lambda"):
        key_by(df, "key").process(Holds(call=lambda: lock), "n long")


def test_names_with_spaces_are_columns_like_others(spark):
    """Columns may have any name but one that Spark's mapInArrow cannot resolve, which is refused at once."""

    class Echo(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.get_current_key(), ctx.timestamp()

    rows, schema = [("a", 7, None)], "`a-b c` string, `odd name` long, `t s` timestamp"
    odd = bounded(spark, rows, schema)
    result = key_by(odd, "a-b c", "odd name").process(
        Echo(), "`k.ey` struct<a: string, b: long>, `t s` long", event_time="t s"
    )
    assert [(("a", 7), None)] == [tuple(row) for row in result.collect()]
    assert ["k.ey", "t s"] == result.columns
    with pytest.raises(DeclarationValueError, match=r"a dot or a backtick.*got \['t.s'\]; rename"):
        key_by(bounded(spark, rows, schema.replace("t s", "t.s")), "odd name")


@pytest.mark.parametrize(
    ("type_info", "expected"),
    [
        (Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()]), "a string, b int"),
        (Types.ROW([Types.SHORT(), Types.BYTE()]), "f0 smallint, f1 tinyint"),
        (Types.TUPLE([Types.FLOAT(), Types.DOUBLE()]), "f0 float, f1 double"),
        (Types.LONG(), "value bigint"),
        (Types.ROW_NAMED(["l"], [Types.LIST(Types.ROW_NAMED(["x"], [Types.BOOLEAN()]))]), "l array<struct<x: boolean>>"),
        (Types.MAP(Types.STRING(), Types.SQL_DATE()), "value map<string, date>"),
        (Types.BASIC_ARRAY(Types.STRING()), "value array<string>"),
        (Types.OBJECT_ARRAY(Types.LONG()), "value array<bigint>"),
        (Types.PRIMITIVE_ARRAY(Types.LONG()), "value array<bigint>"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "value binary"),
        (Types.PICKLED_BYTE_ARRAY(), "value binary"),
        (Types.BIG_DEC(), "value decimal(38,18)"),
        (Types.BIG_INT(), "value decimal(38,0)"),
        (Types.SQL_TIMESTAMP(), "value timestamp_ntz"),
    ],
    ids=str,
)  # fmt: skip
def test_the_output_type_may_be_a_type_information(spark, df, type_info, expected):
    """Every type that Spark has too becomes a column; one that is no row is the single column `value`."""
    assert spark.createDataFrame([], expected).schema == output_schema(df, type_info)


def test_a_stream_sets_the_state_store_or_says_what_to_set(spark, tmp_path):
    """A provider at its default is replaced, another one is a SparkSetupError naming the setting; a batch needs none."""
    feed = Feed(spark, tmp_path / "input", "key string")
    before = {name: spark.conf.get(name) for name in (PROVIDER, CHANGELOG)}
    try:
        spark.conf.set(PROVIDER, f"{PACKAGE}.HDFSBackedStateStoreProvider")
        spark.conf.set(CHANGELOG, "false")
        key_by(bounded(spark, [("a",)], "key string"), "key").process(Nothing(), "n long")
        assert "false" == spark.conf.get(CHANGELOG)
        key_by(feed.stream(), "key").process(Nothing(), "n long")
        assert f"{PACKAGE}.RocksDBStateStoreProvider" == spark.conf.get(PROVIDER)
        assert "true" == spark.conf.get(CHANGELOG)
        spark.conf.set(PROVIDER, "com.example.Provider")
        with pytest.raises(
            SparkSetupError,
            match=r"needs .*providerClass to be .*RocksDB.*got 'com.example.Provider'; call",
        ):
            key_by(feed.stream(), "key").process(Nothing(), "n long")
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_a_watermark_of_the_users_is_kept(spark, tmp_path):
    """A stream with a watermark keeps its delay; one without gets Flink's for monotonous times, a delay of 1 ms."""
    feed = Feed(spark, tmp_path / "input", "key string, ts timestamp")
    plans = [
        key_by(df, "key")
        .process(Nothing(), "n long", event_time="ts")
        ._jdf.queryExecution()
        .analyzed()
        .toString()
        for df in (feed.stream(), feed.stream().withWatermark("ts", "7 minutes"))
    ]
    assert [1, 1] == [plan.count("EventTimeWatermark") for plan in plans]
    assert ["0.001 seconds" in plans[0], "7 minutes" in plans[1]] == [True, True]


@pytest.mark.telling
def test_the_runtime_context_tells_where_a_function_runs(spark):
    """Job parameters, the name from uid and max_parallelism reach the function; rows of one column may be plain values."""

    class Where(KeyedProcessFunction):
        def open(self, runtime_context):
            self.seen = Row(
                name=runtime_context.get_task_name(),
                max=runtime_context.get_max_number_of_parallel_subtasks(),
                parallel=runtime_context.get_number_of_parallel_subtasks(),
                job=runtime_context.get_job_parameter("a", "no"),
                default=runtime_context.get_job_parameter("b", "no"),
            )

        def process_element(self, value, ctx):
            yield str(tuple(self.seen))

    result = key_by(bounded(spark, [("a",)], "key string"), "key").process(
        Where(), "seen string", uid="my-uid", max_parallelism=5, job_parameters={"a": "yes"}
    )
    assert "('my-uid', 5, 2, 'yes', 'no')" == result.collect()[0].seen
