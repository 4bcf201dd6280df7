# SPDX-License-Identifier: Apache-2.0
"""Jobs on Spark whose keyed operators share state operators: stopped in the middle, and read."""

from __future__ import annotations

import pytest
from job_lives import wait_for, written
from spark_jobs import add, going_on, lines_in, sink_in

from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink.common import Types
from pyflinklike.pyflink.datastream import (
    KeyedProcessFunction,
    OutputTag,
)
from pyflinklike.pyflink.datastream.state import ValueStateDescriptor

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

EVEN = OutputTag("even", Types.STRING())


class Counted(KeyedProcessFunction):
    """How often each line was there; even numbers go aside, too."""

    def open(self, runtime_context):
        """Declares a number."""
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        """Counts."""
        count = (self.seen.value() or 0) + 1
        self.seen.update(count)
        yield f"count {ctx.get_current_key()} {count}"
        if count % 2 == 0:
            yield EVEN, ctx.get_current_key()


class Joined(KeyedProcessFunction):
    """All lines of a key, as one text under the name that `Counted` has a number under."""

    def open(self, runtime_context):
        """Declares a text."""
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.STRING()))

    def process_element(self, value, ctx):
        """Appends."""
        text = (self.seen.value() or "") + value
        self.seen.update(text)
        yield f"text {text}"


def started(folder, is_deeper=False):
    """Two operators of one depth, and one behind a side output; sinks at both depths."""
    env = going_on(folder)
    lines = lines_in(env, folder)
    keyed = lines.key_by(lambda line: line, Types.STRING())
    counts = keyed.process(Counted(), Types.STRING()).uid("counts")
    again = counts.get_side_output(EVEN).key_by(lambda line: line, Types.STRING())
    texts = (again if is_deeper else keyed).process(Joined(), Types.STRING()).uid("texts")
    evens = again.process(Counted(), Types.STRING()).uid("evens")
    counts.union(texts).sink_to(sink_in(folder / "near"))
    evens.map(lambda line: f"even {line}", Types.STRING()).sink_to(sink_in(folder / "far"))
    return env.execute_async("graph")


def until(folder, near, far):
    """Wait for so many lines of output, and until Spark has noted all micro-batches that it began."""
    checkpoint = folder / "checkpoints" / "graph" / "checkpoint"

    def noted(kind):
        return {path.name for path in (checkpoint / kind).glob("[0-9]*")}

    wait_for(folder / "near", lambda lines: len(lines) >= near)
    wait_for(
        folder / "far", lambda lines: len(lines) >= far and noted("offsets") <= noted("commits")
    )


def test_operators_of_one_depth_go_on_where_they_were(tmp_path, shipped_module):
    """Also the one that got nothing in the second run, and each is read by its uid."""
    from pyflinklike.state_processor import list_states, read_savepoint, read_state

    add(tmp_path, "one", "a", "b", "a", "b", "b")
    first = started(tmp_path)
    until(tmp_path, 10, 2)
    first.cancel().result()
    add(tmp_path, "two", "a", "c")

    with pytest.raises(
        SparkSetupError, match=r"'texts' .*depth 2.* where there was .*'texts' .*depth 1"
    ):
        started(tmp_path, is_deeper=True)
    second = started(tmp_path)
    until(tmp_path, 14, 2)
    second.cancel().result()

    near = [f"count a {n}" for n in (1, 2, 3)] + [f"count b {n}" for n in (1, 2, 3)]
    near += ["count c 1", "text a", "text aa", "text aaa", "text b", "text bb", "text bbb"]
    assert sorted([*near, "text c"]) == sorted(written(tmp_path / "near"))
    assert ["even count a 1", "even count b 1"] == sorted(written(tmp_path / "far"))
    checkpoint = str(tmp_path / "checkpoints" / "graph" / "checkpoint")
    numbers = {info.uid: info.operator_id for info in list_states(shipped_module, checkpoint)}
    assert {"counts", "texts", "evens"} == numbers.keys()
    assert numbers["counts"] + 1000 == numbers["texts"]
    values = {
        uid: sorted(
            row["value"]
            for row in read_state(shipped_module, checkpoint, "seen", operator=uid).collect()
        )
        for uid in ("counts", "texts", "evens")
    }
    assert {"counts": [1, 3, 3], "texts": ["aaa", "bbb", "c"], "evens": [1, 1]} == values
    assert read_savepoint(shipped_module, checkpoint, operator_id=numbers["texts"])
