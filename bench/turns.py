# SPDX-License-Identifier: Apache-2.0
"""This checkout beside another one without Spark, in short turns: what a record costs in CPU.

    git worktree add --detach /tmp/before <commit>
    python bench/turns.py /tmp/before --turns 15

A machine that other programs share is faster or slower from minute to minute, by more than a
change of the code makes.  So each checkout has a process, and they take turns of a second or two:
a ratio compares two turns that follow each other, and the figure is the median of these ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import paths

LINES = (
    "harness_heap",
    "cold_heap",
    *(f"{name}_{backend}" for backend in ("heap", "rocksdb") for name in ("W1", "W2", "W4", "W5")),
)
"""What is measured: a call for each record, a cold load, and micro-batches of a workload."""


class Side:
    """One checkout, measured in a process of its own.

    Args:
        tree: The checkout.
        scale: The factor for the records of a turn.
    """

    def __init__(self, tree: Path, scale: float) -> None:
        path = os.pathsep.join((str(tree / "bench"), str(tree)))
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--serve", "--scale", str(scale)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        )

    def measure(self, line: str) -> float:
        """Run one line in this process; the seconds of CPU of its fastest round."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        return float(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def answer(scale: float) -> None:
    """Measure each line that comes, with the `micro` of this process' checkout."""
    import micro
    from workloads import WORKLOADS

    for line in sys.stdin:
        name, backend = line.strip().split("_")
        if name == "harness":
            rounds = micro.harness(backend, int(200_000 * scale))
        elif name == "cold":
            rounds = micro.cold(backend, int(100_000 * scale))
        else:
            workload = WORKLOADS[name]
            rounds = micro.operator_only(workload, backend, workload.shape.scaled(scale, 4))
        print(json.dumps(min(cpu for _, cpu in rounds)), flush=True)


def main() -> int:
    """Measure in turns and print the table; 1 if a line is slower than `--at-least`."""
    options = _options()
    if options.serve:
        answer(options.scale)
        return 0
    sides = [Side(paths.ROOT, options.scale), Side(Path(options.other).resolve(), options.scale)]
    slower = False
    print("| line | this / other, median | quartiles |\n|---|---|---|")
    for line in options.lines.split(","):
        ratios = []
        for turn in range(options.turns):
            seconds = {}
            for side in sides[:: -1 if turn % 2 else 1]:
                seconds[side] = side.measure(line)
            ratios.append(seconds[sides[1]] / seconds[sides[0]])
        low, middle, high = statistics.quantiles(ratios, n=4)
        slower = slower or middle < options.at_least
        print(f"| {line} | {middle:.3f} | {low:.3f} to {high:.3f} |", flush=True)
    for side in sides:
        side.close()
    return int(slower)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", nargs="?", help="the other checkout")
    parser.add_argument("--lines", default=",".join(LINES), help="what to measure")
    parser.add_argument("--scale", type=float, default=0.2, help="of the records and the keys")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument(
        "--at-least", type=float, default=0.97, help="the ratio below which it ends with 1"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
