# SPDX-License-Identifier: Apache-2.0
"""What the simulator runs: a query of stateful operators, its input, and what must come of it.

The world (`query`, `tasks`, `state_store`) plays Spark.  Whatever is not Spark's to decide is a
`Program`'s: its operators with their plans, the records of its sources, the declarations that a
restart may change, and the oracle, which is told the micro-batches that Spark committed and sees
none of the faults.

    for each input of an operator: batches -> operator.keyed(number, batch)
    in a task: operator.packing() -> shuffle by grouping key -> the hosts' processors
    in a task: operator.unpacker() -> batches of the next operator, or rows of the sink
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import types as st

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segment_chain import sections_of, snapshots
from pyflinklike._changelog.segments import Segment, read_segment
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.errors import DeclarationTypeError, IncompatibleStateError, PyflinklikeError
from pyflinklike.functions.dead_letters import LETTER_FIELDS
from pyflinklike.queryable_state.xxhash64 import SEED, add_sign, hash_bytes, hash_int, hash_long
from pyflinklike.spark._api.query import make_packing_of
from pyflinklike.spark._host.task import of_checkpoint
from pyflinklike.spark._plan.operator_plan import Plan, TimeMode
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, group_ids, index_of, registry_key_of
from pyflinklike.spark._wire.payloads import Packing
from pyflinklike.spark._wire.system_columns import BEFORE_WATERMARK, INPUT, INPUTS, KEY_GROUP
from pyflinklike.state.table import REPLICATED, Shape
from pyflinklike.state_processor._logs.checkpoint_logs import merge
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.group_reader import GroupStateReader, TimersReader
from pyflinklike.state_processor._logs.log_rows import StateChanges
from pyflinklike.state_processor._logs.state_infos import describe_states
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.state_processor._spark.initial_state import initial_rows
from pyflinklike.types.catalog import type_of
from pyflinklike.types.conversions import to_column
from simulated.group_state import GroupStatePlan

__all__ = [
    "START_MS",
    "Draws",
    "Expected",
    "MicroBatch",
    "OperatorInput",
    "Program",
    "Refused",
    "Rows",
    "SharedOperator",
    "SimulatedOperator",
    "Source",
    "State",
    "StateOperator",
    "comparable",
    "read_changes",
    "read_state",
    "rows_of",
    "with_place",
]

T = TypeVar("T")

START_MS: Final = 1_000_000
"""The time of the first micro-batch, and about that of the first record, in ms.

The clock should move by some hundred ms to some seconds between micro-batches: that is what the
TTLs, timers and windows of drawn programs go by.
"""


class Draws(Protocol):
    """The decisions that a program takes from; `choices.Choices` is such."""

    def integer(self, label: str, low: int, high: int) -> int:
        """Draw an int from `low` to `high`, both included."""

    def one_of(self, label: str, options: Sequence[T]) -> T:
        """Draw one of some options."""

    def happens(self, label: str, share: float) -> bool:
        """Draw whether something happens, of which a share does."""

    def stream(self, label: str) -> Any:
        """Return a stream of small numbers that are one decision together."""


@attrs.frozen
class Source:
    """A stream of the query.

    Args:
        schema: The columns of its records.
        event_time: The column of which Spark makes its watermark; None for a stream without one.
        delay: How far the watermark is behind the latest time, in ms.
    """

    schema: st.StructType
    event_time: str | None = None
    delay: int = 1

    def watermark(self, records: Iterable[pa.RecordBatch]) -> int | None:
        """Return Spark's watermark in ms after some records; None if they have no time."""
        if self.event_time is None:
            return None
        times = [
            time // 1000
            for batch in records
            for time in batch.column(self.event_time).cast(pa.int64()).to_pylist()
            if time is not None
        ]
        return max(times) - self.delay if times else None


@attrs.frozen
class OperatorInput:
    """An input of an operator.

    Args:
        number: The number of the source, or of the operator before it.
        is_source: Which of both that is.
        schema: The columns of what is read, with the column of phases where there is one.
        key_columns: The columns that make the key; none for a broadcast input.
    """

    number: int
    is_source: bool
    schema: pa.Schema
    key_columns: tuple[str, ...]


