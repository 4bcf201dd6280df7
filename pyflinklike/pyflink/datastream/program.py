# SPDX-License-Identifier: Apache-2.0
"""A program: the graph that it declared so far, the sinks of its next job, and its settings.

A stream only holds the number of a node.  Nodes, settings and functions are here, until `start` makes a `Job`
of them and gives it to a host: this process (`_local`) or Spark (`_spark`).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from typing import Any

from pyflinklike._checks import install
from pyflinklike._messages import short_repr
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.rocksdb.rocksdb_backend import EmbeddedRocksDBStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import DeclarationError, DeclarationValueError, OutputError, SparkSetupError
from pyflinklike.functions.dead_letters import DeadLetters
from pyflinklike.pyflink._graph.job import (
    GraphBuilder,
    Job,
    JobGraph,
    JobSettings,
    RuntimeExecutionMode,
)
from pyflinklike.pyflink._graph.job_run import Host, JobRun
from pyflinklike.pyflink._graph.nodes import (
    Filter,
    FlatMap,
    FromSource,
    Keyed,
    KeyedFold,
    Map,
    Node,
    Process,
    SideOutput,
    TwoInputs,
    WithBroadcast,
)
from pyflinklike.pyflink._local import start
from pyflinklike.pyflink.common.configuration import Configuration
from pyflinklike.pyflink.common.execution_config import ExecutionConfig
from pyflinklike.pyflink.common.options import (
    boolean,
    enum_member,
    integer,
    number,
    refuse_wrong,
    text,
)
from pyflinklike.pyflink.common.types import Row, RowKind, make_named_rows
from pyflinklike.pyflink.datastream.checkpoint_config import DIRECTORY, INTERVAL, RETENTION
from pyflinklike.pyflink.datastream.checkpoint_config import (
    ExternalizedCheckpointRetention as Retention,
)

__all__ = ["Program", "plain"]


TARGET = "execution.target"
RUNTIME_MODE = "execution.runtime-mode"
RECORDS_PER_BATCH = "pyflinklike.source.records-per-batch"
FILES_PER_BATCH = "pyflinklike.source.files-per-batch"
_LETTERS = text("pyflinklike.dead-letters.tag")
_AT_MOST = number("pyflinklike.dead-letters.at-most", 0.01)
_PER = text("pyflinklike.dead-letters.per")
_FAILURE_SNAPSHOT_BYTES = integer("pyflinklike.dead-letters.snapshot-bytes", 65_536)
_DEFAULT_NAME = "Flink Streaming Job"
_MODE = enum_member(RUNTIME_MODE, RuntimeExecutionMode.STREAMING)
_RECOVERY = text("execution.state-recovery.path", "execution.savepoint.path")
_IGNORE_UNCLAIMED = boolean(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    "execution.savepoint.ignore-unclaimed-state",
)
SAVEPOINTS = text(
    "execution.checkpointing.savepoint-dir",
    "state.savepoints.dir",
    "savepoints.state.backend.fs.dir",
)
_BACKEND = text("state.backend.type", "state.backend")
_BACKENDS: dict[str, type[StateBackend]] = {
    "hashmap": HashMapStateBackend,
    "rocksdb": EmbeddedRocksDBStateBackend,
}
_FORMER_BACKENDS = {
    "jobmanager": "hashmap",
    "filesystem": "hashmap",
    "hashmapstatebackendfactory": "hashmap",
    "rocksdbstatebackendfactory": "rocksdb",
    "embeddedrocksdbstatebackendfactory": "rocksdb",
}
"""Backends by their names in Flink 1 and by their factories, without the names of packages."""


class Program:
    """The graph and settings of a `StreamExecutionEnvironment`, which its streams share."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.configuration = Configuration()
        self.execution_config = ExecutionConfig(self.configuration)
        self.builder = GraphBuilder(self._parallelism)
        self.sinks: list[int] = []
        """The numbers of the sinks of the next job."""
        self._executed = 0
        """The number of the last node that an earlier job could contain."""
        self.metric_names: set[str] = set()
        """The names for metrics of streams that became DataFrames: a query may contain several of these."""
        self.python_files: list[str] = []
        self.requirements: tuple[str, ...] = ()
        """The folder with the packages of a requirements file; empty if none was installed."""
        self.state_backend: StateBackend | None = None

    def graph(self) -> JobGraph:
        """Return the graph of the next job.

        As in Flink, it has all operators since the last job, even if no sink follows them: a function may
        write to a service by itself.

        Raises:
            DeclarationError: No operator was declared since the last job.
        """
        roots = [*self.sinks, *self.builder.without_sink(self._executed)]
        if not roots:
            msg = (
                "No operators defined in streaming topology. Cannot execute. Got none since the "
                "last job; call a transformation, print, sink_to or execute_and_collect on a stream"
            )
            raise DeclarationError(msg)
        return self.builder.graph(roots)

    def start(self, name: str | None) -> JobRun:
        """Start a job with the operators and sinks declared since the last one.

        Args:
            name: The name of the job; None takes the name in the configuration.

        Raises:
            DeclarationError: No operator was declared since the last job, or a setting is wrong.
        """
        graph = self.graph()
        self.sinks, self._executed = [], self.builder.last
        return self._run(graph, name)

    def collect(self, sink: int, name: str | None) -> JobRun:
        """Start a job with one more sink, which collects elements for the program."""
        self.sinks.append(sink)
        return self.start(name)

    def data_frame(self, sink: int, schema: Any) -> Any:
        """Return the elements of a sink as a Spark DataFrame.

        Args:
            sink: The number of the sink's node.
            schema: The schema of the DataFrame; None takes the type of the elements.

        Raises:
            DeclarationTypeError, DeclarationValueError: `schema` is no schema.
            SparkSetupError: PySpark is not installed, or Spark does not run an operator of the job.
        """
        # Imported late: programs without Spark have no PySpark.
        _need_spark("to_data_frame")
        from pyflinklike.pyflink._spark.job_runs import data_frame

        graph = self.builder.graph([sink])
        _refuse_shared_uids(graph)
        job = Job(graph, self._settings(graph, None))
        _refuse_recovery(job.settings, "a DataFrame, whose query has its own checkpoint")
        return data_frame(job, schema, plain, self.metric_names)

    def frame_source(self, df: Any, event_time: str | None) -> Any:
        """Make the source of a DataFrame's rows, by `pyflink._spark.data_frame_source`."""
        _need_spark("from_data_frame")
        from pyflinklike.pyflink._spark.data_frame_source import data_frame_source

        return data_frame_source(df, event_time, make_named_rows)

    def _run(self, graph: JobGraph, name: str | None) -> JobRun:
        _refuse_shared_uids(graph)
        settings = self._settings(graph, name)
        for node in graph.sinks:
            node.sink.check_settings(settings.configuration)
        host = self._host_of(graph)
        if settings.is_batch:
            _refuse_recovery(settings, "a job in batch mode")
        return host(Job(graph, settings))

    def _host_of(self, graph: JobGraph) -> Host:
        """Return the host of a job.

        If the configuration names no host, a job runs in this process if all its sources end, otherwise on
        Spark; the standard error says so.

        Raises:
            DeclarationValueError: The configuration names a host that does not exist.
            SparkSetupError: PySpark is not installed.
        """
        endless = [node.name for node in graph.of_kind(FromSource) if not node.source.is_bounded]
        if endless and not self._target():
            return _host_of_endless(endless[0])
        return self._host()

    def _host(self) -> Host:
        """Return the host that the configuration names, by default this process.

        Raises:
            DeclarationValueError: The configuration names a host that does not exist.
            SparkSetupError: PySpark is not installed.
        """
        target = self._target()
        if target not in ("", "local", "spark"):
            msg = f"{TARGET} is 'local' or 'spark', got {target!r}; set it to one of them"
            raise DeclarationValueError(msg)
        return _spark_host() if target == "spark" else start

    def _target(self) -> str:
        return self.configuration.get_string(TARGET, "").strip().lower()

    def _settings(self, graph: JobGraph, name: str | None) -> JobSettings:
        config, values = self.configuration, self.configuration.to_dict()
        refuse_wrong(config)
        records = config.get_integer(RECORDS_PER_BATCH, 0)
        files = config.get_integer(FILES_PER_BATCH, 0)
        max_parallelism = self.execution_config.get_max_parallelism()
        interval = INTERVAL.of(config)
        return JobSettings(
            name=name or config.get_string("pipeline.name", _DEFAULT_NAME),
            is_batch=self._is_batch(graph),
            parallelism=self._parallelism(),
            max_parallelism=max_parallelism if max_parallelism > 0 else None,
            job_parameters=self.execution_config.get_global_job_parameters(),
            records_per_batch=records if records > 0 else None,
            state_backend=self.state_backend or self._find_backend(),
            checkpoint_dir=DIRECTORY.of(config),
            recovery_path=_RECOVERY.of(config),
            ignores_unclaimed_state=_IGNORE_UNCLAIMED.of(config),
            is_dropped_when_cancelled=RETENTION.of(config) is Retention.DELETE_ON_CANCELLATION,
            files_per_batch=files if files > 0 else None,
            checkpoint_interval=interval if interval >= 0 else None,
            python_files=(
                *self.requirements,
                *self.python_files,
                *_split_list(values.get("python.files", "")),
            ),
            configuration=values,
            on_error=_find_letters(config, graph),
        )

    def _parallelism(self) -> int | None:
        parallelism = self.execution_config.get_parallelism()
        return parallelism if parallelism > 0 else None

    def _is_batch(self, graph: JobGraph) -> bool:
        mode = _MODE.of(self.configuration)
        if mode is RuntimeExecutionMode.BATCH and not graph.is_bounded:
            names = [node.name for node in graph.of_kind(FromSource) if not node.source.is_bounded]
            msg = (
                "Detected an UNBOUNDED source with the 'execution.runtime-mode' set to 'BATCH', got "
                f"{names}; set it to STREAMING or AUTOMATIC, or bound the source"
            )
            raise DeclarationError(msg)
        is_automatic = mode is RuntimeExecutionMode.AUTOMATIC
        return mode is RuntimeExecutionMode.BATCH or (is_automatic and graph.is_bounded)

    def _find_backend(self) -> StateBackend | None:
        given = _BACKEND.of(self.configuration)
        if given is None:
            return None
        # Flink takes the class of a factory as well, with the name of its package.
        name = given.strip().lower().rpartition(".")[2]
        name = _FORMER_BACKENDS.get(name, name)
        if name not in _BACKENDS:
            msg = (
                f"{_BACKEND.key} is one of {', '.join(_BACKENDS)}, got {short_repr(given)}; set it to one of "
                "them, or give a backend to set_state_backend"
            )
            raise DeclarationValueError(msg)
        return _BACKENDS[name]()


