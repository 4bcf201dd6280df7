# SPDX-License-Identifier: Apache-2.0
"""The figures of `micro.py`, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping


def micro_rows(rates: Mapping[str, float]) -> str:
    """Markdown: each operator beside the floor of its workload."""
    lines = [
        "| in one process, no Spark | per second of CPU | of wall time | CPU time over the floor |",
        "|---|---:|---:|---:|",
    ]
    for name, rate in rates.items():
        if name.endswith("_wall"):
            continue
        floor = rates.get(f"{name.split('_')[0]}_floor")
        over = f"{floor / rate:.2f}x" if floor and "operator" in name else ""
        lines.append(f"| {name} | {rate:,.0f} | {rates[f'{name}_wall']:,.0f} | {over} |")
    return "\n".join(lines)
