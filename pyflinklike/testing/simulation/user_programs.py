# SPDX-License-Identifier: Apache-2.0
"""`simulate`: whether a user's function gives the same, whatever is retried, restarted or moved.

    simulate(Visits(), records, key_columns="user", output_type="user string, visits long")

Each run draws a world from a seed: how the records come in micro-batches, on how many partitions,
and which tasks, workers, executors and drivers fail when.  What comes out, and the state that is
left, must be what comes of the same micro-batches where nothing fails.

Three more things are done to functions that a plain repetition would not catch.  Each attempt reads
another time from the wall clock (`attempt_clock`).  Another Python process, in which sets have
another order, runs the same micro-batches (`other_process`).  And what a function reads is compared
with what it was after the call (`value_watch`).
"""

from __future__ import annotations

import datetime as dt
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema

from pyflinklike._checks import check_count, is_int
from pyflinklike._messages import shown, shown_message
from pyflinklike._type_vars import Unpack
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, PyflinklikeError
from pyflinklike.functions.process_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    KeyedBatchFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
)
from pyflinklike.spark._plan.process_options import KeyedProcessOptions
from pyflinklike.spark._wire.schema import arrow_schema
from pyflinklike.spark.keyed_stream import key_by
from pyflinklike.state.fold_functions import Function
from pyflinklike.testing.simulation.attempt_clock import move_clocks
from pyflinklike.testing.simulation.causes import find_causes, use_random_seed
from pyflinklike.testing.simulation.choices import Choices, shorten
from pyflinklike.testing.simulation.frames import SimulatedFrame, SimulatedQuery, parse_ddl
from pyflinklike.testing.simulation.oracle import Model, expect_of
from pyflinklike.testing.simulation.other_process import OtherProcess
from pyflinklike.testing.simulation.program import (
    Draws,
    Expected,
    MicroBatch,
    Refused,
    SimulatedOperator,
    Source,
)
from pyflinklike.testing.simulation.simulation import (
    Conditions,
    DifferenceError,
    Outcome,
    Run,
    use_seed,
)
from pyflinklike.testing.simulation.user_code import UserCode
from pyflinklike.testing.simulation.value_watch import ValueWatch
from pyflinklike.types.row import Row

__all__ = ["simulate"]

_PARTITIONS: Final = (2, 3, 5, 1)
_FAULTY: Final = Conditions(formats=(2,), rates=(0.4, 0.2), may_be_damaged=False)
_FAULTLESS: Final = Conditions(formats=(2,), rates=(0.0,), may_be_damaged=False)
_MOST_RUNS_TO_SHORTEN: Final = 60
_SHOWN: Final = 30
_ANOTHER_ORDER: Final = (
    "the order of a set, hash() or id(), which differ between Python processes: sort what comes of a "
    "set, as `sorted(names)` does"
)


def simulate(
    function: Function | Callable[..., DataFrame],
    *records: Any,
    key_columns: str | Sequence[str] | None = None,
    output_type: Any = None,
    schema: Any = None,
    seed: int = 0,
    runs: int = 10,
    batches: int = 6,
    changed_values: bool = True,
    other_process: bool = True,
    **options: Unpack[KeyedProcessOptions],
) -> None:
    """Check that a function gives the same, whatever is retried, restarted or moved.

    Args:
        function: A `KeyedProcessFunction`, a `KeyedBatchFunction` or a function of two inputs; or a
            callable that is given a DataFrame for each of `records` and returns the result of keyed
            operators over them: windows, folds, joins, chains.
        records: The records of each input: a pandas DataFrame, an Arrow table or record batch, a
            mapping of columns, or a list of dicts or `Row`s.  They come in this order.
        key_columns: Name of the column that is the key, or names of several; of a function only.
        output_type: As `process` takes it; of a function only.
        schema: The columns of the records, as DDL or a `StructType`; of two inputs a pair.  By
            default it is read from the records.
        seed: Of the first run; the others have the seeds after it.
        runs: How many worlds are drawn.
        batches: About how many micro-batches each has.
        changed_values: Whether it is also an error to change a record, or a value that was read
            from state and is not written back.
        other_process: Whether another Python process must give the same, in which sets have another
            order.
        **options: The options of `process`; of a function only.

    Raises:
        AssertionError: It does not give the same.  The message has the first row that differs, the
            likely cause, and the shortest history that was found.
        UserFunctionError: The function fails, also where nothing else does.
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
    """
    _check_counts(seed, runs, batches)
    given = _Given.of(records, schema)
    built = _Built(_program_of(function, key_columns, output_type, options), given, batches)
    checked = _Simulation(built, seed, other_process=other_process)
    with checked.world():
        found = [checked.check_run(at) for at in range(seed, seed + runs)]
        told = [each for each in found if each.history]
        if changed_values and told:
            checked.check_values(told[0])
        if other_process and told:
            checked.check_in_other_process(told)


