# SPDX-License-Identifier: Apache-2.0
"""Capsules: a call that failed and what it began with, as bytes.

A dead letter carries a capsule, from which a harness makes the call again: the element or timer, the
times, and what the states, stores and timers of the key held before the call, under all namespaces
of the key.  If that is larger than the user wants, there is no capsule.

An element of a broadcast input has no key.  Its capsule has the broadcast states; if the call looked
at the states of keys, it has the whole key group.

    header   magic "PFC", format version, CRC-32 of all the rest
    body     MessagePack: the facts of the call; the element; the key, as the payload of a section;
             the state, as a segment

The state is a segment as a log has, so that it is checked, declared and restored as any state.  Its
entries are in one order, whichever way the records before have gone: namespaces and timers ascend.

The element is written as plain values where it consists of them.  Another one is pickled, unless
the operator may not unpickle: then it is written as plain values if it has such a form.  Whoever
reads a capsule says whether pickles may be read.  A record of a function of batches is a record
batch of one row behind its schema.
"""

from __future__ import annotations

import datetime as dt
import pickle
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

import attrs
import msgspec
import pyarrow as pa

from pyflinklike._changelog.arrow_message import MessageLayout, read_checked
from pyflinklike._changelog.damage import decoding
from pyflinklike._changelog.entry_codec import decode_entries, encode_entries
from pyflinklike._changelog.segments import Declaration, Section, Segment, read_segment
from pyflinklike._clock import Clock, TimeDomain
from pyflinklike._messages import shown, shown_state
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
from pyflinklike.state.staged_tables import StagedTables
from pyflinklike.state.table import RESERVED_PREFIX, Shape, TableChanges, TableSpec
from pyflinklike.types import TypeInformation
from pyflinklike.types.catalog import type_of
from pyflinklike.types.pickled_type import PickledByteArrayTypeInfo
from pyflinklike.types.row import Row
from pyflinklike.views.row_codec import decode_row, encode_row

__all__ = [
    "BATCHES",
    "BROADCAST",
    "ELEMENT",
    "TIMER",
    "Called",
    "CapsuleMaker",
    "CapsuleWriter",
    "FailedCall",
    "read_capsule",
    "write_record",
]

VERSION = 2
_MAGIC = b"PFC"
_HEADER = struct.Struct("<3sBI")
_WHERE = "the capsule of a dead letter"

ELEMENT, TIMER, BROADCAST = "element", "timer", "broadcast element"
BATCHES = "batches"
"""The inputs of a function of batches, as a capsule notes them."""


@attrs.frozen(kw_only=True)
class Called:
    """A call of a function.

    Args:
        kind: `ELEMENT`, `TIMER` or `BROADCAST`.
        given: What a caller processes: an element, the pair of the number of an input and an
            element, an Arrow record batch of one row, or the time of a timer in ms.
        key: In its frozen form, or a mark for none.
        namespace: The one that is current when a timer fires, or a mark for none.
        timestamp: The time of the element or timer in ms, or None.
        domain: Of the timer; None for an element.
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
        """Whether the call is of a broadcast element and has looked at the states of keys."""
        return self.kind == BROADCAST and self.key is not NO_KEY


@attrs.frozen(kw_only=True)
class FailedCall:
    """A call that failed, as a capsule has it.

    Args:
        called: The call.
        facts: The facts of the operator and the task.
        key_type: The type of the keys.
        declarations: What the states and stores were declared as.
        state: What there was before the call.
    """

    called: Called
    facts: Facts
    key_type: TypeInformation
    declarations: list[Declaration]
    state: Segment

    def check(self, specs: Iterable[TableSpec], function: Any) -> None:
        """Refuse a function whose declarations do not fit.

        Args:
            specs: The specs of all tables that the function has declared when it was opened.
            function: Within a window a function declares states when it is called: these are
                checked then.

        Raises:
            IncompatibleStateError: A state of the capsule is not declared, or in another way.
        """
        declared = {each.name: Declaration.of(each, self.key_type) for each in specs}
        for held in self.declarations:
            now = declared.get(held.name)
            if now is None:
                if isinstance(function, NamespacedFunction):
                    continue
                names = sorted(each for each in declared if not each.startswith(RESERVED_PREFIX))
                msg = (
                    f"the capsule of a call of {self.facts.function} takes a function that declares its "
                    f"state {held.name!r}, got one with {names}; give the function that "
                    "failed, or declare that state"
                )
                raise IncompatibleStateError(msg)
            held.check(now)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a call that are plain values.

    Args:
        inputs: The kind of the function, by its inputs.
        element_form: "plain", "pickle" or "arrow"; "" for a timer.
    """

    operator: str
    function: str
    inputs: str
    kind: str
    element_form: str
    number: int
    has_key: bool
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
    namespace_type: str
    has_namespace: bool
    declarations: list[dict[str, Any]]


