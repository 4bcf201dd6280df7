# SPDX-License-Identifier: Apache-2.0
"""Failure snapshots: a failed call and the state before it, as bytes.

A dead letter carries a failure snapshot, from which a harness can repeat the call.  It holds the
element or timer, the times, and the entries that the states, stores and timers of the key had
before the call, in all namespaces of the key.  If it would be larger than the user allows, the
letter has no failure snapshot.

An element of a broadcast input has no key.  Its failure snapshot has the broadcast states; if the
call read the states of keys, it has the whole key group.

A failure snapshot is a segment as in a log, so the code that checks and restores any state also
checks and restores this one.  It declares all tables of the operator, even if they are empty.  Its
last table is the call: one entry under the key (and in its namespace, if any), with the facts of
the call as MessagePack.  Namespaces, timers and the entries of stores ascend.  Entries of a map are
in the order in which the function iterates over them.  So equal state gives equal bytes, even if
other records came before.

An element that consists of plain values is written as such.  Other elements are pickled; if the
operator may not unpickle, they are written as plain values if that is possible.  Reading a pickle
needs `allow_pickle`.  A record of a function of batches is a record batch of one row behind its
schema.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import attrs
import msgspec
import pyarrow as pa

from pyflinklike._changelog.arrow_message import MessageLayout, read_checked
from pyflinklike._changelog.damage import decoding
from pyflinklike._changelog.entry_codec import decode_entries, encode_entries
from pyflinklike._changelog.segments import Declaration, Section, Segment, read_segment
from pyflinklike._clock import Clock, TimeDomain
from pyflinklike._messages import short_repr, shown_state
from pyflinklike._runtime.timer_queue import UndoableTimerQueue
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    StateValueError,
)
from pyflinklike.functions.process_functions import NamespacedFunction
from pyflinklike.state.current_key import GROUP_KEY, NO_KEY, NO_NAMESPACE
from pyflinklike.state.table import RESERVED_PREFIX, Shape, Table, TableChanges, TableSpec
from pyflinklike.state.write_buffer import BufferedTables
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.catalog import type_of
from pyflinklike.types.pickled_type import PickledByteArrayTypeInfo
from pyflinklike.types.plain_values import DAMAGE, encode_plain, is_plain, plain_decoder

_WHERE = "the failure snapshot of a dead letter"
_RULE = "must be the bytes that a dead letter has"
_CALL = f"{RESERVED_PREFIX}call"
"""The name of the table with the call."""

ELEMENT, TIMER, BROADCAST = "element", "timer", "broadcast element"
BATCHES = "batches"
"""The inputs of a function of batches, as a failure snapshot notes them."""


@attrs.frozen(kw_only=True)
class Called:
    """A call of a function.

    Args:
        kind: `ELEMENT`, `TIMER` or `BROADCAST`.
        given: The argument that the invoker got: an element, the pair of the number of an input and
            an element, an Arrow record batch of one row, or the time of a timer in ms.
        key: The key in its frozen form; `NO_KEY` or `GROUP_KEY` for a call without a key.
        namespace: The namespace of a timer; `NO_NAMESPACE` if there is no namespace.
        timestamp: The time of the element or timer in ms, or None.
        domain: The clock that the timer follows; None for an element.
    """

    kind: str
    given: Any
    key: Any
    namespace: Any
    timestamp: int | None
    domain: TimeDomain | None

    @property
    def has_key(self) -> bool:
        """Whether the call is for a key."""
        return self.key is not NO_KEY and self.key is not GROUP_KEY

    @property
    def has_all_keys(self) -> bool:
        """Whether the call is for a broadcast element and has read the states of keys."""
        return self.kind == BROADCAST and self.key is not NO_KEY


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a call that are plain values.

    Args:
        inputs: The inputs that the function has, as `FunctionKind.inputs`.
        number: The number of the input, for a function of two inputs; else 0.
        form: The way in which the element is written: "plain", "pickle" or "arrow"; "" for a timer.
    """

    operator: str
    function: str
    inputs: str
    kind: str
    number: int
    form: str
    element: bytes
    has_all_keys: bool
    domain: str
    timestamp: int | None
    watermark: int
    processing_time: int
    batch: int | None
    index: int
    parallelism: int
    max_parallelism: int
    attempt: int
    key_columns: list[tuple[str, str]]
    key_type: str


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Facts).decode


