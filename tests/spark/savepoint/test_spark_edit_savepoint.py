# SPDX-License-Identifier: Apache-2.0
"""`Savepoint`: state edited as DataFrames, and begun with."""

import re

import pytest
from pyspark.sql import functions as F
from spark_support import Feed, at, bounded, drain, pickle_by_value, reads_state

from pyflinklike import (
    AggregateFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    StateValueError,
    UnknownStateError,
)
from pyflinklike.spark import key_by
from pyflinklike.state_processor import Savepoint, read_state
from pyflinklike.windows import TumblingEventTimeWindows

pytestmark = [reads_state, pytest.mark.thorough]
pickle_by_value(__name__)

COUNT = ValueStateDescriptor("count", Types.LONG())
SEEN = ListStateDescriptor("seen", Types.STRING())
PAGES = MapStateDescriptor("pages", Types.STRING(), Types.LONG())


class Keeping(KeyedProcessFunction):
    """Yields the state it finds, and fires its timers."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)
        self.seen = runtime_context.get_list_state(SEEN)
        self.pages = runtime_context.get_map_state(PAGES)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.pages.put(value.page, 1)
        yield f"{value.user} {self.count.value()} {list(self.seen.get())} {sorted(self.pages.keys())}"

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {timestamp}"


def run(spark, directory, records, **options):
    """The outputs and the checkpoint of a query over one batch."""
    feed = Feed(spark, directory / "feed", "user string, ts timestamp, page string")
    feed.add(records)
    query = key_by(feed.stream(), "user").process(
        Keeping(), "text string", event_time="ts", uid="keeping", max_parallelism=4, **options
    )
    batches = drain(query, directory / "checkpoint")
    return sorted(row[0] for rows in batches.values() for row in rows), directory / "checkpoint"


def test_a_stream_begins_with_state_that_was_never_in_one(spark, tmp_path):
    """Bootstrapped from DataFrames, timers included."""
    totals = bounded(spark, [("a", 10), ("b", 20)], "user string, value int")
    visits = bounded(spark, [("a", "y", 2), ("a", "x", 1)], "user string, value string, nr int")
    due = bounded(spark, [("b", 5000)], "user string, timestamp long")
    made = (
        Savepoint.new(spark, "user string", "keeping")
        .with_state(COUNT, totals)
        .with_state(SEEN, visits, order_by="nr")
        .with_timers(due.withColumn("domain", F.lit("event_time")))
    )
    assert "Savepoint({'keeping': ['count', 'seen']})" == repr(made)
    made.write(tmp_path / "made")
    outputs, _ = run(
        spark,
        tmp_path,
        [("a", at(9000), "p"), ("c", at(9001), "p")],
        from_savepoint=tmp_path / "made",
    )
    assert ["a 11 ['x', 'y'] ['p']", "b 5000", "c 1 [] ['p']"] == outputs


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    """Of a query that has seen two users."""
    records = [("a", at(1), "p"), ("b", at(2), "p"), ("b", at(3), "q")]
    return run(spark, tmp_path_factory.mktemp("edited"), records)[1]


def test_state_is_mended_and_goes_on(spark, checkpoint, tmp_path):
    """Transformed, filtered, removed: what was not touched is as it was."""
    edited = (
        Savepoint.read(spark, checkpoint)
        .filter_keys(F.col("user") != "a")
        .transform_state("count", lambda rows: rows.withColumn("value", F.col("value") * 100))
        .remove_state("seen")
    )
    edited.write(tmp_path / "edited")
    records = [("a", at(1), "z"), ("b", at(2), "z")]
    outputs, _ = run(spark, tmp_path, records, from_savepoint=tmp_path / "edited")
    assert ["a 1 [] ['z']", "b 201 [] ['p', 'q', 'z']"] == outputs
    assert 2 == read_state(spark, checkpoint, "count").where("value < 100").count()


def test_names_and_ttl_are_changed(spark, checkpoint, tmp_path):
    """The directory says what the states now are."""
    ttl = StateTtlConfig.new_builder(1000).build()
    changed = Savepoint.read(spark, checkpoint).rename_state("count", "hits")
    changed = changed.with_ttl("hits", ttl, stamp=77).rename_operator("keeping", "other")
    changed.write(tmp_path / "changed")
    again = Savepoint.read(spark, tmp_path / "changed")
    assert [77, 77] == [row.stamp for row in again["hits"].collect()]
    assert {("other", "hits"), ("other", "pages"), ("other", "seen")} == {
        (info.uid, info.name) for info in again.states()
    }


def test_a_ttl_of_another_clock_forgets_the_stamps(spark, checkpoint):
    """They are times of the former one; the new one stamps what is there anew."""
    builder = StateTtlConfig.new_builder(1000)
    processing = builder.build()
    event = builder.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)
    stamped = Savepoint.read(spark, checkpoint).with_ttl("count", event.build(), stamp=77)
    again = [stamped.with_ttl("count", processing, **given) for given in ({}, {"stamp": 5})]
    same = stamped.with_ttl("count", event.build())

    assert [{77}, {None}, {5}] == [
        {row.stamp for row in each["count"].collect()} for each in (same, *again)
    ]


def test_two_savepoints_become_one(spark, checkpoint, tmp_path):
    """An entry of both is refused, or one side's."""
    more = bounded(spark, [("b", 7), ("c", 8)], "user string, value long")
    other = Savepoint.new(spark, "user string", "keeping").with_state(COUNT, more)
    mine = Savepoint.read(spark, checkpoint)
    with pytest.raises(StateValueError, match="an entry must have one row"):
        mine.merge(other).write(tmp_path / "refused")
    for side, expected in (("left", {"a": 1, "b": 2, "c": 8}), ("right", {"a": 1, "b": 7, "c": 8})):
        merged = mine.merge(other, on_conflict=side)["count"]
        assert expected == {row.user: row.value for row in merged.collect()}


