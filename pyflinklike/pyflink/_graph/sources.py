# SPDX-License-Identifier: Apache-2.0
"""The sources of a job, as plain declarations.

Each host reads them in its own way.  The local runner calls `read` in this process.  On
Spark workers call `read_split`, or `read` if the splits have no names.  A source that only Spark can read does not override
`read`, which then raises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterator
from typing import Any

import attrs

from pyflinklike._checks import is_int64
from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationValueError, SparkSetupError
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.copies import as_given

__all__ = ["CollectionSource", "NumberSequenceSource", "Source", "SourceMaker"]


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

    @property
    def is_bounded(self) -> bool:
        """True."""
        return True

    @property
    def parallelism(self) -> int | None:
        """1: one instance keeps the order."""
        return 1

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

    @property
    def is_bounded(self) -> bool:
        """True."""
        return True

    @property
    def type_info(self) -> TypeInformation:
        """LONG."""
        return Types.LONG()

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