@attrs.frozen(kw_only=True)
class FailedCall:
    """A failed call, as read from a failure snapshot.

    Args:
        called: The call to repeat.
        facts: The facts of the operator and the task.
        key_type: The type of the keys.
        state: The entries that the tables had before the call.
    """

    called: Called
    facts: Facts
    key_type: TypeInformation
    state: Segment

    def check(self, specs: Iterable[TableSpec], function: Any) -> None:
        """Refuse a function whose declarations do not fit.

        Args:
            specs: The specs of all tables that the function declared when it was opened.
            function: The function.  In a window, functions declare states when they are called, so
                these are checked only then.

        Raises:
            IncompatibleStateError: A state of the failure snapshot is not declared, or differently.
        """
        declared = {each.name: Declaration.of(each, self.key_type) for each in specs}
        for held in self.state.declarations.values():
            now = declared.get(held.name)
            if now is not None:
                held.check(now)
            elif not isinstance(function, NamespacedFunction):
                names = sorted(each for each in declared if not each.startswith(RESERVED_PREFIX))
                msg = (
                    f"the failure snapshot of a call of {self.facts.function} needs a function that "
                    f"declares state {held.name!r}, got one with {names}; give the function that "
                    "failed, or declare that state"
                )
                raise IncompatibleStateError(msg)


# Writing


@attrs.frozen(kw_only=True)
class FailureSnapshotWriter:
    """Writes failure snapshots.

    Args:
        key_type: The type of the keys.
        namespace_type: The type of the namespaces; None for a function without namespaces.
        task: Returns the task that the operator serves now.
        clock: The clock of the operator, whose times a failure snapshot has.
        function: Returns the name of the function for messages.
        inputs: The inputs that the function has, as `FunctionKind.inputs`.
        most: The largest size of a failure snapshot, in bytes.
    """

    key_type: TypeInformation
    namespace_type: TypeInformation | None
    task: Callable[[], Any]
    clock: Clock
    function: Callable[[], str]
    inputs: str
    most: int

    def write(
        self,
        called: Called,
        form: str,
        element: bytes,
        tables: Iterable[tuple[TableSpec, list[bytes]]],
    ) -> bytes | None:
        """Return a failure snapshot; None if it would be too large.

        Args:
            called: The call that failed.
            form: The form of the element, as in `Facts`.
            element: The element in that form.
            tables: Each table with its payloads from before the call.
        """
        # The nonce is zero: a random one would make two snapshots of equal state differ.
        segment, key_type = Segment(bytes(16), b""), self.key_type
        has_namespace = called.kind == TIMER and called.namespace is not NO_NAMESPACE
        spec = _call_spec(
            per_group=not called.has_key,
            namespace_type=self.namespace_type if has_namespace else None,
        )
        key = (called.key, called.namespace) if spec.namespace_type else called.key
        facts = _encode(self._facts(called, form, element))
        call = TableChanges(spec, keys=[key], user_keys=[None], entries=[facts])
        for number, (each, payloads) in enumerate(
            [*tables, (spec, encode_entries(call, key_type))]
        ):
            segment.declarations[number] = Declaration.of(each, key_type)
            segment.sections += [(number, payload) for payload in payloads]
        failure_snapshot = segment.to_bytes()
        return failure_snapshot if len(failure_snapshot) <= self.most else None

    def _facts(self, called: Called, form: str, element: bytes) -> Facts:
        task, clock = self.task(), self.clock
        return Facts(
            operator=task.name,
            function=self.function(),
            inputs=self.inputs,
            kind=called.kind,
            number=called.given[0] if form and self.inputs == "two inputs" else 0,
            form=form,
            element=element,
            has_all_keys=called.has_all_keys,
            domain=called.domain.name if called.domain is not None else "",
            timestamp=called.timestamp,
            watermark=clock.watermark,
            processing_time=clock.processing_time,
            batch=task.batch,
            index=task.index,
            parallelism=task.parallelism,
            max_parallelism=task.max_parallelism,
            attempt=task.attempt,
            key_columns=list(task.key_columns),
            key_type=self.key_type.signature,
        )


