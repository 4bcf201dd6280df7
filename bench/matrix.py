# SPDX-License-Identifier: Apache-2.0
"""The sides by name: which workloads each runs, how much input it gets, and how it is run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attrs
from inputs import Shape
from results import Result
from workloads import Workload

Measure = Callable[[Any, str, Workload, Shape], Result]


@attrs.frozen
class Side:
    """One side of the comparison.

    Args:
        name: In `--sides`.
        title: In the table.
        default: The workloads it runs unless asked for others.
        possible: The workloads it can run.
        measure: Runs one; the first argument is the Spark session, or None.
        share: The share of our records, and of our keys, that it gets.
        batches: Micro-batches, the first one dropped; None for as many as ours.
        spark: Whether it needs the session.
    """

    name: str
    title: str
    default: tuple[str, ...]
    possible: tuple[str, ...]
    measure: Measure
    share: float = 1.0
    batches: int | None = None
    spark: bool = False

    def shape(self, workload: Workload, scale: float, records: int | None = None) -> Shape:
        """Return the size of its input.

        Args:
            workload: The workload.
            scale: The factor for records and keys.
            records: The records of a micro-batch before scaling; None for the workload's own.
        """
        shape = workload.shape
        if records is not None and not shape.sparse:
            shape = attrs.evolve(shape, records=records)
        is_slow = workload.windows is not None and self.share < 1
        return shape.scaled(self.share * scale, _FEW_BATCHES if is_slow else self.batches)


_FEW_BATCHES = 4
"""Of windows where a side gets a share: most of these take minutes."""
_W1_TO_6 = ("W1", "W2", "W3", "W4", "W5", "W6")
_W1_TO_7 = (*_W1_TO_6, "W7")
_WINDOWS = ("W9", "W10", "W11")
_W1_TO_8 = (*_W1_TO_7, "W8")
_TWO_INPUTS = ("J1", "B1")
_JOBS = ("PJ1",)
_OURS = (*_W1_TO_8, *_WINDOWS, *_TWO_INPUTS)
_FLOOR = _SPARK = (*_W1_TO_6, *_TWO_INPUTS)
_SPARK_CAN = _PYFLINK_CAN = (*_W1_TO_7, *_TWO_INPUTS)


def _ours(backend: str) -> Measure:
    def measure(spark: Any, side: str, workload: Workload, shape: Shape) -> Result:
        from sides import ours

        return ours.measure(spark, side, workload, shape, backend)

    return measure


def _columns(spark: Any, side: str, workload: Workload, shape: Shape) -> Result:
    from sides import ours

    return ours.measure_columns(spark, side, workload, shape)


def _spark_floor(spark: Any, side: str, workload: Workload, shape: Shape) -> Result:
    from sides import spark_floor

    return spark_floor.measure(spark, side, workload, shape)


def _python_tws(interface: str) -> Measure:
    def measure(spark: Any, side: str, workload: Workload, shape: Shape) -> Result:
        from sides import spark_tws

        return spark_tws.measure(spark, side, workload, shape, interface)

    return measure


def _built_in_windows(spark: Any, side: str, workload: Workload, shape: Shape) -> Result:
    from sides import spark_window

    return spark_window.measure(spark, side, workload, shape)


def _apply(spark: Any, side: str, workload: Workload, shape: Shape) -> Result:
    from sides import spark_apply

    return spark_apply.measure(spark, side, workload, shape)


def _scala(_: Any, side: str, workload: Workload, shape: Shape) -> Result:
    from sides import spark_scala

    return spark_scala.measure(side, workload, shape)


def _pyflink(backend: str, mode: str) -> Measure:
    def measure(_: Any, side: str, workload: Workload, shape: Shape) -> Result:
        from sides import flink

        return flink.pyflink(side, workload, shape, backend, mode)

    return measure


def _java_flink(backend: str) -> Measure:
    def measure(_: Any, side: str, workload: Workload, shape: Shape) -> Result:
        from sides import flink

        return flink.java(side, workload, shape, backend)

    return measure


_spark_side = functools.partial(Side, spark=True)

SIDES = {
    each.name: each
    for each in (
        _spark_side(
            "ours_heap", "pyflinklike, heap", (*_OURS, *_JOBS), (*_OURS, *_JOBS), _ours("heap")
        ),
        _spark_side("ours_rocksdb", "pyflinklike, RocksDB", _OURS, _OURS, _ours("rocksdb")),
        _spark_side(
            "ours_columns",
            "pyflinklike, heap, columnar",
            ("W1", "W2", "W5", "W6"),
            ("W1", "W2", "W5", "W6", "W8"),
            _columns,
        ),
        _spark_side("floor", "floor: dicts in mapInArrow", _FLOOR, _FLOOR, _spark_floor),
        _spark_side(
            "spark_pandas",
            "Spark transformWithStateInPandas",
            (*_SPARK, *_WINDOWS),
            (*_SPARK_CAN, *_WINDOWS),
            _python_tws("pandas"),
            share=0.1,
            batches=4,
        ),
        _spark_side(
            "spark_rows",
            "Spark transformWithState, rows",
            (*_SPARK, *_WINDOWS),
            (*_SPARK_CAN, *_WINDOWS),
            _python_tws("rows"),
            share=0.2,
            batches=4,
        ),
        _spark_side(
            "spark_window",
            "Spark's own window aggregation",
            _WINDOWS,
            _WINDOWS,
            _built_in_windows,
        ),
        _spark_side(
            "spark_apply",
            "Spark applyInPandasWithState",
            ("W1",),
            ("W1", "W5"),
            _apply,
            share=0.1,
            batches=4,
        ),
        Side(
            "spark_scala",
            "Spark transformWithState, Scala",
            _W1_TO_6,
            _W1_TO_8,
            _scala,
        ),
        Side(
            "pyflink_heap",
            "PyFlink, thread mode, heap",
            (*_SPARK, *_WINDOWS, *_JOBS),
            (*_PYFLINK_CAN, *_WINDOWS, *_JOBS),
            _pyflink("heap", "thread"),
            share=0.25,
        ),
        Side(
            "pyflink_rocksdb",
            "PyFlink, thread mode, RocksDB",
            (*_W1_TO_6, *_WINDOWS),
            (*_W1_TO_7, *_WINDOWS),
            _pyflink("rocksdb", "thread"),
            share=0.25,
        ),
        Side(
            "pyflink_process",
            "PyFlink, process mode, heap",
            ("W1",),
            _W1_TO_7,
            _pyflink("heap", "process"),
            share=0.025,
            batches=4,
        ),
        Side("java_heap", "Java Flink, heap", ("W1",), _W1_TO_7, _java_flink("heap")),
        Side("java_rocksdb", "Java Flink, RocksDB", _W1_TO_7, _W1_TO_7, _java_flink("rocksdb")),
    )
}
