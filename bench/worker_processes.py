# SPDX-License-Identifier: Apache-2.0
"""The Python processes of a JVM of Spark's: their CPU time and their memory, from `/proc`.

They are the descendants of the JVM that run Python, and every process in the group of such a one:
PySpark's daemon makes a group of its own, and a process that was left by its parent stays in it.
A process that has ended counts with what it had used when it was last seen.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import attrs

_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY_S = 0.2


@attrs.frozen
class Reading:
    """The CPU time of all processes until now, and their memory now.

    Args:
        cpu_s: CPU seconds of all processes, also of those that have ended.
        resident: Bytes, the shared ones counted in each process.
        proportional: Bytes, the shared ones divided by the processes that share them.
        own: Bytes that no other process shares, of each process, the greatest first.
    """

    cpu_s: float
    resident: int
    proportional: int
    own: list[int]


@attrs.frozen
class _Process:
    pid: int
    parent: int
    group: int
    ticks: int
    started: str
    is_python: bool


class WorkerProcesses:
    """Watches the Python processes that a JVM has started.

    Args:
        jvm: The process id of the JVM.
    """

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm
        self._groups: set[int] = set()
        self._ticks: dict[tuple[int, str], int] = {}
        """By process; a process id may be used again."""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> WorkerProcesses:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def read(self) -> Reading:
        """Read all processes now."""
        alive = self._look()
        weights = [weight for weight in map(_weigh, alive) if weight]
        with self._lock:
            ticks = sum(self._ticks.values())
        return Reading(
            ticks / _TICKS,
            sum(each["Rss"] for each in weights),
            sum(each["Pss"] for each in weights),
            sorted(each["Private_Clean"] + each["Private_Dirty"] for each in weights)[::-1],
        )

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._look()

    def _look(self) -> list[int]:
        """Note the time of each process that is alive, and return their ids."""
        processes = {each.pid: each for each in _processes()}
        with self._lock:
            ours = [each for each in processes.values() if self._is_ours(each, processes)]
            self._ticks.update({(each.pid, each.started): each.ticks for each in ours})
        return [each.pid for each in ours]

    def _is_ours(self, process: _Process, processes: dict[int, _Process]) -> bool:
        if process.group in self._groups:
            return True
        jvm = processes.get(self._jvm)
        if jvm is None or not process.is_python or not self._descends(process, processes):
            return False
        if process.group != jvm.group:
            self._groups.add(process.group)
        return True

    def _descends(self, process: _Process, processes: dict[int, _Process]) -> bool:
        parent = processes.get(process.parent)
        while parent is not None and parent.pid != self._jvm:
            parent = processes.get(parent.parent)
        return parent is not None


def _processes() -> list[_Process]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            text = (path / "stat").read_text("utf-8", "replace")
        except OSError:  # it has ended
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        found.append(
            _Process(
                int(path.name),
                int(fields[1]),
                int(fields[2]),
                int(fields[11]) + int(fields[12]),
                fields[19],
                name.startswith("python"),
            )
        )
    return found


def _weigh(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8").splitlines()[1:]
    except OSError:  # it has ended
        return {}
    pairs = (line.split()[:2] for line in lines)
    return {name.rstrip(":"): int(kib) * 1024 for name, kib in pairs}
