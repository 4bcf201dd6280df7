# SPDX-License-Identifier: Apache-2.0
"""Jobs of the collection on PyFlink, in this process; it is imported where they are run only."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

TESTS: Final = Path(__file__).resolve().parents[2] / "tests"
LOOPBACK: Final = (
    "jobmanager.bind-host",
    "jobmanager.rpc.address",
    "rest.address",
    "rest.bind-address",
    "taskmanager.bind-host",
    "taskmanager.host",
)
"""Settings that keep Flink's sockets on this machine."""

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
    """Finds `pyflinklike.pyflink.X` at `pyflink.X`: the reverse of `python -m pyflinklike.run`."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        package, _, theirs = fullname.partition(".")
        if package != "pyflinklike":
            return None
        # Jobs import only our package `pyflink`; the package around it stands for PyFlink's, too.
        theirs = theirs or "pyflink"
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
    sys.path.insert(0, str(TESTS / "support"))
    lacking = {}
    for each in sorted((TESTS / "support" / "jobs").glob("*_jobs.py")):
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