@pytest.mark.parametrize(
    ("verb", "error", "says"),
    [
        (lambda held: held["cuont"], UnknownStateError, "did you mean 'count'"),
        (lambda held: held.rename_state("count", "seen"), DeclarationValueError, "remove_state"),
        (lambda held: held.remove_timers("both"), DeclarationValueError, "event_time"),
        (
            lambda held: held.transform_state("count", lambda rows: rows.drop("value")),
            DeclarationValueError,
            "add 'value'",
        ),
        (
            lambda held: held.transform_state(
                "count", lambda rows: rows.withColumn("value", F.lit("text"))
            ),
            DeclarationTypeError,
            "is bigint, got string",
        ),
        (lambda held: held.with_state("count", held["count"]), DeclarationTypeError, "descriptor"),
        (
            lambda held: held.transform_state(
                "count", lambda rows: rows.withColumn("user", F.lit(1.5))
            ),
            DeclarationTypeError,
            "column 'user' is string, got double",
        ),
        (
            lambda held: held.with_state(
                ValueStateDescriptor("parts", Types.LIST(Types.INT())),
                held["count"].withColumn("value", F.array(F.lit(1.5))),
            ),
            DeclarationTypeError,
            "is array<int>, got array<double>",
        ),
    ],
)
def test_what_does_not_fit_is_refused_when_it_is_called(spark, checkpoint, verb, error, says):
    """Before anything is written."""
    with pytest.raises(error, match=says):
        verb(Savepoint.read(spark, checkpoint))


TTL_MS = StateTtlConfig.new_builder(3_600_000).build()
LAST = ValueStateDescriptor("last", Types.STRING())
LAST.enable_time_to_live(TTL_MS)


@pytest.fixture(scope="module")
def users(spark):
    """Counts, lists, maps, texts with times, and timers of three users; never in a stream."""
    counts = bounded(spark, [("a", 1), ("b", 20), ("c", 300)], "user string, value long")
    seen = bounded(
        spark,
        [("b", "y", 0), ("a", "w", 4), ("a", "x", 1), ("c", "z", 7)],
        "user string, value string, position long",
    )
    pages = bounded(
        spark,
        [("a", "p", 1), ("b", "p", 2), ("b", "q", 3)],
        "user string, user_key string, value long",
    )
    last = bounded(
        spark, [("a", "new", 9), ("b", "old", 4)], "user string, value string, stamp long"
    )
    due = bounded(spark, [("a", 5000), ("b", 5000), ("c", 6000)], "user string, timestamp long")
    return (
        Savepoint.new(spark, "user string", "keeping")
        .with_state(COUNT, counts)
        .with_state(SEEN, seen)
        .with_state(PAGES, pages)
        .with_state(LAST, last)
        .with_timers(due.withColumn("domain", F.lit("event_time")))
    )


def accounts(spark, *pairs):
    """A mapping from users to accounts and places."""
    return bounded(spark, pairs, "user string, account int, place string")


MERGE = {"count": "sum", "seen": "concat", "pages": "max", "last": "newest"}


