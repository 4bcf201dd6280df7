# SPDX-License-Identifier: Apache-2.0
"""The record of an operator, for its roll call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyflinklike import __version__
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.runtime.operator import KeyedProcessOperator

if TYPE_CHECKING:
    from pyflinklike.spark.setup.plan import Plan

__all__ = ["record_of"]


def record_of(plan: Plan, operator: KeyedProcessOperator) -> OperatorRecord:
    """The record of an opened operator.

    Args:
        plan: Of the query.
        operator: It knows its states.
    """
    function = type(plan.function)
    return OperatorRecord(
        plan.task.identity(plan.key_type),
        f"{function.__module__}.{function.__qualname__}",
        __version__,
        plan.reader.time_zone,
        plan.reader.event_time,
        plan.time_mode.value,
        operator.declared(),
    )