def _check_counts(seed: Any, runs: Any, batches: Any) -> None:
    if not is_int(seed):
        msg = f"simulate: seed must be an int, got {shown(seed)}; for example 0"
        raise DeclarationTypeError(msg)
    check_count(runs, "simulate: runs")
    check_count(batches, "simulate: batches")


def _program_of(
    function: Any,
    key_columns: str | Sequence[str] | None,
    output_type: Any,
    options: Mapping[str, Any],
) -> Callable[..., DataFrame]:
    """Return what applies the operators to frames.

    Raises:
        DeclarationTypeError: The arguments do not go together.
    """
    if not isinstance(function, Function):
        if not callable(function):
            msg = (
                "simulate takes a function such as a KeyedProcessFunction, or a callable of "
                f"DataFrames, got {shown(function)}"
            )
            raise DeclarationTypeError(msg)
        told = {"key_columns": key_columns, "output_type": output_type, **options}
        wrong = sorted(name for name, value in told.items() if value is not None)
        if wrong:
            msg = (
                f"a callable says itself how its operators are keyed and declared, got {wrong}; "
                "pass them to key_by and process within it"
            )
            raise DeclarationTypeError(msg)
        return function  # type: ignore[no-any-return]
    if key_columns is None or output_type is None:
        msg = (
            f"a function needs key_columns and output_type, got {shown(function)} without; "
            'for example key_columns="user", output_type="user string, visits long"'
        )
        raise DeclarationTypeError(msg)
    columns = (key_columns,) if isinstance(key_columns, str) else key_columns
    if not isinstance(columns, Iterable) or not all(isinstance(each, str) for each in columns):
        msg = (
            f"key_columns must be the name of a column, or names of several, got {shown(key_columns)}; "
            'for example "user"'
        )
        raise DeclarationTypeError(msg)
    columns = tuple(columns)
    if isinstance(function, (KeyedProcessFunction, KeyedBatchFunction)):
        return lambda one: key_by(one, *columns).process(function, output_type, **options)
    if isinstance(function, (KeyedCoProcessFunction, CoMapFunction, CoFlatMapFunction)):
        method = {CoMapFunction: "map", CoFlatMapFunction: "flat_map"}
        name = next(
            (name for kind, name in method.items() if isinstance(function, kind)), "process"
        )

        def connected(one: DataFrame, other: DataFrame) -> DataFrame:
            both: Any = key_by(one, *columns).connect(key_by(other, *columns))
            result: DataFrame = getattr(both, name)(function, output_type, **options)
            return result

        return connected
    msg = (
        f"simulate takes a function of one or two keyed inputs, got {shown(function)}; for others "
        "pass a callable: simulate(lambda df: key_by(df, ...)..., records)"
    )
    raise DeclarationTypeError(msg)


# Records


@attrs.frozen
class _Given:
    """The records of all inputs, with their types."""

    schemas: tuple[st.StructType, ...]
    batches: tuple[pa.RecordBatch, ...]

    @classmethod
    def of(cls, records: Sequence[Any], schema: Any) -> _Given:
        if not records:
            msg = "simulate takes the records of at least one input, got none; pass a list of dicts"
            raise DeclarationTypeError(msg)
        schemas = schema if isinstance(schema, (list, tuple)) else [schema] * len(records)
        if len(schemas) != len(records):
            msg = (
                f"schema must be one for each input, got {len(schemas)} for {len(records)} inputs; "
                "pass a tuple"
            )
            raise DeclarationValueError(msg)
        typed = [_type_records(each, kind) for each, kind in zip(records, schemas)]
        return cls(tuple(kind for kind, _ in typed), tuple(batch for _, batch in typed))


