# SPDX-License-Identifier: Apache-2.0
"""This checkout beside another one, in turns on one machine: is it slower than before?

    git worktree add --detach /tmp/before <commit>
    python bench/against.py /tmp/before                                     # W1, both backends
    python bench/against.py /tmp/before --workloads W1,W2 --sides ours_heap --rounds 5

Each round runs `bench/run.py` of either checkout in processes of their own, and the
rounds begin with this and the other checkout in turn, so that neither has the machine
when it is colder or busier.  The figure is the ratio of the medians over all batches.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import paths

Measured = dict[tuple[str, str], list[float]]
"""Records per second of each batch, by side and workload."""


def main() -> int:
    """Measure, print the table; 1 if anything is slower than `--at-least`."""
    options = _options()
    trees = {"this": paths.ROOT, "other": Path(options.other).resolve()}
    measured: dict[str, Measured] = {name: {} for name in trees}
    for round_ in range(options.rounds):
        for name in list(trees)[:: -1 if round_ % 2 else 1]:
            for key, rates in _run(trees[name], options).items():
                measured[name].setdefault(key, []).extend(rates)
    return _report(measured, options.at_least)


def _run(tree: Path, options: argparse.Namespace) -> Measured:
    with tempfile.NamedTemporaryFile(suffix=".json") as raw:
        command = [sys.executable, str(tree / "bench" / "run.py"), "--no-micro", "--json", raw.name]
        command += ["--workloads", options.workloads, "--sides", options.sides]
        command += [] if options.small else ["--no-small"]
        path = {"PYTHONPATH": os.pathsep.join((str(tree / "bench"), str(tree)))}
        subprocess.run(
            command, check=True, cwd=tree, stdout=subprocess.DEVNULL, env={**os.environ, **path}
        )
        results = json.loads(Path(raw.name).read_text())["results"]
    return {
        (each["side"], each["workload"]): [
            each["shape"]["records"] / seconds for seconds in each["seconds"]
        ]
        for each in results
    }


def _report(measured: dict[str, Measured], at_least: float) -> int:
    print("| side | workload | this, records/s | other, records/s | this / other |")
    print("|---|---|---|---|---|")
    slower = False
    for key, other in measured["other"].items():
        this = measured["this"][key]
        ratio = statistics.median(this) / statistics.median(other)
        slower = slower or ratio < at_least
        print(f"| {key[0]} | {key[1]} | {_spread(this)} | {_spread(other)} | {ratio:.3f} |")
    return int(slower)


def _spread(rates: list[float]) -> str:
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", help="the other checkout")
    parser.add_argument("--workloads", default="W1")
    parser.add_argument("--sides", default="ours_heap,ours_rocksdb")
    parser.add_argument("--small", action="store_true", help="also batches of 100 records")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--at-least", type=float, default=0.97, help="the ratio below which it ends with 1"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
