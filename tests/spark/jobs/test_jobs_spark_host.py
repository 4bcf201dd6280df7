# SPDX-License-Identifier: Apache-2.0
"""Jobs on Spark: sinks, several of them, errors, chains over the watermark, and what is refused."""

from __future__ import annotations

import pytest
from jobs.timed import ByField
from jobs.two_input_jobs import RULES, Limited

from pyflinklike.errors import SparkSetupError, UserFunctionError
from pyflinklike.pyflink.common import Configuration, Encoder, Time, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.connectors import NumberSequenceSource
from pyflinklike.pyflink.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from pyflinklike.pyflink.datastream.window import TumblingEventTimeWindows

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

no_watermarks = WatermarkStrategy.no_watermarks
NONE = no_watermarks()
TEXT = StreamFormat.text_line_format()
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
MODES = ["BATCH", "STREAMING"]


@pytest.fixture(autouse=True)
def shipped_jobs(spark, request):
    """The functions of this module go to workers by value."""
    import jobs.timed
    from pyspark import cloudpickle

    modules = [request.module, jobs.timed]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


def environment(mode, target="spark", **settings):
    """One whose jobs run on Spark."""
    values = {"execution.target": target, "execution.runtime-mode": mode, **settings}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))


def first(value):
    """The key."""
    return value[0]


@pytest.mark.parametrize("mode", MODES)
def test_several_sinks_of_a_diamond(mode, capsys, tmp_path):
    """One run of the job feeds them all."""
    env = environment(mode)
    pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)], PAIR)
    sums = pairs.key_by(first).sum(1)
    sums.map(lambda pair: f"sum {pair[0]} {pair[1]}", Types.STRING()).print()
    pairs.map(lambda pair: f"pair {pair[0]}", Types.STRING()).print("id")
    lines = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    sums.key_by(first).max(1).map(str, Types.STRING()).sink_to(lines)

    env.execute()

    printed = capsys.readouterr().out.splitlines()
    written = [line for path in (tmp_path / "out").rglob("part*") for line in path.open()]
    assert {"sum a 4", "sum b 2"} <= set(printed)
    assert sorted(line for line in printed if "id" in line) == [
        "id> pair a",
        "id> pair a",
        "id> pair b",
    ]
    assert {"('a', 4)\n", "('b', 2)\n"} <= set(written)


@pytest.mark.parametrize("mode", MODES)
def test_a_function_that_fails_is_named(mode):
    """With the element, as on the local runner."""
    env = environment(mode)
    stream = env.from_collection([("a", 1), ("b", 0)]).map(lambda pair: 1 // pair[1])

    with pytest.raises(UserFunctionError, match=r"failed for element \('b', 0\).*ZeroDivision"):
        list(stream.execute_and_collect())


class Failing(KeyedProcessFunction):
    """Fails for zero."""

    def process_element(self, value, ctx):
        """Divides."""
        yield 1 // value[1]


@pytest.mark.parametrize("mode", MODES)
def test_a_keyed_function_that_fails_is_named(mode):
    """With the key."""
    stream = environment(mode).from_collection([("a", 0)]).key_by(first).process(Failing())

    with pytest.raises(UserFunctionError, match=r"Failing.process_element failed for key 'a'"):
        list(stream.execute_and_collect())


@pytest.mark.parametrize("mode", MODES)
def test_a_sequence_is_read_by_several_tasks(mode):
    """A hundred thousand numbers, each once."""
    env = environment(mode, **{"parallelism.default": "3"})
    numbers = env.from_source(NumberSequenceSource(1, 100_000), no_watermarks(), "numbers")
    counts = numbers.map(lambda n: (n % 7, 1)).key_by(first).sum(1)

    last = {}
    for key, count in counts.execute_and_collect():
        last[key] = max(count, last.get(key, 0))

    assert sum(last.values()) == 100_000


@pytest.mark.parametrize(("mode", "tasks"), [("BATCH", 3), ("BATCH", 1), ("STREAMING", 3)])
def test_files_are_shared_by_several_tasks(mode, tasks, tmp_path):
    """Each line comes once; a folder without files is an input without elements."""
    (tmp_path / "none").mkdir()
    for number in range(7):
        lines = range(10 * number, 10 * number + number)
        (tmp_path / f"{number}").write_text("".join(f"{each}\n" for each in lines))
    env = environment(mode, **{"parallelism.default": str(tasks)})
    lines, none = (
        env.from_source(FileSource.for_record_stream_format(TEXT, str(path)).build(), NONE, "files")
        for path in (tmp_path, tmp_path / "none")
    )

    found = lines.union(none).map(int).key_by(lambda n: n % 3).filter(lambda _: True)

    wanted = [10 * number + each for number in range(7) for each in range(number)]
    assert wanted == sorted(found.execute_and_collect())


def test_the_slower_of_two_sources_holds_the_watermark():
    """No element is late while the other source has not come to its time."""
    env = environment("STREAMING", **{"pyflinklike.source.records-per-batch": "1"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByField())
    fast = env.from_collection([("a", 100), ("a", 200)]).assign_timestamps_and_watermarks(strategy)
    slow = env.from_collection([("a", 1), ("a", 2), ("a", 3)]).assign_timestamps_and_watermarks(
        strategy
    )
    counts = (
        fast.union(slow)
        .map(lambda _: ("a", 1))
        .key_by(first)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(50)))
        .reduce(lambda one, other: ("a", one[1] + other[1]))
    )

    assert sorted(counts.execute_and_collect()) == [("a", 1), ("a", 1), ("a", 3)]


def test_the_greatest_watermark_of_two_sources_is_refused(spark):
    """With that setting elements of the slower one would be late, in silence."""
    policy = "spark.sql.streaming.multipleWatermarkPolicy"
    env = environment("STREAMING")
    first_two, last = env.from_collection([1, 2]), env.from_collection([3])
    spark.conf.set(policy, "max")
    try:
        with pytest.raises(SparkSetupError, match=f"{policy} to be min, got 'max'"):
            first_two.union(last).execute_and_collect()
    finally:
        spark.conf.unset(policy)


def test_what_is_not_there_is_refused_by_name():
    """When the job starts, with the remedy."""
    env = environment("STREAMING")
    rules = env.from_collection([3]).broadcast(RULES)
    copies = env.from_collection([1]).broadcast().connect(rules).process(Limited())
    with pytest.raises(
        SparkSetupError, match=r"not there on Spark yet .*set execution.target to local"
    ):
        copies.execute_and_collect()
