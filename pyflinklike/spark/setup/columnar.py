# SPDX-License-Identifier: Apache-2.0
"""What is different in the plan of a `KeyedBatchFunction`: records and outputs stay columns."""

from __future__ import annotations

from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.api.keyed_batch import KeyedBatchFunction
from pyflinklike.spark.setup.plan import Plan
from pyflinklike.spark.wire.records import RecordReader
from pyflinklike.state.current_key import CurrentKey

__all__ = ["in_columns"]


def in_columns(plan: Plan) -> Plan:
    """The plan, for a function of either kind.

    Args:
        plan: As for a function of one element at a time.

    Raises:
        DeclarationValueError: The function keeps its state in columns, which the backend has not.
    """
    if not isinstance(plan.function, KeyedBatchFunction):
        return plan
    # Imported only here, for it needs NumPy.
    from pyflinklike.spark.wire.column_records import ColumnLayout, ColumnRecordReader

    kind = pa.int64()
    plan.state_backend.create_columnar_state_backend(CurrentKey(), "check", kind).close()
    assert isinstance(plan.reader, RecordReader)  # such a function has one input
    return attrs.evolve(
        plan,
        reader=ColumnRecordReader(**_fields(plan.reader)),
        layout=ColumnLayout(**_fields(plan.layout)),
    )


def _fields(made: Any) -> dict[str, Any]:
    return {field.name: getattr(made, field.name) for field in attrs.fields(type(made))}
