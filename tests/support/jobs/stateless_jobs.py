# SPDX-License-Identifier: Apache-2.0
"""Jobs without state: maps, unions, side outputs, types at borders."""

from __future__ import annotations

from jobs.collection import job

from pyflinklike.pyflink.common import Row, RowKind, Types, WatermarkStrategy
from pyflinklike.pyflink.datastream import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
)
from pyflinklike.pyflink.datastream.connectors import NumberSequenceSource

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
ODD = OutputTag("odd", Types.INT())
BIG = OutputTag("big")


@job(2, 3, 4, ordered=True)
def map_of_a_lambda(env):
    """One output for each element."""
    return env.from_collection([1, 2, 3]).map(lambda n: n + 1)


@job(1, None, 3, ordered=True)
def map_to_none(env):
    """None is an output of map."""
    return env.from_collection([1, 2, 3]).map(lambda n: None if n == 2 else n)


@job("a", "b", "c", ordered=True)
def flat_map_of_a_generator(env):
    """Any number of outputs, in order."""

    def split(line):
        yield from line.split()

    return env.from_collection(["a b", "", "c"]).flat_map(split)


@job(1, 2, ordered=True)
def flat_map_to_none(env):
    """None is no output of flat_map."""
    return env.from_collection([1, 2, 3]).flat_map(lambda n: [n] if n < 3 else None)


@job(2, 4, ordered=True)
def filter_by_truth(env):
    """What is true stays, whatever it is."""
    return env.from_collection([1, 2, 3, 4]).filter(lambda n: [] if n % 2 else "yes")


class Scaled(MapFunction):
    def open(self, runtime_context):
        self.factor = 10

    def map(self, value):
        return value * self.factor


@job(10, 20, ordered=True)
def map_function_that_is_opened(env):
    """What `open` makes is there."""
    return env.from_collection([1, 2]).map(Scaled(), Types.INT())


class Twice(FlatMapFunction):
    def flat_map(self, value):
        return [value, value]


class Small(FilterFunction):
    def filter(self, value):
        return value < 2


@job(1, 1, ordered=True)
def functions_as_classes(env):
    """Each kind has a class."""
    return env.from_collection([1, 2]).flat_map(Twice()).filter(Small())


class Odd(ProcessFunction):
    def process_element(self, value, ctx):
        if value % 2:
            yield ODD, value
        else:
            yield value
        if value > 3:
            yield BIG, value


@job(2, 4)
def main_output_beside_side_outputs(env):
    """What goes aside is not in the main output, read or not."""
    return env.from_collection([1, 2, 3, 4, 5]).process(Odd(), Types.INT())


@job(1, 3, 5)
def side_output_of_a_process_function(env):
    """A tag's outputs are a stream."""
    stream = env.from_collection([1, 2, 3, 4, 5]).process(Odd(), Types.INT())
    return stream.get_side_output(ODD)


@job(2, 4, -1, -3, -5, 400, 500)
def union_of_all_outputs(env):
    """A stream and its side outputs come together again."""
    stream = env.from_collection([1, 2, 3, 4, 5]).process(Odd(), Types.INT())
    odd = stream.get_side_output(ODD).map(lambda n: -n, Types.INT())
    return stream.union(odd, stream.get_side_output(BIG).map(lambda n: n * 100, Types.INT()))


@job(1, 2, 3, 1, 2, 3)
def union_with_itself(env):
    """The same stream twice gives each element twice."""
    stream = env.from_collection([1, 2, 3])
    return stream.union(stream)


@job(1, 2, "a")
def union_of_two_sources(env):
    """All elements of all streams."""
    return env.from_collection([1, 2]).union(env.from_collection(["a"]))


@job((1,), (2,), ("x", 1), ("x", 2))
def diamond_of_mutable_elements(env):
    """Each way has elements of its own: what one appends the other does not see."""

    def added(value):
        value.insert(0, "x")
        return tuple(value)

    lists = env.from_collection([[1], [2]])
    return lists.map(added).union(lists.map(tuple))


@job(("b", 1, "a"), ordered=True)
def projection(env):
    """Fields are picked, in any order."""
    kind = Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT()])
    return env.from_collection([("a", "b", 1)], kind).project(1, 2, 0)


@job(1, 2, 3, 4)
def number_sequence(env):
    """Both ends are in it."""
    source = NumberSequenceSource(1, 4)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


@job(0.10000000149011612, ordered=True)
def float_is_rounded_at_the_border(env):
    """A FLOAT has 32 bits."""
    return env.from_collection([0.1]).map(lambda x: x, Types.FLOAT())


@job("Row(f0='a', f1=1)", ordered=True)
def row_gets_names_at_the_border(env):
    """An unnamed row of a ROW type has names behind it."""
    rows = env.from_collection([1]).map(
        lambda n: Row("a", n), Types.ROW([Types.STRING(), Types.INT()])
    )
    return rows.map(str)


