# SPDX-License-Identifier: Apache-2.0
"""Where a program begins, as `pyflink.datastream.StreamExecutionEnvironment`.

Settings of an environment that no host here heeds: they are kept, and their getters tell them.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Iterable
from typing import Any, TypeVar

from pyflinklike.common.configuration import Configuration
from pyflinklike.common.execution_config import ExecutionConfig
from pyflinklike.common.jobs import JobClient, JobExecutionResult, JobID
from pyflinklike.common.options import Option, boolean, duration, named
from pyflinklike.common.types import Types as RowTypes
from pyflinklike.datastream.checkpoint_config import CheckpointConfig, CheckpointingMode
from pyflinklike.datastream.data_stream import DataStream
from pyflinklike.datastream.program import RUNTIME_MODE, Program
from pyflinklike.datastream.stream_node import output_type_of
from pyflinklike.engine.clock import DurationLike, to_milliseconds, wall_clock
from pyflinklike.engine.graph.execution_plan import execution_plan, pictured
from pyflinklike.engine.graph.function_copies import captured
from pyflinklike.engine.graph.job import RuntimeExecutionMode
from pyflinklike.engine.graph.nodes import FromSource
from pyflinklike.engine.graph.sources import CollectionSource, Source
from pyflinklike.engine.graph.watermarks import WatermarkStrategy
from pyflinklike.engine.shown import instance_of, shown, shown_error
from pyflinklike.engine.types import TypeInformation, Types
from pyflinklike.errors import DeclarationTypeError, StateValueError

__all__ = ["KeptSettings", "StreamExecutionEnvironment"]


_DEFAULTS_IN = "PYFLINKLIKE_CONFIGURATION"
"""An environment variable with settings of every environment, `key=value;key=value`."""


class KeptSettings:
    """What is said to an environment, and asked of it, without effect on a job."""

    _program: Program

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Settings of checkpoints."""
        raise NotImplementedError

    def get_checkpoint_interval(self) -> int:
        """The interval of checkpoints in ms; -1 if there is none."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """What checkpoints promise."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether checkpoints may overtake elements, which nothing does here."""
        return bool(self.get_checkpoint_config().is_unaligned_checkpoints_enabled())

    def set_buffer_timeout(self: E, timeout_millis: DurationLike) -> E:
        """Keep it for its getter; an int is ms, and -1 is none."""
        return self._keep(_BUFFER_TIMEOUT, to_milliseconds(timeout_millis, "the buffer timeout"))

    def get_buffer_timeout(self) -> int:
        """What was set, in ms; -1 where it is switched off."""
        config = self._program.configuration
        return _BUFFER_TIMEOUT.of(config) if _BUFFER_TIMEOUT_ENABLED.of(config) else -1

    def disable_operator_chaining(self: E) -> E:
        """Keep it for its getter."""
        return self._keep(_CHAINING, False)

    def is_chaining_enabled(self) -> bool:
        """What was set."""
        return _CHAINING.of(self._program.configuration)

    def enable_changelog_state_backend(self: E, enabled: bool) -> E:
        """Keep it for its getter: state is a changelog in any case."""
        return self._keep(_CHANGELOG, bool(enabled))

    def is_changelog_state_backend_enabled(self) -> bool:
        """What was set."""
        return _CHANGELOG.of(self._program.configuration)

    def set_default_savepoint_directory(self: E, directory: str) -> E:
        """Keep it for its getter."""
        return self._keep(_SAVEPOINTS, directory)

    def get_default_savepoint_directory(self) -> str | None:
        """What was set."""
        return _SAVEPOINTS.of(self._program.configuration)

    def set_python_executable(self, python_exec: str) -> None:
        """Keep it: functions run with the Python of the host."""
        self._program.configuration.set_string("python.executable", python_exec)

    def register_slot_sharing_group(self: E, slot_sharing_group: Any) -> E:  # noqa: ARG002
        """Nothing: where steps run is the host's matter."""
        return self

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Nothing: Java's functions alone read such files."""

    def _keep(self: E, option: Option[Any], value: Any) -> E:
        option.set(self._program.configuration, value)
        return self


