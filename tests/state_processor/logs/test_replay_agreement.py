# SPDX-License-Identifier: Apache-2.0
"""What is read of a log as columns is what the model of Flink's rules knows, whatever happens to workers."""

import copy
import importlib.util

from agreement import agreement_machine
from agreement.replica import Replica
from hypothesis import settings
from hypothesis.stateful import rule
from replay_support import log_of, record_of, rows_of, timers_of

from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.types import Types

BACKENDS = [HashMapStateBackend()]
if importlib.util.find_spec("rocksdict") is not None:
    from store_support import BACKENDS  # with a directory of its own


class Reading:
    """The machine, which reads the log of every replica as columns, too."""

    @rule()
    def read_the_log(self) -> None:
        """Every entry with its stamp and whether it is alive, and every timer."""
        self._all(Replica.end_batch)
        self.committed = copy.deepcopy(self.model)
        for replica in self.replicas:
            assert self._expected() == self._read(replica)

    def _expected(self):
        model, of = self.model, {}
        for (state, key), entry in model.single.items():
            of[state, key, None] = [entry]
        for key, entries in model.maps.items():
            of |= {("map", key, user_key): [entry] for user_key, entry in entries.items()}
        of |= {("list", key, None): entries for key, entries in model.lists.items() if entries}
        stamped = {
            at: [
                (model.ttl and stamp, value, model.is_alive((stamp, value)))
                for stamp, value in each
            ]
            for at, each in of.items()
        }
        return stamped, model.timers

    def _read(self, replica):
        record, log = record_of(replica.operator, Types.STRING()), log_of(replica.store)
        clock, of = BatchClock(self.model.now), {}
        for state in ("value", "list", "map", "reducing", "aggregating"):
            for row in self._in_order(rows_of(record, state, log, clock)):
                value = sorted(row["value"]) if state == "aggregating" else row["value"]
                entry = (row.get("stamp"), value, row.get("alive", True))
                of.setdefault((state, self._whose(row), row.get("user_key")), []).append(entry)
        timers = {(self._whose(row), row["timestamp"]) for row in timers_of(record, log, clock)}
        return of, timers

    def _whose(self, row):
        return chr(row["namespace"]) if self.namespaced else row["k"]

    def _in_order(self, rows):
        return sorted(rows, key=lambda row: row.get("position", 0))


def _machine(**options):
    machine = agreement_machine(*BACKENDS, **options)
    return type("Reading", (Reading, machine), {}).TestCase


HISTORIES = settings(stateful_step_count=40, max_examples=max(settings().max_examples // 10, 3))

TestReading = _machine()
TestReading.settings = HISTORIES

TestReadingNamespaces = _machine(namespaced=True)
TestReadingNamespaces.settings = HISTORIES