def test_several_keys_become_one(spark, users, tmp_path):
    """State and timers of two users are those of an account; a stream begins with it unwritten."""
    mapping = accounts(spark, ("a", 1, "x"), ("b", 1, "x"), ("c", 2, "x"), ("d", 9, "x"))
    moved = users.rekey("account int", mapping, merge=MERGE)
    assert {1: 21, 2: 300} == {row.account: row.value for row in moved["count"].collect()}
    elements = moved["seen"].orderBy("account", "position").collect()
    assert [(1, "x"), (1, "w"), (1, "y"), (2, "z")] == [
        (row.account, row.value) for row in elements
    ]
    pages = {(row.account, row.user_key): row.value for row in moved["pages"].collect()}
    assert {(1, "p"): 2, (1, "q"): 3} == pages
    assert [(1, "new", 9)] == [
        (row.account, row.value, row.stamp) for row in moved["last"].collect()
    ]
    assert [(1, 5000), (2, 6000)] == sorted(
        (row.account, row.timestamp) for row in moved.timers.collect()
    )
    feed = Feed(spark, tmp_path / "feed", "account int, user string, ts timestamp, page string")
    feed.add([(2, "c", at(1), "p"), (1, "a", at(9000), "r")])
    query = key_by(feed.stream(), "account").process(
        Keeping(),
        "text string",
        event_time="ts",
        uid="keeping",
        max_parallelism=4,
        from_savepoint=moved,
    )
    rows = [row[0] for rows in drain(query, tmp_path / "c").values() for row in rows]
    assert [
        "1 5000",
        "2 6000",
        "a 22 ['x', 'w', 'y'] ['p', 'q', 'r']",
        "c 301 ['z'] ['p']",
    ] == sorted(rows)


