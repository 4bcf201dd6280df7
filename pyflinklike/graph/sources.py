# SPDX-License-Identifier: Apache-2.0
"""Where the elements of a job come from, as plain declarations.

Each host reads them in its own way: the local runner in this process, by `read`; Spark by a source
of its own.  A source that only one host can read subclasses `Source` without `read`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterator
from typing import Any

import attrs

from pyflinklike.checks import is_int64
from pyflinklike.errors import DeclarationValueError, HostError
from pyflinklike.shown import shown
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.copies import as_given

__all__ = ["CollectionSource", "NumberSequenceSource", "Source"]


class Source(ABC):
    """Something that gives elements."""

    @property
    @abstractmethod
    def is_bounded(self) -> bool:
        """Whether it comes to an end."""

    @property
    def type_info(self) -> TypeInformation:
        """Of the elements: any object that pickles, unless the source knows better."""
        return Types.PICKLED_BYTE_ARRAY()

    @property
    def parallelism(self) -> int | None:
        """The only number of instances that can read it; None for any."""
        return None

    @property
    def identity(self) -> str:
        """Tells it from other sources of a program, the same in each run of it."""
        return type(self).__name__

    @property
    def discovery_milliseconds(self) -> int | None:
        """How often new parts are looked for, in ms; None for a source that is not in parts."""
        return None

    def discover(self, known: Container[str]) -> list[str]:
        """The names of the parts that are there and not known yet, the oldest first.

        Args:
            known: Those found before.
        """
        raise NotImplementedError

    @property
    def is_in_parts(self) -> bool:
        """Whether it comes in parts that have names, and not in as many as there are instances."""
        return False

    def parts(self) -> list[str]:
        """The names of all parts of a source that ends, as they are now."""
        raise NotImplementedError

    def read_part(self, part: str) -> Iterator[tuple[Any, int | None]]:
        """The elements of a part with their event times in ms (None without one).

        Args:
            part: Its name.
        """
        raise NotImplementedError

    @property
    def is_read_anywhere(self) -> bool:
        """Whether each worker of a cluster can read its part, and not the program only."""
        return True

    def read(self, index: int, parallelism: int) -> Iterator[tuple[Any, int | None]]:
        """The elements with their event times in ms (None without one), in this process.

        Args:
            index: Of the instance that reads, from 0.
            parallelism: How many instances share the elements.

        Raises:
            HostError: It cannot be read in this process.
        """
        msg = (
            f"{type(self).__name__} is read by Spark only, got execution.target: local for "
            f"instance {index + 1} of {parallelism}; set execution.target to spark"
        )
        raise HostError(msg)


@attrs.frozen
class CollectionSource(Source):
    """The elements of `from_collection`, in order.

    Args:
        elements: Converted to their type already; nobody else holds them.
    """

    elements: tuple[Any, ...] = attrs.field(repr=lambda elements: f"<{len(elements)} elements>")

    @property
    def is_bounded(self) -> bool:
        """It is."""
        return True

    @property
    def parallelism(self) -> int | None:
        """One instance, which keeps the order."""
        return 1

    @property
    def identity(self) -> str:
        """How many elements: pickles of equal ones may differ."""
        return f"a collection of {len(self.elements)}"

    def read(self, index: int, parallelism: int) -> Iterator[tuple[Any, int | None]]:
        """The elements, without event times: copies, for another job may read them, too."""
        assert (index, parallelism) == (0, 1)
        return ((as_given(element), None) for element in self.elements)


@attrs.frozen
class NumberSequenceSource(Source):
    """The whole numbers between two, both included, as PyFlink's.

    Several instances get a range each, so there is an order with one instance only.

    Args:
        start: The first number.
        end: The last number.

    Raises:
        DeclarationValueError: One of them is no int of 64 bits, or the first one is greater.
    """

    start: int
    end: int = attrs.field()

    @end.validator
    def _check(self, _: attrs.Attribute[int], end: Any) -> None:
        if not is_int64(self.start) or not is_int64(end) or self.start > end:
            msg = (
                f"a sequence goes from an int of 64 bits to one that is not smaller, got "
                f"{shown(self.start)} and {shown(end)}; give for example 1 and 10"
            )
            raise DeclarationValueError(msg)

    @property
    def is_bounded(self) -> bool:
        """It is."""
        return True

    @property
    def type_info(self) -> TypeInformation:
        """LONG."""
        return Types.LONG()

    @property
    def identity(self) -> str:
        """Its ends."""
        return f"the numbers from {self.start} to {self.end}"

    def part(self, index: int, parallelism: int) -> range:
        """The numbers of one instance.

        Args:
            index: Of the instance, from 0.
            parallelism: How many instances there are.
        """
        count = self.end - self.start + 1
        first, last = (self.start + count * i // parallelism for i in (index, index + 1))
        return range(first, last)

    def read(self, index: int, parallelism: int) -> Iterator[tuple[Any, int | None]]:
        """The numbers of one instance, without event times."""
        return ((number, None) for number in self.part(index, parallelism))