class StreamExecutionEnvironment(KeptSettings):
    """Where a program declares sources, and runs jobs; `get_execution_environment` makes it."""

    def __init__(self) -> None:
        self._program = Program(self)

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None,
    ) -> StreamExecutionEnvironment:
        """A new environment.

        Args:
            configuration: Settings to begin with.
        """
        environment = StreamExecutionEnvironment()
        for pair in filter(None, os.environ.get(_DEFAULTS_IN, "").split(";")):
            key, _, value = pair.partition("=")
            environment._program.configuration.set_string(key.strip(), value.strip())
        return environment.configure(configuration or Configuration())

    # Settings

    def configure(self, configuration: Configuration) -> StreamExecutionEnvironment:
        """Take over settings by key."""
        self._program.configuration.add_all(configuration)
        return self

    def get_config(self) -> ExecutionConfig:
        """Settings of all operators."""
        return self._program.execution_config

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Say how many instances an operator has that asks for no number: `ExecutionConfig`."""
        self._program.execution_config.set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """How many instances an operator has that asks for no number; 1 if that is not set."""
        return max(self._program.execution_config.get_parallelism(), 1)

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Say how many key groups there are: `ExecutionConfig`."""
        self._program.execution_config.set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """How many key groups there are; -1 if that is not set."""
        return self._program.execution_config.get_max_parallelism()

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Say how jobs run.

        Raises:
            DeclarationTypeError: It is no `RuntimeExecutionMode`.
        """
        if not isinstance(execution_mode, RuntimeExecutionMode):
            msg = f"it takes a RuntimeExecutionMode, got {shown(execution_mode)}; give for example RuntimeExecutionMode.BATCH"
            raise DeclarationTypeError(msg)
        self._program.configuration.set_string(RUNTIME_MODE, execution_mode.name)
        return self

    def set_state_backend(self, state_backend: Any) -> StreamExecutionEnvironment:
        """Say where working state is kept, as in PyFlink 1; in 2 it is a key, `state.backend.type`."""
        self._program.state_backend = state_backend
        return self

    def enable_checkpointing(
        self, interval: int, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Say how long a micro-batch lasts at least, for each of them is a checkpoint.

        Args:
            interval: In ms.
            mode: Kept for its getter: state is exactly once.
        """
        config = self.get_checkpoint_config()
        config.set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Settings of checkpoints."""
        return CheckpointConfig(self._program.configuration)

    # What functions need

    def add_python_file(self, file_path: str) -> None:
        """Have functions import a module, or modules of an archive or folder, here and on Spark."""
        self._program.python_files.append(file_path)

    def add_jars(self, *jars_path: str) -> None:
        """Nothing, with a warning: connectors here are not Java's."""
        warnings.warn(f"jars are not loaded, got {list(jars_path)}", stacklevel=2)

    add_classpaths = add_jars

    # Sources

    def from_collection(
        self,
        collection: Iterable[Any],
        type_info: TypeInformation | list[TypeInformation] | None = None,
    ) -> DataStream:
        """A stream of the elements of a collection, in order.

        Args:
            collection: A list, or anything that can be iterated.
            type_info: Of the elements, which are made of that type at once; a list is a row of
                these types, None any object that pickles.

        Raises:
            DeclarationTypeError: It is no collection.
            StateValueError: An element is not of the type.
        """
        if isinstance(collection, (str, bytes)) or not hasattr(collection, "__iter__"):
            msg = f"from_collection takes a list, got {shown(collection)}; give for example [1, 2]"
            raise DeclarationTypeError(msg)
        kind = output_type_of(type_info)
        elements = tuple(_converted(list(collection), kind))
        return self._source(
            CollectionSource(elements), WatermarkStrategy(), "Collection Source", kind
        )

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of what a source gives.

        Args:
            source: Such as a `FileSource`.
            watermark_strategy: What watermarks follow; unlike PyFlink, its timestamp assigner
                counts.
            source_name: Where jobs are shown.
            type_info: Of the elements; by default the source's own.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        if not isinstance(source, Source):
            remedy = instance_of(Source, source, "use for example a FileSource")
            msg = f"from_source takes a source, got {shown(source)}; {remedy}"
            raise DeclarationTypeError(msg)
        if not isinstance(watermark_strategy, WatermarkStrategy):
            msg = f"from_source takes a WatermarkStrategy, got {shown(watermark_strategy)}; give for example WatermarkStrategy.no_watermarks()"
            raise DeclarationTypeError(msg)
        kind = source.type_info if type_info is None else output_type_of(type_info)
        return self._source(source, captured(watermark_strategy), source_name, kind)

    def from_data_frame(
        self,
        df: Any,
        watermark_strategy: WatermarkStrategy | None = None,
        event_time: str | None = None,
        source_name: str = "DataFrame",
    ) -> DataStream:
        """A stream of the rows of a DataFrame of Spark, each a `Row` with the names of its columns.

        PyFlink has this as `StreamTableEnvironment.to_data_stream`.  A job that ends in
        `to_data_frame` runs as a part of the query that this one is started as.

        Args:
            df: Batch or streaming, of a classic session, without a watermark of its own.
            watermark_strategy: What watermarks follow; by default `for_monotonous_timestamps` with
                an event time, else `no_watermarks`.
            event_time: The timestamp column that has the times of elements, in whole ms; what a
                timestamp assigner says comes after it.
            source_name: Where jobs are shown.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is of the wrong kind, there is
                no such column, or functions cannot be given one.
            HostError: There is no PySpark.
        """
        source = self._program.frame_source(df, event_time)
        if watermark_strategy is None:
            monotonous = WatermarkStrategy.for_monotonous_timestamps()
            watermark_strategy = WatermarkStrategy() if event_time is None else monotonous
        rows = source.row_type
        kind = RowTypes.ROW_NAMED(rows.field_names, rows.field_types)
        return self.from_source(source, watermark_strategy, source_name, kind)

    def _source(
        self, source: Source, strategy: WatermarkStrategy, name: str, kind: TypeInformation
    ) -> DataStream:
        node = self._program.add(
            FromSource, name=name, type_info=kind, source=source, strategy=strategy
        )
        return DataStream(self._program, node.id)

    # Jobs

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run all operators and sinks declared since the last time, and wait for the end.

        Args:
            job_name: Of the job.

        Raises:
            DeclarationError: There is no operator, or a setting is wrong.
            PyflinklikeError: The job failed.
        """
        began = wall_clock()
        self._program.start(job_name).wait()
        return JobExecutionResult(JobID(), wall_clock() - began)

    def execute_async(self, job_name: str = "Flink Streaming Job") -> JobClient:
        """Run all operators and sinks declared since the last time, in the background.

        Args:
            job_name: Of the job.

        Raises:
            DeclarationError: There is no operator, or a setting is wrong.
        """
        return JobClient(self._program.start(job_name))

    def get_execution_plan(self) -> str:
        """The next job as JSON, in Flink's form; nothing runs.

        Raises:
            DeclarationError: There is no operator.
        """
        return execution_plan(self._program.graph(), self.get_parallelism())

    def explain(self, form: str = "mermaid") -> str:
        """The next job as a picture; PyFlink has none.

        Args:
            form: "mermaid" for a flow chart in Mermaid's language, "svg" for a drawing that any browser
                opens, which takes the extra `plan`.

        Raises:
            DeclarationError: There is no operator.
            DeclarationValueError: There is no such form.
            RequirementError: The package that draws is not installed.
        """
        return pictured(self._program.graph(), form)

    def close(self) -> None:
        """Nothing: an environment holds on to nothing."""


def _converted(elements: list[Any], kind: TypeInformation) -> Iterable[Any]:
    """Elements as a stream of a type has them; nobody else holds them."""
    if kind == Types.PICKLED_BYTE_ARRAY():
        try:
            copies: list[Any] = pickle.loads(pickle.dumps(elements, protocol=5))  # noqa: S301
        except Exception as error:
            msg = f"elements must be such that pickle can write them, got {shown(elements)}: {shown_error(error)}"
            raise StateValueError(msg) from error
        return copies
    made: list[Any] = []
    try:
        # One by one: how many there are when one fails is the position of that one.
        made.extend(None if each is None else kind.converted(each) for each in elements)
    except StateValueError as error:
        msg = f"element {len(made)} of the collection does not fit its type_info: {error}"
        raise StateValueError(msg) from error
    return made


E = TypeVar("E", bound="KeptSettings")

_BUFFER_TIMEOUT = duration("execution.buffer-timeout.interval", 100, "execution.buffer-timeout")
_BUFFER_TIMEOUT_ENABLED = boolean("execution.buffer-timeout.enabled", True)
_CHAINING = boolean("pipeline.operator-chaining.enabled", True, "pipeline.operator-chaining")
_CHANGELOG = boolean("state.changelog.enabled", False, "state.backend.changelog.enabled")
_SAVEPOINTS = named(
    "execution.checkpointing.savepoint-dir",
    "state.savepoints.dir",
    "savepoints.state.backend.fs.dir",
)
