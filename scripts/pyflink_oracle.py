# SPDX-License-Identifier: Apache-2.0
"""Runs the collection of jobs in `tests/jobs` on PyFlink, and tells where it gives something else.

FLINK_PYTHON scripts/pyflink_oracle.py [options] [NAME ...]

`bench/setup_peers.sh` makes the environment of FLINK_PYTHON.  Nothing of ours is installed there:
`import pyflinklike.X` means PyFlink's module of that path here.

Each job runs with parallelism 1 in streaming mode and, where it has one, in batch mode; in Flink's
own process, in the mode of Python workers that PyFlink has by default.  One process with one JVM
runs them one after another; when one takes too long, it is given up and another process goes on
behind it.  A job that goes with a watermark after each element only gets its elements slowly.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from queue import Empty, Queue
from types import ModuleType
from typing import Any, Final

TESTS: Final = Path(__file__).resolve().parents[1] / "tests"
MODES: Final = ("STREAMING", "BATCH")
WORKERS: Final = ("loopback", "process", "thread")
LOOPBACK: Final = (
    "jobmanager.bind-host",
    "jobmanager.rpc.address",
    "rest.address",
    "rest.bind-address",
    "taskmanager.bind-host",
    "taskmanager.host",
)
"""Settings that keep Flink's sockets on this machine."""

KNOWN: Final = {
    "a_bridged_session_aggregates_all_of_it": "a_bridged_session_folds_all_it_has",
    "a_continuous_trigger_fires_at_each_interval": "a_continuous_trigger_leaves_out_no_firing",
    "a_wait_that_takes_too_long": "when_its_time_is_up_timeout_says_what_comes_of_an_element",
    "bytes_of_a_type": "an_array_of_bytes_is_bytes",
    "co_process_without_keys": "an_output_that_nobody_reads_is_dropped",
    "flat_map_to_none": "none_is_no_output",
    "float_is_rounded_at_the_border": "the_type_of_an_output_counts_for_every_function_behind",
    "main_output_beside_side_outputs": "an_output_that_nobody_reads_is_dropped",
    "map_to_none": "none_is_an_element",
    "no_time_is_none": "an_element_without_a_time_has_none",
    "numbers_of_other_types_are_other_keys": "keys_of_other_types_have_states_of_their_own",
    "row_gets_names_at_the_border": "the_type_of_an_output_counts_for_every_function_behind",
    "rules_behind_rules": "an_output_that_nobody_reads_is_dropped",
    "tuples_with_none": "a_field_of_a_tuple_may_be_none",
}
"""Jobs that give something else on PyFlink, and the tests of the rows that say so, without `test_`.

The rows are those of `docs/how-to/migrate-from-pyflink.md`.
"""

KNOWN_IN_STREAMING: Final = dict.fromkeys(
    [
        "a_keyed_operator_behind_rules",
        "one_stream_is_both_inputs",
        "rules_behind_rules",
        "rules_beside_a_fold",
        "rules_for_elements_whose_key_is_none",
        "rules_for_what_a_keyed_operator_gives",
        "rules_that_a_keyed_operator_gives",
        "rules_that_are_withdrawn",
        "rules_with_keys",
        "rules_without_keys",
        "side_outputs_beside_rules",
    ],
    "bounded_rules_come_first",
)
"""The same for streaming mode only: Flink promises no order of broadcast and other elements."""

_PARTITIONER: Final = "a_partitioner_knows_the_number_of_instances_when_a_stream_is_collected"

KNOWN_IN_BATCH: Final = {
    "copies_with_keys": "instances_before_key_by_count_in_a_batch",
    "instances_of_further_operators": _PARTITIONER,
    "instances_that_the_program_tells": _PARTITIONER,
    **dict.fromkeys(
        [
            "results_of_windows_have_the_time_of_their_end",
            "session_windows",
            "side_outputs_of_windows",
            "state_that_windows_share",
            "tumbling_windows",
            "tumbling_windows_with_an_offset",
            "windows_of_windows",
            "windows_with_a_window_function",
        ],
        "list_and_map_state_are_there_at_the_end_of_a_batch",
    ),
}
"""The same for batch mode only."""