@pytest.mark.parametrize(
    ("pairs", "options", "says"),
    [
        ([("a", 1)], {}, "every key must have a new key in the mapping, got .*drop=True"),
        ([("a", 1), ("a", 2), ("b", 3), ("c", 4)], {}, "an old key must have one new key, got"),
        (
            [("a", 1), ("b", 1), ("c", 2)],
            {"merge": {"seen": "concat"}},
            "an entry must have one row, got .*'rows': 2",
        ),
        (
            [("a", 1), ("b", 1), ("c", 2)],
            {"merge": {key: how for key, how in MERGE.items() if key != "seen"}},
            "a key must have one list, got .*'concat'",
        ),
    ],
    ids=["unmapped", "twice", "unmerged", "lists"],
)
def test_keys_without_one_answer_are_refused(spark, users, tmp_path, pairs, options, says):
    """When it is written, with the key; nothing is."""
    moved = users.rekey(
        "account int", accounts(spark, *((*each, "x") for each in pairs)), **options
    )
    with pytest.raises(StateValueError, match=says):
        moved.write(tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def test_keys_that_are_left_out_take_their_timers_along(spark, users):
    """With `drop`; the columns may be several, and one of the former among them."""
    moved = users.rekey("place string, user string", accounts(spark, ("b", 1, "x")), drop=True)
    moved.check()
    assert [("x", "b", 20)] == [
        (row.place, row.user, row.value) for row in moved["count"].collect()
    ]
    assert [("x", "b", 5000)] == [
        (row.place, row.user, row.timestamp) for row in moved.timers.collect()
    ]


@pytest.mark.parametrize(
    ("merge", "error", "says"),
    [
        ({"count": "concat"}, DeclarationValueError, "lists are merged by 'concat'"),
        ({"seen": "sum"}, DeclarationValueError, "lists are merged by 'concat'"),
        ({"count": "newest"}, DeclarationValueError, "needs the times of entries"),
        ({"last": "sum"}, DeclarationTypeError, "'sum' needs numbers, got string"),
        ({"cuont": "sum"}, UnknownStateError, "did you mean 'count'"),
    ],
)
def test_a_merge_that_does_not_fit_is_refused_when_it_is_called(spark, users, merge, error, says):
    """By the name of the state."""
    with pytest.raises(error, match=says):
        users.rekey("account int", accounts(spark, ("a", 1, "x")), merge=merge)


def test_values_get_another_type(spark, users, tmp_path):
    """Each that is one of the new type, too; digits go only where that is said."""
    narrow = users.cast_state("count", Types.SHORT()).cast_state("seen", Types.CHAR())
    narrow.write(tmp_path / "narrow")
    found = {
        info.name: info.value_type for info in Savepoint.read(spark, tmp_path / "narrow").states()
    }
    assert {"count": "Short", "seen": "Character"}.items() <= found.items()
    with pytest.raises(StateValueError, match=r"values of Byte, got .*300.*transform_state"):
        users.cast_state("count", Types.BYTE()).write(tmp_path / "byte")
    with pytest.raises(StateValueError, match="in the range of Byte"):
        users.cast_state("count", Types.BYTE(), lossy=True).write(tmp_path / "byte")
    halves = users.cast_state("count", Types.DOUBLE()).transform_state(
        "count", lambda rows: rows.withColumn("value", F.col("value") / 2)
    )
    with pytest.raises(StateValueError, match=r"values of Long, got .*0\.5.*lossy=True"):
        halves.cast_state("count", Types.LONG()).check()
    whole = halves.cast_state("count", Types.LONG(), lossy=True)
    whole.check()
    assert {"a": 0, "b": 10, "c": 150} == {row.user: row.value for row in whole["count"].collect()}
    with pytest.raises(DeclarationTypeError, match="Spark cannot cast the values"):
        users.cast_state("count", Types.LIST(Types.LONG()))


def test_nested_values_get_another_type(spark, users):
    """Fields by name: those that go are lost only where that is said."""
    visit = Types.ROW_NAMED(["n", "place"], [Types.LONG(), Types.STRING()])
    rows = bounded(
        spark,
        [("a", [(2**40, "Rome")]), ("b", [(3, None)]), ("c", None)],
        "user string, value array<struct<n: long, place: string>>",
    ).where("value is not null")
    held = users.with_state(ValueStateDescriptor("visits", Types.LIST(visit)), rows)
    fewer = Types.LIST(Types.ROW_NAMED(["city", "n"], [Types.STRING(), Types.INT()]))
    with pytest.raises(StateValueError, match="Rome"):
        held.cast_state("visits", fewer).check()
    with pytest.raises(StateValueError, match=str(2**40)):
        held.cast_state("visits", fewer, lossy=True).check()
    kept = held.filter_keys(F.col("user") == "b").cast_state("visits", fewer)
    kept.check()
    assert [[(None, 3)]] == [
        [tuple(each) for each in row.value] for row in kept["visits"].collect()
    ]


def test_keys_are_split_into_two_operators(spark, users, tmp_path):
    """Each is in one of them; each operator of a query begins with its own."""
    parts = users.split(F.col("user") > "a", "others")
    counts = {uid: parts.operator(uid)["count"].collect() for uid in parts.operators}
    assert {"keeping": [1], "others": [20, 300]} == {
        uid: sorted(row.value for row in rows) for uid, rows in counts.items()
    }
    assert 2 == parts.operator("others").timers.count()
    outputs, _ = run(spark, tmp_path, [("a", at(1), "z"), ("b", at(2), "z")], from_savepoint=parts)
    assert ["a 2 ['x', 'w'] ['p', 'z']", "b 1 [] ['z']"] == outputs
    with pytest.raises(DeclarationValueError, match="of another uid, got 'keeping'"):
        users.split(F.col("user") > "a", "keeping")


class Total(AggregateFunction):
    """Adds numbers to an accumulator, which is an int or its text."""

    def __init__(self, kind):
        self.kind = kind

    def create_accumulator(self):
        return self.kind(0)

    def add(self, value, accumulator):
        return self.kind(int(accumulator) + value.n)

    def get_result(self, accumulator):
        return repr(accumulator)

    def merge(self, acc_a, acc_b):
        return self.kind(int(acc_a) + int(acc_b))


def test_contents_of_a_window_are_cast_as_their_refusal_says(spark, tmp_path):
    """By the name and the verb of the message, which the user never gave."""
    feed = Feed(spark, tmp_path / "feed", "user string, ts timestamp, n long")

    def totals(function, accumulator_type, directory, **options):
        windows = key_by(feed.stream(), "user").window(TumblingEventTimeWindows.of(10_000))
        query = windows.aggregate(
            function,
            accumulator_type=accumulator_type,
            output_type="total string",
            event_time="ts",
            uid="totals",
            **options,
        )
        return [row.total for rows in drain(query, directory).values() for row in rows]

    feed.add([("a", at(1_000), 1), ("a", at(2_000), 2)])
    totals(Total(int), Types.LONG(), tmp_path / "1")
    feed.add([("a", at(20_000), 4)])
    with pytest.raises(Exception, match="restored state keeps the value type") as refused:
        totals(Total(str), Types.STRING(), tmp_path / "1")
    told = re.search(r"\(state '(\S+)'\): .*with Savepoint\.(\w+)\(\)", str(refused.value))
    state, verb = told.groups()

    edited = getattr(Savepoint.read(spark, tmp_path / "1"), verb)(state, Types.STRING())
    edited.write(tmp_path / "edited")
    found = totals(Total(str), Types.STRING(), tmp_path / "2", from_savepoint=tmp_path / "edited")

    assert ("window-contents", "cast_state") == (state, verb)
    assert ["'6'"] == found
