# SPDX-License-Identifier: Apache-2.0
"""Functions of one element that need neither its time nor its key, and functions that choose its key.

Names are PyFlink's (`pyflink.datastream`).  On a keyed stream `open` of a map, flat_map or filter
function may get state of keys, as in Flink; on a stream without keys these classes have no state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, cast

import attrs

from pyflinklike._messages import instance_of, short_repr
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.state.fold_functions import Function, check_methods

__all__ = [
    "FilterFunction",
    "FlatMapFunction",
    "KeySelector",
    "MapFunction",
    "NullByteKeySelector",
    "Partitioner",
    "as_filter_function",
    "as_flat_map_function",
    "as_key_selector",
    "as_map_function",
]


class MapFunction(Function, ABC):
    """Makes one output of each element.

    As `pyflink.datastream.MapFunction`; on a keyed stream `open` may get state per key.
    """

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Return the output for an element; None is an output, too."""


class FlatMapFunction(Function, ABC):
    """Makes any number of outputs of each element.

    As `pyflink.datastream.FlatMapFunction`; on a keyed stream `open` may get state per key.
    """

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Return the outputs for an element; None means no output (in PyFlink it is an error)."""


class FilterFunction(Function, ABC):
    """Chooses the elements that stay.

    As `pyflink.datastream.FilterFunction`; on a keyed stream `open` may get state per key.
    """

    @abstractmethod
    def filter(self, value: Any) -> Any:
        """Return whether an element stays, as any value that `bool` takes."""


def as_map_function(func: MapFunction | Callable[[Any], Any]) -> MapFunction:
    """Return a `MapFunction` as it is, or make one of a callable that takes an element.

    Raises:
        DeclarationTypeError: The argument is neither, or is the class instead of an instance, or
            cannot be called with an element.
    """
    given = func if isinstance(func, MapFunction) else _Map(_callable(func, MapFunction))
    return check_methods(given)


def as_flat_map_function(
    func: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
) -> FlatMapFunction:
    """Return a `FlatMapFunction` as it is, or make one of a callable that takes an element.

    Raises:
        DeclarationTypeError: The argument is neither, or is the class instead of an instance, or
            cannot be called with an element.
    """
    given = (
        func if isinstance(func, FlatMapFunction) else _FlatMap(_callable(func, FlatMapFunction))
    )
    return check_methods(given)


def as_filter_function(func: FilterFunction | Callable[[Any], Any]) -> FilterFunction:
    """Return a `FilterFunction` as it is, or make one of a callable that takes an element.

    Raises:
        DeclarationTypeError: The argument is neither, or is the class instead of an instance, or
            cannot be called with an element.
    """
    given = func if isinstance(func, FilterFunction) else _Filter(_callable(func, FilterFunction))
    return check_methods(given)


@attrs.frozen
class _Map(MapFunction):
    """A callable as a `MapFunction`; the callable itself is the method, so an element costs one call."""

    func: Callable[[Any], Any]
    map = property(attrgetter("func"))


@attrs.frozen
class _FlatMap(FlatMapFunction):
    """A callable as a `FlatMapFunction`; the callable itself is the method."""

    func: Callable[[Any], Iterable[Any] | None]
    flat_map = property(attrgetter("func"))


@attrs.frozen
class _Filter(FilterFunction):
    """A callable as a `FilterFunction`; the callable itself is the method."""

    func: Callable[[Any], Any]
    filter = property(attrgetter("func"))


def _callable(given: Any, kind: type[Function]) -> Callable[[Any], Any]:
    """Return the argument if it can be called with elements.

    Raises:
        DeclarationTypeError: The argument is not callable, or it is a class of functions, which would
            make an object of every element.
    """
    is_a_class = isinstance(given, type) and issubclass(given, Function)
    if callable(given) and not is_a_class:
        return cast("Callable[[Any], Any]", given)
    remedy = instance_of(kind, given, "give for example a lambda")
    msg = f"The input must be a {kind.__name__} or a callable function, got {short_repr(given)}; {remedy}"
    raise DeclarationTypeError(msg)


# Functions that choose the key of an element, and the instance that gets it


class KeySelector(Function, ABC):
    """Returns the key of an element, as `pyflink.datastream.KeySelector`."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key of an element; equal elements must have the same key."""


class NullByteKeySelector(KeySelector):
    """Gives all elements the key 0, like PyFlink's class of this name."""

    def get_key(self, value: Any) -> int:  # noqa: ARG002
        """Return 0."""
        return 0


def as_key_selector(selector: KeySelector | Callable[[Any], Any]) -> KeySelector:
    """Return a `KeySelector` as it is, or make one of a callable that takes an element.

    Raises:
        DeclarationTypeError: The argument is neither, or is the class instead of an instance, or
            cannot be called with an element.
    """
    if isinstance(selector, KeySelector):
        return check_methods(selector)
    given: Any = selector
    if callable(given) and not (isinstance(given, type) and issubclass(given, KeySelector)):
        return check_methods(_CallableKeySelector(given))
    remedy = instance_of(KeySelector, given, "give for example lambda value: value[0]")
    msg = (
        "Parameter key_selector should be type of KeySelector or a callable function, "
        f"got {short_repr(given)}; {remedy}"
    )
    raise DeclarationTypeError(msg)


@attrs.frozen
class _CallableKeySelector(KeySelector):
    """A callable as a `KeySelector`; the callable itself is the method, so an element costs one call."""

    func: Callable[[Any], Any]
    get_key = property(attrgetter("func"))


class Partitioner(Function, ABC):
    """Chooses the instance that gets an element, as `pyflink.datastream.Partitioner`."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the instance for a key.

        Args:
            key: The key of the element, from the key selector.
            num_partitions: The number of parallel instances.

        Returns:
            A number from 0, less than `num_partitions`.
        """
