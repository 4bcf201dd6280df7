# SPDX-License-Identifier: Apache-2.0
"""The record of what a job has written to its sinks, in its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from pyflinklike.pyflink._graph.sinks import Renaming
from pyflinklike.state_processor._folders.folder_paths import FolderPath, read_json, write_json

__all__ = ["Ledger"]


class Ledger:
    """The record of the micro-batch that was written last, so that sinks write no micro-batch twice.

    A micro-batch is written in three steps.  Tasks and sinks write its files under hidden names.  Then its
    number is recorded here, with the final names of the files.  Then the files get these names.  The
    micro-batch counts as written from the moment of the record: if a later run finds the record, it finishes
    the renaming and does not write again; if it does not, it writes the whole micro-batch anew.

    Args:
        path: The path of the file; a renaming that it records is finished at once.
        check_lock: Raises if another run has taken the folder; None if no other run can.

    Raises:
        CorruptStateError: The file is damaged.
    """

    def __init__(self, path: FolderPath, check_lock: Callable[[], None] | None = None) -> None:
        self._path, self._check_lock = path, check_lock
        found = read_json(path)
        self._last = -1 if found is None else int(found["batch"])
        # An earlier run may have been killed before or while it renamed; a renaming may be repeated.
        for hidden, name in [] if found is None else found["files"]:
            Renaming(Path(hidden), Path(name)).perform()

    def has(self, batch: int) -> bool:
        """Return whether the micro-batch of this number was written already."""
        return batch <= self._last

    def note(self, batch: int, renamings: Iterable[Renaming]) -> None:
        """Record that a micro-batch is written, and make its files visible.

        Args:
            batch: The number of the micro-batch.
            renamings: The hidden and final names of its files.

        Raises:
            SparkSetupError: Another run has taken the folder, and writes the micro-batch itself.
        """
        if self._check_lock is not None:
            self._check_lock()
        files = list(renamings)
        # The record comes before the renaming: it says which files a later run may still have to rename.
        names = [[str(each.hidden), str(each.path)] for each in files]
        write_json(self._path, {"batch": batch, "files": names})
        self._last = batch
        for each in files:
            each.perform()
