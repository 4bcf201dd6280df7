# SPDX-License-Identifier: Apache-2.0
"""`Savepoint`: elements that are folded, values that are merged, and entries that two savepoints have."""

from __future__ import annotations

import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F
from spark_support import bounded, pickle_by_value, reads_state

from pyflinklike import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Row,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError
from pyflinklike.state_processor import Savepoint, diff_state, open_savepoint
from pyflinklike.stores import KeyValueStoreDescriptor, LruStoreDescriptor
from pyflinklike.testing import KeyedProcessHarness

pytestmark = reads_state
pickle_by_value(__name__)

TEXT, LONG = Types.STRING(), Types.LONG()


class Mean(AggregateFunction):
    """Of rows with a number."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value.n, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


WORDS = ReducingStateDescriptor("words", lambda one, other: f"{one} {other}", TEXT)
MEAN = AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([LONG, LONG]))
COUNT = ValueStateDescriptor("count", LONG)
SEEN = ListStateDescriptor("seen", TEXT)


def values(savepoint, name, *columns):
    """The rows of a state, sorted."""
    frame = savepoint[name].select(*columns, "value")
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def plain(savepoint, name, *columns):
    """The same where a value is a row."""
    return [
        tuple(tuple(x) if isinstance(x, tuple) else x for x in row)
        for row in values(savepoint, name, *columns)
    ]


@pytest.fixture(scope="module")
def empty(spark):
    """A savepoint without states."""
    return Savepoint.new(spark, "user string", "folding")


@pytest.fixture(scope="module")
def elements(spark):
    """Elements of three users, in no order."""
    rows = [(f"u{at % 3}", f"w{at:02}", at, at * 10) for at in (*range(1, 40, 2), *range(0, 40, 2))]
    return bounded(spark, rows, "user string, value string, nr int, stamp long").repartition(3)


class Reading(KeyedProcessFunction):
    """Adds to both, and tells what they hold."""

    def open(self, runtime_context):
        self.words = runtime_context.get_reducing_state(WORDS)
        self.mean = runtime_context.get_aggregating_state(MEAN)

    def process_element(self, value, ctx):
        self.words.add("!")
        self.mean.add(value)
        yield self.words.get(), self.mean.get()


def test_elements_are_folded_as_the_function_would_have(empty, elements, tmp_path):
    """By the descriptors' functions, in order; a program goes on with what they became."""
    numbers = elements.select("user", F.struct(F.col("nr").alias("n")).alias("value"))
    made = empty.with_state(WORDS, elements, order_by="nr", from_elements=True)
    made = made.with_state(MEAN, numbers, from_elements=True)
    words = {user: " ".join(f"w{at:02}" for at in range(user, 40, 3)) for user in range(3)}
    assert [(f"u{user}", words[user]) for user in range(3)] == values(made, "words", "user")
    sums = [(f"u{user}", (sum(range(user, 40, 3)), len(range(user, 40, 3)))) for user in range(3)]
    assert sums == plain(made, "mean", "user")
    made.write(tmp_path / "made")
    with KeyedProcessHarness(
        Reading(), lambda row: row.user, restore=open_savepoint(tmp_path / "made"), key_type=TEXT
    ) as harness:
        expected = (f"{words[1]} !", (sum(range(1, 40, 3)) + 6) / 14)
        assert [expected] == harness.process_element(Row(user="u1", n=6))


def test_what_elements_are_folded_into_has_the_latest_stamp(empty, elements):
    """As if each had been added at its time."""
    expiring = ReducingStateDescriptor("words", max, TEXT)
    expiring.enable_time_to_live(StateTtlConfig.new_builder(1000).build())
    made = empty.with_state(expiring, elements, from_elements=True)
    stamps = {row.user: (row.value, row.stamp) for row in made["words"].collect()}
    assert {"u0": ("w39", 390), "u1": ("w37", 370), "u2": ("w38", 380)} == stamps


