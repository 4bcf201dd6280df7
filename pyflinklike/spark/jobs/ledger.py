# SPDX-License-Identifier: Apache-2.0
"""Which micro-batch of a job was written last: what keeps sinks from writing one twice.

A micro-batch is written under hidden names, then noted here with the names that its files are to
have, then the files get them.  The note is the moment at which it counts: whoever finds it finishes
the renaming and does not write again; whoever does not find it writes all of it anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pyflinklike.graph.sinks import Renaming
from pyflinklike.spark.jobs.durable import read_json, write_json

__all__ = ["Ledger"]


class Ledger:
    """The note of the micro-batch that was written last.

    Args:
        path: Of the file.

    Raises:
        CorruptStateError: The file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        found = read_json(path)
        self._last = -1 if found is None else int(found["batch"])
        for hidden, name in [] if found is None else found["files"]:
            Renaming(Path(hidden), Path(name)).perform()

    @staticmethod
    def last_of(path: Path) -> int:
        """The micro-batch that is noted in a file, without finishing it; -1 for none.

        Args:
            path: Of the file.

        Raises:
            CorruptStateError: The file is damaged.
        """
        found = read_json(path)
        return -1 if found is None else int(found["batch"])

    def has(self, batch: int) -> bool:
        """Whether a micro-batch was written already.

        Args:
            batch: Its number.
        """
        return batch <= self._last

    def note(self, batch: int, renamings: Iterable[Renaming]) -> None:
        """A micro-batch is written: make it visible, once and for all.

        Args:
            batch: Its number.
            renamings: Of its files.
        """
        files = list(renamings)
        names = [[str(each.hidden), str(each.path)] for each in files]
        write_json(self._path, {"batch": batch, "files": names})
        self._last = batch
        for each in files:
            each.perform()
