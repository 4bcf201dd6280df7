# SPDX-License-Identifier: Apache-2.0
"""The benchmark: one command, one table.

    python bench/run.py                                   # everything
    python bench/run.py --running-count                   # W1 against Spark's Python operators
    python bench/run.py --workloads W1,W2 --sides ours_heap,floor
    python bench/run.py --quick                           # that all of it works; times mean nothing

Each side's outputs are checked against the reference; a side that computes
something else fails the run at its end, after the table.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import paths
from inputs import Shape
from matrix import SIDES, Side
from results import Result, UnavailableError
from table import machine, render
from workloads import WORKLOADS

_QUICK_SCALE = 0.01
_FEW_KEYS = 10_000
_SMALL = Shape(100, 15, 100)
_RUNNING_COUNT = ("ours_heap", "spark_pandas", "spark_rows")
Key = tuple[str, str]


class Suite:
    """The measurements so far.

    Args:
        scale: The factor for records and keys.
        raw: A file to write after each figure, or None.
        records: The records of a micro-batch; None for each workload's own.
    """

    def __init__(self, scale: float, raw: Path | None, records: int | None = None) -> None:
        self.scale = scale
        self.records = records
        self._raw = raw
        self.results: dict[Key, Result] = {}
        self.missing: dict[Key, str] = {}
        self.failed: list[str] = []
        self.micro: dict[str, float] = {}
        self._spark: Any = None
        self._is_cold = True

    def spark(self) -> Any:
        """The session of our side and of Spark's Python operators."""
        if self._spark is None:
            from spark_run import session

            self._spark = session()
            self._is_cold = True
        return self._spark

    def warmed(self, measure: Any) -> Any:
        """Measure on the session; in a new session, repeat the run and take the second."""
        result = measure(self.spark())
        if self._is_cold:
            self._is_cold = False
            result = measure(self.spark())
        return result

    def stop_spark(self) -> None:
        """Leave the machine to the next side, and it to a JVM of its own.

        A JVM compiles its hot code for dozens of micro-batches, so that whoever came later
        into a common one would be the faster; and none would be at its steady state at first.
        """
        if self._spark is not None:
            from spark_run import stop

            stop(self._spark)
            self._spark = None

    def measure(self, side: Side, name: str, shape: Shape | None = None) -> None:
        """Run a side on a workload, and note the result or why there is none."""
        workload = WORKLOADS["W8" if name == "W8-few" else name]
        given = shape or side.shape(workload, self.scale, self.records)

        def measure(spark: Any) -> Result:
            return side.measure(spark, side.name, workload, given)

        self.attempt(
            (side.name, name), lambda: self.warmed(measure) if side.spark else measure(None)
        )

    def attempt(self, key: Key, measure: Any) -> None:
        """The same for any function that gives a result."""
        started = time.monotonic()
        try:
            result = measure()
            outcome = f"{result.median:,.0f} records/s"
            self.results[key] = result
        except UnavailableError as reason:
            outcome = self.missing[key] = f"skipped: {reason}"
        except Exception as error:
            traceback.print_exc()
            first = (str(error).splitlines() or [""])[0].rpartition("terminated with exception: ")[
                2
            ]
            outcome = self.missing[key] = f"FAILED: {type(error).__name__}: {first[:160]}"
            self.failed.append(f"{key[0]} {key[1]}")
        self.keep()
        took = time.monotonic() - started
        print(f"  {key[1]:<7} {key[0]:<16} {outcome} ({took:.0f} s)", file=sys.stderr, flush=True)

    def keep(self) -> None:
        """Write the raw figures."""
        if self._raw is None:
            return
        raw = {
            "machine": machine(),
            "results": [
                result.to_json() | {"workload": key[1]} for key, result in self.results.items()
            ],
            "missing": [[*key, why] for key, why in self.missing.items()],
            "micro": self.micro,
        }
        self._raw.write_text(json.dumps(raw, indent=1))

    def sparse(self, side: Side) -> None:
        """W8's other half: the same number of records, fewer keys in state."""
        many = side.shape(WORKLOADS["W8"], self.scale)
        few = Shape(many.records, many.batches, max(int(_FEW_KEYS * self.scale), 1), sparse=True)
        self.measure(side, "W8-few", few)

    def small(self, sides: list[Side]) -> None:
        """Batches of 100 records, and empty ones of Spark's operator."""
        from sides import empty

        if any(side.name.startswith("ours") for side in sides):
            self.attempt(
                ("empty", "small"), lambda: self.warmed(lambda spark: empty.measure(spark, _SMALL))
            )
        for side in sides:
            if side.name.startswith("ours"):
                self.stop_spark()

                def measure(spark: Any, side: Side = side) -> Result:
                    return side.measure(spark, side.name, WORKLOADS["W1"], _SMALL)

                self.attempt((side.name, "small"), functools.partial(self.warmed, measure))