def _call_spec(*, per_group: bool, namespace_type: TypeInformation | None) -> TableSpec:
    return TableSpec(
        _CALL,
        Shape.SINGLE,
        "call",
        value_type=_BYTES,
        per_group=per_group,
        namespace_type=namespace_type,
    )


_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


@attrs.frozen
class FailureSnapshotMaker:
    """Makes the failure snapshots of the calls of an operator that processes single elements.

    Args:
        writer: Writes a call with its tables as bytes.
        buffered: The tables of states and stores.
        queues: The timers of both domains.
        allow_pickle: Whether an element may be pickled.
    """

    _writer: FailureSnapshotWriter
    _buffered: BufferedTables
    _queues: Sequence[UndoableTimerQueue]
    _allow_pickle: bool

    def make(self, called: Called) -> bytes | None:
        """Return the failure snapshot of a call whose writes have been undone.

        Returns:
            None if the element or an entry cannot be written, or if both together are too large.
        """
        most, current = self._writer.most, self._buffered.current
        form, element = self._element(called)
        if len(element) > most:
            return None
        former, tables = (current.key, current.namespace), []
        try:
            for table in (*self._buffered.made, *(each.table for each in self._queues)):
                # An entry takes at least one byte, so this many entries are too large in any case.
                rows = _in_order(table.spec, islice(self._rows(table, called), most + 1))
                most -= len(rows)
                if most < 0:
                    return None
                columns = map(list, zip(*rows)) if rows else ([], [], [])
                keys, user_keys, entries = columns
                changes = TableChanges(table.spec, keys=keys, user_keys=user_keys, entries=entries)
                payloads = encode_entries(changes, self._writer.key_type) if rows else []
                tables.append((table.spec, payloads))
            return self._writer.write(called, form, element, tables)
        except (StateValueError, IncompatibleStateError):
            return None
        finally:
            current.key, current.namespace = former

    def _element(self, called: Called) -> tuple[str, bytes]:
        """Return the form of the element, and its bytes; too many bytes if it has no form."""
        if called.kind == TIMER:
            return "", b""
        _, element = called.given if self._writer.inputs == "two inputs" else (0, called.given)
        forms: list[tuple[str, Callable[[Any], bytes]]] = [("plain", encode_plain)]
        if self._allow_pickle:
            # A plain element is not pickled, so its reader needs no `allow_pickle`.
            forms.insert(is_plain(element), ("pickle", pickle.dumps))
        for form, write in forms:
            try:
                return form, write(element)
            except Exception:  # noqa: S112 - also whatever the class of the element raises
                continue
        return "", bytes(self._writer.most + 1)

    def _rows(self, table: Table, called: Called) -> Iterable[Any]:
        """Return the rows of the key in a table: key, user key and entry of each.

        Entries that all keys of the group share count as entries of each key.
        """
        spec, key = table.spec, called.key
        if called.has_all_keys or spec.is_replicated or (spec.per_group and called.has_key):
            return table.scan()
        if not called.has_key:
            return ()
        if spec.namespace_type is not None:
            # Tables can look up a pair of key and namespace only, and the namespaces are not known.
            keyed: Any = table.scan()
            return (each for each in keyed if each[0][0] == key)
        self._buffered.current.key = key
        return ((key, *item) for item in table.items())