class _Body(msgspec.Struct, frozen=True):
    facts: Facts
    element: bytes
    key: bytes
    state: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Body).decode


# Writing


class _TooLargeError(Exception):
    """The entries are more than a capsule may have."""


class CapsuleWriter:
    """Writes what capsules have beside the state: the facts, the element, the key.

    Args:
        key_type: The type of the keys.
        namespace_type: The type of the namespaces, or None.
        task: Returns the task.
        clock: Tells the times.
        function: Returns the name of the function.
        inputs: The kind of the function, by its inputs.
    """

    def __init__(
        self,
        key_type: TypeInformation,
        namespace_type: TypeInformation | None,
        task: Callable[[], Any],
        clock: Clock,
        *,
        function: Callable[[], str],
        inputs: str,
    ) -> None:
        self.key_type = key_type
        self.inputs = inputs
        self.namespace_type = namespace_type
        self._task = task
        self._clock = clock
        self._function = function

    def write(
        self,
        called: Called,
        form: str,
        number: int,
        element: bytes,
        specs: Iterable[TableSpec],
        state: bytes,
    ) -> bytes:
        """Return a capsule.

        Args:
            called: The call.
            form: The form of the element.
            number: The number of its input.
            element: Its bytes.
            specs: The specs of all tables of states and stores.
            state: The segment of what there was before the call.
        """
        key_type, task, clock = self.key_type, self._task(), self._clock
        has_namespace = (
            self.namespace_type is not None
            and called.kind == TIMER
            and called.namespace is not NO_NAMESPACE
        )
        key = b""
        if called.has_key:
            spec = _key_spec(self.namespace_type if has_namespace else None)
            pair = (called.key, called.namespace) if has_namespace else called.key
            (key,) = encode_entries(
                TableChanges(spec, keys=[pair], user_keys=[None], entries=[None]), key_type
            )
        facts = Facts(
            operator=task.name,
            function=self._function(),
            inputs=self.inputs,
            kind=called.kind,
            element_form=form,
            number=number,
            has_key=called.has_key,
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
            key_type=key_type.signature,
            namespace_type="" if self.namespace_type is None else self.namespace_type.signature,
            has_namespace=has_namespace,
            declarations=[Declaration.of(each, key_type).fields() for each in specs],
        )
        body = _encode(_Body(facts, element, key, state))
        head = _MAGIC + bytes((VERSION,))
        return _HEADER.pack(_MAGIC, VERSION, zlib.crc32(body, zlib.crc32(head))) + body


_Row = tuple[Any, Any, Any]
"""A key, a user key, and the entry."""