def _type_records(records: Any, schema: Any) -> tuple[st.StructType, pa.RecordBatch]:
    """Return Spark's types of records, and the records in them."""
    kind = parse_ddl(schema) if isinstance(schema, str) else schema
    if kind is not None and not isinstance(kind, st.StructType):
        msg = f"schema must be DDL or a StructType, got {shown(schema)}"
        raise DeclarationTypeError(msg)
    wanted = None if kind is None else arrow_schema(kind)
    try:
        table = _table(records, wanted)
        if kind is None or wanted is None:
            kind = from_arrow_schema(pa.schema(map(_as_instant, table.schema)))
            wanted = arrow_schema(kind)
        table = table.select(wanted.names).cast(wanted).combine_chunks()
    except PyflinklikeError:
        raise
    except Exception as error:  # pyarrow's and pyspark's, of many classes
        msg = (
            f"records must have one type in each column, got {shown_message(error)}; pass schema, "
            'for example schema="user string, at timestamp"'
        )
        raise DeclarationValueError(msg) from error
    found = table.to_batches()
    return kind, found[0] if found else pa.RecordBatch.from_pylist([], schema=wanted)


def _as_instant(field: pa.Field) -> pa.Field:
    """Return a column with instants for naive datetimes, as `createDataFrame` makes them."""
    is_naive = pa.types.is_timestamp(field.type) and field.type.tz is None
    return field.with_type(pa.timestamp("us", "UTC")) if is_naive else field


def _table(records: Any, wanted: pa.Schema | None) -> pa.Table:
    if isinstance(records, pa.Table):
        return records
    if isinstance(records, pa.RecordBatch):
        return pa.Table.from_batches([records])
    if hasattr(records, "iloc"):  # pandas
        return pa.Table.from_pandas(records, schema=wanted, preserve_index=False)
    if isinstance(records, Mapping):
        return pa.table(dict(records), schema=wanted)
    if isinstance(records, Iterable) and not isinstance(records, (str, bytes)):
        rows = [_fields(each, wanted) for each in records]
        if not rows and wanted is None:
            msg = "records without a type need schema, got an empty list; pass it as DDL"
            raise DeclarationValueError(msg)
        return pa.Table.from_pylist(rows, schema=wanted)
    msg = (
        "records are a pandas DataFrame, an Arrow table, a mapping of columns or a list of dicts or "
        f"Rows, got {shown(records)}"
    )
    raise DeclarationTypeError(msg)


def _fields(record: Any, wanted: pa.Schema | None) -> dict[str, Any]:
    if isinstance(record, Mapping):
        return dict(record)
    if isinstance(record, Row) and record._fields:
        return record.as_dict()
    if hasattr(record, "asDict"):  # Spark's
        found: dict[str, Any] = record.asDict()
        return found
    if isinstance(record, tuple) and wanted is not None and len(record) == len(wanted):
        return dict(zip(wanted.names, record))
    msg = f"a record is a dict or a Row with names, or a tuple where schema is given, got {shown(record)}"
    raise DeclarationTypeError(msg)


# The program


class _Built:
    """The operators over given records, as they are on each number of partitions.

    Args:
        apply: Applies the operators to frames.
        given: The records.
        batches: About how many micro-batches they come in.
    """

    def __init__(self, apply: Callable[..., DataFrame], given: _Given, batches: int) -> None:
        self._apply = apply
        self.given = given
        self.batches = batches
        self._queries: dict[int, SimulatedQuery] = {}

    def query(self, partitions: int) -> SimulatedQuery:
        """Return the query.

        Raises:
            DeclarationTypeError: It has no keyed operator, or not one result.
        """
        if partitions not in self._queries:
            query = SimulatedQuery(partitions)
            frames = [query.source(each) for each in self.given.schemas]
            try:
                inspect.signature(self._apply).bind(*frames)
            except TypeError as error:
                msg = (
                    f"simulate gives a DataFrame for each of {len(frames)} records, got {error}; pass "
                    "the records of each input once"
                )
                raise DeclarationTypeError(msg) from error
            result = self._apply(*frames)
            last = len(query.operators) - 1
            if not isinstance(result, SimulatedFrame) or result.is_source or result.number != last:
                msg = (
                    "simulate takes a callable that returns the result of its last keyed operator, "
                    f"got {shown(result)}; Spark's own operators are not simulated"
                )
                raise DeclarationTypeError(msg)
            self._queries[partitions] = query
        return self._queries[partitions]

    def draw(self, choices: Choices) -> _UserProgram:
        """Draw a program."""
        return _UserProgram(self, choices.one_of("partitions", _PARTITIONS))


