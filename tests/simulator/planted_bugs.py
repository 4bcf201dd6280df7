# SPDX-License-Identifier: Apache-2.0
"""Bugs to plant in the protocol of state, each of which the simulator must find.

A bug is a change of the source text of one module, made while the module is imported, so that it
needs no copy of the package.  The program that is to have it runs in a process of its own:

    python planted_bugs.py "the nonce is not compared" -- --seed 1 --minutes 1

Each bug loses, doubles, moves or keeps something that it must not, and none of them raises by
itself: where an error tells of it, that is the protocol's own check of another part.  A bug that no
run can see says why.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType

import attrs

PACKAGE = "pyflinklike"
ROOT = Path(__file__).resolve().parents[2]

LOG = "_changelog.key_group_log"
CHAIN = "_changelog.segment_chain"
RECORD = "_changelog.operator_record"
SEGMENTS = "_changelog.segments"
STORAGE = "_changelog.log_storage"
WORKING = "_changelog.key_group_state"
BATCH = "_runtime.micro_batch"
OPERATOR = "_runtime.keyed_operator"
TIMERS = "_runtime.timer_queue"
BROADCAST = "_runtime.broadcast_invoker"
OUTPUTS = "_runtime.outputs"
HEAP = "backends.heap.heap_backend"
DICTS = "backends.heap.dict_tables"
ROCKS = "backends.rocksdb.rocksdb_backend"
BACKEND = "backends.state_backend"
GUARD = "_runtime.failure_isolation"
STAGED = "state.write_buffer"
COLUMNS = "columns.columnar_operator"
TTL = "state.ttl_table"
TASK = "spark._host.task"
STREAM = "spark._host.streaming_host"
KEEPER = "spark._host.keeper"
RELAY = "spark._host.relay"
WAKE = "spark._host.wake_up"
PAYLOADS = "spark._wire.payloads"
READERS = "spark._wire.record_readers"


@attrs.frozen
class PlantedBug:
    """A wrong line.

    Args:
        name: What goes wrong, in a few words.
        module: Where, within the package.
        old: The text that is there exactly once.
        new: The text in its place.
        unseen: Why no run can see it, where that is so: another line does the same work there.
    """

    name: str
    module: str
    old: str
    new: str
    unseen: str = ""

    @property
    def path(self) -> Path:
        """The file of the module."""
        return ROOT.joinpath(PACKAGE, *self.module.split(".")).with_suffix(".py")

    def apply(self, source: str) -> str:
        """Return the source with the bug.

        Raises:
            ValueError: The text is not there exactly once.
        """
        found = source.count(self.old)
        if found != 1:
            msg = f"{self.name}: the text must be in {self.module} once, got {found} times"
            raise ValueError(msg)
        return source.replace(self.old, self.new)


def _bug(name: str, module: str, old: str, new: str, unseen: str = "") -> PlantedBug:
    return PlantedBug(name, module, old, new, unseen)


_SAME_SEGMENTS = (
    "two attempts of a micro-batch write the same entries under two nonces, for functions here give "
    "the same each time and Spark pins their times; damage is found by the checksums"
)

BUGS = [
    # Loading
    _bug("the nonce is not compared", LOG, "if state.nonce == head.nonce:", "if state.nonce:"),
    _bug(
        "the parent is not compared when catching up",
        LOG,
        "if first.parent != state.nonce:",
        "if False:",
    ),
    _bug(
        "a commit that never became durable is believed",
        LOG,
        "return state if not state.nonce else KeyGroupState(state.index)",
        "return state",
    ),
    _bug(
        "catching up leaves out the second segment",
        LOG,
        "range(state.next_sequence + 1, head.next_sequence)",
        "range(state.next_sequence + 2, head.next_sequence)",
    ),
    _bug(
        "catching up takes the first segment only",
        LOG,
        "    _read(storage, range(state.next_sequence + 1, head.next_sequence), head, state, where)\n",
        "",
    ),
    _bug(
        "catching up forgets how far it came",
        LOG,
        "head, state, where)\n    state.next_sequence = head.next_sequence\n    return True",
        "head, state, where)\n    return True",
    ),
    _bug(
        "rebuilding forgets how far it came",
        LOG,
        "head, state, where)\n    state.next_sequence = head.next_sequence\n    return state",
        "head, state, where)\n    return state",
    ),
    _bug(
        "restored sections are applied again and again",
        LOG,
        "in state.pending.pop(spec.name, ()):",
        "in list(state.pending.get(spec.name, ())):",
    ),
    _bug(
        "a segment's parent is not compared",
        CHAIN,
        "if segment.parent != parent:",
        "if False:",
        unseen=_SAME_SEGMENTS,
    ),
    _bug(
        "the last segment may be any",
        CHAIN,
        "if parent != nonce:",
        "if False:",
        unseen=_SAME_SEGMENTS,
    ),
    _bug(
        "agendas survive the entries that change them",
        WORKING,
        "                self.timers.clear()",
        "                pass",
    ),
    _bug(
        "a segment read is not noted in the working state",
        WORKING,
        "        self.nonce = segment.nonce\n",
        "",
    ),
    _bug(
        "local data of another declaration is used",
        HEAP,
        "return not data.entries or (table is not None and table.spec == data.spec)",
        "return True",
        unseen="what is warm is of the same start of a query, which declares the same states alike.  One "
        "that is declared on use can be missing: where a function is opened anew in a worker that has "
        "the key group warm, and a compaction comes before the first use.  No run of minutes got "
        "there; `test_a_group_with_a_state_that_is_not_declared_yet_is_read_from_its_log` does.",
    ),
    # Damage
    _bug(
        "the checksum of a segment is not compared",
        SEGMENTS,
        "    if found != checksum:\n",
        "    if False:\n",
    ),
    # Of a head or a registry other checks see nearly every bit that flips: the nonce, the chain, the times
    # of both against each other, zlib's own sum.  No run of minutes got to one that they do not see.
    # Committing
    _bug(
        "the head is written before its segments",
        LOG,
        "        for segment, blob in written:\n"
        "            self._append(storage, state, segment, blob)\n"
        "        storage.write_head(extended)\n",
        "        storage.write_head(extended)\n"
        "        for segment, blob in written:\n"
        "            self._append(storage, state, segment, blob)\n",
        unseen="Spark commits all that a task has written, or nothing",
    ),
    _bug(
        "the head of a small commit is not written",
        LOG,
        "        storage.write_head(extended)\n",
        "",
    ),
    _bug(
        "the first head is the only one",
        LOG,
        "        storage.write_head(extended)\n",
        "        if head is None:\n            storage.write_head(extended)\n",
    ),
    _bug(
        "times alone are not noted",
        LOG,
        "            if noted != head:\n                storage.write_head(noted)\n",
        "",
    ),
    _bug(
        "the head keeps the time of its first records",
        LOG,
        "served_at=former.served_at if times.served_at is None else times.served_at,",
        "served_at=former.served_at or times.served_at,",
    ),
    _bug(
        "the head forgets when it must be woken",
        LOG,
        "wake_at=times.wake_at,",
        "wake_at=None,",
    ),
    _bug(
        "the head wakes for the time that it had",
        LOG,
        "wake_at=times.wake_at,",
        "wake_at=former.wake_at or times.wake_at,",
    ),
    _bug(
        "segments are written over the one before",
        LOG,
        "        state.next_sequence += 1\n",
        "",
    ),
    _bug(
        "a segment is appended twice",
        LOG,
        "        storage.write_segment(state.next_sequence, blob)\n",
        "        storage.write_segment(state.next_sequence, blob)\n"
        "        state.next_sequence += 1\n"
        "        storage.write_segment(state.next_sequence, blob)\n",
    ),
    _bug(
        "the head names the nonce of the state before",
        LOG,
        "nonce=written[-1][0].nonce,",
        "nonce=head.nonce or written[-1][0].nonce,",
    ),
    _bug(
        "the head names one segment less",
        LOG,
        "next_sequence=sequence + len(written),",
        "next_sequence=max(sequence, 1),",
    ),
    _bug(
        "a new key of a logged table is not declared",
        CHAIN,
        "if table_id is None or state.declarations[table_id] != declaration:",
        "if table_id is None:",
    ),
    # Compaction
    _bug(
        "segments before a snapshot stay",
        LOG,
        "        storage.clear_segments()\n",
        "",
    ),
    _bug(
        "a snapshot declares nothing that was declared before",
        LOG,
        "        state.declared.clear()\n        state.declarations.clear()\n        undeclared",
        "        undeclared",
    ),
    _bug(
        "a log that begins anew declares nothing that was declared before",
        LOG,
        "        state.declared.clear()  # the next log has to declare its tables itself\n"
        "        state.declarations.clear()\n",
        "",
    ),
    _bug(
        "a snapshot leaves undeclared states out",
        LOG,
        "sections = chain(self._sections(contents), undeclared)",
        "sections = self._sections(contents)",
    ),
    _bug(
        "a snapshot leaves the last table out",
        LOG,
        "return [each for each in self._backend.contents() if len(each)]",
        "return [each for each in self._backend.contents() if len(each)][:-1]",
    ),
    _bug(
        "a compaction drops live entries",
        TTL,
        "dead: bool = entry[0] <= horizon",
        "dead: bool = entry[0] >= horizon",
    ),
    _bug(
        "a group without entries keeps what the program does not declare no more",
        LOG,
        "if not contents and not any(state.pending.values()):",
        "if not contents:",
    ),
    _bug(
        "the snapshot's head begins at the old log",
        LOG,
        "            first_sequence=first,\n",
        "",
    ),
    # Savepoints
    _bug(
        "a savepoint is not logged",
        LOG,
        "        changes = self._entries(state, section, spec, stamp)\n"
        "        state.added.append(changes)\n",
        "        changes = self._entries(state, section, spec, stamp)\n",
    ),
    _bug(
        "a savepoint's undeclared states are not logged",
        LOG,
        "            state.keep(section)\n            state.added.append(section)\n",
        "            state.keep(section)\n",
    ),
    _bug(
        "a savepoint is added with every commit",
        LOG,
        "added, state.added = state.added, []",
        "added = state.added",
    ),
    _bug(
        "a savepoint's timers are not in the agenda",
        OPERATOR,
        "        state.timers.clear()\n",
        "",
    ),
    _bug(
        "a key group takes the first snapshot of a savepoint only",
        BATCH,
        "if head is not None and head.served_at != served_at:",
        "if head is not None:",
    ),
    # The record and the registry
    _bug(
        "the registry is written once",
        RECORD,
        "    if registry != former:\n",
        "    if blob is None:\n",
    ),
    _bug(
        "the registry forgets key groups without records",
        RECORD,
        "{**self.served_at, **dict.fromkeys(groups, time)}",
        "dict.fromkeys(groups, time)",
    ),
    _bug(
        "the registry keeps the first time of a key group",
        RECORD,
        "{**self.served_at, **dict.fromkeys(groups, time)}",
        "{**dict.fromkeys(groups, time), **self.served_at}",
    ),
    _bug(
        "the record is not compared",
        RECORD,
        "    if former.record != record.digest:\n        if blob is None:",
        "    if blob is None:\n        if blob is None:",
    ),
    _bug(
        "only the first task calls the registry",
        PAYLOADS,
        "if called or partition == 0:",
        "if partition == 0:",
    ),
    # Homes and the watermark between operators
    _bug(
        "the home keeps its first watermark",
        STORAGE,
        "if blob is None or watermark != former:",
        "if blob is None:",
    ),
    _bug(
        "a home gives the watermark of now",
        STORAGE,
        "    return former\n",
        "    return watermark\n",
    ),
    _bug(
        "early records see the watermark of now",
        BATCH,
        "watermark, clock.watermark = clock.watermark, early.watermark",
        "watermark = clock.watermark",
    ),
    _bug(
        "the clock stays at the early watermark",
        BATCH,
        "        clock.watermark = watermark\n",
        "",
    ),
    _bug(
        "outputs of timers come after the watermark",
        BATCH,
        "    operator.outputs.watermark_passes()\n",
        "",
    ),
    _bug(
        "outputs of timers and of records are told apart no more",
        TASK,
        "numbered = [(~(first + number), batch)",
        "numbered = [(first + number, batch)",
    ),
    _bug(
        "only the second task calls the homes",
        PAYLOADS,
        "    # One task suffices, and every micro-batch has a first one.\n"
        "    if context is None or context.partitionId() == 0:",
        "    if context is None or context.partitionId() == 1:",
    ),
    # Time and timers
    _bug(
        "timers that records made due wait",
        BATCH,
        "    if records.keys:\n        operator.fire_due_timers()\n",
        "",
    ),
    _bug(
        "timers fire only where records are",
        BATCH,
        "    operator.fire_due_timers()\n    operator.outputs",
        "    if records.keys:\n        operator.fire_due_timers()\n    operator.outputs",
    ),
    _bug(
        "Spark is told of a first timer only",
        WAKE,
        "    if wake_at == former:\n",
        "    if wake_at == former or former is not None:\n",
    ),
    _bug(
        "timers of Spark are not deleted",
        WAKE,
        "    if former is not None and former != fired:\n",
        "    if False:\n",
    ),
    _bug(
        "Spark is asked to wake for the later of two",
        WAKE,
        "max(min(known), at_least)",
        "max(max(known), at_least)",
    ),
    _bug(
        "timers of processing time are woken late",
        WAKE,
        "next_batch = times.processing_time + 1",
        "next_batch = times.processing_time + 100_000",
    ),
    _bug(
        "a watermark of 0 is one",
        TASK,
        "max(watermark_of(watermark), self._plan.least_watermark)",
        "max(watermark, self._plan.least_watermark)",
    ),
    _bug(
        "the processing time is left at its first",
        TASK,
        "clock.processing_time = processing_time",
        "clock.processing_time = clock.processing_time or processing_time",
    ),
    _bug(
        "a timer is not in the table",
        TIMERS,
        "        self._put(timestamp, None)\n",
        "",
    ),
    _bug(
        "a deleted timer stays in the table",
        TIMERS,
        "            self._delete(timestamp)\n",
        "",
    ),
    _bug(
        "a fired timer stays in the table",
        TIMERS,
        "                    delete(timestamp)\n",
        "",
    ),
    # Tasks and workers
    _bug(
        "outputs of operators that share one begin at 0",
        TASK,
        "first = self._plan.first_output",
        "first = 0",
    ),
    _bug(
        "a key group stays warm while it is worked on",
        HEAP,
        "            return self._remove(owner)\n\n    def use",
        "            kept = self._groups.get(owner)\n"
        "            return kept and kept.group\n\n    def use",
    ),
    _bug(
        "a function of another run serves on",
        TASK,
        "            if key[0] == run and operator.serves(task):",
        "            if key[0].query == run.query and operator.serves(task):",
    ),
    _bug(
        "records come in the order of the shuffle",
        STREAM,
        "packed = sorted(self.translation.read_payloads(rows), key=lambda row: row[0])",
        "packed = list(self.translation.read_payloads(rows))",
    ),
    _bug(
        "origins of two tasks are the same",
        PAYLOADS,
        "sequence = partition * _MAX_PAYLOADS",
        "sequence = 0",
    ),
    _bug(
        "a task's outputs are given again",
        OUTPUTS,
        "        self._before = None\n        self.main, self.keys, self.side = [], [], {}\n",
        "        self._before = None\n        self.main, self.keys, self.side = [*self.main[:1]], [*self.keys[:1]], {}\n",
    ),
    _bug(
        "broadcast elements of the task before are remembered",
        BROADCAST,
        "        self.states.journal.forget()\n",
        "        pass\n",
    ),
    # Tables
    _bug(
        "a deleted value is not logged",
        DICTS,
        "            del self._entries[key]\n            self._dirty[key] = None\n\n    def append",
        "            del self._entries[key]\n\n    def append",
    ),
    _bug(
        "only the first value of a key is logged",
        DICTS,
        "        self._entries[key] = entry\n        self._dirty[key] = None\n",
        "        if key not in self._entries:\n            self._dirty[key] = None\n"
        "        self._entries[key] = entry\n",
    ),
    _bug(
        "a deleted value comes back as an absent one",
        DICTS,
        "        if MISSING in changes.entries:\n",
        "        if False:\n",
    ),
    _bug(
        "a cleared map is not logged",
        DICTS,
        "            self._data.cleared[key] = None\n",
        "",
    ),
    _bug(
        "a deleted map entry is not logged",
        DICTS,
        "        touched[user_key] = MISSING\n",
        "        del touched\n",
    ),
    _bug(
        "changes are logged with every commit",
        DICTS,
        "        keys = list(self._dirty)\n        self._dirty.clear()\n",
        "        keys = list(self._dirty)\n",
    ),
    _bug(
        "a key group is taken from the disk twice",
        ROCKS,
        "        if index in self._taken:\n            return None\n",
        "",
        unseen="A stream compares the nonce of what is taken with the head's, and the disk gets nonce "
        "and entries in one write at the end of a batch: so what is taken twice is either the state "
        "at the head, or an older one that catches up from the log.  A task that failed forgets what "
        "it took, bug or not.  The rule is that of `KeyedStateBackend.pop_cached`, for hosts without "
        "a log, and the conformance suite of backends finds the bug.",
    ),
    _bug(
        "rows of an older run are left on the disk",
        ROCKS,
        "replace(entries_at(index), puts, at, row)",
        "replace((at, at), puts, at, row)",
    ),
    _bug(
        "the disk is not asked what its entries are",
        ROCKS,
        "return not kept.size or self._forms.get(name) == kept.form",
        "return True",
    ),
    _bug(
        "tables stay at the key group before",
        BACKEND,
        "        self._index, self._data = index, tables\n",
        "        self._index, self._data = index, {**self._data, **tables}\n",
    ),
    # Dead letters
    _bug(
        "what a call wrote before it raised stays",
        GUARD,
        "            self._write_buffer.drop()\n            timers",
        "            timers",
    ),
    _bug(
        "a table keeps what a call wrote before it raised",
        STAGED,
        "            table.overlay = {}\n",
        "            pass\n",
    ),
    _bug(
        "timers of a call that raised stay",
        GUARD,
        "            queue.undo_changes(left)\n",
        "            pass\n",
    ),
    _bug(
        "a call that raises undoes timers of the call before",
        GUARD,
        "= True\n        if self._event_changes:\n            self._event_changes.clear()\n",
        "= True\n",
    ),
    _bug(
        "outputs of a call that raised stay",
        GUARD,
        "        self._outputs.go_back(main, side)\n",
        "",
    ),
    _bug(
        "what a batch of columns wrote before it raised stays",
        COLUMNS,
        "        self._backend.undo_call()\n        self._outputs",
        "        self._outputs",
    ),
    _bug(
        "outputs of a batch of columns that raised stay",
        COLUMNS,
        "        self._outputs.go_back(*self._marks)\n",
        "",
        "a batch puts out what its method returns, when it has returned",
    ),
    # Keepers
    _bug(
        "changes of a call are made again with the next one",
        KEEPER,
        "        self._changes = []\n        self._written.clear()",
        "        self._written.clear()",
    ),
    _bug(
        "changes of a call that failed are made with the next one",
        KEEPER,
        "        self._forget_changes()\n        send(self._connection, (FAILED",
        "        send(self._connection, (FAILED",
        "a call that fails ends the task, and its connection",
    ),
    _bug(
        "a clear is not passed on",
        KEEPER,
        '        self.change("clear", variable)\n',
        "",
    ),
    _bug(
        "a registered timer is not passed on",
        KEEPER,
        '        self._line.change("registerTimer", None, time_ms)',
        "        return",
    ),
    _bug(
        "a deleted timer is not passed on",
        KEEPER,
        '        self._line.change("deleteTimer", None, time_ms)',
        "        return",
    ),
    _bug(
        "changes are made in another order",
        RELAY,
        "        for each in changes:\n",
        "        for each in reversed(changes):\n",
    ),
    _bug(
        "the changes of a task's last call are lost",
        RELAY,
        "        for each in changes:\n",
        "        for each in changes[:-1]:\n",
    ),
    _bug(
        "a call whose keeper is lost is not made again",
        RELAY,
        "                if not isinstance(error, KeeperLostError):\n                    raise\n",
        "                if not isinstance(error, KeeperLostError):\n                    raise\n                return []\n",
    ),
    _bug(
        "the processor does not know what the keeper has read",
        RELAY,
        "            each.recall(self._memory)\n",
        "",
    ),
    _bug(
        "the next call after a lost keeper goes to a keeper again",
        RELAY,
        "        if self._processor is None:\n            self._keeper = self._keeper or",
        "        if True:\n            self._keeper = self._keeper or",
    ),
    _bug(
        "processing time and watermark change places",
        KEEPER,
        "self._processing_time, self._watermark = processing_time, watermark",
        "self._processing_time, self._watermark = watermark, processing_time",
    ),
    _bug(
        "another owner's database stays open",
        ROCKS,
        "            self.release()\n            self._database = None\n",
        "            pass\n",
        "a simulated keeper serves one partition",
    ),
    _bug(
        "a task that was cut off stays in its keeper",
        KEEPER,
        "            for each in self._tasks:\n                each.give_up()\n",
        "            pass\n",
        "the function is not closed; its group left the cache when the call began",
    ),
    _bug(
        "results of a call get lost when its keeper is asked for a value",
        KEEPER,
        "        self._line.answer(results, self._tasks[0].memory())",
        "        self._line.answer(results if not self._line._written else [], self._tasks[0].memory())",
    ),
    _bug(
        "a key group without timers is called by its expiry as rows",
        KEEPER,
        '    if what == "timer":\n',
        '    if what == "timer" and not content % 2:\n',
    ),
]
"""All bugs; a test holds that each can be planted."""


def named(name: str) -> PlantedBug:
    """Return the bug of a name."""
    return next(each for each in BUGS if each.name == name)


class _PlantingLoader(SourceFileLoader):
    """Compiles a module with its bug; nothing of it is cached."""

    bug: PlantedBug

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the changed source."""
        path = self.get_filename(fullname)
        source = self.bug.apply(Path(path).read_text(encoding="utf-8"))
        return compile(source, path, "exec", dont_inherit=True)


class PlantingFinder:
    """Finds the module that is to have a bug, before any other finder does.

    Args:
        bug: The bug.
    """

    def __init__(self, bug: PlantedBug) -> None:
        self._bug = bug

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Return the spec of the module with the bug, None for every other one."""
        if fullname != f"{PACKAGE}.{self._bug.module}":
            return None
        loader = _PlantingLoader(fullname, str(self._bug.path))
        loader.bug = self._bug
        return importlib.util.spec_from_file_location(fullname, self._bug.path, loader=loader)


def main() -> None:
    """Run the simulator with a bug: its name, `--`, and the simulator's arguments."""
    _, name, _, *arguments = sys.argv
    sys.meta_path.insert(0, PlantingFinder(named(name)))
    sys.argv = ["simulation", *arguments]
    runpy.run_module("simulated", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
