# SPDX-License-Identifier: Apache-2.0
"""The kind of functions of batches, by which the core runs a `KeyedBatchFunction`.

The core knows no columns.  `pyflinklike.columns` imports this module, so the entry exists before any
function of this kind.
It stands alone because it names the operator and the harness, which import the function: beside the
function, it would close a circle.
"""

from __future__ import annotations

from typing import Any

from pyflinklike._runtime.assembly import FunctionKind, OperatorAssembly, OperatorDeclaration
from pyflinklike._runtime.failure_snapshot import BATCHES
from pyflinklike._runtime.function_kinds import register
from pyflinklike.columns.keyed_batch_function import KeyedBatchFunction

__all__: list[str] = []


def _assembly(declared: OperatorDeclaration, kind: FunctionKind) -> OperatorAssembly:
    # Imported late: only a task needs the operator.
    from pyflinklike.columns.columnar_operator import ColumnarAssembly

    return ColumnarAssembly(declared, kind)


def _make_harness(*arguments: Any, **options: Any) -> Any:
    # Imported late: a worker of Spark needs no harness.
    from pyflinklike.columns.batch_harness import KeyedBatchHarness

    return KeyedBatchHarness(*arguments, **options)


def _on_spark(plan: Any) -> Any:
    # Imported late, because a host without Spark has functions of batches, too.
    from pyflinklike.columns.columnar_layout import in_columns

    return in_columns(plan)


register(
    FunctionKind(
        inputs=BATCHES,
        harness="KeyedBatchHarness",
        make_harness=_make_harness,
        has_process=True,
        assembly=_assembly,
        on_spark=_on_spark,
    ),
    KeyedBatchFunction,
)