@attrs.frozen
class SimulatedOperator:
    """A state operator of Spark: what the driver has decided about it.

    Args:
        plan: The plan, as the real builders make it.
        inputs: One input or two.
        is_read_on: Whether another operator reads its result, and so the phases of it.
        savepoint: What a new checkpoint begins with; None for no state.
        has_parts: Whether the savepoint comes in parts: a key group has one for each state.
        has_stamps: Whether it is certain when an entry was written: not where a TTL was switched on
            or off since then.
        is_group_state: Whether Spark's operator is that of PySpark 3.5, `applyInPandasWithState`.
    """

    plan: Plan
    inputs: tuple[OperatorInput, ...]
    is_read_on: bool = False
    savepoint: bytes | None = None
    has_parts: bool = False
    has_stamps: bool = True
    is_group_state: bool = False

    def start_as(self, plan_id: str) -> SimulatedOperator:
        """Return the operator of another start of the query."""
        return attrs.evolve(self, plan=attrs.evolve(self.plan, plan_id=plan_id))

    def add_key_groups(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Put the key groups of records into a first column, and unite inputs: Spark's part.

        Args:
            number: Of the input, from 0.
            batch: Its records.
        """
        mine = self.inputs[number]
        groups = self._groups(batch, mine.key_columns)
        if len(self.inputs) == 1:
            return batch.add_column(0, pa.field(KEY_GROUP, groups.type), groups)
        columns: list[Any] = [pa.nulls(batch.num_rows, _struct_of(each)) for each in self.inputs]
        columns[number] = pa.StructArray.from_arrays(batch.columns, fields=list(mine.schema))
        kinds = pa.array([number + 1] * batch.num_rows, pa.int8())
        return pa.RecordBatch.from_arrays(
            [groups, kinds, *columns], names=[KEY_GROUP, INPUT, *INPUTS]
        )

    @property
    def members(self) -> tuple[SimulatedOperator, ...]:
        """The operators of the program that it serves: itself."""
        return (self,)

    @property
    def shipped(self) -> Any:
        """What Spark ships to its tasks."""
        if self.is_group_state:
            return GroupStatePlan(self.plan, begins=self.savepoint is not None)
        return self.plan

    def wakes_at(self, wake_at: int) -> int:
        """Return the time that Spark keeps for a key group that is to be called at a time in ms."""
        # PySpark 3.5 calls after its timeout.
        return max(wake_at - 1, 1) if self.is_group_state else wake_at

    @property
    def is_ordered(self) -> bool:
        """Whether the order of records of one time is given, not Spark's to choose."""
        return all(each.is_source for each in self.inputs)

    def make_packing(self) -> Packing:
        """Return the function that packs keyed records in a task."""
        packing: Packing = make_packing_of(self.plan)
        return packing

    def unpacker(self) -> Packing:
        """Return the function that makes rows of a task's results, in a task."""
        unpacker: Packing = self.layout.unpacker()
        return unpacker

    @property
    def layout(self) -> Any:
        """The layout of its result."""
        layout = self.plan.layout
        if self.is_read_on and self.plan.reports_phases():
            return attrs.evolve(layout, before_watermark=BEFORE_WATERMARK)
        return layout

    def initial(self) -> list[tuple[int, bytes]] | None:
        """Return the rows of the state that a new checkpoint begins with: grouping key, payload.

        Raises:
            PyflinklikeError: The real builder refuses the savepoint.
        """
        if self.savepoint is None:
            return None
        rows = initial_rows(self.plan, self.savepoint, self.groups_of)
        if rows is None or not self.has_parts:
            return rows
        registry, *others = rows
        # As a large savepoint is divided, or one whose key groups are others now.
        return [registry, *((key, part) for key, each in others for part in _parts_of(each))]

    def groups_of(self, keys: Sequence[Any]) -> list[int]:
        """Return the key groups of keys in the user's form."""
        mine = self.inputs[0]
        names = mine.key_columns
        if not names:
            return [0] * len(keys)
        columns = [list(keys)] if len(names) == 1 else [list(each) for each in zip(*keys)]
        kinds = [mine.schema.field(name).type for name in names]
        zone = self.plan.reader.time_zone
        arrays = [to_column(values, kind, zone) for values, kind in zip(columns, kinds)]
        if not keys:
            return []
        count = self.plan.task.max_parallelism
        return [add_sign(each) % count for each in _hashes(arrays)]

    def _groups(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> pa.Array:
        is_hash = self.plan.key_groups is not None
        kind = pa.int64() if is_hash else pa.int32()
        if not key_columns:
            return pa.nulls(batch.num_rows, kind)
        hashes = [add_sign(each) for each in _hashes([batch.column(name) for name in key_columns])]
        count = self.plan.task.max_parallelism
        return pa.array(hashes if is_hash else [each % count for each in hashes], kind)


@attrs.frozen
class SharedOperator:
    """One state operator of Spark that serves several operators of the program, as jobs have it.

    They read sources, each in its own way, and Spark hears of them only by their grouping keys.

    Args:
        members: The operators, in the order of their places; all in one time mode.
    """

    members: tuple[SimulatedOperator, ...]

    @classmethod
    def of(cls, operators: Iterable[SimulatedOperator]) -> SharedOperator:
        """Return operators at the places of a common one."""
        members, first = [], 0
        for each in operators:
            plan = attrs.evolve(each.plan, first_output=first)
            members.append(attrs.evolve(each, plan=plan))
            first += 1 + len(plan.layout.sides)
        return cls(tuple(members))

    def start_as(self, plan_id: str) -> SharedOperator:
        """Return the operator of another start of the query."""
        started = (each.start_as(f"{plan_id}-{at}") for at, each in enumerate(self.members))
        return SharedOperator(tuple(started))

    @property
    def plan(self) -> Plan:
        """The plan of the first one, with the time mode of all."""
        return self.members[0].plan

    @property
    def shipped(self) -> Any:
        """What Spark ships to its tasks."""
        return tuple(each.plan for each in self.members)

    @property
    def inputs(self) -> tuple[OperatorInput, ...]:
        """The inputs of all of them."""
        return tuple(one for each in self.members for one in each.inputs)

    def add_key_groups(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Put the key groups of records into a first column, with the place of who reads them.

        Args:
            number: Of the input, from 0.
            batch: Its records.
        """
        for place, each in enumerate(self.members):
            if number < len(each.inputs):
                keyed = each.add_key_groups(number, batch)
                return keyed.replace_schema_metadata({_PLACE: str(place)})
            number -= len(each.inputs)
        raise IndexError(number)

    def make_packing(self) -> Packing:
        """Return the function that packs keyed records in a task, each to the keys of its place."""
        packings = [each.make_packing() for each in self.members]

        def pack_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                place = int(batch.schema.metadata[_PLACE.encode()])
                # Behind a restart by the partitions of the checkpoint, which a task alone knows.
                count = of_checkpoint(self.members[place].plan).task.max_parallelism
                for packed in packings[place](iter([batch.replace_schema_metadata()])):
                    keys = _move(packed.column(KEY_GROUP).to_pylist(), count, place)
                    at = packed.schema.get_field_index(KEY_GROUP)
                    field = packed.schema.field(at)
                    yield packed.set_column(at, field, pa.array(keys, field.type))

        return pack_all

    def unpacker(self) -> Packing:
        """Return the function that makes rows of a task's results, by the operators' own outputs."""
        unpackers = [each.unpacker() for each in self.members]
        firsts = [each.plan.first_output for each in self.members]

        def unpack_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                # Those before the watermark have the complement of the number.
                outputs = batch.column("output").to_pylist()
                numbers = [max(each, ~each) for each in outputs]
                bounds = zip(firsts, [*firsts[1:], 1 << 30], unpackers)
                for place, (first, end, unpack) in enumerate(bounds):
                    mine = [at for at, number in enumerate(numbers) if first <= number < end]
                    own = [numbers[at] - first for at in mine]
                    signed = [own[i] if outputs[at] >= 0 else ~own[i] for i, at in enumerate(mine)]
                    payloads = batch.column("payload").take(pa.array(mine, pa.int64()))
                    cells = [pa.array(signed, pa.int32()), payloads]
                    own_cells = pa.RecordBatch.from_arrays(cells, names=["output", "payload"])
                    for rows in unpack(iter([own_cells])):
                        yield with_place(rows, place)

        return unpack_all

    def initial(self) -> list[tuple[int, bytes]] | None:
        """Return the rows of the state that a new checkpoint begins with: grouping key, payload.

        Raises:
            PyflinklikeError: The real builder refuses a savepoint.
        """
        rows = []
        for place, each in enumerate(self.members):
            own = each.initial() or []
            keys = _move([key for key, _ in own], each.plan.task.max_parallelism, place)
            rows += list(zip(keys, [payload for _, payload in own]))
        return rows or None


_PLACE = "place"


def with_place(rows: pa.RecordBatch, place: int) -> pa.RecordBatch:
    """Put into a first column which of several operators gave the rows."""
    return rows.add_column(0, _PLACE, pa.array([place] * rows.num_rows, pa.int32()))


def _move(keys: Sequence[int], count: int, place: int) -> list[int]:
    """Return the grouping keys of another place for those of the first one."""
    ids = group_ids(count, place)
    registry_key = registry_key_of(place)
    return [registry_key if key == REGISTRY_KEY else ids[index_of(key, count)] for key in keys]


StateOperator = SimulatedOperator | SharedOperator
"""A state operator of Spark."""


def _parts_of(payload: bytes) -> list[bytes]:
    """Divide a snapshot of a savepoint into one for each of its states."""
    sections = sections_of([read_segment(payload, "savepoint")], "savepoint")
    return [each.to_bytes() for each in snapshots(sections, 1)]


def _struct_of(one: OperatorInput) -> pa.DataType:
    return pa.struct(list(one.schema))


def _hashes(columns: Sequence[pa.Array]) -> list[int]:
    """Compute Spark's `xxhash64` of rows; the hash of a column is the seed of the next one."""
    found = [SEED] * len(columns[0])
    for column in columns:
        hashed = _hash_of(column.type)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        elif pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        found = [
            seed if value is None else hashed(value, seed)
            for value, seed in zip(column.to_pylist(), found)
        ]
    return found


def _hash_of(kind: pa.DataType) -> Callable[[Any, int], int]:
    if pa.types.is_string(kind):
        return lambda text, seed: hash_bytes(text.encode(), seed)
    if pa.types.is_binary(kind):
        return hash_bytes
    if pa.types.is_int64(kind) or pa.types.is_timestamp(kind):
        return hash_long
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        return hash_int
    msg = (
        "simulated keys are texts, bytes, ints, booleans, dates and timestamps, got a key column of "
        f"{kind}; "
    )
    only_null = pa.types.is_null(kind)
    remedy = "pass schema=, since all its values are None" if only_null else "key by one of these"
    raise DeclarationTypeError(msg + remedy)


@attrs.frozen
class MicroBatch:
    """What Spark decided for a micro-batch and committed.

    Args:
        number: Its batch id.
        records: Of each source in the order of arrival; None where it grew by nothing.
        watermark: Spark's in ms: 0 before the first event.
        now: Its time in ms.
        program: The program that ran it.
    """

    number: int
    records: tuple[pa.RecordBatch | None, ...]
    watermark: int
    now: int
    program: Program


Rows = Counter[tuple[Hashable, ...]]
"""Rows of the sink in a form that can be compared, with how often each came."""
State = Mapping[str, Rows]
"""The state of an operator: rows of each state, and of "timers"."""


@attrs.frozen
class Expected:
    """What must come of a history.

    Args:
        rows: Of each micro-batch, by batch id: what the last operator gave.
        states: Of each operator after the last micro-batch, as `read_state` shows it.
        changes: What the last micro-batch may change of each operator, as segments; none if nobody
            asks.
    """

    rows: Mapping[int, Rows]
    states: tuple[State, ...]
    changes: tuple[Sequence[Segment], ...] = ()


@attrs.frozen
class Refused:
    """A restart that must end with an error of ours.

    Args:
        program: The program that cannot continue.
        error: The class of the error.
        why: What it must be about, for messages.
    """

    program: Program
    error: type[PyflinklikeError]
    why: str


class Program(Protocol):
    """A query, drawn once; a restart may go on with a changed one."""

    @property
    def name(self) -> str:
        """The program in words, with its settings, for the history."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The streams that the program reads."""

    @property
    def operators(self) -> tuple[SimulatedOperator, ...]:
        """Its operators, each behind those that it reads; the last one's result is the sink's."""

    @property
    def state_operators(self) -> tuple[StateOperator, ...]:
        """Spark's state operators: mostly one for each operator."""

    @property
    def partitions(self) -> int:
        """The number of Spark's partitions that a new checkpoint has."""

    @property
    def clock_may_go_back(self) -> bool:
        """Whether its results are certain if the clock goes back at a restart.

        They are not where something that has expired may or may not be cleaned up already, and where
        event timers wait for Spark's next call, which goes by the clock.
        """

    def draw_records(self, choices: Draws, source: int, at: int) -> pa.RecordBatch:
        """Draw what a source grows by; it may be nothing.

        Args:
            choices: Decide.
            source: The number of the source.
            at: How often it has grown before: event times move by about a second each time.
        """

    def change(self, choices: Draws) -> Program:
        """Draw a program with other declarations that continues from the same checkpoint."""

    def draw_refusal(self, choices: Draws) -> Refused | None:
        """Draw a program that must not continue from the checkpoint; None if it knows of none."""

    def expect(self, history: Sequence[MicroBatch]) -> Expected:
        """Return what must come of micro-batches, from the first of the checkpoint on."""


# What came, in a form that can be compared


def comparable(value: Any) -> Any:
    """Return a value that can be hashed and ordered among its like: points in time are us."""
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.timezone.utc)
        return (aware - _EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, float):
        return repr(value)  # NaN is equal to itself here
    if isinstance(value, dict):
        if _LETTER <= value.keys():
            # Another function may raise the same at another line, and one of batches in its own call.
            call = _CALLS.get(value["call"], value["call"])
            own = dict.fromkeys(("subject", "raised_at", "traceback"))
            value = {
                **value,
                **own,
                "call": call,
                "failure_snapshot": value["failure_snapshot"] is not None,
            }
        # A row in the type of a former program has fields in another order, and some not yet.
        items = ((comparable(key), comparable(each)) for key, each in value.items())
        return tuple(sorted(each for each in items if each[1] is not None))
    if isinstance(value, (list, tuple)):
        return tuple(comparable(each) for each in value)
    return value


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_CALLS: Final = {"process_batch": "process_element", "on_timers": "on_timer"}
_LETTER: Final = frozenset(name for name, _ in LETTER_FIELDS)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Rows:
    """Return rows in a form that can be compared."""
    return Counter(row for batch in batches for row in _rows_of(batch))


def _rows_of(batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[Hashable, ...]]:
    if not batch.num_columns:
        yield from [()] * batch.num_rows
        return
    for row in zip(*(column.to_pylist() for column in batch.columns)):
        yield comparable(row)


def read_state(
    record: OperatorRecord,
    logs: Mapping[int, Sequence[Segment]],
    now: int,
    watermark: int,
    operator: SimulatedOperator,
) -> State:
    """Read the living state of an operator by the real readers.

    Args:
        record: Of the operator.
        logs: The segments of each key group, by its index.
        now: The time of the last micro-batch in ms.
        watermark: Its watermark in ms: `MIN_WATERMARK` or 0 before the first event.
        operator: Knows the types that the readers do not: elements with a timestamp of Spark, say.

    Returns:
        The rows of each state without what is expired, and of "timers"; the key group is left out,
        so that two numbers of key groups can be compared.
    """
    if operator.plan.time_mode is TimeMode.NONE:
        watermark = 0  # nobody tells it
    clock = BatchClock(now, watermark if watermark > 0 else MIN_WATERMARK)
    opened = _Opened(operator)
    state: dict[str, Rows] = {}
    for info in describe_states(record, 0):
        if info.name not in opened.declared:
            continue
        if not _is_known(info.value_type):
            state.update(opened.entries((info.name,), logs))
            continue
        reader = GroupStateReader(StateRows.of(record, info), clock, expired=False)
        names = _keep(reader.schema.names)
        if not operator.has_stamps and "stamp" in names:
            names.remove("stamp")
        found = _rank(_read(reader, logs, names), names, operator.is_ordered)
        if info.kind == "versioned":
            # That there is no value may be forgotten once nothing before is remembered.
            at = names.index("value")
            found = Counter({row: n for row, n in found.items() if row[at] is not None})
        # Each key group has a copy of broadcast state.
        state[info.name] = Counter(set(found)) if info.kind == REPLICATED else found
    if opened.others:
        state.update(opened.entries(opened.others, logs))
    timers = TimersReader(record, clock)
    state["timers"] = _read(timers, logs, _keep(timers.schema.names))
    return state


def read_changes(
    record: OperatorRecord, changes: Sequence[Segment], *, deleted: bool = False
) -> Mapping[str, frozenset[Hashable]]:
    """Return the entries that a micro-batch has written, by state, as its change feed names them.

    Args:
        record: Of the operator.
        changes: Segments, each with all tables that it names.
        deleted: Whether those that it deleted are named as well.
    """
    kinds = pa.array(["update", "delete"] if deleted else ["update"])
    found: dict[str, frozenset[Hashable]] = {}
    for info in describe_states(record, 0):
        if not _is_known(info.value_type):
            continue
        reader = StateChanges(StateRows.of(record, info))
        # Where an element is in its list depends on what has expired before it.
        names = [each for each in reader.rows.entry_names if each != "position"]
        named: set[Hashable] = set()
        for table in reader.of_batch(changes, 0, 0, "changes"):
            written = table.filter(pc.is_in(table.column("change_type"), kinds))
            named.update(_rows_of(written.select(names)))
        found[info.name] = frozenset(named)
    return found


_JUDGED = frozenset(("key_group", "due", "alive", "expires_at", "time"))
"""Columns that say nothing about what is stored."""


def _is_known(signature: str | None) -> bool:
    """Return whether the readers know a type by its signature."""
    try:
        type_of(signature or "")
    except IncompatibleStateError:
        return False
    return True


class _Opened:
    """The function of an operator, opened to read what only it can read.

    Args:
        operator: The operator.
    """

    def __init__(self, operator: SimulatedOperator) -> None:
        self._operator = operator
        opened = self._open(KeyGroupState(0))
        self.declared = frozenset(opened.describe_states())
        """The states that it declares when it is opened.

        Others it declares when it uses them; a record says of these what its writer happened to know.
        """
        self.others = _declare_others(opened)
        """The states that it declares when it uses them, if it tells which."""

    def _open(self, state: KeyGroupState) -> KeyedProcessOperator:
        plan = self._operator.plan
        opened = make_keyed_operator(
            OperatorDeclaration(
                cloudpickle.loads(cloudpickle.dumps(plan.function)),  # type: ignore[no-untyped-call]
                HashMapStateBackend(),
                plan.key_type,
                plan.task,
                "reader of state",
                side_outputs_read=plan.layout.sides,
                broadcast_states=plan.broadcast_states,
                on_error=plan.on_error,
            )
        )
        opened.group.enter(state)
        opened.open()
        return opened

    def entries(
        self, names: Sequence[str], logs: Mapping[int, Sequence[Segment]]
    ) -> dict[str, Rows]:
        """Return the entries of states that the readers do not know; they must have no TTL."""
        state = KeyGroupState(0)
        named = {f"key group {index}": log for index, log in logs.items()}
        state.read(read_segment(merge(named), "state"), "state")
        opened = self._open(state)
        _declare_others(opened)
        found: dict[str, Rows] = {name: Counter() for name in names}
        for changes in opened.backend.contents():
            if changes.spec.name not in found:
                continue
            entries = zip(changes.keys, changes.user_keys, changes.entries)
            is_list = changes.spec.shape is Shape.LIST
            ranks: Counter[Any] = Counter()
            for key, user_key, entry in sorted(entries, key=itemgetter(1)) if is_list else entries:
                at = ranks[key] if is_list else comparable(user_key)
                ranks[key] += self._operator.is_ordered
                found[changes.spec.name][comparable(key), at, comparable(entry)] += 1
        return found


def _declare_others(opened: KeyedProcessOperator) -> tuple[str, ...]:
    """Have a function declare what it declares on use, and return the names of that."""
    declare: Callable[[], tuple[str, ...]] = getattr(opened.function, "declare_others", lambda: ())
    return declare()


def _keep(names: Iterable[str]) -> list[str]:
    return [name for name in names if name not in _JUDGED]


def _rank(rows: Rows, names: Sequence[str], is_ordered: bool) -> Rows:
    """Number the elements of a list, or the uses of an LRU store, anew: from 0 for each key.

    A program says only their order; where it is not `is_ordered` not even that, and each element has
    the number 0.  What has expired counts until it is cleaned up.
    """
    column = next((name for name in ("position", "last_use") if name in names), None)
    if column is None:
        return rows
    at = names.index(column)
    width = names.index("store_key") if column == "last_use" else at
    ranks: Counter[Any] = Counter()
    found: Rows = Counter()
    order: Any = itemgetter(at)
    for row in sorted(rows, key=order):
        key = row[:width]
        ranked = (*row[:at], ranks[key], *row[at + 1 :])
        found[ranked] += rows[row]
        ranks[key] += is_ordered or column == "last_use"
    return found


def _read(reader: Any, logs: Mapping[int, Sequence[Segment]], names: Sequence[str]) -> Rows:
    found: Rows = Counter()
    for index, log in sorted(logs.items()):
        for table in reader.read(index, list(log), f"key group {index}"):
            found.update(_rows_of(table.select(names)))
    return found
