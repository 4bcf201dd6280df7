# SPDX-License-Identifier: Apache-2.0
"""Runs the collection of jobs in `tests/support/jobs` on PyFlink, and tells where it gives something else.

FLINK_PYTHON scripts/pyflink_oracle.py [options] [NAME ...]

`bench/setup_peers.sh` makes the environment of FLINK_PYTHON
(~/.cache/pyflinklike-bench/flink-venv/bin/python).  Nothing of ours is installed there:
`import pyflinklike.pyflink.X` means PyFlink's module `pyflink.X` here, so a job uses only what
PyFlink has too, imported from where PyFlink has it.  All jobs take some 20 minutes.

Each job runs with parallelism 1 in streaming mode and, where it has one, in batch mode, and gives a
line: `same`; `known`, where a row of what differs in the guide to migration says so; `other`, with
both results; `fails`, with PyFlink's error.  The last two end the script with 1.

Functions run in process mode with the workers in Flink's own process; `--workers process` gives
them processes of their own, which costs each job three seconds or more.  One process with one JVM
runs jobs one after another; when one takes too long, it is given up and another process goes on
behind it.  PyFlink's watermarks come every 200 ms, so a bounded collection has one, at its end: a
job that goes with a watermark after each element only gets its elements slowly.  Broadcast elements
come in no promised order: such a job may be `other` today and `same` tomorrow.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
from typing import Any, Final

from oracle.known import KNOWN, KNOWN_IN_BATCH, KNOWN_IN_STREAMING
from oracle.servers import outcomes, serve
from oracle.theirs import collected_jobs

MODES: Final = ("STREAMING", "BATCH")
WORKERS: Final = ("loopback", "process", "thread")


def main(arguments: list[str]) -> None:
    """Run jobs, and print a line for each.

    Args:
        arguments: Those of the command line.
    """
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of jobs; all if there is none")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--workers", choices=WORKERS, default=WORKERS[0])
    parser.add_argument("--limit", type=float, default=90, help="seconds for a job")
    parser.add_argument("--log", default=os.devnull, help="a file for what Flink prints")
    parser.add_argument("--json", help="a file for a line of JSON for each job")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve is not None:
        serve(given)
        return
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("ended")
    )  # and the process that runs jobs, too
    jobs, lacking = collected_jobs()
    chosen = [job for job in jobs if not given.names or job.name in given.names]
    wanted = [
        (job.name, mode)
        for mode in given.modes
        for job in chosen
        if mode == "STREAMING" or job.batch is not None
    ]
    counts = {"same": 0, "known": 0, "other": 0, "fails": 0}
    with open(given.log, "a", encoding="utf-8") as given.log, contextlib.ExitStack() as files:
        kept = files.enter_context(open(given.json, "a", encoding="utf-8")) if given.json else None
        for module, why in lacking.items():
            tell(f"jobs.{module} cannot be imported: {why}")
        for found in outcomes(wanted, given):
            of_mode = KNOWN_IN_BATCH if found["mode"] == "BATCH" else KNOWN_IN_STREAMING
            known = of_mode | KNOWN
            if found["verdict"] != "same" and found["name"] in known:
                found |= {"verdict": "known", "note": f"row: test_{known[found['name']]}"}
            counts[found["verdict"]] += 1
            tell(line_of(found))
            if kept:
                kept.write(json.dumps(found) + "\n")
                kept.flush()
    tell(", ".join(f"{verdict}: {count}" for verdict, count in counts.items()))
    if lacking or counts["other"] or counts["fails"]:
        sys.exit(1)


def tell(line: str) -> None:
    """Print a line at once: a run takes long."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def line_of(found: dict[str, Any]) -> str:
    """What is printed of a job."""
    line = (
        f"{found['verdict']:5} {found['mode'].lower():9} {found['name']} ({found['seconds']:.1f} s)"
    )
    if "seen" in found:
        line += "".join(
            f"\n      {side}: {', '.join(found[side])}" for side in ("expected", "seen")
        )
    return line + "".join(f"\n      {found[each]}" for each in ("why", "note") if each in found)


if __name__ == "__main__":
    main(sys.argv[1:])