class CapsuleMaker:
    """Makes the capsules of the calls of an operator that processes single elements.

    Args:
        writer: Writes them.
        staged: The tables of states and stores.
        queues: The timers of both domains.
        most: The most bytes of a capsule.
        allow_pickle: Whether an element may be pickled.
    """

    def __init__(
        self,
        writer: CapsuleWriter,
        staged: StagedTables,
        queues: Sequence[UndoableTimerQueue],
        most: int,
        *,
        allow_pickle: bool,
    ) -> None:
        self._writer = writer
        self._staged = staged
        self._queues = queues
        self._most = most
        self._allow_pickle = allow_pickle

    def make(self, called: Called) -> bytes | None:
        """Return the capsule of a call that was undone.

        Returns:
            None if the element or an entry cannot be written, or if both together are too large.
        """
        element = self._element(called)
        if element is None or len(element[2]) > self._most:
            return None
        stage, current = self._staged.stage, self._staged.current
        former = current.key, current.namespace
        specs = [each.spec for each in self._staged.made]
        try:
            if called.has_key or called.has_all_keys:
                current.key = called.key
                for settle in stage.settlers:
                    settle(called.has_all_keys)
            found = self._all_keys() if called.has_all_keys else self._one_key(called)
            state = self._segment(found).to_bytes()
            capsule = self._writer.write(called, *element, specs, state)
        except (_TooLargeError, StateValueError, IncompatibleStateError):
            return None
        finally:
            stage.drop()
            current.key, current.namespace = former
        return capsule if len(capsule) <= self._most else None

    def _element(self, called: Called) -> tuple[str, int, bytes] | None:
        """Return the form of the element, the number of its input, and its bytes."""
        if called.kind == TIMER:
            return "", 0, b""
        number, element = called.given if self._writer.inputs == "two inputs" else (0, called.given)
        forms: list[tuple[str, Callable[[Any], bytes]]] = [("plain", encode_row)]
        if self._allow_pickle:
            forms.insert(1 if _is_plain(element) else 0, ("pickle", _to_pickle))
        for form, write in forms:
            try:
                return form, number, write(element)
            except Exception:  # noqa: S112 - also whatever the class of the element raises
                continue
        return None

    # What there was before the call

    def _one_key(self, called: Called) -> Iterator[tuple[TableSpec, Iterable[_Row]]]:
        """Yield the entries of each table that the key has, those of all keys together included."""
        key = called.key
        for table in self._staged.made:
            spec = table.spec
            if spec.is_replicated or (spec.per_group and called.has_key):
                keys: list[Any] = [GROUP_KEY]
            elif not called.has_key:
                continue
            elif spec.namespace_type is None:
                keys = [key]
            else:
                keys = [(key, each) for each in _ascending(table.namespaces_of(key))]
            yield spec, ((each, *item) for each in keys for item in table.under(each))
        if called.has_key:
            for queue in self._queues:
                keys = [key]
                if self._writer.namespace_type is not None:
                    keys = [(key, each) for each in _ascending(queue.namespaces_of(key))]
                spec = queue.table.spec
                yield spec, ((each, *item) for each in keys for item in sorted(queue.under(each)))

    def _all_keys(self) -> Iterator[tuple[TableSpec, Iterable[_Row]]]:
        """Yield all entries of the key group by table."""
        tables: list[Any] = [*self._staged.made, *(each.table for each in self._queues)]
        for table in tables:
            yield table.spec, table.scan()

    def _segment(self, tables: Iterable[tuple[TableSpec, Iterable[_Row]]]) -> Segment:
        """Return entries as a snapshot of a key group.

        Raises:
            _TooLargeError: There are more than a capsule has bytes.
        """
        segment, left, key_type = Segment(bytes(16), b""), self._most, self._writer.key_type
        for number, (spec, found) in enumerate(tables):
            changes = TableChanges(spec)
            for key, user_key, entry in found:
                changes.keys.append(key)
                changes.user_keys.append(user_key)
                changes.entries.append(entry)
                if len(changes) > left:
                    raise _TooLargeError
            left -= len(changes)
            if changes.keys:
                segment.declarations[number] = Declaration.of(spec, key_type)
                segment.sections += [(number, each) for each in encode_entries(changes, key_type)]
        return segment


def _ascending(namespaces: list[Any]) -> list[Any]:
    """Return the namespaces of a key in an order that does not depend on when they came."""
    try:
        return sorted(namespaces)
    except TypeError:  # of a class of the user that has no order
        return sorted(namespaces, key=shown)


