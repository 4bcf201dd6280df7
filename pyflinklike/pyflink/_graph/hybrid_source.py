# SPDX-License-Identifier: Apache-2.0
"""Sources one after the other: PyFlink's `HybridSource`, such as files and then a topic.

It has the splits of all its parts, in the order of the parts.  A micro-batch of a stream has splits of one
part only.  So the job's folder records at which micro-batch one part ends and the next begins, as it records
all that a job has read.

Flink switches at run time by an enumerator of its own:
https://github.com/apache/flink/blob/master/flink-connectors/flink-connector-base/src/main/java/org/apache/flink/connector/base/source/hybrid/HybridSource.java
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from itertools import groupby
from typing import Any

import attrs

from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import instance_of, short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, SparkSetupError
from pyflinklike.pyflink._graph.sources import Source
from pyflinklike.types import TypeInformation

__all__ = ["HybridSource", "HybridSourceBuilder"]


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

    @property
    def parallelism(self) -> int | None:
        """1: one of several instances would begin a source while others still read the one before."""
        return 1

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
