# SPDX-License-Identifier: Apache-2.0
"""Functions of one element that need neither its key nor its time: map, flat_map and filter.

Names are those of `pyflink.datastream`.  On a keyed stream their `open` may obtain state of keys,
as in Flink; on a stream without keys the same classes have none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, cast

import attrs

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.functions import Function
from pyflinklike.shown import instance_of, shown

__all__ = [
    "FilterFunction",
    "FlatMapFunction",
    "MapFunction",
    "as_filter_function",
    "as_flat_map_function",
    "as_map_function",
]


class MapFunction(Function, ABC):
    """Makes one output of each element.

    As `pyflink.datastream.MapFunction`; on a keyed stream state per key is obtained in `open`.
    """

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Return the output for an element; None is an output, too."""


class FlatMapFunction(Function, ABC):
    """Makes any number of outputs of each element.

    As `pyflink.datastream.FlatMapFunction`; on a keyed stream state per key is obtained in `open`.
    """

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Return the outputs for an element; None is no output (in PyFlink it is an error)."""


class FilterFunction(Function, ABC):
    """Chooses the elements that stay.

    As `pyflink.datastream.FilterFunction`; on a keyed stream state per key is obtained in `open`.
    """

    @abstractmethod
    def filter(self, value: Any) -> Any:
        """Return whether an element stays: any value, true or false to `bool`."""


@attrs.frozen
class _Map(MapFunction):
    """A callable as a `MapFunction`: it is itself the method, so an element costs one call."""

    func: Callable[[Any], Any]
    map = property(attrgetter("func"))


@attrs.frozen
class _FlatMap(FlatMapFunction):
    """A callable as a `FlatMapFunction`."""

    func: Callable[[Any], Iterable[Any] | None]

    def flat_map(self, value: Any) -> Iterable[Any] | None:
        return self.func(value)


@attrs.frozen
class _Filter(FilterFunction):
    """A callable as a `FilterFunction`, whose method is the callable itself."""

    func: Callable[[Any], Any]
    filter = property(attrgetter("func"))


def as_map_function(func: MapFunction | Callable[[Any], Any]) -> MapFunction:
    """Return a `MapFunction` as it is, and a callable of an element as one.

    Raises:
        DeclarationTypeError: It is neither, or the class instead of an instance.
    """
    return func if isinstance(func, MapFunction) else _Map(_callable(func, MapFunction))


def as_flat_map_function(
    func: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
) -> FlatMapFunction:
    """Return a `FlatMapFunction` as it is, and a callable of an element as one.

    Raises:
        DeclarationTypeError: It is neither, or the class instead of an instance.
    """
    return func if isinstance(func, FlatMapFunction) else _FlatMap(_callable(func, FlatMapFunction))


def as_filter_function(func: FilterFunction | Callable[[Any], Any]) -> FilterFunction:
    """Return a `FilterFunction` as it is, and a callable of an element as one.

    Raises:
        DeclarationTypeError: It is neither, or the class instead of an instance.
    """
    return func if isinstance(func, FilterFunction) else _Filter(_callable(func, FilterFunction))


def _callable(given: Any, kind: type[Function]) -> Callable[[Any], Any]:
    """Return a callable itself.

    Raises:
        DeclarationTypeError: It is not callable; or it is a function of another kind, or a class of
            functions, which would be made anew for every element.
    """
    is_a_class = isinstance(given, type) and issubclass(given, Function)
    if callable(given) and not is_a_class and not isinstance(given, Function):
        return cast("Callable[[Any], Any]", given)
    remedy = instance_of(kind, given, "give for example a lambda")
    msg = (
        f"The input must be a {kind.__name__} or a callable function, got {shown(given)}; {remedy}"
    )
    raise DeclarationTypeError(msg)
