# SPDX-License-Identifier: Apache-2.0
"""Windows and operators of two inputs where only a stream can show them: the clock, RocksDB, and behind another operator."""

from __future__ import annotations

import pytest
from frame_support import PAYMENTS, Total, in_ms, payments
from pyspark.sql import functions as F
from relay import ORDER, SCHEMA, Relay, RelayOfTwo, RelayUnderRules, element
from spark_support import (
    Feed,
    at,
    bounded,
    drain,
    passes_watermarks,
    pickle_by_value,
    rows_of,
    start,
    until,
)

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedCoProcessFunction,
    OutputTag,
)
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike.spark import broadcast, key_by
from pyflinklike.testing import BroadcastHarness, KeyedProcessHarness, KeyedTwoInputHarness
from pyflinklike.windows import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingProcessingTimeWindows,
    TumblingProcessingTimeWindows,
)

pickle_by_value(__name__)
pickle_by_value(Relay.__module__)

DDL = "key string, ts timestamp, n long, trace string"
LATE = OutputTag("late")


# By the clock


def _by_the_clock(spark, tmp_path, assigner):
    """Every window of two micro-batches that a query gives by itself, stopped in between."""
    feed = Feed(spark, tmp_path / "input", PAYMENTS)
    windows = key_by(feed.stream(), "user").window(assigner)
    totals = windows.aggregate(Total(), output_type="n long, counted long", max_parallelism=4)
    found = {}
    for number in (1, 2):
        feed.add(payments(("ann", 1, 0), ("bob", 2, 0), ("ann", 2 + number, 0)))
        # A micro-batch that was interrupted comes again, under its number.
        found |= _until_counted(totals, tmp_path / "c", found, 3 * number * _of_each(assigner))
    return [row for rows in found.values() for row in rows]


def _until_counted(totals, checkpoint, before, wanted):
    """The rows of a run by micro-batch, once there are so many records in them and those before."""
    query, batches = start(totals, checkpoint, processingTime="500 milliseconds")

    def counted():
        every = {**before, **dict(batches)}
        return sum(row.counted for rows in every.values() for row in rows)

    try:
        until(query, lambda: counted() >= wanted)
    finally:
        query.stop()
    return dict(batches)


def _of_each(assigner):
    return 2 if isinstance(assigner, SlidingProcessingTimeWindows) else 1


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingProcessingTimeWindows.of(1_000),
        SlidingProcessingTimeWindows.of(2_000, 1_000),
        ProcessingTimeSessionWindows.with_gap(1_000),
    ],
    ids=["tumbling", "sliding", "session"],
)
def test_windows_on_a_stream_end_by_the_clock(spark, tmp_path, assigner):
    """Without further records, also those that were open when the query was stopped; each record is in its windows once."""
    rows = _by_the_clock(spark, tmp_path, assigner)
    of_each = _of_each(assigner)

    sums = {user: sum(row.n for row in rows if row.user == user) for user in ("ann", "bob")}
    spans = {end - begin for _, begin, end, *_ in in_ms(rows)}

    assert {"ann": 9 * of_each, "bob": 4 * of_each} == sums
    assert {2_000 if of_each == 2 else 1_000} == spans


# Over RocksDB


def test_windows_over_rocksdb_give_what_windows_on_the_heap_give(spark, tmp_path):
    """Sessions that merge over a restart, records that are late for them, and what is still open then."""
    pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")
    rocksdb = EmbeddedRocksDBStateBackend()
    rocksdb.set_db_storage_paths(str(tmp_path / "local"))
    feed = Feed(spark, tmp_path / "input", PAYMENTS)

    def run(backend):
        sessions = key_by(feed.stream(), "user").window(EventTimeSessionWindows.with_gap(500))
        sessions = sessions.allowed_lateness(300).side_output_late_data(LATE)
        totals = sessions.aggregate(
            Total(),
            output_type="n long, count long",
            event_time="ts",
            state_backend=backend,
            max_parallelism=4,
        )
        name = type(backend).__name__
        return rows_of(drain(totals, tmp_path / name))

    runs = []
    for rows in (
        [payments(("ann", 1, 0), ("ann", 2, 900), ("bob", 4, 100)), payments(("ann", 8, 450))],
        [
            payments(("bob", 16, 3_000)),
            payments(("bob", 32, 200), ("bob", 64, 3_400), ("cat", 0, 9_000)),
        ],
    ):
        feed.add(*rows)
        runs.append([run(backend) for backend in (HashMapStateBackend(), rocksdb)])

    assert [on_heap for on_heap, _ in runs] == [on_disk for _, on_disk in runs]
    in_all = [row for on_heap, _ in runs for row in on_heap]
    assert [("ann", 1, 1), ("ann", 10, 2), ("bob", 4, 1), ("bob", 80, 2)] == sorted(
        (row[0], *row[4:6]) for row in in_all if row[6] is None
    )
    assert [("bob", 32)] == [tuple(row[7])[:2] for row in in_all if row[6] is not None]


# Behind another operator

EMITTED = [
    [("a", 10, 4), ("b", 14, 7), ("c", 21, 5)],
    [("a", 24, 9), ("c", 30, 1)],
    [("b", 33, 2), ("a", 47, 8)],
]
OTHERS = [
    [("k1", 12, 3), ("k0", 20, 4)],
    [("k2", 26, 5), ("k1", 31, 7)],
    [("k0", 36, 1), ("k2", 46, 2)],
]


