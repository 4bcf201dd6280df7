# SPDX-License-Identifier: Apache-2.0
"""Where the elements of a job go, as plain declarations that each host carries out."""

from __future__ import annotations

import attrs

__all__ = ["CollectSink", "PrintSink", "Sink"]


class Sink:
    """Something that takes elements; each host knows the kinds that it can carry out."""


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


@attrs.frozen
class CollectSink(Sink):
    """Gives elements to the program, as `execute_and_collect`: see `running.JobRun.collected`."""