def _find_letters(config: Configuration, graph: JobGraph) -> DeadLetters | None:
    """Return the declaration of dead letters, if the settings name a tag for them.

    Raises:
        DeclarationError: A setting is wrong, or the job reads the tag's side output from no operator, or
            from an operator that makes no dead letters.
    """
    tag = _LETTERS.of(config)
    if tag is None:
        return None
    per: Any = _PER.of(config) or "record"
    at_most = _AT_MOST.of(config)
    # A share of records is a float; a count in each batch is an int, but every setting is read as a float.
    if per == "batch" and at_most == int(at_most):
        at_most = int(at_most)
    made = DeadLetters(tag, at_most, per, snapshot_bytes=_FAILURE_SNAPSHOT_BYTES.of(config))
    read = [node for node in graph.of_kind(SideOutput) if node.tag.tag_id == tag]
    if not read:
        msg = (
            f"{_LETTERS.key} names the side output to which operators send dead letters, got {tag!r}, "
            f"which the job does not read; call get_side_output(OutputTag({tag!r})) on the stream of each "
            "operator that must go on if its function raises"
        )
        raise DeclarationError(msg)
    others = [graph.nodes[node.inputs[0]] for node in read]
    for node in others:
        if not isinstance(node, _WITH_LETTERS):
            msg = (
                f"dead letters come from operators that process elements with a function, got the side output "
                f"{tag!r} of {node.name!r}; read it from a map, flat_map, filter, process, reduce or window"
            )
            raise DeclarationError(msg)
    return made