@job("<Row('a', 1)>", ordered=True)
def untyped_row_has_no_names(env):
    """A row of an untyped stream is as it was made."""
    return env.from_collection([Row("a", 1)]).map(str)


@job("-D", ordered=True)
def row_kind_survives_a_typed_border(env):
    """A row says what it says of a change."""
    kind = Types.ROW_NAMED(["n"], [Types.INT()])
    rows = env.from_collection([1]).map(lambda n: Row.of_kind(RowKind.DELETE, n), kind)
    return rows.map(lambda row: str(row.get_row_kind()))


@job(("a", 2), ordered=True)
def row_field_is_assigned(env):
    """Fields of a row can be assigned, by name and position."""

    def raised(row):
        row["n"] = row.n + 1
        row[0] = row.name.lower()
        return row

    kind = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.INT()])
    return env.from_collection([("A", 1)], kind).map(raised, kind).map(tuple)


@job(("a", 1), (None, None), ordered=True)
def tuples_with_none(env):
    """A field may be None."""
    return env.from_collection([("a", 1), (None, None)], PAIR)


@job("captured 1", "captured 2", ordered=True)
def a_closure_is_taken_when_it_is_declared(env):
    """What the program changes afterwards is not seen."""
    word = ["captured"]
    stream = env.from_collection([1, 2]).map(lambda n: f"{word[0]} {n}")
    word[0] = "changed"
    return stream


@job(0, 1, 2, 3, 4, 5)
def lambdas_of_a_loop(env):
    """Each has the loop's value of its turn."""
    streams = [env.from_collection([0, 3]).map(lambda n: n + i) for i in range(3)]  # noqa: B023
    return streams[0].union(*streams[1:])


@job(1, 2, 3)
def rebalanced(env):
    """Hints of distribution change no element."""
    return env.from_collection([1, 2, 3]).rebalance().map(lambda n: n).rescale().shuffle().forward()


@job({"k": [1, 2]}, (1, "x"), b"\x00", 2.5, ordered=True)
def any_object_that_pickles(env):
    """Untyped elements keep their types."""
    return env.from_collection([{"k": [1, 2]}, (1, "x"), b"\x00", 2.5])


@job("1", "2", ordered=True)
def three_in_a_chain(env):
    """Steps follow one another."""
    return env.from_collection([1, 5, 2]).filter(lambda n: n < 3).map(str, Types.STRING())


@job("a", "b", "c", ordered=True)
def rows_without_names(env):
    """Tuples, rows and lists are rows; their fields are f0 and so on."""
    rows = env.from_collection([("a",), Row("b"), ["c"]], Types.ROW([Types.STRING()]))
    return rows.map(lambda row: row.f0)


@job()
def nothing_at_all(env):
    """A job without elements ends."""
    return env.from_collection([]).map(lambda n: n + 1).key_by(lambda n: n).sum()


@job({"a": [1, 2]}, {"b": []}, ordered=True)
def maps_and_lists_of_types(env):
    """Nested types are converted, too."""
    kind = Types.MAP(Types.STRING(), Types.LIST(Types.INT()))
    return env.from_collection([{"a": [1, 2]}, {"b": []}], kind).map(lambda each: each, kind)


@job(b"\x00\x01", ordered=True)
def bytes_of_a_type(env):
    """An array of bytes is bytes."""
    kind = Types.PRIMITIVE_ARRAY(Types.BYTE())
    return env.from_collection([b"\x00\x01"], kind).map(lambda each: each, kind)


@job(3, 30, 300)
def three_sinks_of_one_stream_collected(env):
    """A stream may go several ways and come together."""
    stream = env.from_collection([3])
    return stream.union(stream.map(lambda n: n * 10), stream.map(lambda n: n * 100))


def counted(value):
    """One row, given again and again."""
    row = Row(n=0, seen=[])
    for n in range(value):
        row["n"] = n
        row["seen"].append(n)
        yield row


class Again(MapFunction):
    """Gives the row of its own, each time."""

    def open(self, runtime_context):
        self.row = Row(n=0)

    def map(self, value):
        self.row["n"] = value
        return self.row


class Changing(ProcessFunction):
    """Changes what it has given, to the main output and aside."""

    def process_element(self, value, ctx):
        given = [value]
        yield given
        given.append("main")
        yield BIG, given
        given.append("side")


@job((0, [0]), (1, [0, 1]), (2, [0, 1, 2]), 5, 3, 5, [3], [3, "main"])
def elements_are_as_they_were_given(env):
    """Whatever the function does with them then."""
    numbers = env.from_collection([5, 3])
    rows = numbers.filter(lambda n: n == 3).flat_map(counted)
    again = env.from_collection([5, 3, 5]).map(Again())
    changing = numbers.filter(lambda n: n == 3).process(Changing())
    return (
        rows.key_by(lambda _: 0)
        .map(lambda row: (row["n"], row["seen"]))
        .union(
            again.key_by(lambda _: 0).map(lambda row: row["n"]),
            changing.get_side_output(BIG),
            changing,
        )
    )
