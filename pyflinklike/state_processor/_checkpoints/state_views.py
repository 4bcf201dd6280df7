# SPDX-License-Identifier: Apache-2.0
"""State in SQL: a temporary view for each state, store and queue of timers of a query.

A view shows one micro-batch, while the query goes on.  Its name is made of the prefix and the name of
the state, so a SQL statement that was written once finds it after every call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import attrs
from pyspark.sql import DataFrame, SparkSession

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark._wire.system_columns import quote
from pyflinklike.state_processor._checkpoints.group_job import frame_by_key
from pyflinklike.state_processor._checkpoints.savepoint_frames import SavepointState
from pyflinklike.state_processor._checkpoints.state_frames import (
    Location,
    StateSource,
    clock_at,
    entries_of,
    entry_reader,
    one_operator,
    operators_at,
    timers_of,
)
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.group_reader import GroupReader, TimersReader
from pyflinklike.state_processor._logs.state_infos import (
    StateInfo,
    describe_states,
    html_table,
    state_of,
)

_TIMERS = "timers"
_VALUE = "value"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names that SQL takes without backticks."""

_MADE: WeakKeyDictionary[SparkSession, dict[str, set[str]]] = WeakKeyDictionary()
"""The views that a session has, by the prefix with which they were made."""


@attrs.frozen
class StateView:
    """A temporary view of a state, a store or the timers of an operator.

    Args:
        view: The name as SQL takes it: in backticks, unless it has only letters, digits and `_`.
        operator_id: Spark's number of the operator, or its position in a savepoint.
        uid: The operator's uid, by default the name of the function's class.
        state: The name of the state or store; None for timers.
        kind: The kind of state as in `list_states`, or "timers".
        columns: The names of the columns.
        batch_id: The micro-batch after which the view shows state; None if a savepoint has no batch.
    """

    view: str
    operator_id: int
    uid: str
    state: str | None
    kind: str
    columns: tuple[str, ...]
    batch_id: int | None


class StateViews(list[StateView]):
    """The result of `create_state_views`: a list, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        names = [each.name for each in attrs.fields(StateView)]
        rows = [
            {**attrs.asdict(each, recurse=False), "columns": ", ".join(each.columns)}
            for each in self
        ]
        return html_table(names, rows)


def create_state_views(
    spark: SparkSession,
    checkpoint: Location,
    prefix: str,
    batch_id: int | None = None,
    *,
    operator: int | str | None = None,
    states: Iterable[str] | None = None,
    now: datetime | int | None = None,
) -> StateViews:
    """Create a temporary view for each state, store and queue of timers of a query.

    The query may be running.  All views are of one micro-batch.  Another call with the same prefix
    replaces them, and drops views whose state the later batch does not have.

        create_state_views(spark, "/checkpoints/visits", "visits")
        spark.sql("select * from visits_count where user = 'ann'").show()

    The view of a state is called `<prefix>_<state>`, and the view of the timers `<prefix>_timers`.
    If the query has several operators and `operator` is None, the names are `<prefix>_<uid>_<state>`.
    The columns are the ones of `read_state` and `read_timers`, except that the column `value` gets
    the name of the state if no other column has it.  Expired entries are in the views, with `alive`
    false.

    Args:
        spark: The session that gets the views.
        checkpoint: The checkpointLocation of the query, or the directory of a savepoint.
        prefix: The beginning of the views' names.  A temporary view that has such a name is
            replaced.
        batch_id: The micro-batch after which state is shown; by default the last committed one.
        operator: Spark's number of a stateful operator, or its uid; by default all operators.
        states: The names of the states and stores; by default all of them and the timers.
        now: The time by which entries are expired and timers due, in ms or as a datetime (in UTC
            if it has no zone); by default the clock of the batch.

    Returns:
        A list with the name and the columns of each view.

    Raises:
        DeclarationValueError: Two views would have one name, or the prefix is empty.
        UnknownStateError: There is no such state or operator.
        UnknownBatchError: The batch is not, or no longer, there.
        CorruptStateError: The operator's record, registry or heads are damaged.
        SparkSetupError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    _check_arguments(prefix, states, operator)
    wanted = None if states is None else tuple(states)
    given = clock_at(now)
    sources = operators_at(spark, checkpoint, operator, batch_id)
    planned = _plan(sources, prefix, wanted)
    _refuse_collisions(planned)
    clock = given or sources[0].clock()
    frames = [(view, _frame_of(source, info, clock)) for view, source, info in planned]
    former = _MADE.setdefault(spark, {})
    names = {view.view for view, _ in frames}
    for name in former.get(prefix, set()) - names:
        spark.catalog.dropTempView(name)
    made = StateViews()
    for view, frame in frames:
        shown_frame = _with_name(frame, view.state)
        shown_frame.createOrReplaceTempView(quote(view.view))
        name = view.view if _PLAIN.fullmatch(view.view) else quote(view.view)
        made.append(attrs.evolve(view, view=name, columns=tuple(shown_frame.columns)))
    former[prefix] = names
    return made


