# SPDX-License-Identifier: Apache-2.0
"""What a plan becomes in one of Spark's tasks."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from pyspark import TaskContext

from pyflinklike.clock import TimeDomain
from pyflinklike.errors import PyflinklikeError
from pyflinklike.runtime.assembly import keyed_process_operator
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.spark.setup.plan import Plan
from pyflinklike.spark.wire.homes import partitions_of_state
from pyflinklike.types.pickle_switch import pickle_allowed

__all__ = ["of_checkpoint", "opened_operator", "task_of"]


def of_checkpoint(plan: Plan) -> Plan:
    """The plan with the numbers of tasks and key groups that the checkpoint was begun with.

    Spark keeps the number of partitions of a checkpoint whatever the session says at a restart.
    When the plan was made nobody knew the checkpoint; a task is told.

    Args:
        plan: Of the query, in one of its tasks.
    """
    partitions = partitions_of_state(TaskContext.get())
    if partitions is None:
        return plan
    groups = plan.task.max_parallelism if plan.key_groups is None else plan.key_groups(partitions)
    task = attrs.evolve(plan.task, parallelism=partitions, max_parallelism=groups)
    return attrs.evolve(plan, task=task)


def task_of(plan: Plan, context: TaskContext | None) -> TaskInfo:
    """The task of a plan that runs here.

    Args:
        plan: Of the query.
        context: Spark's, or None where no task runs.
    """
    if context is None:
        return plan.task
    return attrs.evolve(plan.task, index=context.partitionId(), attempt=context.attemptNumber())


def opened_operator(
    plan: Plan,
    task: TaskInfo,
    owner: str,
    refused_timers: Mapping[TimeDomain, PyflinklikeError] | None = None,
) -> KeyedProcessOperator:
    """An operator of a plan, with the function open.

    Args:
        plan: Of the query.
        task: Which task it serves first.
        owner: Whose working state it works on.
        refused_timers: Domains whose timers the host cannot fire, with the remedy.

    Raises:
        UserFunctionError: The function could not be opened.
        DeclarationValueError: State would have to be unpickled, which is refused.
    """
    operator = keyed_process_operator(
        plan.function,
        plan.state_backend,
        plan.key_type,
        task,
        owner,
        refused_timers=refused_timers,
        side_outputs_read=plan.layout.sides,
        broadcast_states=plan.broadcast_states,
        # A worker's environment may refuse what the driver's did not.
        allow_pickle=pickle_allowed(plan.allow_pickle),
        timed_outputs=plan.timed_outputs,
    )
    operator.open()
    return operator
