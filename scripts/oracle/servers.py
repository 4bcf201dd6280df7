# SPDX-License-Identifier: Apache-2.0
"""Processes that run jobs, of which one that hangs is given up."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Final

from oracle.theirs import bind_to_loopback, collected_jobs, outcome

SCRIPT: Final = Path(__file__).resolve().parents[1] / "pyflink_oracle.py"


def serve(given: argparse.Namespace) -> None:
    """Run jobs in this process, and write a line for each."""
    with os.fdopen(given.serve, "w", encoding="utf-8") as results:
        jobs, _ = collected_jobs()
        by_name = {job.name: job for job in jobs}
        bind_to_loopback()
        for line in sys.stdin:
            name, mode = line.split()
            start = time.monotonic()
            found = outcome(by_name[name], mode, given.workers)
            told = {"name": name, "mode": mode, "seconds": time.monotonic() - start, **found}
            results.write(json.dumps(told) + "\n")
            results.flush()


class Server:
    """A process that runs jobs.

    Args:
        given: The arguments of the command line.
    """

    def __init__(self, given: argparse.Namespace) -> None:
        reading, writing = os.pipe()
        command = [sys.executable, str(SCRIPT), "--serve", str(writing), "--workers", given.workers]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=given.log,
            stderr=given.log,
            pass_fds=[writing],
            start_new_session=True,
            text=True,
        )
        os.close(writing)
        self._told: Queue[str] = Queue()
        threading.Thread(target=self._read, args=(reading,), daemon=True).start()

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, encoding="utf-8") as lines:
            for line in lines:
                self._told.put(line)
        self._told.put("")

    def run(self, name: str, mode: str, limit: float) -> dict[str, Any] | None:
        """What came of a job; None if the process is of no use any more.

        Args:
            name: Of the job.
            mode: As of `environment`.
            limit: In seconds.
        """
        assert self._process.stdin
        try:
            self._process.stdin.write(f"{name} {mode}\n")
            self._process.stdin.flush()
            told = self._told.get(timeout=limit)
        except (Empty, OSError):
            return None
        found: dict[str, Any] | None = json.loads(told) if told else None
        return found

    def stop(self) -> None:
        """End it, and its JVM."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def outcomes(wanted: list[tuple[str, str]], given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What comes of each job.

    Args:
        wanted: Names and modes.
        given: The arguments of the command line.
    """
    server = None
    try:
        for name, mode in wanted:
            server = server or Server(given)
            found = server.run(name, mode, given.limit)
            if found is None:
                server.stop()
                server = None
                why = f"no result within {given.limit:g} s, or the process died"
                found = {"name": name, "mode": mode, "seconds": given.limit}
                found |= {"verdict": "fails", "why": why}
            yield found
    finally:
        if server:
            server.stop()
