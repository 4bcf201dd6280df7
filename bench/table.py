# SPDX-License-Identifier: Apache-2.0
"""The one table, in Markdown: what each side managed, then each goal."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator, Mapping

import pyarrow as pa
from goals import Results, verdicts
from inputs import Shape
from matrix import SIDES
from micro_table import micro_rows
from paths import FLINK_PYTHON
from results import Result
from workloads import WORKLOADS

_HEADER = "| workload | side | records/s: median | min | max | ours, heap, is | given | s/batch |"
_SETTINGS = (
    "Spark: local[2], 2 shuffle partitions, RocksDB state store with changelog checkpointing; "
    "ours: max_parallelism 16, the default. Flink: parallelism 2, a checkpoint every 2 s."
)
_GIVEN = (
    "Slow sides are given fewer records and, in the same proportion, fewer keys. "
    "Medians over micro-batches, the first one dropped; of Flink's jobs over equal shares."
)
_RULE = "|---|---|---:|---:|---:|---:|---|---:|"


def machine() -> str:
    """Return the machine and the versions."""
    import pyspark

    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"PySpark {pyspark.__version__}, pyarrow {pa.__version__}, Flink {_flink_version()}"
    )


def _flink_version() -> str:
    pattern = "lib/python*/site-packages/apache_flink-*.dist-info"
    found = list(FLINK_PYTHON.parent.parent.glob(pattern))
    return found[0].name.split("-")[1].removesuffix(".dist") if found else "absent"


def render(
    results: Results, missing: Mapping[tuple[str, str], str], micro: Mapping[str, float]
) -> str:
    """The whole report.

    Args:
        results: By side and workload.
        missing: Why a side has no result, by side and workload.
        micro: What `micro.py` measured.
    """
    lines = [
        f"Measured on {machine()}; load average at the end {os.getloadavg()[0]:.1f}.",
        _SETTINGS,
        _GIVEN,
        "",
        _HEADER,
        _RULE,
        *_rows(results, missing),
        *_small_batches(results),
        "",
        "| goal | wanted | got | |",
        "|---|---:|---:|---|",
    ]
    for each in verdicts(results, micro):
        if each.got is None and each.outcome == "not measured":
            got = "-"
        else:
            got = _figure(each.got or 0.0, each.unit)
        sign = "<=" if each.at_most else ">="
        lines.append(
            f"| {each.goal} | {sign} {_figure(each.wanted, each.unit)} | {got} | {each.outcome} |"
        )
    if micro:
        lines += ["", micro_rows(micro)]
    return "\n".join(lines)


def _rows(results: Results, missing: Mapping[tuple[str, str], str]) -> Iterator[str]:
    names = [*WORKLOADS, "W8-few", "small"]
    for workload in names:
        title = WORKLOADS[workload].title if workload in WORKLOADS else _EXTRA[workload]
        for side in [*SIDES, "empty"]:
            label = (
                SIDES[side].title if side in SIDES else "Spark transformWithStateInPandas, empty"
            )
            key = side, workload
            if key in results:
                ours = results.get(("ours_heap", workload))
                yield f"| {workload} {title} | {label} | {_measured(results[key], ours)} |"
            elif key in missing:
                yield f"| {workload} {title} | {label} | {missing[key]} | | | | | |"


def _small_batches(results: Results) -> Iterator[str]:
    """Yield the table of small batches, with the slow ones as well."""
    small = [each for each in results.values() if each.workload == "small"]
    if small:
        yield ""
        yield "| ms a micro-batch of 100 records | p50 | p95 | min | max |"
        yield "|---|---:|---:|---:|---:|"
    for result in small:
        ms = sorted(each * 1000 for each in result.seconds)
        p95 = statistics.quantiles(ms, n=20, method="inclusive")[-1]
        cells = [f"{each:.0f}" for each in (statistics.median(ms), p95, ms[0], ms[-1])]
        yield f"| {result.side} | {' | '.join(cells)} |"


_EXTRA = {
    "W8-few": "10 k records a batch, 10 k keys in state",
    "small": "100 records a batch",
}


def _measured(result: Result, ours: Result | None) -> str:
    ratio = f"{ours.median / result.median:.2f}x" if ours and result.side != "ours_heap" else ""
    rates = result.rates
    cells = [f"{each:,.0f}" for each in (statistics.median(rates), min(rates), max(rates))]
    return " | ".join([*cells, ratio, _given(result.shape), f"{result.median_seconds:.2f}"])


def _given(shape: Shape) -> str:
    return f"{shape.batches - 1} x {shape.records:,}, {shape.keys:,} keys"


def _figure(value: float, unit: str) -> str:
    return f"{value:.2f}{unit}" if unit else f"{value:,.0f}"
