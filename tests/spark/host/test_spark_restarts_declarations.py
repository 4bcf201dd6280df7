# SPDX-License-Identifier: Apache-2.0
"""Real streams that are restarted with another declaration: what Spark or its host answers.

`tests/testing/test_restarts.py` has, without a JVM, all that is in the state of an operator; of it
this file has one cell for each thing that answers: a state, a store, windows, and the host.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from spark_support import Feed, at, drain, pickle_by_value, rows_of

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    OutputTag,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import PyflinklikeError
from pyflinklike.spark import key_by
from pyflinklike.stores import WindowStoreDescriptor
from pyflinklike.windows import ProcessWindowFunction, TumblingEventTimeWindows

pickle_by_value(__name__)

GOES_ON, REFUSED = "goes on", "refused"
ZONE = "spark.sql.session.timeZone"
SCHEMA = "user string, n int, ts timestamp, later timestamp"
OUTPUT = "user string, count long, stored long"


def record(user: str, n: int, time: int) -> tuple[Any, ...]:
    """A record with two times."""
    return user, n, at(time), at(time + 50_000)


BEFORE = [record("a", 1, 1_000), record("b", 2, 1_500), record("a", 3, 2_500)]
AFTER = [record("a", 4, 3_000), record("c", 5, 3_500)]


def ttl(*, is_event: bool = False, ms: int = 3_600_000) -> StateTtlConfig:
    """A TTL."""
    builder = StateTtlConfig.new_builder(ms)
    return (builder.use_event_time() if is_event else builder).build()


class Counts(KeyedProcessFunction):
    """Counts the records of a key, in a state and in a store."""

    config: Any = ttl()
    options: dict[str, Any] = {"window_size": 1_000, "retention": 60_000}

    def open(self, ctx):
        count = ValueStateDescriptor("count", Types.LONG())
        count.enable_time_to_live(self.config)
        self.count = ctx.get_state(count)
        store = WindowStoreDescriptor("seen", Types.STRING(), Types.LONG(), **self.options)
        self.seen = ctx.get_store(store)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.seen.put("w", value.n, value.ts.second * 1_000)
        yield str(ctx.get_current_key()), self.count.value(), len(list(self.seen.all()))


class ByOtherTime(Counts):
    """With another clock of its TTL."""

    config = ttl(is_event=True)


class Longer(Counts):
    """With a longer TTL, and a store that keeps less."""

    config = ttl(ms=7_200_000)
    options = {"window_size": 1_000, "retention": 1_000}


class Numbers(ProcessWindowFunction):
    """The numbers of a window."""

    def process(self, key, context, elements):
        yield (repr(sorted(each.n for each in elements)),)


def counted(function: Any = None, key: Any = ("user",), **options: Any) -> Callable[[Any], Any]:
    """The program of `Counts`."""

    def made(df: Any) -> Any:
        given = {"uid": "counts", "max_parallelism": 2, **options}
        return key_by(df, *key).process((function or Counts)(), OUTPUT, **given)

    return made


def windowed(assigner: Any, time: str = "ts", late: str = "0 seconds") -> Callable[[Any], Any]:
    """Windows, or count windows of so many."""

    def made(df: Any) -> Any:
        keyed = key_by(df.withWatermark(time, late), "user")
        if isinstance(assigner, int):
            stream = keyed.count_window(assigner)
        else:
            stream = keyed.window(assigner)
        options = {"uid": "windows", "max_parallelism": 2, "event_time": time}
        return stream.process(Numbers(), "numbers string", **options).select("numbers")

    return made


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "counts": counted(),
    "of two keys": counted(key=("user", "n")),
    "windows": windowed(TumblingEventTimeWindows.of(2_000)),
    "late windows": windowed(TumblingEventTimeWindows.of(1_000), late="5 seconds"),
    "windows of three": windowed(3),
    "chain": lambda df: _behind(counted()(df)),
    "instants": lambda df: counted(key=("instant",))(_instants(df)),
    "timed": counted(event_time="ts"),
}


def _instants(df: Any) -> Any:
    return df.withColumn("instant", F.timestamp_millis(F.lit(0)))


def _in_tokyo(df: Any) -> Any:
    df.sparkSession.conf.set(ZONE, "Asia/Tokyo")
    return PROGRAMS["instants"](df)


def _behind(df: Any) -> Any:
    return key_by(df, "user").process(Behind(), OUTPUT, uid="behind", max_parallelism=2)


def _as_counts(df: Any) -> Any:
    return df.selectExpr("user", "cast(n as long) count", "n", "ts")


def _again(df: Any) -> Any:
    return counted()(df.selectExpr("user", "cast(count as int) n", "timestamp_millis(0) ts"))


class Behind(KeyedProcessFunction):
    """Counts what comes, behind another operator."""

    def open(self, ctx):
        self.count = ctx.get_state(ValueStateDescriptor("behind", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value.user, value.count, self.count.value()


@attrs.frozen
class Cell:
    """A restart.

    Args:
        row: Of the page.
        answer: As the page gives it.
        case: What tells it from others of the row.
        former: The program that made the checkpoint.
        now: The one that is started on it.
        expected: What it gives of the records behind, or what its message matches.
    """

    row: str
    answer: str
    case: str
    former: str
    now: Callable[[Any], Any]
    expected: Any

    def __str__(self) -> str:
        return f"{self.row}: {self.case}"


def goes_on(row: str, case: str, former: str, now: Any, expected: Any) -> Cell:
    """One that does."""
    return Cell(row, GOES_ON, case, former, now, expected)


def refused(row: str, case: str, former: str, now: Any, words: str) -> Cell:
    """One that is."""
    return Cell(row, REFUSED, case, former, now, words)


ON = [("a", 3, 3), ("c", 1, 1)]
SHORTER = [("a", 3, 1), ("c", 1, 1)]
IN_TOKYO = [("1970-01-01 09:00:00", 4, 3), ("1970-01-01 09:00:00", 5, 3)]
# In Spark's words, which tell the operators that there were and that there are.
OTHERS = "when user adds/removes/changes stateful operator of existing streaming query"
KEYED = "the key columns are fixed by its checkpoint"
PLACED = "its place in the query is fixed"
TWO_SECONDS, ONE_SECOND = map(TumblingEventTimeWindows.of, (2_000, 1_000))
ROCKSDB = EmbeddedRocksDBStateBackend()


def _filled(df: Any) -> Any:
    return counted()(df.withColumn("user", F.coalesce("user", F.lit(""))))


def _renamed(df: Any) -> Any:
    return counted(key=("who",))(df.withColumnRenamed("user", "who"))


def _of_longs(df: Any) -> Any:
    return PROGRAMS["of two keys"](df.withColumn("n", F.col("n").cast("long")))


def _deduplicated(df: Any) -> Any:
    return counted()(df.dropDuplicates(["n"]))


def _with_side_output(df: Any) -> Any:
    side = OutputTag("side", Types.ROW_NAMED(["n"], [Types.LONG()]))
    return counted(side_outputs=[side])(df).select("user", "count", "stored")


CELLS = [
    refused("TTL: clock", "", "counts", counted(ByOtherTime), "the clock of its TTL"),
    goes_on("store: retention, a shorter one", "longer TTL", "counts", counted(Longer), SHORTER),
    refused("uid", "", "counts", counted(uid="other"), PLACED),
    refused(
        "windows: size or slide of count windows",
        "",
        "windows of three",
        windowed(2),
        "keeps the windows, 'count windows of 3'",
    ),
    refused("key: order of its columns", "", "of two keys", counted(key=("n", "user")), KEYED),
    refused("key: type", "wider", "of two keys", _of_longs, KEYED),
    refused("key: names of its columns", "", "counts", _renamed, KEYED),
    refused("key: number of its columns", "", "counts", counted(key=("user", "n")), KEYED),
    goes_on("key: nullability", "never null", "counts", _filled, ON),
    goes_on("key: time zone of the session", "", "instants", _in_tokyo, IN_TOKYO),
    # The window [2000, 4000) is open under 2500, and stays so: the watermark stands still.
    goes_on(
        "event_time: how late records may be",
        "later",
        "windows",
        windowed(TWO_SECONDS, late="1 hour"),
        [],
    ),
    goes_on(
        "event_time: how late records may be",
        "less late",
        "late windows",
        windowed(ONE_SECOND),
        [("[1]",), ("[2]",), ("[3]",)],
    ),
    refused("max_parallelism", "", "counts", counted(max_parallelism=4), "fixed .* at 2, got 4"),
    goes_on("backend", "to RocksDB", "counts", counted(state_backend=ROCKSDB), ON),
    goes_on(
        "function: side outputs and output type", "one more output", "counts", _with_side_output, ON
    ),
    refused(
        "chain: operators in another order",
        "",
        "chain",
        lambda df: _again(_behind(_as_counts(df))),
        PLACED,
    ),
    *(
        refused("chain: one more, or one fewer", case, former, now, OTHERS)
        for case, former, now in (
            ("one more behind", "counts", lambda df: _behind(counted()(df))),
            ("one before, of the same uid", "counts", lambda df: _again(_behind(_as_counts(df)))),
            ("the first alone", "chain", counted()),
            ("the second alone", "chain", lambda df: _behind(_as_counts(df))),
            ("one of Spark's before", "counts", _deduplicated),
        )
    ),
    refused("event_time: dropped", "", "timed", counted(), "timeMode from EventTime to NoT"),
    goes_on("arrival_order", "", "timed", counted(event_time="ts", arrival_order=True), ON),
    goes_on(
        "event_time: another column",
        "",
        "windows",
        windowed(TWO_SECONDS, time="later"),
        [("[3]",)],
    ),
]


@attrs.define
class Checkpoints:
    """What the former programs wrote, each made once.

    Args:
        spark: The session.
        folder: For them.
        made: Those that there are.
    """

    spark: Any
    folder: Path
    made: dict[str, Feed] = attrs.field(factory=dict)

    def of(self, name: str, copy: Path) -> Feed:
        """Copy one; its feed, which has records behind it."""
        place = self.folder / name
        if name not in self.made:
            feed = Feed(self.spark, place / "in", SCHEMA)
            feed.add(BEFORE)
            drain(PROGRAMS[name](feed.stream()), place / "checkpoint")
            feed.add(AFTER)
            self.made[name] = feed
        shutil.copytree(place / "checkpoint", copy)
        return self.made[name]


@pytest.fixture(scope="module")
def checkpoints(spark, tmp_path_factory):
    """Of the former programs."""
    return Checkpoints(spark, tmp_path_factory.mktemp("restarts"))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, id=str(cell), marks=pytest.mark.restarts(cell.row, cell.answer))
        for cell in CELLS
    ],
)
def test_a_stream_is_restarted_with_another_declaration(checkpoints, tmp_path, cell, request):
    """It goes on with what the page says, or is refused with an error that names what differs."""
    feed = checkpoints.of(cell.former, tmp_path / "checkpoint")
    request.addfinalizer(
        partial(checkpoints.spark.conf.set, ZONE, checkpoints.spark.conf.get(ZONE))
    )
    if cell.answer == REFUSED:
        with pytest.raises((StreamingQueryException, PyflinklikeError), match=cell.expected):
            drain(cell.now(feed.stream()), tmp_path / "checkpoint")
        return
    assert cell.expected == rows_of(drain(cell.now(feed.stream()), tmp_path / "checkpoint"))


def _restarted(checkpoints, copy, now, former="counts"):
    """What a program gives of a copy of the checkpoint."""
    checkpoints.of(former, copy)
    return rows_of(drain(now, copy))


def _other(checkpoints, folder):
    """A feed with records of its own."""
    feed = Feed(checkpoints.spark, folder, SCHEMA)
    feed.add(AFTER)
    return feed


@pytest.mark.thorough
@pytest.mark.restarts("source of a DataFrame: another folder", "refused")
def test_a_stream_may_not_read_another_folder(checkpoints, tmp_path):
    """Spark looks its last micro-batch up in the new one."""
    now = counted()(_other(checkpoints, tmp_path / "other").stream())

    with pytest.raises(StreamingQueryException, match="Wrong basePath"):
        _restarted(checkpoints, tmp_path / "checkpoint", now)


@pytest.mark.thorough
@pytest.mark.restarts("source of a DataFrame: one more, or one fewer", "refused")
def test_a_stream_may_not_read_one_more_folder(checkpoints, tmp_path):
    """Spark counts the sources of its last micro-batch."""
    feed = checkpoints.of("counts", tmp_path / "unused")
    both = feed.stream().union(_other(checkpoints, tmp_path / "other").stream())

    with pytest.raises(
        StreamingQueryException, match=r"\[1\] sources in the checkpoint .*\[2\] sources"
    ):
        _restarted(checkpoints, tmp_path / "checkpoint", counted()(both))


@pytest.mark.thorough
@pytest.mark.restarts("source of a DataFrame: of another kind", "refused")
def test_a_stream_may_not_read_a_clock_for_a_folder(checkpoints, tmp_path):
    """The offset of one cannot be read as that of the other."""
    clock = checkpoints.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1)
    now = counted()(clock.load().selectExpr("'a' user", "cast(value as int) n", "timestamp ts"))

    with pytest.raises(StreamingQueryException, match="No usable value for offset"):
        _restarted(checkpoints, tmp_path / "checkpoint", now)


@pytest.mark.thorough
@pytest.mark.restarts(
    "source of a DataFrame: another folder, after a micro-batch without records", "goes on"
)
def test_a_stream_reads_another_folder_from_its_beginning(checkpoints, tmp_path):
    """Spark has nothing to look up then, and knows files by their paths: a moved one comes again."""
    former, moved = (
        Feed(checkpoints.spark, tmp_path / name, SCHEMA) for name in ("former", "moved")
    )
    for feed in (former, moved):
        feed.add([record("a", 1, 1_000)])

    def program(feed):
        df = feed.stream().withWatermark("ts", "0 seconds")
        return counted(event_time="ts")(df)

    assert [("a", 1, 1)] == rows_of(drain(program(former), tmp_path / "checkpoint"))
    assert [("a", 2, 1)] == rows_of(drain(program(moved), tmp_path / "checkpoint"))
