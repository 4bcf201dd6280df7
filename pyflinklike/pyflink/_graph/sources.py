# SPDX-License-Identifier: Apache-2.0
"""The sources of a job, as plain declarations.

Each host reads them in its own way.  The local runner calls `read` in this process.  On Spark workers call
`read_split`, or `read` if the splits have no names.  A source that only Spark can read does not override
`read`, which then raises.

A `HybridSource` has the splits of all its parts, in the order of the parts.  A micro-batch of a stream has
splits of one part only.  So the job's folder records at which micro-batch one part ends and the next begins,
as it records all that a job has read.  Flink switches at run time by an enumerator of its own:
https://github.com/apache/flink/blob/master/flink-connectors/flink-connector-base/src/main/java/org/apache/flink/connector/base/source/hybrid/HybridSource.java
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator
from itertools import count as counted
from itertools import groupby
from typing import Any

import attrs

from pyflinklike._checks import is_int, is_int64
from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import instance_of, short_repr, shown_error
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    SparkSetupError,
    UserFunctionError,
)
from pyflinklike.pyflink._graph.functions import copy_function
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.copies import as_given


class Source(WithoutJava, ABC):
    """A place that elements come from."""

    @property
    @abstractmethod
    def is_bounded(self) -> bool:
        """True if the source ends."""

    @property
    def type_info(self) -> TypeInformation:
        """The type of the elements: any object that pickles, unless the source knows better."""
        return Types.PICKLED_BYTE_ARRAY()

    @property
    def parallelism(self) -> int | None:
        """The only number of instances that can read it; None if any number can."""
        return None

    @property
    def identity(self) -> str:
        """Distinguishes it from other sources of a program, the same in each run of the program."""
        return type(self).__name__

    @property
    def discovery_milliseconds(self) -> int | None:
        """The time between looks for new splits, in ms; None for a source without splits."""
        return None

    def discover(self, known: Container[str]) -> list[str]:
        """Return the names of splits that are not known yet, the oldest first.

        Args:
            known: The names that were found before.
        """
        raise NotImplementedError

    @property
    def is_read_alike(self) -> bool:
        """True if it yields the same elements in the same order whenever it is read."""
        return True

    @property
    def has_named_splits(self) -> bool:
        """True if its splits have names, however many instances read them."""
        return False

    def splits(self) -> list[str]:
        """Return the names of all splits of a source that ends, as they are now."""
        raise NotImplementedError

    def group_splits(self, splits: list[str]) -> list[list[str]]:
        """Return splits in groups: all splits of a group are read before the next group.

        Args:
            splits: Names of splits, in the order of `splits`.
        """
        return [splits] if splits else []

    def read_split(self, split: str) -> Iterator[tuple[Any, int | None]]:
        """Yield the elements of a split with their event times in ms (None without one).

        Args:
            split: The name of the split.
        """
        raise NotImplementedError

    @property
    def is_read_anywhere(self) -> bool:
        """True if workers can read its splits; otherwise only the driver can."""
        return True

    def read(self, index: int, parallelism: int) -> Iterator[tuple[Any, int | None]]:
        """Yield the elements with their event times in ms (None without one), in this process.

        Args:
            index: The number of the instance that reads, from 0.
            parallelism: How many instances share the elements.

        Raises:
            SparkSetupError: The source cannot be read in this process.
        """
        msg = (
            f"{type(self).__name__} is read by Spark only, got execution.target: local for "
            f"instance {index + 1} of {parallelism}; set execution.target to spark"
        )
        raise SparkSetupError(msg)


class SourceMaker(WithoutJava, ABC):
    """A declaration of Flink 1 that becomes a source when it is added to a program."""

    @abstractmethod
    def source(self) -> Source:
        """Make the source from what is declared so far."""


@attrs.frozen
class CollectionSource(Source):
    """The elements of `from_collection`, in order.

    Args:
        elements: The elements, already converted to their type; the source alone holds them.
    """

    elements: tuple[Any, ...] = attrs.field(repr=lambda elements: f"<{len(elements)} elements>")

    is_bounded = True
    parallelism = 1  # one instance keeps the order

    @property
    def identity(self) -> str:
        """The number of elements: pickles of equal elements may differ."""
        return f"a collection of {len(self.elements)}"

    def read(self, index: int, parallelism: int) -> Iterator[tuple[Any, int | None]]:
        """Yield copies of the elements, without event times: another job may read the elements, too."""
        assert (index, parallelism) == (0, 1)
        return ((as_given(element), None) for element in self.elements)


@attrs.frozen
class NumberSequenceSource(Source):
    """The whole numbers from one to another, both included, as PyFlink's.

    Each instance gets a range.  So the numbers have an order only if there is one instance.

    Args:
        start: The first number, an int of 64 bits.
        end: The last number, not smaller than the first.

    Raises:
        DeclarationValueError: A number is no int of 64 bits, or the first one is greater than the last.
    """

    start: int
    end: int = attrs.field()

    @end.validator
    def _check(self, _: attrs.Attribute[int], end: Any) -> None:
        if not is_int64(self.start) or not is_int64(end) or self.start > end:
            msg = (
                f"a sequence goes from an int of 64 bits to one that is not smaller, got "
                f"{short_repr(self.start)} and {short_repr(end)}; give for example 1 and 10"
            )
            raise DeclarationValueError(msg)

    is_bounded = True
    type_info = Types.LONG()

    @property
    def identity(self) -> str:
        """The two ends of the sequence."""
        return f"the numbers from {self.start} to {self.end}"

    def part(self, index: int, parallelism: int) -> range:
        """Return the numbers of one instance.

        Args:
            index: The number of the instance, from 0.
            parallelism: How many instances there are.
        """
        count = self.end - self.start + 1
        first, last = (self.start + count * i // parallelism for i in (index, index + 1))
        return range(first, last)

    def read(self, index: int, parallelism: int) -> Iterator[tuple[Any, int | None]]:
        """Yield the numbers of one instance, without event times."""
        return ((number, None) for number in self.part(index, parallelism))


# Generated elements


@attrs.frozen
class RateLimiterStrategy:
    """The speed of a source, as Flink's.

    Args:
        records_per_second: The number of elements that all instances together yield in a second.
    """

    records_per_second: int

    @staticmethod
    def per_second(records_per_second: int) -> RateLimiterStrategy:
        """Let all instances together yield this many elements in a second.

        Args:
            records_per_second: An int above 0.

        Raises:
            DeclarationValueError: `records_per_second` is no int above 0.
        """
        if not is_int(records_per_second) or records_per_second < 1:
            msg = f"a rate is an int above 0, got {short_repr(records_per_second)}; give for example 5"
            raise DeclarationValueError(msg)
        return RateLimiterStrategy(records_per_second)


class DataGeneratorSource(Source):
    """The results of a function for the numbers from 0 on.

    A source with a count ends, and yields all elements at once.  A source without a count never
    ends: on Spark it keeps its rate, also over restarts; the local runner reads it as fast as it
    can.

    Args:
        generator_function: Makes an element from a number.
        count: The number of elements; None for no end.
        rate_limiter_strategy: The speed of a source without an end.
        type_info: The type of the elements; None is any object that pickles.

    Raises:
        DeclarationTypeError: The function cannot be called, or the type is no `TypeInformation`.
        DeclarationValueError: The count is no int above 0; or the count and the rate are both
            given, or both left out.
    """

    def __init__(
        self,
        generator_function: Callable[[int], Any],
        count: int | None = None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        _check(generator_function, count, rate_limiter_strategy)
        if type_info is not None and not isinstance(type_info, TypeInformation):
            msg = f"type_info is a TypeInformation, got {short_repr(type_info)}; give for example Types.INT()"
            raise DeclarationTypeError(msg)
        self._function, self._count = copy_function(generator_function), count
        self.rate = (
            None if rate_limiter_strategy is None else rate_limiter_strategy.records_per_second
        )
        """The number of elements in a second, for a source without an end."""
        self._type_info = Types.PICKLED_BYTE_ARRAY() if type_info is None else type_info

    @property
    def is_bounded(self) -> bool:
        """True if the source has a count."""
        return self._count is not None

    @property
    def type_info(self) -> TypeInformation:
        """The declared type of the elements."""
        return self._type_info

    @property
    def identity(self) -> str:
        """The number of elements, or the number in a second."""
        how_many = f"{self.rate} in a second" if self._count is None else str(self._count)
        return f"generated elements, {how_many}"

    def element(self, number: int) -> Any:
        """Return the element of a number.

        Args:
            number: The number, from 0 on.

        Raises:
            UserFunctionError: The function fails.
        """
        try:
            return self._type_info.converted(self._function(number))
        except Exception as error:
            msg = f"the generator function failed for number {number}: {shown_error(error)}"
            raise UserFunctionError(msg) from error

    def read(self, index: int, parallelism: int) -> Iterator[tuple[Any, int | None]]:
        """Yield the elements of one instance, without event times."""
        # Without a count every instance goes on for ever, so it takes every so many-th number, not a range.
        numbers: Any = counted(index, parallelism)
        if self._count is not None:
            numbers = NumberSequenceSource(0, self._count - 1).part(index, parallelism)
        return ((self.element(number), None) for number in numbers)


def _check(function: Any, count: Any, rate: Any) -> None:
    if not callable(function):
        msg = (
            f"a generator function takes a number, got {short_repr(function)}; give for example str"
        )
        raise DeclarationTypeError(msg)
    if (count is None) is (rate is None):
        which = "none" if count is None else "both"
        msg = f"generated elements have a count or a rate, got {which}; give count=1000, or RateLimiterStrategy.per_second(5)"
        raise DeclarationValueError(msg)
    if rate is not None and not isinstance(rate, RateLimiterStrategy):
        msg = f"it takes a RateLimiterStrategy, got {short_repr(rate)}; give RateLimiterStrategy.per_second(5)"
        raise DeclarationTypeError(msg)
    if count is not None and (not is_int(count) or count < 1):
        msg = f"a count is an int above 0, got {short_repr(count)}; give for example 1000"
        raise DeclarationValueError(msg)


# Sources one after the other


@attrs.frozen
class HybridSource(Source):
    """Sources that are read one after the other, as PyFlink's; all but the last one must end.

    All of them share one watermark strategy.  In this process one instance reads them, whatever the
    parallelism.

    Args:
        parts: The sources, in order.
    """

    parts: tuple[Source, ...]

    @staticmethod
    def builder(first_source: Source) -> HybridSourceBuilder:
        """Begin with a source that ends.

        Args:
            first_source: The source that is read first.

        Raises:
            DeclarationTypeError, SparkSetupError: It is no source, or workers cannot read it.
        """
        return HybridSourceBuilder((_check_part(first_source),))

    @property
    def is_bounded(self) -> bool:
        """True if the last source ends."""
        return self.parts[-1].is_bounded

    parallelism = (
        1  # one of several instances would begin a source while others still read the one before
    )

    @property
    def type_info(self) -> TypeInformation:
        """The type of the elements of all sources."""
        return self.parts[0].type_info

    @property
    def identity(self) -> str:
        """The sources in their order."""
        return ", then ".join(each.identity for each in self.parts)

    @property
    def discovery_milliseconds(self) -> int | None:
        """The interval of the last source: only that one may look for new splits."""
        return self.parts[-1].discovery_milliseconds

    @property
    def is_read_alike(self) -> bool:
        """True if each source yields the same elements in the same order whenever it is read."""
        return all(each.is_read_alike for each in self.parts)

    @property
    def has_named_splits(self) -> bool:
        """True if all sources end: the name of a split begins with the number of its source."""
        return self.is_bounded

    def discover(self, known: Container[str]) -> list[str]:
        """Return the names of splits of the last source that are not known yet."""
        at = len(self.parts) - 1
        return [_name(at, each) for each in self.parts[at].discover(_Known(at, known))]

    def splits(self) -> list[str]:
        """Return the splits of all sources that end, in order, as they are now."""
        return [
            _name(at, inner)
            for at, part in enumerate(self.parts)
            if part.is_bounded
            for inner in _splits_of(part)
        ]

    def group_splits(self, splits: list[str]) -> list[list[str]]:
        """Return splits in groups, one for each source."""
        return [list(group) for _, group in groupby(splits, lambda name: json.loads(name)[0])]

    def read_split(self, split: str) -> Iterator[tuple[Any, int | None]]:
        """Yield the elements of a split of one of the sources."""
        at, inner = json.loads(split)
        part: Source = self.parts[at]
        # A bounded part without named splits is one split, which is read as a whole.
        if part.has_named_splits or not part.is_bounded:
            return part.read_split(inner)
        return part.read(0, 1)

    def read(self, index: int, parallelism: int) -> Iterator[tuple[Any, int | None]]:
        """Yield the elements of all sources, one after the other.

        Raises:
            SparkSetupError: A source cannot be read in this process.
        """
        assert (index, parallelism) == (0, 1)
        for part in self.parts:
            yield from part.read(0, 1)


@attrs.frozen
class _Known:
    """The names of one source's splits, among the names of the splits of all sources.

    Args:
        at: The number of the source.
        names: The names of splits of all sources.
    """

    at: int
    names: Container[str]

    def __contains__(self, inner: object) -> bool:
        return _name(self.at, inner) in self.names


def _name(at: int, inner: Any) -> str:
    return json.dumps([at, inner])


def _splits_of(part: Source) -> list[str]:
    # A source whose splits have no names is one split: it does not say into how many to cut it.
    return part.splits() if part.has_named_splits else [""]


def _check_part(source: Any) -> Source:
    if not isinstance(source, Source):
        remedy = instance_of(Source, source, "give for example a FileSource")
        msg = f"a HybridSource has sources, got {short_repr(source)}; {remedy}"
        raise DeclarationTypeError(msg)
    if not source.is_read_anywhere:
        msg = f"the sources of a HybridSource are read by workers, got {source.identity}; use union for it"
        raise SparkSetupError(msg)
    return source


@attrs.define
class HybridSourceBuilder(WithoutJava):
    """Adds sources, as PyFlink's, and `build`s a `HybridSource`."""

    _parts: tuple[Source, ...]

    def add_source(self, source: Source) -> HybridSourceBuilder:
        """Read a source after those that were added before, which must all end.

        Args:
            source: The source that is read next.

        Raises:
            DeclarationTypeError, SparkSetupError: It is no source, or workers cannot read it.
            DeclarationValueError: The source before does not end, or has elements of another type.
        """
        _check_part(source)
        before = self._parts[-1]
        if not before.is_bounded:
            msg = (
                "all sources of a HybridSource but the last one end, got another one after "
                f"{before.identity}; bound that one, or put it last"
            )
            raise DeclarationValueError(msg)
        if source.type_info != before.type_info:
            msg = (
                f"the sources of a HybridSource give one type, got {before.type_info!r} and then "
                f"{source.type_info!r}; give both the same format or deserializer"
            )
            raise DeclarationValueError(msg)
        self._parts = (*self._parts, source)
        return self

    def build(self) -> HybridSource:
        """Make the source."""
        return HybridSource(self._parts)