def _in_order(spec: TableSpec, rows: Iterable[Any]) -> list[Any]:
    """Return rows in the order that the function sees, or sorted if it sees none."""
    rows = list(rows)
    if spec.ordered or spec.name.startswith(RESERVED_PREFIX):
        rows.sort(key=lambda row: row[1])
    if spec.namespace_type is None:
        return rows
    try:
        return sorted(rows, key=lambda row: row[0][1])
    except TypeError:  # the user's class of windows has no order
        return sorted(rows, key=lambda row: short_repr(row[0][1]))


# Reading


def read_failure_snapshot(failure_snapshot: Any, *, allow_pickle: bool) -> FailedCall:
    """Read a failure snapshot.

    Args:
        failure_snapshot: The value of a dead letter's column `failure_snapshot`.
        allow_pickle: Whether the element, keys and namespaces may be unpickled.

    Raises:
        DeclarationTypeError: The argument is not bytes.
        DeclarationValueError: It has a pickle, and `allow_pickle` is False.
        CorruptStateError: It is damaged, or of another version.
        IncompatibleStateError: The type of its keys is unknown.
    """
    if isinstance(failure_snapshot, (bytearray, memoryview)):  # as Spark has binary columns
        failure_snapshot = bytes(failure_snapshot)
    if not isinstance(failure_snapshot, bytes):
        msg = f"a failure snapshot is the bytes of a dead letter's column, got {short_repr(failure_snapshot)}"
        why = (
            "; it is null if snapshot_bytes was too small, or the element could not be written"
            if failure_snapshot is None
            else "; give row.failure_snapshot"
        )
        raise DeclarationTypeError(msg + why)
    state = read_segment(failure_snapshot, _WHERE)
    with decoding(_WHERE, _RULE):
        call = _take_call(state)
    # Before the key is decoded, which would run a pickle already.
    if not allow_pickle:
        _refuse_pickles(_pickles_of(call.declaration, state))
    with decoding(_WHERE, _RULE):
        facts, key, namespace = _read_call(call)
        key_type, domain = (
            type_of(facts.key_type),
            TimeDomain[facts.domain] if facts.domain else None,
        )
    if facts.form == "pickle" and not allow_pickle:
        _refuse_pickles(["the element"])
    called = Called(
        kind=facts.kind,
        given=facts.timestamp if facts.kind == TIMER else _element_of(facts),
        key=NO_KEY if facts.kind == BROADCAST and not facts.has_all_keys else key,
        namespace=namespace,
        timestamp=facts.timestamp,
        domain=domain,
    )
    if facts.inputs == BATCHES:
        _check_batch_call(called)
    return FailedCall(called=called, facts=facts, key_type=key_type, state=state)


def _take_call(state: Segment) -> Section:
    """Remove the table of the call from a segment, and return its section."""
    (table_id,) = (number for number, each in state.declarations.items() if each.name == _CALL)
    (payload,) = (payload for number, payload in state.sections if number == table_id)
    state.sections = [each for each in state.sections if each[0] != table_id]
    return Section(state.declarations.pop(table_id), payload, _WHERE)


def _read_call(call: Section) -> tuple[Facts, Any, Any]:
    """Return the facts of the call, its key, and its namespace."""
    held = call.declaration
    namespace_type = type_of(held.namespace) if held.namespace else None
    spec = _call_spec(per_group=held.per_group, namespace_type=namespace_type)
    key_type = _BYTES if held.per_group else type_of(held.key)
    held.check(Declaration.of(spec, key_type))
    changes = decode_entries(call, spec, key_type, 0, _WHERE)
    (key,), (entry,) = changes.keys, changes.entries
    facts = _decode(entry)
    return (facts, key, NO_NAMESPACE) if namespace_type is None else (facts, *key)


_PICKLES = PickledByteArrayTypeInfo().signature


