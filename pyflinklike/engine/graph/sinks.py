# SPDX-License-Identifier: Apache-2.0
"""The sinks of a job, as plain declarations.

A host writes them in its own way; `writer` is for elements that are in this process.
"""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import attrs

from pyflinklike.errors import HostError
from pyflinklike.graph.java_text import print_text
from pyflinklike.types import TypeInformation

__all__ = ["CollectSink", "DeliveryGuarantee", "PrintSink", "Renaming", "Sink", "SinkWriter"]


class DeliveryGuarantee(Enum):
    """The promise of a sink, as `pyflink.datastream.connectors.base.DeliveryGuarantee`."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class Renaming(NamedTuple):
    """The step that makes a written file visible; done twice, it has the effect of once.

    Args:
        hidden: The path that the file was written to.
        path: The path that the file is to have.
    """

    hidden: Path
    path: Path

    def perform(self) -> None:
        """Rename the file, if that was not done before."""
        if self.hidden.exists():
            self.hidden.rename(self.path)

    def check(self) -> None:
        """Check that this process can rename the file.

        Raises:
            HostError: The driver cannot see a file that a task has written.
        """
        if not self.hidden.exists():
            msg = (
                "a FileSink writes to a file system that the driver and all workers have mounted, got "
                f"no {str(self.hidden)!r} on the driver, which a task has written; give such a path"
            )
            raise HostError(msg)


class SinkWriter(Protocol):
    """Writes the elements that come to one instance of a sink."""

    def write(self, value: Any, timestamp: int | None) -> None:
        """Write an element.

        Args:
            value: The element.
            timestamp: The time of the element in ms, or None.
        """

    def prepare(self) -> list[Renaming]:
        """Write no more, and return the steps that make the files visible, in any process."""

    def finish(self) -> None:
        """Make all that was written visible: the job has ended well."""

    def abandon(self) -> None:
        """Take back what is not visible yet: the job has failed."""


class Sink:
    """A place where elements go."""

    @property
    def is_written_by_tasks(self) -> bool:
        """True where workers write their own elements; otherwise only the program writes."""
        return False

    def remove_unfinished(self, name: str) -> None:
        """Remove unfinished output of writers whose names begin with `name`.

        Args:
            name: The beginning of the writers' names.
        """

    def writer(
        self,
        index: int,
        parallelism: int,
        type_info: TypeInformation,
        name: str | None = None,  # noqa: ARG002
    ) -> SinkWriter:
        """Make the writer of the elements of one instance, in this process.

        Args:
            index: The number of the instance, from 0.
            parallelism: How many instances there are.
            type_info: The type of the elements.
            name: The name of the writer, for names of files; None for a random one.

        Raises:
            HostError: It cannot be written in this process.
        """
        msg = (
            f"{type(self).__name__} is written by Spark only, got elements of {type_info!r} for "
            f"instance {index + 1} of {parallelism} of the local runner; set execution.target to spark"
        )
        raise HostError(msg)


@attrs.frozen
class PrintSink(Sink):
    """Writes a line for each element to the standard output, as `DataStream.print`.

    The line is `identifier:n> text`; `n>` is there only where there are several instances, and the
    identifier only where it is given.

    Args:
        identifier: The text before the instance; None for none.
    """

    identifier: str | None = None

    def prefix(self, index: int, parallelism: int) -> str:
        """Return the text before that of an element.

        Args:
            index: The number of the instance that prints, from 0.
            parallelism: How many instances there are.
        """
        subtask = str(index + 1) if parallelism > 1 else ""
        parts = [part for part in (self.identifier, subtask) if part]
        return f"{':'.join(parts)}> " if parts else ""

    def writer(
        self,
        index: int,
        parallelism: int,
        type_info: TypeInformation,
        name: str | None = None,  # noqa: ARG002  lines have no names
    ) -> SinkWriter:
        """Make the writer that prints the elements of one instance."""
        return _Printer(self.prefix(index, parallelism), type_info)


@attrs.frozen
class _Printer:
    prefix: str
    type_info: TypeInformation

    def write(self, value: Any, _: int | None) -> None:
        # The stream of the moment: a program that captures output puts another one in its place.
        sys.stdout.write(f"{self.prefix}{print_text(value, self.type_info)}\n")

    def prepare(self) -> list[Renaming]:
        sys.stdout.flush()
        return []

    def finish(self) -> None:
        sys.stdout.flush()

    abandon = finish


@attrs.frozen
class CollectSink(Sink):
    """Gives elements to the program, as `execute_and_collect`, by `JobRun.collected`."""