def main() -> int:
    """Run the sides asked for, print the table, keep the raw figures."""
    options = _options()
    scale = _QUICK_SCALE if options.quick else options.scale
    raw = Path(options.json) if options.json else None
    suite = Suite(scale, raw, options.records)
    sides = [SIDES[name] for name in options.sides]
    started = time.monotonic()
    if options.small:
        suite.small(sides)
    for side in sides:
        suite.stop_spark()
        for name in options.workloads:
            wanted = side.possible if options.everything else side.default
            if name in wanted:
                suite.measure(side, name)
            if name == "W8" and side.name.startswith("ours"):
                suite.sparse(side)
    suite.stop_spark()
    if options.micro:
        try:
            suite.micro = _micro(scale)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            suite.failed.append("micro.py")
    print(render(suite.results, suite.missing, suite.micro))
    if scale != 1:
        print(f"\nAt scale {scale}: neither the figures nor the verdicts mean anything.")
    print(f"\n{time.monotonic() - started:.0f} s in all.")
    suite.keep()
    if suite.failed:
        print(f"failed: {', '.join(suite.failed)}", file=sys.stderr)
    return 1 if suite.failed else 0


def _micro(scale: float) -> dict[str, float]:
    command = [sys.executable, str(paths.BENCH / "micro.py"), "--json", "--scale", str(scale)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(ended.stderr)
    rates: dict[str, float] = json.loads(ended.stdout)
    return rates


def _options() -> argparse.Namespace:
    def names(known: Any) -> Any:
        def parse(text: str) -> list[str]:
            given = text.split(",")
            unknown = [each for each in given if each not in known]
            if unknown:
                msg = f"choose from {', '.join(known)}, got {', '.join(unknown)}"
                raise argparse.ArgumentTypeError(msg)
            return given

        return parse

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", type=names(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--sides", type=names(SIDES), default=list(SIDES))
    parser.add_argument("--scale", type=float, default=1.0, help="of the records and the keys")
    parser.add_argument("--records", type=int, help="of a micro-batch, with as many keys as ever")
    parser.add_argument("--quick", action="store_true", help=f"--scale {_QUICK_SCALE}")
    parser.add_argument(
        "--everything", action="store_true", help="every workload that each side can run"
    )
    parser.add_argument("--json", metavar="FILE", help="keep the raw figures")
    parser.add_argument("--no-small", dest="small", action="store_false", help="no tiny batches")
    parser.add_argument("--no-micro", dest="micro", action="store_false", help="no micro.py")
    parser.add_argument(
        "--running-count",
        action="store_true",
        help=f"W1 of {', '.join(_RUNNING_COUNT)} and nothing else",
    )
    options = parser.parse_args()
    if options.running_count:
        options.workloads, options.sides = ["W1"], list(_RUNNING_COUNT)
        options.small = options.micro = False
    return options


if __name__ == "__main__":
    sys.exit(main())
