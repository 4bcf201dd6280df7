# SPDX-License-Identifier: Apache-2.0
"""Rows whose fields can be assigned, and their types."""

from __future__ import annotations

import pickle

import pytest
from local_support import local

import pyflinklike
from pyflinklike.errors import StateValueError
from pyflinklike.pyflink.common import Encoder, Row, RowKind, Types, typeinfo
from pyflinklike.pyflink.datastream.connectors import BucketAssigner, FileSink

NAMED = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.INT()])


def test_fields_are_read_and_assigned_by_name_and_position():
    """As PyFlink's."""
    row = Row(name="a", n=1)
    row["n"] = 2
    row[0] = "b"

    assert ("b", 2, "b", 2) == (row.name, row.n, row["name"], row[1])
    assert ["b", 2] == list(row)
    assert ("name" in row, "b" in row, len(row)) == (True, False, 2)


def test_a_field_is_not_assigned_as_an_attribute():
    """PyFlink refuses it, too."""
    row = Row(name="a")

    with pytest.raises(AttributeError, match=r"row\['name'\] = "):
        row.name = "b"
    with pytest.raises(AttributeError, match="this Row has the fields"):
        row.other  # noqa: B018
    with pytest.raises(KeyError):
        row["other"]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (Row(a=1, b=2), Row(b=2, a=1), True),
        (Row(1, 2), Row(1, 2), True),
        (Row(1, 2), Row(2, 1), False),
        (Row(1), Row(f0=1), False),
        (Row(1), Row.of_kind(RowKind.DELETE, 1), False),
        (Row(a=1), Row(a=1, b=2), False),
        (Row(1), (1,), False),
    ],
)
def test_rows_are_equal_by_names_values_and_kind(one, other, equal):
    """Named ones in any order."""
    assert equal == (one == other)
    assert equal == (pickle.loads(pickle.dumps(one)) == other)


def test_a_row_of_names_makes_rows():
    """And shows itself as PyFlink's do."""
    person = Row("name", "age")

    assert "Row(name='Ann', age=3)" == repr(person("Ann", 3))
    assert "<Row('name', 'age')>" == repr(person)
    assert {"name": "Ann", "age": 3} == person("Ann", 3).as_dict()


def test_dicts_may_go_all_the_way_down():
    """Into lists and dicts, too."""
    row = Row(a=Row(b=1), c=[Row(d=2)], e={"f": Row(g=3)})

    assert {"a": {"b": 1}, "c": [{"d": 2}], "e": {"f": {"g": 3}}} == row.as_dict(recursive=True)
    with pytest.raises(TypeError, match="without field names"):
        Row(1).as_dict()


@pytest.mark.parametrize(
    "value",
    [
        Row("a", 1),
        Row(n=1, name="a"),
        ("a", 1),
        ["a", 1],
        {"n": 1, "name": "a"},
        pyflinklike.Row(n=1, name="a"),
    ],
)
def test_a_type_of_rows_takes_what_has_the_fields(value):
    """By name where there are names, else by position; it gives a row of one's own."""
    stored = NAMED.freeze(value)
    row = NAMED.thaw(stored)
    row["n"] += 1

    assert Row(name="a", n=2) == row
    assert Row(name="a", n=1) == NAMED.thaw(stored)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (Row("a"), "got <Row"),
        (Row(name="a", m=1), r"it lacks \['n'\] and has \['m'\]: a row with names goes by them"),
        (Row(name="a", n=1, m=2), r"it has \['m'\]"),
    ],
)
def test_a_type_of_rows_refuses_other_fields(value, told):
    """A named row never goes by position, as PyFlink's coder looks its fields up by name."""
    with pytest.raises(StateValueError, match=told):
        NAMED.freeze(value)


def test_what_is_stored_of_a_row_is_the_same_whichever_row_it_was():
    """So a job can go on with state of a function on DataFrames, and the other way round."""
    theirs = pyflinklike.Types.ROW_NAMED(
        ["name", "n"], [pyflinklike.Types.STRING(), pyflinklike.Types.INT()]
    )

    assert theirs.signature == NAMED.signature
    assert theirs.to_arrow([theirs.freeze(("a", 1))]) == NAMED.to_arrow([NAMED.freeze(Row("a", 1))])