PAUSE: Final = 0.3
"""Between two elements of a job that needs a watermark after each, in seconds."""


class _Theirs(Loader):
    """Loads a module of ours by giving PyFlink's.

    Args:
        name: Of PyFlink's module.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._own_spec: Any = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002
        module = importlib.import_module(self._name)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put the spec of the other name there.
        module.__spec__ = self._own_spec


class _Finder(MetaPathFinder):
    """Finds `pyflinklike.X` at `pyflink.X`: the reverse of what `python -m pyflinklike.run` does."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        package, _, inner = fullname.partition(".")
        if package != "pyflinklike":
            return None
        theirs = f"pyflink.{inner}" if inner else "pyflink"
        found = importlib.util.find_spec(theirs)
        if found is None:
            msg = f"PyFlink has no module {theirs}"
            raise ModuleNotFoundError(msg, name=fullname)
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, _Theirs(theirs), origin=found.origin, is_package=is_package)


def collected_jobs() -> tuple[list[Any], dict[str, str]]:
    """The jobs of all modules, and for each module that cannot be imported here what it lacks."""
    import cloudpickle

    sys.meta_path.insert(0, _Finder())
    sys.path.insert(0, str(TESTS))
    lacking = {}
    for each in sorted((TESTS / "jobs").glob("*_jobs.py")):
        if each.name.startswith("test_"):
            continue
        try:
            importlib.import_module(f"jobs.{each.stem}")
        except ImportError as error:
            lacking[each.stem] = str(error)
    # As the functions of a script: workers do not import the module.
    for name, module in list(sys.modules.items()):
        if name.startswith("jobs."):
            cloudpickle.register_pickle_by_value(module)
    return list(importlib.import_module("jobs.collection").JOBS), lacking


def bind_to_loopback() -> None:
    """Keep the server that PyFlink's workers are started by on this machine."""
    server_of_grpc: Any = importlib.import_module("grpc._server")._Server
    bind = server_of_grpc.add_insecure_port

    def bind_here(server: Any, address: str) -> Any:
        return bind(server, address.replace("[::]", "localhost"))

    server_of_grpc.add_insecure_port = bind_here


def environment(mode: str, workers: str, *, slow: bool) -> Any:
    """An environment of PyFlink.

    Args:
        mode: STREAMING or BATCH.
        workers: Where functions run: `loopback` is process mode with the workers in this process,
            as `execute()` has it for local jobs, `process` has processes of their own, and
            `thread` has Python in Flink's process.
        slow: Whether a watermark follows each element.
    """
    from pyflink.common import Configuration
    from pyflink.datastream import StreamExecutionEnvironment

    settings = Configuration()
    values = {
        **dict.fromkeys(LOOPBACK, "127.0.0.1"),
        "execution.runtime-mode": mode,
        "execution.target": "local",
        "parallelism.default": "1",
        "python.client.executable": sys.executable,
        "python.executable": sys.executable,
        "python.execution-mode": "thread" if workers == "thread" else "process",
    }
    if slow:
        values |= {
            "pipeline.auto-watermark-interval": "20 ms",
            "python.fn-execution.bundle.size": "1",
        }
    for key, value in values.items():
        settings.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    if workers == "loopback":
        # As `execute()` does; `execute_and_collect()` does not, and then each job starts processes.
        env._open()
    if slow:
        env.from_collection = lambda *given: slowly(env, *given)
    return env


