# SPDX-License-Identifier: Apache-2.0
"""Dead letters on Spark: a query goes on where its function raises, and loses nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest
from filed_batches import FiledBatches
from pyspark.errors import PythonException, StreamingQueryException
from spark_support import (
    Feed,
    at,
    bounded,
    passes_watermarks,
    pickle_by_value,
    rows_of,
    sentinel,
)

from pyflinklike import (
    DeadLetters,
    KeyedProcessFunction,
    OutputTag,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.columns import KeyedBatchFunction, KeyedBatchHarness
from pyflinklike.errors import DeclarationValueError
from pyflinklike.spark import error_of, foreach_batch_output, get_side_output, key_by, main_output
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.windows import (
    ProcessWindowFunction,
    TumblingEventTimeWindows,
)

pickle_by_value(__name__)

DEAD = OutputTag("dead")
SCHEMA = "key string, ts timestamp, n int"
COLUMNS = ["key", "call", "subject", "timestamp", "error_class", "message"]


class Total(KeyedProcessFunction):
    """The running total; raises behind a write for a negative number, and in the timer of 13."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value.n)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        yield value.key, self.total.value()
        if value.n < 0:
            raise ValueError(f"{value.n} is negative")

    def on_timer(self, timestamp, ctx):
        total = self.total.value()
        self.total.update(0)
        yield ctx.get_current_key(), -total
        if timestamp == 13:
            raise RuntimeError("thirteen")


def _total(df, **options):
    options = {"on_error": DeadLetters(DEAD, at_most=4, per="batch"), **options}
    return key_by(df, "key").process(
        Total(), "key string, total long", event_time="ts", max_parallelism=4, **options
    )