@pytest.mark.parametrize(
    ("descriptor", "change", "error", "says"),
    [
        (COUNT, lambda rows: rows, DeclarationTypeError, "leave from_elements out"),
        (WORDS, lambda rows: rows.drop("value"), DeclarationValueError, "select"),
        (
            WORDS,
            lambda rows: rows.withColumn("value", F.lit(3)),
            DeclarationTypeError,
            "'value' is string, got int",
        ),
    ],
)
def test_elements_that_cannot_be_folded_are_refused(
    empty, elements, descriptor, change, error, says
):
    """When it is called."""
    with pytest.raises(error, match=says):
        empty.with_state(descriptor, change(elements), from_elements=True)


def test_a_fold_that_fails_says_for_which_key(empty, elements, tmp_path):
    """With the element, and what the function raised; so is a result of another type."""

    def failing(one, other):
        return one if other != "w31" else 1 // 0

    for function, says in (
        (failing, "function failed for .*'u1'.*element 'w31': ZeroDivisionError"),
        (lambda one, _: len(one), "which its function returned for .*'user': 'u"),
    ):
        broken = ReducingStateDescriptor("words", function, TEXT)
        made = empty.with_state(broken, elements, order_by="nr", from_elements=True)
        with pytest.raises(PythonException, match=says):
            made.write(tmp_path / "broken")
    assert not (tmp_path / "broken").exists()