def _feeds(spark, tmp_path):
    feeds = Feed(spark, tmp_path / "emitted", DDL), Feed(spark, tmp_path / "others", DDL)
    for feed, batches in zip(feeds, (EMITTED, OTHERS)):
        feed.add(*([(key, at(time), n, "") for key, time, n in batch] for batch in batches))
    return feeds


def _modelled(second, emitted_to, other_to, *, rules_first=False):
    """What harnesses give, micro-batch by micro-batch; the last one fires what its watermark makes due."""
    first = KeyedProcessHarness(Relay(3), lambda row: row.key)
    watermark, seen = MIN_WATERMARK, [MIN_WATERMARK, MIN_WATERMARK]

    def passed_on(outputs):
        for each in outputs:
            emitted_to(*element(each))

    def records():
        for row in mine:
            passed_on(first.process_element(*row))
        passed_on(first.process_watermark(watermark))

    def others():
        for row in theirs:
            other_to(*row)

    for batch in range(len(EMITTED) + 1):
        mine, theirs = (
            [
                element((key, at(time), n, ""))
                for key, time, n in (given[batch : batch + 1] or [[]])[0]
            ]
            for given in (EMITTED, OTHERS)
        )
        passed_on(first.process_watermark(watermark))
        second.process_both_watermarks(watermark)
        for step in (others, records) if rules_first else (records, others):
            step()
        second.process_both_watermarks(watermark)
        seen = [
            max([s, *(time - 1 for _, time in given)]) for s, given in zip(seen, (mine, theirs))
        ]
        watermark = min(seen)
    return rows_of(second.output)


def _first(feed, **options):
    return key_by(feed.stream(), "key").process(
        Relay(3), SCHEMA, event_time="ts", uid="one", max_parallelism=1, **options
    )


def _plain(batches):
    return rows_of((key, time, n, trace) for key, time, n, trace in rows_of(batches))


@passes_watermarks
@pytest.mark.parametrize("number", [1, 2])
def test_two_inputs_of_which_one_is_behind_an_operator(spark, tmp_path, number):
    """Either one: what it emits while the watermark moves comes before it, as in harnesses."""
    emitted, others = _feeds(spark, tmp_path)
    inputs = [key_by(_first(emitted), "key"), key_by(others.stream(), "key")]
    harness = KeyedTwoInputHarness(RelayOfTwo(3), lambda row: row.key)
    methods = [harness.process_element1, harness.process_element2]
    if number == 2:
        inputs, methods = inputs[::-1], methods[::-1]
    first, second = inputs
    result = first.connect(second).process(
        RelayOfTwo(3), SCHEMA, event_time="ts", uid="two", max_parallelism=2
    )

    found = _plain(drain(result, tmp_path / "checkpoint"))

    assert _modelled(harness, *methods) == found
    assert any("under 9 " in trace or "timer" in trace for *_, trace in found)


@passes_watermarks
@pytest.mark.parametrize("number", [1, 2])
def test_a_broadcast_input_of_an_operator_behind_another(spark, tmp_path, number):
    """Either input is behind it; rules that come from it are in its order."""
    emitted, others = _feeds(spark, tmp_path)
    main, rules = _first(emitted), others.stream()
    harness = BroadcastHarness(RelayUnderRules(3), [ORDER], key_selector=lambda row: row.key)
    methods = [harness.process_element, harness.process_broadcast_element]
    if number == 2:
        main, rules, methods = rules, main, methods[::-1]
    result = (
        key_by(main, "key")
        .connect(broadcast(rules, ORDER, event_time="ts"))
        .process(RelayUnderRules(3), SCHEMA, event_time="ts", uid="two", max_parallelism=2)
    )

    found = _plain(drain(result, tmp_path / "checkpoint"))

    assert _modelled(harness, *methods, rules_first=number == 1) == found
    assert any("timer" in trace for *_, trace in found)


@passes_watermarks
def test_the_phase_of_one_of_two_inputs_may_be_named(spark, tmp_path):
    """Where DataFrame code lies between, and has lost the mark of the column."""
    emitted, others = _feeds(spark, tmp_path)
    first = _first(emitted, output_before_watermark="early")
    computed = first.withColumn("early", F.col("early") | F.lit(False))
    result = (
        key_by(computed, "key")
        .connect(key_by(others.stream(), "key"))
        .process(
            RelayOfTwo(3),
            SCHEMA,
            event_time="ts",
            uid="two",
            max_parallelism=2,
            before_watermark=("early", None),
        )
    )
    harness = KeyedTwoInputHarness(RelayOfTwo(3), lambda row: row.key)

    found = _plain(drain(result, tmp_path / "checkpoint"))

    assert _modelled(harness, harness.process_element1, harness.process_element2) == found


class Numbered(KeyedCoProcessFunction):
    """The number of an input, and of its record."""

    def process_element1(self, value, ctx):
        yield 1, value.n

    def process_element2(self, value, ctx):
        yield 2, value.n


@pytest.mark.parametrize(
    ("arrival_order", "expected"),
    [(False, [(1, 2), (2, 3), (1, 1)]), (True, [(1, 1), (1, 2), (2, 3)])],
)
def test_two_inputs_of_a_batch_come_by_event_time_or_as_they_arrived(
    spark, arrival_order, expected
):
    """Then those of the first input come first."""
    first, second = (
        bounded(spark, [("k", at(time), n) for time, n in rows], "key string, ts timestamp, n long")
        for rows in ([(5, 1), (1, 2)], [(3, 3)])
    )
    keyed = key_by(first.coalesce(1), "key").connect(key_by(second, "key"))
    result = keyed.process(
        Numbered(), "number int, n long", event_time="ts", arrival_order=arrival_order
    )

    assert expected == [tuple(row) for row in result.collect()]