class _UserProgram:
    """A user's program; a `Program`.

    Args:
        built: Its operators and records.
        partitions: Of Spark's shuffles.
    """

    clock_may_go_back = False

    def __init__(self, built: _Built, partitions: int) -> None:
        self.partitions = partitions
        self._built = built
        self._read = [0] * len(built.given.batches)

    @cached_property
    def name(self) -> str:
        """The operators in words."""
        names = " > ".join(each.plan.task.name for each in self.operators)
        return f"{names} on {self.partitions} partitions"

    @property
    def sources(self) -> tuple[Source, ...]:
        """The inputs."""
        return self._built.query(self.partitions).sources

    @property
    def operators(self) -> tuple[SimulatedOperator, ...]:
        """The operators, the first one first."""
        return self._built.query(self.partitions).operators

    @property
    def state_operators(self) -> tuple[SimulatedOperator, ...]:
        """Spark's state operators, one for each."""
        return self.operators

    def draw_records(self, choices: Draws, source: int, at: int) -> pa.RecordBatch:  # noqa: ARG002
        """Take the next records of an input, as many as a draw says."""
        records, start = self._built.given.batches[source], self._read[source]
        most = max(1, -(-3 * records.num_rows // self._built.batches))
        self._read[source] += choices.integer("records", 1, most)
        return records.slice(start, self._read[source] - start)

    def change(self, choices: Draws) -> _UserProgram:  # noqa: ARG002
        """Go on with the same program."""
        return self

    def draw_refusal(self, choices: Draws) -> Refused | None:  # noqa: ARG002
        """Know of no program that must be refused."""
        return None

    def expect(self, history: Sequence[MicroBatch]) -> Expected:
        """Return what must come of micro-batches."""
        return expect_of(history, [self.operators] * len(history))


# Runs


class _UserRun(Run):
    """A run that keeps what it was about."""

    error: BaseException | None = None

    @property
    def committed(self) -> list[MicroBatch]:
        return self._query.committed

    @property
    def operators(self) -> tuple[SimulatedOperator, ...]:
        return self._program.operators

    def _judge(self, error: BaseException) -> tuple[str, str]:
        self.error = error
        return super()._judge(error)

    def _compare_states(self, expected: Expected) -> None:
        try:
            super()._compare_states(expected)
        except DifferenceError:
            raise
        except Exception:  # the readers do not know a type of the user's: rows were compared
            return

    def _differ(self, where: str, got: Any, wanted: Any) -> None:
        row = min(_surplus(got, wanted), key=repr, default=None)
        instead = min(_surplus(wanted, got), key=repr, default=None)
        msg = f"{where}: got {_show(row)}, where nothing fails it is {_show(instead)}"
        raise DifferenceError(msg)


def _surplus(some: Mapping[Any, int], others: Mapping[Any, int]) -> Iterator[Any]:
    return (row for row, count in some.items() if count > others.get(row, 0))


def _show(row: Any) -> str:
    return "nothing" if row is None else shown(row)


@attrs.frozen
class _Found:
    """What came of a run.

    Args:
        outcome: How it ended.
        history: Its committed micro-batches.
        operators: Which ran them.
        error: What a task raised, if one did.
    """

    outcome: Outcome
    history: tuple[MicroBatch, ...]
    operators: tuple[SimulatedOperator, ...]
    error: BaseException | None


class _Simulation:
    """The checks of one call.

    Args:
        built: The program.
        seed: Of the first run.
        other_process: Whether another process will be asked.
    """

    def __init__(self, built: _Built, seed: int, *, other_process: bool) -> None:
        self._built = built
        self._seed = seed
        operators = built.query(_PARTITIONS[0]).operators
        self._name = " > ".join(each.plan.task.name for each in operators)
        self._code = UserCode(*(each.plan.function for each in operators))
        # Started now, so that it is ready when it is needed.
        self._other = OtherProcess.start() if other_process else None

    @contextmanager
    def world(self) -> Iterator[None]:
        """Run user code by the clock of its attempts."""
        with move_clocks(self._code.namespaces):
            yield

    def check_run(self, seed: int) -> _Found:
        """Run one world, and return what came of it.

        Raises:
            AssertionError: Not the same as without faults.
        """
        found = self._run(seed)
        if not found.outcome.is_failure:
            return found
        if found.outcome.kind == "raw error":
            plain = self._run(seed, conditions=_FAULTLESS)
            if plain.error is not None and plain.outcome.kind == "raw error":
                raise plain.error
        found = self._shortest(seed, found)
        what = found.outcome.what
        causes = find_causes(found.history, found.operators)
        raise AssertionError(self._message(what, causes, seed, found)) from None

    def check_values(self, found: _Found) -> None:
        """Check that the function changes nothing that it was handed.

        Raises:
            AssertionError: It does.
        """
        watch = ValueWatch()
        model = Model(watch)
        with watch.over_states():
            for batch in found.history:
                model.run(batch, found.operators)
        if watch.found:
            msg = (
                f"{self._name} changes values that are its own copies, so that the change is lost: "
                f"{watch.found[0]}.\nWrite it back with update() or put(), or change a copy and "
                "pass changed_values=False if nothing of it is to stay."
            )
            raise AssertionError(msg)

    def check_in_other_process(self, found: Sequence[_Found]) -> None:
        """Check that another process gives the same.

        Raises:
            AssertionError: It does not.
        """
        assert self._other is not None
        names = {each.get("__name__") for each in self._code.namespaces} - {"__main__"}
        modules = [sys.modules[name] for name in names if name in sys.modules]
        others = self._other.expect([(each.history, each.operators) for each in found], modules)
        for at, (each, other) in enumerate(zip(found, others)):
            own = expect_of(each.history, [each.operators] * len(each.history))
            for number, rows in own.rows.items():
                if rows != other.rows[number]:
                    row = min(_surplus(rows, other.rows[number]), key=repr, default=None)
                    instead = min(_surplus(other.rows[number], rows), key=repr, default=None)
                    what = f"rows of batch {number}: got {_show(row)}, there it is {_show(instead)}"
                    lines = [
                        f"{self._name} does not give the same in another Python process.",
                        f"First difference: {what}",
                        f"Likely cause: {_ANOTHER_ORDER}",
                        "Records up to then:",
                        *(f"    {line}" for line in _tell_records(each.history, number)),
                        f"To run it alone: simulate(..., seed={self._seed + at}, runs=1)",
                    ]
                    raise AssertionError("\n".join(lines))

    def _run(self, seed: int, cut: Iterable[str] = (), conditions: Conditions = _FAULTY) -> _Found:
        choices = Choices(seed, cut)
        with use_random_seed(seed), use_seed(seed) as folder:
            run = _UserRun(choices, self._built.draw, self._built.batches, folder, conditions)
            outcome = run.outcome()
        return _Found(outcome, tuple(run.committed), run.operators, run.error)

    def _shortest(self, seed: int, first: _Found) -> _Found:
        best = first
        where = first.outcome.what.partition(" ")[0]

        def fails(cut: frozenset[str]) -> list[str] | None:
            nonlocal best
            found = self._run(seed, cut)
            same = found.outcome.kind, found.outcome.what.partition(" ")[0]
            if same != (first.outcome.kind, where):
                return None
            best = found
            return [each.name for each in found.outcome.decisions]

        names = [each.name for each in first.outcome.decisions]
        shorten(fails, names, _MOST_RUNS_TO_SHORTEN)
        return best

    def _message(self, what: str, causes: Sequence[str], seed: int, found: _Found) -> str:
        lines = [
            f"{self._name} does not give the same when it is retried, restarted or moved.",
            f"First difference: {what}",
            *(f"Likely cause: {each}" for each in causes),
            "Shortest history that was found:",
            *(f"    {each}" for each in _tell(found)),
            f"To run it alone: simulate(..., seed={seed}, runs=1)",
        ]
        return "\n".join(lines)


_RUNS = re.compile(r"batch (\d+) runs at (-?\d+) under (-?\d+)")


def _tell(found: _Found) -> list[str]:
    """Return the history with its records, without what is of no use to a reader."""
    batches = {each.number: each for each in found.history}
    lines = []
    for line in found.outcome.history:
        if line.startswith("source ") or " planned: " in line:
            continue
        runs = _RUNS.fullmatch(line)
        if runs is None:
            lines.append(line)
            continue
        number, now, watermark = map(int, runs.groups())
        lines.append(f"batch {number} runs at {now} ms, under the watermark {watermark}")
        if number in batches:
            lines += _rows_of(batches[number])
    return _limit(lines)


def _tell_records(history: Sequence[MicroBatch], last: int) -> list[str]:
    """Return the records of micro-batches up to one."""
    lines: list[str] = []
    for batch in history[: last + 1]:
        lines += [f"batch {batch.number}", *_rows_of(batch)]
    return _limit(lines)


def _limit(lines: list[str]) -> list[str]:
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], *([f"... and {more} more lines"] if more > 0 else [])]


def _rows_of(batch: MicroBatch) -> list[str]:
    return [
        f"    input {at}: {_row(row)}"
        for at, records in enumerate(batch.records, 1)
        if records is not None
        for row in records.to_pylist()
    ]


def _row(fields: Mapping[str, Any]) -> str:
    told = (
        f"{name}={value.isoformat() if isinstance(value, dt.datetime) else shown(value)}"
        for name, value in fields.items()
    )
    return ", ".join(told)