def _pickles_of(call: Declaration, state: Segment) -> list[str]:
    """Name the parts that a reader of the key and the states would unpickle."""
    found = ["the key"] if _PICKLES in call.key else []
    found += ["the namespace"] if _PICKLES in call.namespace else []
    states = [
        each.name
        for each in state.declarations.values()
        if _PICKLES in f"{each.value} {each.user_key} {each.namespace} {each.key}"
    ]
    return [*found, *map(shown_state, dict.fromkeys(states))]


def _refuse_pickles(found: list[str]) -> None:
    """Refuse a failure snapshot that has pickles.

    Raises:
        DeclarationValueError: There is a pickle.
    """
    if found:
        msg = (
            f"{_WHERE}: nothing is unpickled unless that is allowed, got a pickle for "
            f"{', '.join(found)}; pass allow_pickle=True, if the writer of the letter may run code here"
        )
        raise DeclarationValueError(msg)


def _check_batch_call(called: Called) -> None:
    """Refuse a call that a function of batches cannot have: not for a record or timer of a key."""
    is_timer = called.kind == TIMER and None not in (called.domain, called.timestamp)
    is_record = called.kind == ELEMENT and isinstance(called.given, pa.RecordBatch)
    if not called.has_key or not (is_timer or is_record):
        msg = f"{_WHERE} of a function of batches is for a record or timer of a key, got {called.kind!r}"
        raise CorruptStateError(
            f"{msg} {'with' if called.has_key else 'without'} a key; take another"
        )


def _element_of(facts: Facts) -> Any:
    """Return the argument for the invoker: the element, with the number of its input if any."""
    element, read = facts.element, _READERS.get(facts.form)
    if read is None:
        msg = f"{_WHERE} has an element whose form is one of {list(_READERS)}, got {facts.form!r}"
        raise CorruptStateError(f"{msg}; take another letter")
    value = read(element)
    return (facts.number, value) if facts.inputs == "two inputs" else value


def _read_plain(element: bytes) -> Any:
    try:
        return _decode_plain(element)
    except DAMAGE as error:
        msg = f"{_WHERE}: its element must be a plain value, got {short_repr(element)}: {error}"
        raise CorruptStateError(f"{msg}; take another letter") from error


_decode_plain = plain_decoder({})


def _read_pickle(element: bytes) -> Any:
    try:
        return pickle.loads(element)  # noqa: S301
    except Exception as error:
        msg = (
            f"{_WHERE}: the class of its element must be importable, got {type(error).__name__}: "
            f"{error}; run this with the program on sys.path"
        )
        raise IncompatibleStateError(msg) from error


_SCHEMA = struct.Struct("<I")
"""The length of the schema; the schema and then the record batch follow it."""


def write_record(record: pa.RecordBatch) -> bytes | None:
    """Write a record of a function of batches; None if it could not be read again."""
    schema = record.schema.serialize()
    try:
        # A copy: Arrow writes the buffers of a slice with some of the records beside it.
        own = record.take(pa.array([0])).serialize()
        written = b"".join((_SCHEMA.pack(schema.size), schema, own))
        _read_record(written)
    # The buffers of some types, such as dictionaries, are not in the record batch.
    except (CorruptStateError, pa.ArrowException):
        return None
    return written


def _read_record(element: bytes) -> pa.RecordBatch:
    with decoding(_WHERE, _RULE):
        (size,) = _SCHEMA.unpack_from(element)
        whole = pa.py_buffer(element)
        schema = pa.ipc.read_schema(whole.slice(_SCHEMA.size, size))
        record = read_checked(whole.slice(_SCHEMA.size + size), MessageLayout.of(schema))
        # A column name that is not UTF-8 must raise here, and not later in the user's function.
        if record.num_rows != 1 or not record.schema.names:
            got = f"{record.num_rows} of {record.num_columns} columns"
            msg = f"{_WHERE} has one record with columns, got {got}; take another letter"
            raise CorruptStateError(msg)
    return record


_READERS: dict[str, Callable[[bytes], Any]] = {
    "plain": _read_plain,
    "pickle": _read_pickle,
    "arrow": _read_record,
}