_PLAIN = frozenset(
    {
        *(type(None), bool, int, float, str, bytes, Decimal),
        *(dt.date, dt.time, dt.datetime, dt.timedelta),
    }
)


def _to_pickle(element: Any) -> bytes:
    return pickle.dumps(element, protocol=5)


_DEEPEST = 50


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether a value comes back as it is, of the same classes, from its plain form."""
    cls = type(value)
    if cls in _PLAIN:
        return True
    # A list may hold itself.
    if depth == _DEEPEST or not (cls in (list, tuple, dict) or isinstance(value, Row)):
        return False
    parts = chain(value, value.values()) if cls is dict else value
    return all(_is_plain(each, depth + 1) for each in parts)


def _key_spec(namespace_type: TypeInformation | None) -> TableSpec:
    return TableSpec("key", Shape.SINGLE, "key of a call", namespace_type=namespace_type)


# Reading


def read_capsule(capsule: Any, *, allow_pickle: bool) -> FailedCall:
    """Read a capsule.

    Args:
        capsule: The column of a dead letter.
        allow_pickle: Whether the element, keys and namespaces may be unpickled.

    Raises:
        DeclarationTypeError: It is no bytes.
        DeclarationValueError: It has a pickle, and none may be read.
        CorruptStateError: It is damaged, or of another version.
        IncompatibleStateError: The type of its keys is not known.
    """
    body = _unpack(capsule)
    facts = body.facts
    with decoding(_WHERE, "must be what a dead letter has"):
        declarations = [Declaration.of_fields(each) for each in facts.declarations]
        segment = read_segment(body.state, _WHERE)
    # Whoever made the capsule up need not have told the same twice.
    every = [*declarations, *segment.declarations.values()]
    _check_pickles(facts, every, allow_pickle=allow_pickle)
    if facts.inputs == BATCHES:
        _check_batch_call(facts)
    with decoding(_WHERE, "must be what a dead letter has"):
        key_type = type_of(facts.key_type)
        key: Any = GROUP_KEY
        if facts.kind == BROADCAST and not facts.has_all_keys:
            key = NO_KEY
        namespace: Any = NO_NAMESPACE
        if facts.has_key:
            spec = _key_spec(type_of(facts.namespace_type) if facts.has_namespace else None)
            section = Section(Declaration.of(spec, key_type), body.key, _WHERE)
            (key,) = decode_entries(section, spec, key_type, 0, _WHERE).keys
            if facts.has_namespace:
                key, namespace = key
        domain = TimeDomain[facts.domain] if facts.domain else None
    if facts.kind == TIMER:
        given: Any = facts.timestamp
    else:
        given = _element_of(facts, body.element)
        if facts.inputs == "two inputs":
            given = facts.number, given
    called = Called(
        kind=facts.kind,
        given=given,
        key=key,
        namespace=namespace,
        timestamp=facts.timestamp,
        domain=domain,
    )
    return FailedCall(
        called=called,
        facts=facts,
        key_type=key_type,
        declarations=declarations,
        state=segment,
    )


def _unpack(capsule: Any) -> _Body:
    if isinstance(capsule, (bytearray, memoryview)):  # as Spark has binary columns
        capsule = bytes(capsule)
    if not isinstance(capsule, bytes):
        msg = f"a capsule is the bytes of a dead letter's column, got {shown(capsule)}"
        why = (
            "; it is null where capsule_bytes was too small, or the element could not be written"
            if capsule is None
            else "; give row.capsule"
        )
        raise DeclarationTypeError(msg + why)
    if len(capsule) < _HEADER.size or capsule[:3] != _MAGIC:
        msg = f"{_WHERE} must begin with {_MAGIC!r}, got {len(capsule)} bytes, {capsule[:8]!r}"
        raise CorruptStateError(f"{msg}; take the bytes of the column as they are")
    _, version, checksum = _HEADER.unpack_from(capsule)
    body = capsule[_HEADER.size :]
    if version != VERSION:
        msg = f"{_WHERE}: this version of pyflinklike reads capsules of version {VERSION}"
        raise CorruptStateError(f"{msg}, got {version}; run the version that wrote it")
    found = zlib.crc32(body, zlib.crc32(capsule[:4]))
    if found != checksum:
        msg = f"{_WHERE}: its checksum must be {checksum:#x}, got {found:#x}"
        raise CorruptStateError(f"{msg}; the bytes are damaged, take another letter")
    try:
        return _decode(body)
    except (msgspec.DecodeError, ValueError) as error:  # ValueError: text that is no UTF-8
        msg = f"{_WHERE} must be what a dead letter has, got {error}; take another letter"
        raise CorruptStateError(msg) from error


_PICKLES = PickledByteArrayTypeInfo().signature


def _check_pickles(
    facts: Facts, declarations: Iterable[Declaration], *, allow_pickle: bool
) -> None:
    """Refuse a capsule of which something would be unpickled, unless that is allowed.

    Raises:
        DeclarationValueError: There is a pickle.
    """
    if allow_pickle:
        return
    found = ["the element"] if facts.element_form == "pickle" else []
    found += ["the key"] if _PICKLES in facts.key_type else []
    found += ["the namespace"] if _PICKLES in facts.namespace_type else []
    states = [
        each.name
        for each in declarations
        if _PICKLES in f"{each.value} {each.user_key} {each.namespace}"
    ]
    found += map(shown_state, dict.fromkeys(states))
    if found:
        msg = (
            f"{_WHERE}: nothing is unpickled unless that is allowed, got a pickle for "
            f"{', '.join(found)}; pass allow_pickle=True, if whoever wrote the letter may run code here"
        )
        raise DeclarationValueError(msg)


def _check_batch_call(facts: Facts) -> None:
    """Refuse what is no call of a function of batches: for a key, of a record or a timer."""
    is_timer = facts.kind == TIMER and facts.domain != "" and facts.timestamp is not None
    if not facts.has_key or not (is_timer or facts.kind == ELEMENT):
        msg = f"{_WHERE} of a function of batches is of a record or timer of a key, got {facts.kind!r}"
        raise CorruptStateError(
            f"{msg} {'with' if facts.has_key else 'without'} a key; take another"
        )


def _element_of(facts: Facts, element: bytes) -> Any:
    if facts.inputs == BATCHES:
        return _read_record(element)
    if facts.element_form == "plain":
        return decode_row(element)
    if facts.element_form != "pickle":
        msg = f"{_WHERE} has an element that is plain or a pickle, got {facts.element_form!r}"
        raise CorruptStateError(f"{msg}; take another letter")
    try:
        return pickle.loads(element)  # noqa: S301
    except Exception as error:
        msg = (
            f"{_WHERE}: the class of its element must be importable, got {type(error).__name__}: "
            f"{error}; run it where the program is"
        )
        raise IncompatibleStateError(msg) from error


_SCHEMA = struct.Struct("<I")
"""Before a record: the length of its schema, behind which its record batch is."""


def write_record(record: pa.RecordBatch) -> bytes | None:
    """Write a record of a function of batches; None if it would not be read."""
    schema = record.schema.serialize()
    try:
        written = b"".join((_SCHEMA.pack(schema.size), schema, record.serialize()))
        _read_record(written)
    except (CorruptStateError, pa.ArrowException):  # of a type whose buffers are not in the batch
        return None
    return written


def _read_record(element: bytes) -> pa.RecordBatch:
    with decoding(_WHERE, "must be what a dead letter has"):
        (size,) = _SCHEMA.unpack_from(element)
        whole = pa.py_buffer(element)
        schema = pa.ipc.read_schema(whole.slice(_SCHEMA.size, size))
        record = read_checked(whole.slice(_SCHEMA.size + size), MessageLayout.of(schema))
        # A name that is no UTF-8 raises here, and not in the function.
        if record.num_rows != 1 or not record.schema.names:
            got = f"{record.num_rows} of {record.num_columns} columns"
            msg = f"{_WHERE} has one record with columns, got {got}; take another letter"
            raise CorruptStateError(msg)
    return record
