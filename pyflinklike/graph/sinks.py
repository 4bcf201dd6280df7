# SPDX-License-Identifier: Apache-2.0
"""Where the elements of a job go, as plain declarations.

A host carries them out in its own way: by `writer`, where the elements are in this process.
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
    """What a sink promises, as `pyflink.datastream.connectors.base.DeliveryGuarantee`."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class Renaming(NamedTuple):
    """What makes a written file visible; done twice, it is as if it was done once.

    Args:
        hidden: The path that it was written to.
        path: The path that it is to have.
    """

    hidden: Path
    path: Path

    def perform(self) -> None:
        """Rename it, if that was not done before."""
        if self.hidden.exists():
            self.hidden.rename(self.path)

    def check(self) -> None:
        """See that this process can rename it.

        Raises:
            HostError: What a task has written is not to be seen from here.
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
            timestamp: Its time in ms, or None.
        """

    def prepare(self) -> list[Renaming]:
        """Write no more, and give what makes visible all that was written; it outlasts this process."""

    def finish(self) -> None:
        """The job has ended well: make all that was written visible."""

    def abandon(self) -> None:
        """The job has failed: take back what is not visible yet."""


class Sink:
    """Something that takes elements."""

    @property
    def is_written_by_tasks(self) -> bool:
        """Whether each worker of a cluster writes the elements that it has, and not the program."""
        return False

    def remove_unfinished(self, name: str) -> None:
        """Remove what writers whose names begin so have begun and not finished.

        Args:
            name: The beginning of their names.
        """

    def writer(
        self,
        index: int,
        parallelism: int,
        type_info: TypeInformation,
        name: str | None = None,  # noqa: ARG002
    ) -> SinkWriter:
        """What writes the elements of one instance, in this process.

        Args:
            index: Of the instance, from 0.
            parallelism: How many instances there are.
            type_info: Of the elements.
            name: Of the writer, for names of files; by chance if there is none.

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

    The line is `identifier:n> text`; `n>` is there only where there are several instances, and
    the identifier only where there is one.

    Args:
        identifier: Before the text.
    """

    identifier: str | None = None

    def prefix(self, index: int, parallelism: int) -> str:
        """What comes before the text of an element.

        Args:
            index: Of the instance that prints, from 0.
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
        """What prints the elements of one instance."""
        return _Printer(self.prefix(index, parallelism), type_info)


@attrs.frozen
class _Printer:
    prefix: str
    type_info: TypeInformation

    def write(self, value: Any, _: int | None) -> None:
        # The stream of the moment: whoever captures output puts another one in its place.
        sys.stdout.write(f"{self.prefix}{print_text(value, self.type_info)}\n")

    def prepare(self) -> list[Renaming]:
        sys.stdout.flush()
        return []

    def finish(self) -> None:
        sys.stdout.flush()

    abandon = finish


@attrs.frozen
class CollectSink(Sink):
    """Gives elements to the program, as `execute_and_collect`: see `running.JobRun.collected`."""
