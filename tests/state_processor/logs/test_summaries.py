# SPDX-License-Identifier: Apache-2.0
"""What a page tells of key groups, against a count of their rows one by one."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st
from replay_support import record_of, rows_of

from pyflinklike import (
    KeyedProcessFunction,
    MapStateDescriptor,
    Row,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike._changelog.segments import read_segment
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.state_summaries import SummaryReader
from pyflinklike.testing import KeyedProcessHarness

HOUR = 3_600_000


class Pages(KeyedProcessFunction):
    """A map, a value with a TTL, and timers of both domains."""

    def open(self, runtime_context):
        self.pages = runtime_context.get_map_state(
            MapStateDescriptor("pages", Types.STRING(), Types.STRING())
        )
        last = ValueStateDescriptor("last", Types.LONG())
        last.enable_time_to_live(StateTtlConfig.new_builder(HOUR).build())
        self.last = runtime_context.get_state(last)

    def process_element(self, value, ctx):
        self.pages.put(value.page, "x" * value.n)
        self.last.update(value.n)
        ctx.timer_service().register_event_time_timer(value.n * HOUR)
        ctx.timer_service().register_processing_time_timer((value.n + 1) * HOUR)
        return []


VISITS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "long key"]), st.sampled_from("pqrs"), st.integers(0, 50)),
    max_size=12,
)


def summary_of(visits, clock, keys=15):
    """The rows of the reader and of the states, after visits an hour apart."""
    with KeyedProcessHarness(
        Pages(), key_selector=lambda row: row.user, key_type=Types.STRING()
    ) as harness:
        for hour, (user, page, n) in enumerate(visits):
            harness.set_processing_time(hour * HOUR)
            harness.process_element(Row(user=user, page=page, n=n), timestamp=0)
        record = record_of(harness._operator, Types.STRING())
        log = [read_segment(harness.snapshot(), "tested")]
    (table,) = SummaryReader(record, clock, keys).read(3, log, "tested")
    held = {name: rows_of(record, name, log, clock) for name in ("pages", "last")}
    return table.to_pylist(), held


def ahead(time, now, past):
    """The bucket of a time."""
    if time <= now:
        return past
    limits = {"next hour": 1, "next day": 24, "next 30 days": 720}
    return next((name for name, most in limits.items() if time <= now + most * HOUR), "later")


@given(VISITS, st.integers(0, 20))
@example([("a", "p", 0)], 0)  # its entry expires in an hour, to the ms
@settings(max_examples=max(settings().max_examples // 2, 5))
def test_a_summary_counts_what_is_there(visits, hours):
    """Entries and bytes of each key over all states, and entries by when they expire."""
    rows, held = summary_of(visits, BatchClock(hours * HOUR, MIN_WATERMARK))
    entries, sizes = Counter(), Counter()
    for row in held["pages"]:
        entries[row["k"]] += 1
        sizes[row["k"]] += len(row["k"]) + len(row["user_key"]) + len(row["value"])
    for row in held["last"]:
        entries[row["k"]] += 1
        sizes[row["k"]] += len(row["k"]) + 16  # the value and its stamp
    keys = {row["label"]: (row["entries"], row["bytes"]) for row in rows if row["what"] == "key"}
    assert {key: (entries[key], sizes[key]) for key in entries} == keys
    expiry = Counter(ahead(row["stamp"] + HOUR, hours * HOUR, "expired") for row in held["last"])
    told = {row["label"]: row["entries"] for row in rows if row["what"] == "expiry"}
    assert expiry == told


def test_timers_are_told_by_domain():
    """Without a watermark none of event time is due, however far away that is."""
    rows, _ = summary_of([("a", "p", 0), ("a", "q", 100)], BatchClock(HOUR, MIN_WATERMARK))
    timers = [(row["of"], row["label"], row["entries"]) for row in rows if row["what"] == "timers"]
    assert [
        ("event_time", "later", 2),
        ("processing_time", "next 30 days", 1),
    ] == sorted(timers)


def test_only_the_largest_keys_are_told():
    """Those with the most entries, and those with the most bytes."""
    visits = [("many", page, 0) for page in "pqrs"] + [("heavy", "p", 1000), ("small", "p", 0)]
    rows, _ = summary_of(visits, BatchClock(0), keys=1)
    assert {"many", "heavy"} == {row["label"] for row in rows if row["what"] == "key"}