_WITH_LETTERS = (Map, FlatMap, Filter, Process, Keyed, KeyedFold, TwoInputs, WithBroadcast)


def _spark_host() -> Host:
    """Return the function that runs jobs on Spark.

    Raises:
        SparkSetupError: PySpark is not installed.
    """
    _need_spark("execution.target: spark")
    from pyflinklike.pyflink._spark.job_runs import start as start_on_spark

    return start_on_spark


def _host_of_endless(source: str) -> Host:
    """Return the host of a job without a target that has a source without an end.

    Args:
        source: The name of this source.

    Raises:
        SparkSetupError: PySpark is not installed.
    """
    if not _has_spark():
        msg = (
            f"a job with a source that does not end runs on Spark, got {source!r} and no "
            f"PySpark; {install('spark')}, or give --target local to python -m pyflinklike.run "
            f"({TARGET}: local) for a source that this process can read"
        )
        raise SparkSetupError(msg)
    sys.stderr.write(
        f"pyflinklike: the job runs on Spark, as its source {source!r} does not end; --target "
        f"({TARGET}) chooses the host\n"
    )
    return _spark_host()


def _has_spark() -> bool:
    try:
        return importlib.util.find_spec("pyspark") is not None
    except ValueError:  # a program put None into `sys.modules`, so that PySpark cannot be imported
        return False


