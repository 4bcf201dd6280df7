# SPDX-License-Identifier: Apache-2.0
"""The log of queries' progress in a file, since Spark forgets the progress with the query."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from pyflinklike.errors import DeclarationValueError

__all__ = ["ProgressLog", "read_progress"]


class ProgressLog(StreamingQueryListener):
    """Appends the progress of each micro-batch to a file, as a line of JSON.

    `spark.streams.addListener(ProgressLog("progress.jsonl"))` logs all queries of a session until
    `removeListener`.  The file keeps its lines: a restarted query appends to them.

    Args:
        path: The file on the driver, which is created if it is not there.

    Raises:
        OSError: Nothing can be written there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        with self._path.open("a", encoding="utf-8"):
            pass  # raises here rather than in Spark's thread, which would only log the error

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - as Spark calls it
        """Ignore the event."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Append the progress of a micro-batch."""
        line = json.dumps(json.loads(event.progress.json), separators=(",", ":"))
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Ignore the event."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Ignore the event."""


def read_progress(path: str | os.PathLike[str]) -> Iterator[Mapping[str, Any]]:
    """Read the file of a `ProgressLog`; a last line that was cut off is left out.

    Raises:
        DeclarationValueError: Another line is no progress of a query.
        OSError: The file cannot be read.
    """
    lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        try:
            progress = _progress(line)
        except (ValueError, TypeError) as error:
            if number == len(lines) and not line.endswith("\n"):
                return  # the driver ended while it wrote the line
            msg = f"a progress log has a query's progress in each line, got {line[:80]!r} in line {number}"
            raise DeclarationValueError(f"{msg}; write it with ProgressLog") from error
        yield progress


def _progress(line: str) -> Mapping[str, Any]:
    progress = json.loads(line)
    if "batchId" not in progress or "runId" not in progress:
        raise ValueError(line)
    found: Mapping[str, Any] = progress
    return found