def test_a_keyed_stream_writes_rows_of_key_and_element(tmp_path):
    """Of their types, as PyFlink's files have them."""
    pairs = local().from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    keyed = pairs.key_by(lambda pair: pair[0], Types.STRING())
    keyed.sink_to(sink.build())

    keyed.get_execution_environment().execute()

    assert ["+I[a, (a,1)]\n"] == [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()]


def test_the_row_type_of_typeinfo_is_that_which_types_make():
    """It takes and gives rows of jobs, and is the same key of a dict."""
    kinds = [Types.STRING(), Types.INT()]
    row_type = typeinfo.RowTypeInfo(kinds, ["name", "n"])

    assert NAMED == row_type
    assert Types.ROW(kinds) == typeinfo.RowTypeInfo(kinds)
    assert hash(NAMED) == hash(row_type)
    assert isinstance(NAMED, typeinfo.RowTypeInfo)


def test_a_job_takes_a_row_type_of_typeinfo():
    """For its elements and its outputs."""
    row_type = typeinfo.RowTypeInfo([Types.STRING(), Types.INT()], ["name", "n"])
    stream = local().from_collection([Row(name="a", n=1)], row_type)

    stream = stream.map(lambda row: Row(name=row.name, n=row.n + 1), row_type)

    assert [Row(name="a", n=2)] == list(stream.execute_and_collect())


def test_state_of_rows_says_whose_row_it_refuses():
    """Two classes are called Row."""
    state_type = pyflinklike.Types.ROW([pyflinklike.Types.INT()])

    with pytest.raises(
        StateValueError, match=r"this is pyflinklike\.pyflink\.common\.Row, not pyflinklike\.Row"
    ):
        state_type.freeze(Row(1))


class Sensor:
    """A class of the user, as many scripts have one for what they begin with."""

    def __init__(self, name: str, level: int) -> None:
        self.name, self.level = name, level


def test_rows_of_a_collection_are_made_of_the_attributes_of_objects():
    """As PyFlink 2.3 does, whose Java side sees an object as the map of its attributes."""
    env = local()
    kind = Types.ROW_NAMED(["level", "name"], [Types.INT(), Types.STRING()])
    stream = env.from_collection([Sensor("a", 1), Sensor("b", 2)], kind)
    assert [Row(level=1, name="a"), Row(level=2, name="b")] == list(stream.execute_and_collect())


def test_maps_of_a_collection_are_made_of_the_attributes_of_objects():
    """Within a row, and with texts of what is none, as PyFlink 2.3 makes them."""
    env = local()
    texts = Types.MAP(Types.STRING(), Types.STRING())
    kind = Types.ROW_NAMED(["at", "told"], [Types.INT(), texts])
    stream = env.from_collection([(1, Sensor("a", 7))], kind)
    assert [Row(at=1, told={"name": "a", "level": "7"})] == list(stream.execute_and_collect())


def test_an_object_without_the_fields_of_a_row_is_refused():
    """A misspelt attribute is no null."""
    kind = Types.ROW_NAMED(["level", "nam"], [Types.INT(), Types.STRING()])
    with pytest.raises(StateValueError, match="element 0 of the collection"):
        local().from_collection([Sensor("a", 1)], kind)


@pytest.mark.parametrize(
    ("element", "kind", "expected"),
    [
        ({"a": 1}, Types.MAP(Types.STRING(), Types.STRING()), {"a": "1"}),
        ((1, 2), Types.ROW([Types.INT(), Types.STRING()]), Row(f0=1, f1="2")),
        (True, Types.STRING(), "true"),
    ],
)
def test_a_number_of_a_collection_becomes_the_text_that_its_type_asks_for(element, kind, expected):
    """As Java writes it, by which PyFlink converts them."""
    assert [expected] == list(local().from_collection([element], kind).execute_and_collect())