def _sink(checkpoint, result):
    """Write main outputs and letters by micro-batch, and return what was written."""
    written = {name: FiledBatches(checkpoint / name) for name in ("main", "dead")}

    def main(df, batch_id):
        written["main"][batch_id] = rows_of(df.collect())

    def dead(df, batch_id):
        written["dead"][batch_id] = rows_of(df.select("batch", *COLUMNS).collect())

    query = (
        result.writeStream.foreachBatch(foreach_batch_output(main, {DEAD: dead}))
        .option("checkpointLocation", str(checkpoint / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return written


@pytest.mark.telling
@pytest.mark.classic(reason="over Connect Spark tells the tasks of foreachBatch no batch")
@passes_watermarks
def test_a_stream_goes_on_without_the_records_and_timers_that_raise(spark, tmp_path):
    """Totals, timers and outputs are those of the other records; each that raised is one row."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add(
        [("a", at(1), 3), ("a", at(2), -5), ("b", at(3), 20)],
        [("a", at(4), 4), ("b", at(5), -1)],
        [sentinel(at(40))],
        [sentinel(at(50))],
    )
    written = _sink(tmp_path, _total(feed.stream()))
    main, dead = (
        {number: rows for number, rows in written[name].items() if rows}
        for name in ("main", "dead")
    )
    rows = [row for each in main.values() for row in each if row[0] in "ab"]
    # The timer at 11 takes 7 of "a", that at 14 nothing; that of "b" at 13 raised, so 20 is left.
    assert [("a", -7), ("a", 0), ("a", 3), ("a", 7), ("b", 20)] == sorted(rows)
    letters = [row for each in dead.values() for row in each]
    element = "Row(key={!r}, ts=datetime.datetime(1970, 1, 1, 0, 0, 0, {}), n={})".format
    assert [
        (0, "a", "process_element", element("a", 2000, -5), 2, "ValueError", "-5 is negative"),
        (1, "b", "process_element", element("b", 5000, -1), 5, "ValueError", "-1 is negative"),
    ] == letters[:2]
    assert [("b", "on_timer", "13", 13, "RuntimeError", "thirteen")] == [
        row[1:] for row in letters[2:]
    ]


def test_a_batch_has_its_letters_as_a_side_output(spark):
    """The columns are those of the key and of a letter; the traceback names the user's line."""
    rows = [("a", at(1), 3), ("a", at(2), -5), ("b", at(4), 20)]
    result = _total(bounded(spark, rows, SCHEMA)).persist()
    (letter,) = get_side_output(result, DEAD).collect()
    assert [("a", -3), ("a", 3), ("b", -20), ("b", 20)] == rows_of(main_output(result).collect())
    assert ("a", "Total", None, True, True) == (
        letter.key,
        letter.operator,
        letter.batch,
        "in process_element" in letter.raised_at,
        "ValueError: -5 is negative" in letter.traceback,
    )
    # The state of the key, 3, and the record are in the letter, so the failure can be had in a test.
    with KeyedProcessHarness.of_failure(letter.failure_snapshot, Total()) as harness:
        with pytest.raises(ValueError, match="-5 is negative"):
            harness.replay()
        assert [("a", -2)] == harness.output
    result.unpersist()


class Unspeakable(KeyedProcessFunction):
    """Raises errors that cannot be told as they are."""

    def process_element(self, value, ctx):
        class MuteError(Exception):
            def __str__(self):
                raise LookupError

        raise MuteError if value.n == 1 else ValueError("\udcff")


def test_an_error_that_is_hard_to_tell_is_told_on_spark_too(spark):
    """A worker that cannot write what it raises would end without a word of ours."""
    frame = bounded(spark, [("a", at(1), 1), ("a", at(2), 2)], SCHEMA)
    keyed = key_by(frame, "key")
    on_error = DeadLetters(DEAD, at_most=4, per="batch")
    letters = get_side_output(keyed.process(Unspeakable(), "n int", on_error=on_error), DEAD)
    assert [
        ("MuteError", "<its message failed with LookupError>"),
        ("ValueError", "\\udcff"),
    ] == rows_of(letters.select("error_class", "message").collect())
    for number, told in ((1, "MuteError: <its message failed with LookupError>"), (2, "\\udcff")):
        alone = key_by(frame.where(f"n = {number}"), "key").process(Unspeakable(), "n int")
        with pytest.raises(PythonException) as raised:
            alone.collect()
        assert told in str(error_of(raised.value))


class Timed(KeyedProcessFunction):
    """The records of a key, with their time; raises for a negative number."""

    def process_element(self, value, ctx):
        if value.n < 0:
            raise ValueError(value.n)
        yield value.key, value.ts, value.n


class WindowSums(ProcessWindowFunction):
    """The sum of a window; raises where a number is above 20."""

    def process(self, key, context, elements):
        found = [each.n for each in elements]
        yield (sum(found),)
        if max(found) > 20:
            raise OverflowError(sum(found))


def test_each_operator_of_a_chain_has_letters_of_its_own(spark):
    """The window function behind a function sees no record that became a letter, and may raise, too."""
    rows = [("a", at(1), 3), ("b", at(2), 21), ("a", at(3), -1), ("b", at(20), 1)]
    first = key_by(bounded(spark, rows, SCHEMA), "key").process(
        Timed(),
        "key string, ts timestamp, n int",
        event_time="ts",
        on_error=DeadLetters(DEAD, 9, "batch"),
    )
    windows = key_by(main_output(first), "key").window(
        TumblingEventTimeWindows.of(Time.milliseconds(10))
    )
    of_windows = OutputTag("of windows")
    result = windows.process(
        WindowSums(), "total long", event_time="ts", on_error=DeadLetters(of_windows, 9, "batch")
    ).persist()
    totals = sorted((row.key, row.total) for row in main_output(result).collect())
    letters = get_side_output(result, of_windows).collect()
    assert (
        [("a", 3), ("b", 1)],
        [("b", "WindowSums.process", "OverflowError", "21")],
        [("a", "-1")],
    ) == (
        totals,
        [(row.key, row.call, row.error_class, row.message) for row in letters],
        [(row.key, row.message) for row in get_side_output(first, DEAD).collect()],
    )
    result.unpersist()


class BatchTotals(KeyedBatchFunction):
    """Totals of batches; raises behind a write for one with a negative number."""

    def open(self, ctx):
        self.total = ctx.get_column_state(ValueStateDescriptor("total", Types.LONG()))

    def process_batch(self, batch, ctx):
        numbers = batch.numpy("n")
        self.total.put(self.total.get(0) + batch.groups.sum(numbers))
        if (numbers < 0).any():
            raise ValueError(f"{len(batch)} records")
        return {"key": batch.groups.first(batch["key"]), "total": self.total.get()}


def test_the_guilty_record_of_a_batch_is_its_letter(spark):
    """All others are processed; its failure snapshot has the total of those before it."""
    rows = [("a", at(each), 1 if each != 30 else -5) for each in range(1, 51)]
    result = key_by(bounded(spark, rows, SCHEMA), "key").process(
        BatchTotals(),
        "key string, total long",
        event_time="ts",
        on_error=DeadLetters(DEAD, at_most=1, per="batch"),
    )
    result = result.persist()
    totals = [row.total for row in main_output(result).collect()]
    (letter,) = get_side_output(result, DEAD).collect()
    assert (49, "a", "process_batch", 30, "1 records") == (
        max(totals),
        letter.key,
        letter.call,
        letter.timestamp,
        letter.message,
    )
    with KeyedBatchHarness.of_failure(
        letter.failure_snapshot, BatchTotals(), event_time="ts"
    ) as harness:
        with pytest.raises(ValueError, match="1 records"):
            harness.replay()
        more = {"key": ["a"], "ts": pa.array([at(31)]), "n": [7]}
        assert [{"key": "a", "total": 29 - 5 + 7}] == harness.process_batch(more).to_pylist()
    result.unpersist()


def test_too_many_letters_fail_the_query(spark):
    """A bug in a new version must not drain a topic into dead letters."""
    rows = [("a", at(each), -each) for each in range(1, 30)]
    by_share = _total(bounded(spark, rows, SCHEMA), on_error=DeadLetters(DEAD, at_most=0.5))
    by_number = _total(
        bounded(spark, rows, SCHEMA), on_error=DeadLetters(DEAD, at_most=3, per="batch")
    )
    with pytest.raises(Exception, match=r"takes at most 50\.00% of the records.*got 29 of 29"):
        by_share.collect()
    with pytest.raises(Exception, match=r"takes at most 3 records and timers of a task.*got 4"):
        by_number.collect()


@pytest.mark.thorough
def test_a_stream_of_few_records_that_all_raise_fails_soon(spark, tmp_path):
    """Its second micro-batch has the letters of the first, too; it is not committed."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add(
        *[[("a", at(each), -each) for each in range(first, first + 8)] for first in (1, 9, 17)]
    )
    with pytest.raises(StreamingQueryException) as raised:
        _sink(tmp_path, _total(feed.stream(), on_error=DeadLetters(DEAD)))
    assert "got 16 of 16 with those of the last micro-batches" in str(error_of(raised.value))
    commits = [each.name for each in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")]
    assert ["0"] == commits


def test_letters_need_a_tag_and_columns_of_their_own(spark):
    """Before the query starts."""
    frame = bounded(spark, [("a", at(1), 3)], SCHEMA)
    with pytest.raises(DeclarationValueError, match="declares their side output, got 'dead'"):
        _total(frame, side_outputs={DEAD: "n int"})
    renamed = key_by(frame.withColumnRenamed("key", "message"), "message")
    with pytest.raises(DeclarationValueError, match=r"dead letters, got \['message'\]; rename"):
        renamed.process(Total(), "n int", on_error=DeadLetters(DEAD))