def test_a_value_that_does_not_fit_is_told_with_its_key(spark, empty, tmp_path):
    """When it is written, not when a query begins with it."""
    rows = [(f"u{at}", None if at == 17 else at) for at in range(40)]
    made = empty.with_state(COUNT, bounded(spark, rows, "user string, value long"))
    with pytest.raises(StateValueError, match=r"takes no null.*'user': 'u17'"):
        made.write(tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


def test_values_of_several_keys_are_merged_by_the_states_own_functions(spark, empty):
    """In the order of the former keys; of a map entry by entry."""
    words = bounded(spark, [("b", "y"), ("a", "x"), ("c", "z")], "user string, value string")
    mean = bounded(
        spark, [("a", (1, 2)), ("b", (10, 3))], "user string, value struct<f0: long, f1: long>"
    )
    pages = bounded(
        spark,
        [("a", "p", 1), ("b", "p", 5), ("b", "q", 7)],
        "user string, user_key string, value long",
    )
    held = (
        empty.with_state(WORDS, words)
        .with_state(MEAN, mean)
        .with_state(MapStateDescriptor("pages", TEXT, LONG), pages)
    )
    mapping = bounded(spark, [("a", 1), ("b", 1), ("c", 2)], "user string, account int")
    merge = {
        "words": WORDS.get_reduce_function(),
        "mean": Mean(),
        "pages": lambda one, two: one - two,
    }
    moved = held.rekey("account int", mapping, merge=merge)
    moved.check()
    assert [(1, "x y"), (2, "z")] == values(moved, "words", "account")
    assert [(1, (11, 5))] == plain(moved, "mean", "account")
    assert [(1, "p", -4), (1, "q", 7)] == values(moved, "pages", "account", "user_key")
    with pytest.raises(DeclarationTypeError, match="callable"):
        held.rekey("account int", mapping, merge={"words": 3})


def test_of_two_lists_of_a_key_one_stays_whole(spark, empty):
    """Their positions say nothing of each other, so elements would come in any order."""
    one = bounded(
        spark,
        [("a", "x", 0), ("a", "y", 7), ("b", "k", 0)],
        "user string, value string, position long",
    )
    two = bounded(spark, [("a", "p", 3), ("c", "q", 0)], "user string, value string, position long")
    left, right = (empty.with_state(SEEN, rows) for rows in (one, two))
    with pytest.raises(StateValueError, match=r"only one side may have a list for a key, .*'a'"):
        left.merge(right).check()
    both = {
        "left": [("a", "x"), ("a", "y"), ("b", "k"), ("c", "q")],
        "right": [("a", "p"), ("b", "k"), ("c", "q")],
    }
    for side, expected in both.items():
        merged = left.merge(right, on_conflict=side)
        merged.check()
        assert expected == values(merged, "seen", "user"), side


def test_a_null_in_a_key_of_several_columns_is_a_value(spark):
    """It is merged and moved as any other."""
    pair = Savepoint.new(spark, "user string, place string", "pairs")
    schema = "user string, place string, value long"
    one = pair.with_state(COUNT, bounded(spark, [("a", None, 1), ("a", "x", 2)], schema))
    two = pair.with_state(COUNT, bounded(spark, [("a", None, 10)], schema))
    merged = one.merge(two, on_conflict="right")
    merged.check()
    assert [("a", "x", 2), ("a", None, 10)] == values(merged, "count", "user", "place")
    mapping = bounded(spark, [("a", None, 1), ("a", "x", 1)], "user string, place string, id int")
    moved = merged.rekey("id int", mapping, merge={"count": "sum"})
    moved.check()
    assert [(1, 12)] == values(moved, "count", "id")


def test_stores_of_a_key_group_keep_their_places(spark, empty):
    """Entries of one key in two groups are two; other numbers of key groups cannot be merged."""
    shared = KeyValueStoreDescriptor("shared", TEXT, LONG, scope="partition")
    schema = "store_key string, value long, key_group int"
    one = empty.with_state(shared, bounded(spark, [("k", 1, 0), ("k", 2, 5)], schema))
    two = empty.with_state(shared, bounded(spark, [("k", 9, 5)], schema))
    merged = one.merge(two, on_conflict="left")
    merged.check()
    assert [("k", 0, 1), ("k", 5, 2)] == values(merged, "shared", "store_key", "key_group")
    with pytest.raises(StateValueError, match="an entry must have one row"):
        one.merge(two).check()
    with pytest.raises(DeclarationValueError, match="entries need a key_group"):
        empty.with_state(shared, bounded(spark, [("k", 1)], "store_key string, value long"))


class Using(KeyedProcessFunction):
    """Puts into a store of three, and tells what is left."""

    def open(self, runtime_context):
        self.store = runtime_context.get_store(LRU)

    def process_element(self, value, ctx):
        self.store.put(value.page, 0)
        yield sorted(key for key, _ in self.store.all())


LRU = LruStoreDescriptor("lru", TEXT, LONG, max_entries=3)


def test_uses_of_two_lru_stores_become_one_order(spark, empty, tmp_path):
    """Of which each number is there once: what both used first goes first, then what both used next."""
    schema = "user string, store_key string, value long, last_use long"
    one = empty.with_state(LRU, bounded(spark, [("a", "x", 1, 0), ("a", "y", 1, 5)], schema))
    two = empty.with_state(LRU, bounded(spark, [("a", "z", 1, 5), ("b", "x", 1, 5)], schema))
    one.merge(two).write(tmp_path / "merged")
    with KeyedProcessHarness(
        Using(), lambda row: row.user, restore=open_savepoint(tmp_path / "merged"), key_type=TEXT
    ) as harness:
        assert [["n", "y", "z"]] == harness.process_element(Row(user="a", page="n"))
        assert [["m", "n", "y"]] == harness.process_element(Row(user="a", page="m"))
        assert [["m", "x"]] == harness.process_element(Row(user="b", page="m"))


def test_timers_are_compared_by_their_times(spark, empty):
    """One that became due meanwhile is the same."""
    schema = (
        "user string, domain string, timestamp long, time timestamp, due boolean, key_group int"
    )
    before = bounded(
        spark,
        [("a", "event_time", 5, None, False, 0), ("a", "event_time", 6, None, False, 0)],
        schema,
    )
    after = bounded(
        spark,
        [("a", "event_time", 5, None, True, 0), ("a", "event_time", 7, None, False, 0)],
        schema,
    )
    changes = sorted((row.change, row.timestamp) for row in diff_state(before, after).collect())
    assert [("delete", 6), ("insert", 7)] == changes
