# SPDX-License-Identifier: Apache-2.0
"""Real streams that are restarted with another declaration: one cell for each mechanism that answers.

`tests/testing/test_restarts.py` has all cells without a JVM.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import broadcast_support
import pytest
from broadcast_support import LIMITS, Alert
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from spark_support import Feed, at, drain, pickle_by_value, rows_of

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.columns import KeyedBatchFunction
from pyflinklike.errors import PyflinklikeError
from pyflinklike.joins import ProcessJoinFunction
from pyflinklike.spark import broadcast, key_by
from pyflinklike.stores import WindowStoreDescriptor
from pyflinklike.windows import ProcessWindowFunction, TumblingEventTimeWindows

pickle_by_value(__name__)
pickle_by_value(broadcast_support.__name__)

GOES_ON, REFUSED = "goes on", "refused"
ZONE = "spark.sql.session.timeZone"
SCHEMA = "user string, n int, ts timestamp, later timestamp, name string, limit long"
OUTPUT = "user string, count long, stored long"


def record(user: str, n: int, time: int, name: str | None = None) -> tuple[Any, ...]:
    """A record; one with a name is a rule, too."""
    return user, n, at(time), at(time + 50_000), name, n


BEFORE = [record("a", 1, 1_000, "low"), record("b", 2, 1_500), record("a", 3, 2_500)]
AFTER = [record("a", 4, 3_000), record("c", 5, 3_500)]


def ttl(*, is_event: bool = False, ms: int = 3_600_000) -> StateTtlConfig:
    """A TTL."""
    builder = StateTtlConfig.new_builder(ms)
    return (builder.use_event_time() if is_event else builder).build()


class Counts(KeyedProcessFunction):
    """Counts the records of a key, in a state and in a store."""

    config: Any = ttl()
    options: dict[str, Any] = {"window_size": 1_000, "retention": 60_000}
    kind: Any = Types.LONG()

    def open(self, ctx):
        count = ValueStateDescriptor("count", self.kind)
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


class OtherWindows(Counts):
    """With other windows in its store."""

    options = {"window_size": 500, "retention": 60_000}


class Wider(Counts):
    """With a type that has grown."""

    kind = Types.BIG_INT()


class InColumns(KeyedBatchFunction):
    """Only the state, as columns."""

    def open(self, ctx):
        count = ValueStateDescriptor("count", Types.LONG())
        count.enable_time_to_live(Counts.config)
        self.count = ctx.get_column_state(count)

    def process_batch(self, batch, ctx):
        counts = batch.groups.spread(self.count.get(0)) + batch.groups.rank() + 1
        self.count.put(batch.groups.last(counts))
        return {"user": batch["user"], "count": counts, "stored": counts}


class Numbers(ProcessWindowFunction):
    """The numbers of a window."""

    def process(self, key, context, elements):
        yield (repr(sorted(each.n for each in elements)),)


class Pairs(ProcessJoinFunction):
    """The numbers of both."""

    def process_element(self, left, right, ctx):
        yield f"{left and left.n} {right and right.n}", None, None


class Told(Alert):
    """Without its side output."""

    def process_broadcast_element(self, value, ctx):
        for _ in super().process_broadcast_element(value, ctx):
            pass
        return []


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


def joined(how: str) -> Callable[[Any], Any]:
    """An interval join."""

    def made(df: Any) -> Any:
        df = df.withWatermark("ts", "0 seconds")
        left, right = key_by(df, "user"), key_by(df.where("n > 3"), "user")
        join = left.interval_join(right, how).between(-500, 500)
        options = {"uid": "join", "max_parallelism": 2, "event_time": "ts"}
        return join.process(Pairs(), OUTPUT, **options)

    return made


def folded(name: str = "sum", **options: Any) -> Callable[[Any], Any]:
    """A fold."""

    def made(df: Any) -> Any:
        df = df.withWatermark("ts", "0 seconds").select("user", "n", "ts")
        given = {"uid": "fold", "max_parallelism": 2, "event_time": "ts", **options}
        return getattr(key_by(df, "user"), name)("n", **given).select("user", "n")

    return made


def ruled(*descriptors: Any) -> Callable[[Any], Any]:
    """A function with a broadcast input."""

    def made(df: Any) -> Any:
        events = df.selectExpr("user", "cast(n as long) number", "ts at")
        rules = df.where("name is not null").select("name", "limit")
        connected = key_by(events, "user").connect(broadcast(rules, *descriptors))
        options = {"uid": "rules", "max_parallelism": 2}
        return connected.process(Told(), "user string, total long, broken string", **options)

    return made


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "counts": counted(),
    "columns": counted(InColumns),
    "of two keys": counted(key=("user", "n")),
    "windows": windowed(TumblingEventTimeWindows.of(2_000)),
    "late windows": windowed(TumblingEventTimeWindows.of(1_000), late="5 seconds"),
    "windows of three": windowed(3),
    "inner join": joined("inner"),
    "full join": joined("full_outer"),
    "running sum": folded(),
    "rules": ruled(LIMITS),
    "chain": lambda df: _behind(counted()(df)),
    "instants": lambda df: counted(key=("instant",))(_instants(df)),
    "timed": counted(event_time="ts"),
}
CAST = MapStateDescriptor(LIMITS.name, Types.STRING(), Types.STRING())


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


ON = [("a", 3, 3), ("c", 1, 1)]
# In Spark's words, which tell the operators that there were and that there are.
OTHERS = "when user adds/removes/changes stateful operator of existing streaming query"
_KEYED = "the key columns are fixed by its checkpoint"
CELLS = [
    Cell("TTL: clock", REFUSED, "", "counts", counted(ByOtherTime), "the clock of its TTL"),
    Cell(
        "store: retention, a shorter one",
        GOES_ON,
        "and a longer TTL",
        "counts",
        counted(Longer),
        [("a", 3, 1), ("c", 1, 1)],
    ),
    Cell("uid", REFUSED, "", "counts", counted(uid="other"), "its place in the query is fixed"),
    Cell(
        "windows: size or slide of count windows",
        REFUSED,
        "",
        "windows of three",
        windowed(2),
        "keeps the windows, 'count windows of 3'",
    ),
]
MORE = [
    Cell(
        "key: order of its columns", REFUSED, "", "of two keys", counted(key=("n", "user")), _KEYED
    ),
    Cell(
        "fold: running",
        REFUSED,
        "off",
        "running sum",
        folded(running=False),
        "when a key gives out its fold",
    ),
    # The window [2000, 4000) is open under 2500, and stays so: the watermark stands still.
    Cell(
        "event_time: how late records may be",
        GOES_ON,
        "later",
        "windows",
        windowed(TumblingEventTimeWindows.of(2_000), late="1 hour"),
        [],
    ),
    Cell(
        "event_time: how late records may be",
        GOES_ON,
        "less late",
        "late windows",
        windowed(TumblingEventTimeWindows.of(1_000)),
        [("[1]",), ("[2]",), ("[3]",)],
    ),
    Cell(
        "store: window_size",
        REFUSED,
        "",
        "counts",
        counted(OtherWindows),
        "'seen'.*per window of 500 ms",
    ),
    Cell(
        "key: type",
        REFUSED,
        "wider",
        "of two keys",
        lambda df: counted(key=("user", "n"))(df.withColumn("n", F.col("n").cast("long"))),
        _KEYED,
    ),
    Cell(
        "max_parallelism", REFUSED, "", "counts", counted(max_parallelism=4), "fixed .* at 2, got 4"
    ),
    Cell(
        "state: as columns or by record",
        GOES_ON,
        "to columns",
        "counts",
        counted(InColumns),
        [("a", 3, 3), ("c", 1, 1)],
    ),
    Cell(
        "windows: size, slide or offset of windows of time",
        GOES_ON,
        "smaller",
        "windows",
        windowed(TumblingEventTimeWindows.of(Time.milliseconds(500))),
        [("[4]",)],
    ),
    Cell(
        "interval join: an inner input that becomes outer",
        REFUSED,
        "",
        "inner join",
        joined("left_outer"),
        "the kind of the join",
    ),
    Cell(
        "broadcast: another type", REFUSED, "", "rules", ruled(CAST), f"'{LIMITS.name}'.*value type"
    ),
    Cell("state: a type that grows", GOES_ON, "", "counts", counted(Wider), ON),
    Cell(
        "state: as columns or by record",
        GOES_ON,
        "to records",
        "columns",
        counted(),
        [("a", 3, 1), ("c", 1, 1)],
    ),
    Cell(
        "backend",
        GOES_ON,
        "to RocksDB",
        "counts",
        counted(state_backend=EmbeddedRocksDBStateBackend()),
        ON,
    ),
    Cell(
        "key: names of its columns",
        REFUSED,
        "",
        "counts",
        lambda df: counted(key=("who",))(df.withColumnRenamed("user", "who")),
        _KEYED,
    ),
    Cell("key: number of its columns", REFUSED, "", "counts", counted(key=("user", "n")), _KEYED),
    Cell(
        "key: nullability",
        GOES_ON,
        "never null",
        "counts",
        lambda df: counted()(df.withColumn("user", F.coalesce("user", F.lit("")))),
        ON,
    ),
    Cell(
        "interval join: an outer input that becomes inner",
        GOES_ON,
        "full to inner",
        "full join",
        joined("inner"),
        [("3 4", None, None), ("4 4", None, None), ("5 5", None, None)],
    ),
    Cell("fold: another, or another field", REFUSED, "", "running sum", folded("max"), "keeps the"),
    Cell(
        "function: its class and its code",
        GOES_ON,
        "another class",
        "counts",
        counted(type("Renamed", (Counts,), {"__module__": __name__})),
        ON,
    ),
    Cell(
        "function: side outputs and output type",
        GOES_ON,
        "one more output",
        "counts",
        lambda df: (
            key_by(df, "user")
            .process(
                Counts(),
                OUTPUT,
                uid="counts",
                max_parallelism=2,
                side_outputs=[OutputTag("side", Types.ROW_NAMED(["n"], [Types.LONG()]))],
            )
            .select("user", "count", "stored")
        ),
        ON,
    ),
    Cell(
        "chain: operators in another order",
        REFUSED,
        "",
        "chain",
        lambda df: _again(_behind(_as_counts(df))),
        "its place in the query is fixed",
    ),
    *(
        Cell("chain: one more, or one fewer", REFUSED, case, former, now, OTHERS)
        for case, former, now in (
            ("one more behind", "counts", lambda df: _behind(counted()(df))),
            (
                "one more before, of the same uid behind",
                "counts",
                lambda df: _again(_behind(_as_counts(df))),
            ),
            ("the first alone", "chain", counted()),
            ("the second alone", "chain", lambda df: _behind(_as_counts(df))),
            ("one of Spark's before", "counts", lambda df: counted()(df.dropDuplicates(["n"]))),
        )
    ),
    Cell("event_time: dropped", REFUSED, "", "timed", counted(), "timeMode from EventTime to NoT"),
    Cell("arrival_order", GOES_ON, "", "timed", counted(event_time="ts", arrival_order=True), ON),
    Cell(
        "event_time: another column",
        GOES_ON,
        "",
        "windows",
        windowed(TumblingEventTimeWindows.of(2_000), time="later"),
        [("[3]",)],
    ),
    Cell(
        "key: time zone of the session",
        GOES_ON,
        "",
        "instants",
        _in_tokyo,
        [("1970-01-01 09:00:00", 4, 3), ("1970-01-01 09:00:00", 5, 3)],
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


@pytest.mark.xdist_group("restarts with another declaration")
@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(
            cell,
            id=str(cell),
            marks=[
                pytest.mark.restarts(cell.row, cell.answer),
                *([] if cell in CELLS else [pytest.mark.thorough]),
            ],
        )
        for cell in (*CELLS, *MORE)
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