def _check_arguments(prefix: Any, states: Any, operator: Any) -> None:
    if not isinstance(prefix, str):
        msg = f"prefix takes the beginning of the views' names, got {short_repr(prefix)}"
        raise DeclarationTypeError(f'{msg}; write prefix="visits"')
    if not prefix:
        msg = "views need a prefix, since a state could hide a table of yours, got ''"
        raise DeclarationValueError(f'{msg}; write prefix="visits"')
    if isinstance(states, str):
        msg = f"states takes a list of names, got {states!r}; write states=[{states!r}]"
        raise DeclarationTypeError(msg)
    if operator is not None:
        one_operator(operator)


def _frame_of(source: StateSource, info: StateInfo | None, clock: BatchClock | None) -> DataFrame:
    """Return the rows of a state of an operator; None as the state returns the timers."""
    if isinstance(source, SavepointState):
        return timers_of(source, clock) if info is None else entries_of(source, info, clock)
    # A condition on the key columns of the view chooses the key groups that are read.
    reader: GroupReader = (
        TimersReader(source.record, clock) if info is None else entry_reader(source, info, clock)
    )
    return frame_by_key(source, reader)


_Planned = tuple[StateView, StateSource, StateInfo | None]


def _plan(
    sources: Sequence[StateSource], prefix: str, states: tuple[str, ...] | None
) -> list[_Planned]:
    """Name the views.

    Raises:
        UnknownStateError: No operator has a state of that name.
    """
    planned: list[_Planned] = []
    described = [describe_states(each.record, each.operator_id) for each in sources]
    for name in states or ():
        state_of(chain.from_iterable(described), name, sources[0].where)
    for source, infos in zip(sources, described):
        uid, number = source.record.identity.name, source.operator_id
        chosen: list[StateInfo | None] = [
            info for info in infos if states is None or info.name in states
        ]
        if states is None:
            chosen.append(None)
        for info in chosen:
            state, kind = (None, _TIMERS) if info is None else (info.name, info.kind)
            name = "_".join([prefix, *([uid] if len(sources) > 1 else []), state or _TIMERS])
            view = StateView(name, number, uid, state, kind, (), source.batch_id)
            planned.append((view, source, info))
    return planned


def _refuse_collisions(planned: list[_Planned]) -> None:
    """Refuse names that differ only in capital and small letters, which SQL takes for one name.

    Raises:
        DeclarationValueError: Two views would have one name.
    """
    views = [view for view, _, _ in planned]
    counts = Counter(view.view.lower() for view in views)
    for name, count in counts.items():
        if count > 1:
            owners = [
                f"{'the timers' if view.state is None else f'state {view.state!r}'} of {view.uid!r}"
                for view in views
                if view.view.lower() == name
            ]
            msg = f"views must have different names, got {name!r} for {' and '.join(owners)}"
            raise DeclarationValueError(
                f"{msg}; choose with states=[...] or operator=, and name the other one yourself: "
                "read_state(...).createTempView(...)"
            )


def _with_name(frame: DataFrame, state: str | None) -> DataFrame:
    """Let the values have the name of the state, unless another column has it."""
    if state is None or state.lower() in {each.lower() for each in frame.columns}:
        return frame
    return frame.withColumnRenamed(_VALUE, state)
