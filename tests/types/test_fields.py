# SPDX-License-Identifier: Apache-2.0
"""The fields of rows, whoever made their class."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from pyflinklike import Row
from pyflinklike.types.row import field_of, names_of


class Point(NamedTuple):
    x: int
    count: int

    @property
    def twice(self) -> int:
        """No field, but an attribute."""
        return 2 * self.x


class SparkLike(tuple):  # noqa: SLOT001 - Spark's has a dict, too
    """A tuple with `__fields__`, which takes attributes for columns as Spark's Row does."""

    def __new__(cls, **fields: Any) -> SparkLike:
        row = tuple.__new__(cls, fields.values())
        row.__fields__ = list(fields)
        return row

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.__fields__:
            raise AttributeError(name)
        return self[self.__fields__.index(name)]

    def __getitem__(self, at: Any) -> Any:
        return super().__getitem__(self.__fields__.index(at) if isinstance(at, str) else at)


class Lazy(Mapping[str, Any]):
    """A mapping that is no dict."""

    def __getitem__(self, name: str) -> Any:
        return {"x": 1, "count": 7}[name]

    def __iter__(self) -> Iterator[str]:
        return iter(("x", "count"))

    def __len__(self) -> int:
        return 2


ROWS = [
    Row(x=1, count=7),
    Point(1, 7),
    SparkLike(x=1, count=7),
    {"x": 1, "count": 7},
    OrderedDict(x=1, count=7),
    Lazy(),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_a_field_is_found_by_its_name(row):
    """In order, also one that is called as a method of tuples; what is no field is the default."""
    assert ("x", "count") == names_of(row)
    assert (1, 7) == (field_of(row, "x", None), field_of(row, "count", None))
    for absent in ("y", "index", "as_dict", "__len__"):
        assert field_of(row, absent, "none") == "none"


@pytest.mark.parametrize("value", [(), (1, 2), Row(), Row(1, 2), [1], "text", 7, None])
def test_what_has_no_names_has_none(value):
    """Tuples and Rows without names, and what is no row at all."""
    assert names_of(value) is None
    assert field_of(value, "x", "none") == "none"


def test_an_object_has_its_attributes():
    """As have named tuples, besides their fields."""
    assert field_of(SimpleNamespace(x=1), "x", None) == 1
    assert field_of(Point(1, 7), "twice", None) == 2


def test_a_column_may_be_called_as_the_names_are():
    """Spark's Row shows a column of any name as an attribute, and has names all the same."""
    row = SparkLike(_fields=("a", "b"), x=1)

    assert ("_fields", "x") == names_of(row)
    assert (("a", "b"), 1) == (field_of(row, "_fields", None), field_of(row, "x", None))