def _need_spark(what: str) -> None:
    if not _has_spark():
        msg = (
            f"{what} needs PySpark, which is not installed; {install('spark')}, or run "
            "the job with execution.target: local"
        )
        raise SparkSetupError(msg)


def _refuse_shared_uids(graph: JobGraph) -> None:
    """Refuse a uid that two operators have, because each finds its state by its uid.

    Raises:
        DeclarationError: Two operators have one uid.
    """
    known: dict[str, Node] = {}
    for node in graph.nodes.values():
        other = known.setdefault(node.uid, node) if node.uid else node
        if other is not node:
            msg = (
                f"two operators cannot have the same uid, which names their state, got {node.uid!r} for "
                f"{other.name!r} and {node.name!r}; give one of them another uid"
            )
            raise DeclarationError(msg)


def _refuse_recovery(settings: JobSettings, what: str) -> None:
    """Refuse a job that would begin with empty state although the program names a savepoint.

    Raises:
        SparkSetupError: The program names a savepoint.
    """
    if settings.recovery_path is not None:
        msg = (
            "execution.state-recovery.path is for jobs in streaming mode, got "
            f"{settings.recovery_path!r} for {what}; leave the key out to begin with empty state"
        )
        raise SparkSetupError(msg)


def _split_list(text: str) -> Sequence[str]:
    return [part.strip() for part in text.replace(";", ",").split(",") if part.strip()]


def plain(value: Any) -> Any:
    """Return an element with each `Row` replaced by a dict or tuple, as DataFrames need it.

    Raises:
        OutputError: The kind of a row is not INSERT, which a DataFrame cannot show.
    """
    if isinstance(value, Row):
        if value.get_row_kind() is not RowKind.INSERT:
            msg = (
                f"to_data_frame takes rows of kind +I, got {value.get_row_kind()} of {short_repr(value)}; "
                "map the row to one that has the kind in a field"
            )
            raise OutputError(msg)
        parts = [plain(each) for each in value]
        names = value.field_names()
        return tuple(parts) if names is None else dict(zip(names, parts))
    if type(value) is list:
        return [plain(each) for each in value]
    if type(value) is dict:
        return {key: plain(each) for key, each in value.items()}
    if type(value) is tuple:
        return tuple([plain(each) for each in value])
    return value