def slowly(env: Any, elements: list[Any], kind: Any = None) -> Any:
    """A stream of elements with a pause before each, in which the watermark moves.

    Args:
        env: An environment.
        elements: Of the stream.
        kind: Of the elements.
    """
    from pyflink.common import WatermarkStrategy
    from pyflink.datastream.connectors.number_seq import NumberSequenceSource

    def element(index: int) -> Any:
        time.sleep(PAUSE)
        return elements[index]

    # The source of a collection has a thread of its own, which leaves timers no time.
    source = NumberSequenceSource(0, len(elements) - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "Slow").map(element, kind)


def outcome(job: Any, mode: str, workers: str) -> dict[str, Any]:
    """What comes of a job.

    Args:
        job: Of the collection.
        mode: As of `environment`.
        workers: As of `environment`.

    Returns:
        The verdict; what `execute_and_collect` gave where that is not what was expected, and whether
        `execute` gave it.
    """
    found = _outcome_by(collected, job, mode, workers)
    if found["verdict"] != "same":
        again = _outcome_by(executed, job, mode, workers)
        if again["verdict"] == "same":
            found |= {"verdict": "same", "note": "by execute(); execute_and_collect() differs"}
    return found


def _outcome_by(
    elements_of: Callable[[Any, Any], list[str]], job: Any, mode: str, workers: str
) -> dict[str, Any]:
    slow = mode == "STREAMING" and None not in job.cuts
    is_ordered = job.is_ordered and mode == "STREAMING"
    told: Callable[[list[str]], list[str]] = list if is_ordered else sorted
    wanted = told([repr(each) for each in (job.batch if mode == "BATCH" else job.expected)])
    try:
        env = environment(mode, workers, slow=slow)
        seen = told(elements_of(env, job.program(env)))
    except Exception as error:  # whatever it is, it is what came of the job
        return {"verdict": "fails", "why": cause(str(error) or repr(error), type(error).__name__)}
    if seen == wanted:
        return {"verdict": "same"}
    return {"verdict": "other", "expected": wanted, "seen": seen}


def collected(env: Any, stream: Any) -> list[str]:  # noqa: ARG001
    """The elements of a stream, each as its `repr`.

    Args:
        env: The environment of the stream.
        stream: To be run.
    """
    with stream.execute_and_collect() as elements:
        return [repr(each) for each in elements]


def executed(env: Any, stream: Any) -> list[str]:
    """The elements of a stream, each as its `repr`, by way of a file.

    So none is lost, as may happen to those that are collected while Flink shuts down under load,
    and partitioners know the number of instances.

    Args:
        env: The environment of the stream.
        stream: To be run.
    """
    from pyflink.common import Encoder, Types
    from pyflink.datastream.connectors.file_system import FileSink

    with tempfile.TemporaryDirectory() as folder:
        sink = FileSink.for_row_format(folder, Encoder.simple_string_encoder()).build()
        stream.map(repr, Types.STRING()).sink_to(sink)
        env.execute()
        parts = [path for path in Path(folder).rglob("*part-*") if path.is_file()]
        return [line for path in parts for line in path.read_text(encoding="utf-8").splitlines()]


def cause(text: str, kind: str) -> str:
    """The line of an error that tells most: the last error of Python in it, else the first line."""
    errors = re.findall(
        r"^(?:[\w.]+: )*(\w*(?:Error|Exception|Interrupt): .*)$", text, re.MULTILINE
    )
    java = re.findall(r"^Caused by: (.*)$", text, re.MULTILINE)
    python = [each for each in errors if not each.startswith("RuntimeError: Error received")]
    at_once = re.findall(r"^: (.*)$", text, re.MULTILINE)
    lines: list[str] = [*python[-1:], *java[-1:], *at_once[:1], f"{kind}: {text.splitlines()[0]}"]
    return lines[0]


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
        command = [sys.executable, __file__, "--serve", str(writing), "--workers", given.workers]
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


def main(arguments: list[str]) -> None:
    """Run jobs, and print a line for each.

    Args:
        arguments: Those of the command line.
    """
    parser = argparse.ArgumentParser(description="Runs the jobs of tests/jobs on PyFlink.")
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
