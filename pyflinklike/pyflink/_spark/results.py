# SPDX-License-Identifier: Apache-2.0
"""The results of a job in the driver: elements for its sinks, and files of tasks to make visible.

Spark calls with each micro-batch in a thread of its own, and commits the micro-batch when the call returns.
A program's sinks and `execute_and_collect` belong to the thread that drives the job.  So `Handover` takes a
micro-batch from one thread to the other, and lets the call return once all results are written.  `Ledger` records
in the job's folder which micro-batch that was.
"""

from __future__ import annotations

import pickle
import queue
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._graph.job_run import Count, JobMetrics
from pyflinklike.pyflink._graph.sinks import CollectSink, Renaming, SinkWriter
from pyflinklike.pyflink._spark.stages import COUNTS
from pyflinklike.pyflink._spark.watermark_feed import SPLIT_WATERMARKS, SplitWatermark
from pyflinklike.state_processor._folders.folder_paths import FolderPath, read_json, write_json


class Results:
    """The sinks of a job, as the driver writes them.

    Raises:
        SparkSetupError: A sink can be written neither by tasks nor in the driver.
    """

    def __init__(self, job: Job) -> None:
        self._job, self._sinks = job, job.graph.sinks
        self.collected: dict[int, deque[Any]] = {
            node.id: deque() for node in self._sinks if isinstance(node.sink, CollectSink)
        }
        """The elements of each `CollectSink`, by the number of its node."""
        self.split_watermarks: list[SplitWatermark] = []
        """The watermarks of splits that tasks have reported."""
        self.metrics = JobMetrics()
        """The metrics of the functions and operators of a batch."""
        self._by_tasks = {node.id for node in self._sinks if node.sink.is_written_by_tasks}
        self._hidden: list[Renaming] = []
        self._writers = self._open_writers()

    @property
    def are_small(self) -> bool:
        """Whether tasks write all elements, so that no element comes to the driver."""
        return not self.collected and not self._writers

    def add(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Take rows: the number of a sink, and a pickle of records or of `Renaming`s."""
        for number, payload in rows:
            records = pickle.loads(bytes(payload))  # noqa: S301  # of the job's own stages
            if number == SPLIT_WATERMARKS:
                self.split_watermarks += records
            elif number == COUNTS:
                self.metrics.add(Count(*each) for each in records)
            elif number in self._by_tasks:
                self._hidden += records
            elif number in self.collected:
                self.collected[number].extend(value for _, value, _ in records)
            else:
                write = self._writers[number].write
                for _, value, timestamp in records:
                    write(value, timestamp)

    def add_batch(self, batch: ResultBatch, ledger: Ledger) -> None:
        """Take a micro-batch, and make it visible, unless an earlier run has done so.

        Args:
            batch: The results of the micro-batch.
            ledger: The record of the micro-batch that was written last.
        """
        if len(self.collected) == len(self._sinks):
            self.add(batch.rows)
        elif not batch.rows:
            return
        elif ledger.has(batch.number):
            # Only reports count, and hidden files that the tasks have written once more.
            again = {SPLIT_WATERMARKS, *self._by_tasks}
            self.add(row for row in batch.rows if row[0] in again)
            self._take_back()
        else:
            self.add(batch.rows)
            written = [writer.prepare() for writer in self._writers.values()]
            ledger.note(
                batch.number, [*self._take_renamings(), *(one for each in written for one in each)]
            )
            self._writers = self._open_writers()

    def remove_unfinished(self, name: str) -> None:
        """Remove hidden files that tasks of a killed driver, or failed tasks, have left.

        Args:
            name: The prefix of the files that the job's tasks write.
        """
        for node in self._sinks:
            node.sink.remove_unfinished(f"{name}-")

    def finish(self) -> None:
        """Make all results visible: the job has ended well."""
        for renaming in self._take_renamings():
            renaming.perform()
        for writer in self._writers.values():
            writer.finish()

    def abandon(self) -> None:
        """Remove what is not visible yet: the job has failed, or was cancelled."""
        self._take_back()
        for writer in self._writers.values():
            writer.abandon()

    def _open_writers(self) -> dict[int, SinkWriter]:
        """Open a writer for each sink that this process writes."""
        default = self._job.settings.parallelism or 1
        return {
            node.id: node.sink.writer(0, node.parallelism or default, node.type_info)
            for node in self._sinks
            if node.id not in self.collected and node.id not in self._by_tasks
        }

    def _take_renamings(self) -> list[Renaming]:
        """Check the files that tasks have written; return their renamings, and forget them."""
        for renaming in self._hidden:
            renaming.check()
        taken, self._hidden = self._hidden, []
        return taken

    def _take_back(self) -> None:
        """Remove the hidden files that tasks have written."""
        for renaming in self._hidden:
            renaming.hidden.unlink(missing_ok=True)
        self._hidden = []


class ResultBatch(NamedTuple):
    """The results of a micro-batch.

    Args:
        number: The number of the micro-batch; it is the same when Spark runs it again.
        rows: The rows of its results: numbers of sinks with pickles of records.
    """

    number: int
    rows: list[tuple[int, bytes]]


class Handover:
    """Hands over micro-batches one by one from Spark's thread to the thread of the job.

    Spark commits a micro-batch when its call returns.  So `give` waits until the job has written the
    micro-batch.  If it is not written, Spark runs it again after a restart.
    """

    def __init__(self) -> None:
        self._offered: queue.Queue[ResultBatch] = queue.Queue()
        self._is_done, self._is_closed = Event(), False

    def give(self, batch: ResultBatch) -> None:
        """Give a micro-batch, and wait until the job has written it.

        Raises:
            SparkSetupError: The job has ended before that.
        """
        # Before the look at `_is_closed`: `close` sets both, and must not be missed in between.
        self._is_done.clear()
        if not self._is_closed:
            self._offered.put(batch)
            self._is_done.wait()
        if self._is_closed:
            msg = f"the job has ended before micro-batch {batch.number} was written; start it again"
            raise SparkSetupError(msg)

    def take(self, seconds: float) -> ResultBatch | None:
        """Return the micro-batch that is given; None if none comes within some seconds."""
        try:
            return self._offered.get(timeout=seconds)
        except queue.Empty:
            return None

    @property
    def is_waited_for(self) -> bool:
        """Whether a micro-batch was given and is not taken yet."""
        return not self._offered.empty()

    def done(self) -> None:
        """Let `give` return: the micro-batch is written."""
        self._is_done.set()

    def close(self) -> None:
        """Have `give` raise, now and later: the job has ended."""
        self._is_closed = True
        self._is_done.set()


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
