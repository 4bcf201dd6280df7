# SPDX-License-Identifier: Apache-2.0
"""Side outputs on Spark: one state, several sinks."""

from __future__ import annotations

import pytest
from filed_batches import FiledBatches
from spark_support import Feed, bounded, pickle_by_value, rows_of

from pyflinklike import KeyedProcessFunction, OutputTag, Row, Types, ValueStateDescriptor
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark import foreach_batch_output, get_side_output, key_by, main_output

pickle_by_value(__name__)

BIG = OutputTag("big", Types.ROW_NAMED(["key", "total"], [Types.STRING(), Types.LONG()]))
ODD = OutputTag("odd one", Types.LONG())
UNREAD = OutputTag("unread", Types.STRING())
SCHEMA = "key string, n long"
BATCHES = [[("a", 1), ("b", 20), ("a", 2)], [("b", 5), ("a", 30)], [("c", 2)]]


class Split(KeyedProcessFunction):
    """The running total; also to `BIG` from 20 on, odd totals to `ODD`, and all to a tag nobody declares."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value.n
        self.total.update(total)
        yield UNREAD, "never seen"
        yield ctx.get_current_key(), total
        if total >= 20:
            yield BIG, Row(key=ctx.get_current_key(), total=total)
        if total % 2:
            yield ODD, total


def _split(df, **options):
    return key_by(df, "key").process(
        Split(), "key string, total long", max_parallelism=4, side_outputs=[BIG, ODD], **options
    )


@pytest.mark.telling
def test_each_output_of_a_stream_goes_to_its_own_sink_once(spark, tmp_path):
    """foreach_batch_output hands every writer its own rows of every batch, once, computed from one state."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    feed.add(*BATCHES)
    written = {name: FiledBatches(tmp_path / name) for name in ("main", "big", "odd")}

    def writer(name):
        kept = written[name]

        def write(df, batch_id):
            assert batch_id not in kept, "written twice"
            kept[batch_id] = rows_of(df.collect())

        return write

    sinks = foreach_batch_output(writer("main"), {BIG: writer("big"), ODD: writer("odd")})
    query = _split(feed.stream()).writeStream.foreachBatch(sinks).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    assert {
        "main": {0: [("a", 1), ("a", 3), ("b", 20)], 1: [("a", 33), ("b", 25)], 2: [("c", 2)]},
        "big": {0: [("b", 20)], 1: [("a", 33), ("b", 25)], 2: []},
        "odd": {0: [(1,), (3,)], 1: [(25,), (33,)], 2: []},
    } == {name: dict(batches) for name, batches in written.items()}


def test_a_batch_result_is_split_by_tag(spark):
    """main_output and get_side_output give each output its own columns; an undeclared tag's outputs are dropped."""
    result = _split(bounded(spark, BATCHES[0] + BATCHES[1], SCHEMA)).persist()
    big, odd = get_side_output(result, BIG), get_side_output(result, ODD)

    assert ["key", "total"] == main_output(result).columns == big.columns
    assert [("a", 1), ("a", 3), ("a", 33), ("b", 20), ("b", 25)] == rows_of(
        main_output(result).collect()
    )
    assert [("a", 33), ("b", 20), ("b", 25)] == rows_of(big.collect())
    assert ["value"] == odd.columns
    assert [(1,), (25,), (3,), (33,)] == rows_of(odd.collect())
    assert 5 + 3 + 4 == result.count()
    result.unpersist()
    with pytest.raises(DeclarationValueError, match=r"side_outputs=\[tag\].*'unread'"):
        get_side_output(result, UNREAD)


def test_without_declared_tags_only_the_main_output_is_there(spark):
    """Of a function with side outputs nobody asked for, the result is the main output as it is."""
    df = bounded(spark, BATCHES[0], SCHEMA)
    result = key_by(df, "key").process(Split(), "key string, total long", max_parallelism=4)

    assert [("a", 1), ("a", 3), ("b", 20)] == rows_of(main_output(result).collect())
    assert result.columns == main_output(result).columns == ["key", "total"]


def test_the_types_of_side_outputs_may_be_given_to_process(spark):
    """A mapping gives an undeclared tag its type; tags are told from strings and from the main columns."""
    tag = OutputTag("n")

    class Both(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield tag, {"m": value.n, "k": value.key}
            yield (value.key,)

    stream = key_by(bounded(spark, BATCHES[0], SCHEMA), "key")
    result = stream.process(Both(), "key string", side_outputs={tag: "k string, m int"})
    assert [("a", 1), ("a", 2), ("b", 20)] == rows_of(get_side_output(result, tag).collect())
    with pytest.raises(DeclarationTypeError, match=r"OutputTags, got 'n'"):
        stream.process(Both(), "key string", side_outputs=["n"])
    with pytest.raises(DeclarationValueError, match=r"must differ in name, got \['n'\] twice"):
        stream.process(Both(), "N string", side_outputs={tag: "k string, m int"})


@pytest.mark.parametrize("writers", [(1, None), (None, {BIG: "table"})])
def test_a_writer_is_a_function(spark, writers):
    """Anything else is refused when the writers are given, not in the first batch."""
    with pytest.raises(DeclarationTypeError, match=r"a function of \(DataFrame, batch_id\)"):
        foreach_batch_output(*writers)
