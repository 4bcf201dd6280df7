# SPDX-License-Identifier: Apache-2.0
"""`python -m simulated`: runs of many seeds, until one fails or time is up."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from simulated.choices import Choices
from simulated.program import Program
from simulated.programs import KINDS, draw_program
from simulated.simulation import Outcome, run, run_shortest

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run simulations, and return 1 if one of them failed."""
    options = _parser().parse_args(arguments)
    kinds = tuple(options.programs.split(",")) if options.programs else tuple(KINDS)

    def drawn(choices: Choices) -> Program:
        return draw_program(choices, kinds)

    if options.seed is not None and options.minutes is None:
        outcome = run(options.seed, drawn, options.batches)
        _tell(options.seed, drawn, options.batches, outcome, shrinks=not options.whole)
        return int(outcome.is_failure)
    return _many(drawn, options)


def _many(drawn: Callable[[Choices], Program], options: Any) -> int:
    began, cpu = time.monotonic(), time.process_time()
    kinds: Counter[str] = Counter()
    batches = failures = runs = 0
    each = 0.0
    first, minutes = options.seed or 0, 1 if options.minutes is None else options.minutes
    with _show_progress() as show:
        while time.monotonic() - began < 60 * minutes:
            seed = first + runs
            outcome = run(seed, drawn, options.batches)
            runs, batches = runs + 1, batches + outcome.batches
            kinds[_kind_of(outcome)] += 1
            each = batches / max(time.process_time() - cpu, 0.001)
            show(f"{runs:,} programs, {batches:,} micro-batches, {each:,.0f} per CPU second")
            if outcome.is_failure:
                failures += 1
                _tell(seed, drawn, options.batches, outcome, shrinks=not options.whole)
                if failures >= options.failures:
                    break
    print(f"{runs:,} programs, {batches:,} micro-batches, {each:,.0f} per CPU second")
    for kind, count in sorted(kinds.items()):
        print(f"{count:8,} {kind}")
    return int(failures > 0)


def _kind_of(outcome: Outcome) -> str:
    if outcome.kind == "equal":
        return outcome.kind
    return f"{outcome.kind}: {outcome.what.partition(':')[0]}"


def _tell(
    seed: int,
    drawn: Callable[[Choices], Program],
    batches: int,
    outcome: Outcome,
    *,
    shrinks: bool,
) -> None:
    if outcome.is_failure and shrinks:
        # At once, for what follows takes a minute.
        print(f"seed {seed}: {outcome.kind} {outcome.what}", flush=True)
        outcome = run_shortest(seed, drawn, batches, outcome)
    print("\n".join(outcome.history))
    if outcome.is_failure:
        print("decided for this:")
        for each in outcome.decisions:
            print(f"    {each.name}: {each.value}")
    print(f"seed {seed}: {outcome.kind} {outcome.what}", flush=True)


@contextmanager
def _show_progress() -> Any:
    """Yield a function that shows a line of progress, on a terminal."""
    try:
        from rich.console import Console
    except ImportError:
        yield lambda _: None
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("the first program") as status:
        yield status.update


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m simulated",
        description="Run whole queries on a simulated Spark, from seeds.",
    )
    parser.add_argument(
        "--seed",
        type=int,
        help="run this one, and print its history; with --minutes the first of many",
    )
    parser.add_argument("--batches", type=int, default=20, help="micro-batches of each program")
    parser.add_argument("--minutes", type=float, help="how long; 1 without --seed")
    parser.add_argument("--programs", help=f"kinds, with commas: {', '.join(KINDS)}")
    parser.add_argument("--failures", type=int, default=1, help="failures after which it stops")
    parser.add_argument("--whole", action="store_true", help="do not look for the shortest history")
    return parser


if __name__ == "__main__":
    sys.exit(main())
