# SPDX-License-Identifier: Apache-2.0
"""The environment of a program, as `pyflink.datastream.StreamExecutionEnvironment`.

All settings are texts in its `Configuration`, even if a method sets them.  A setting without effect here is
stored for its getter, so a program that was written for PyFlink runs unchanged.

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1, 2, 3]).map(lambda n: n * n).print()
    env.execute("squares")
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Mapping
from typing import Any

from pyflinklike._clock import DurationLike, to_milliseconds, wall_clock
from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import instance_of, short_repr, shown_error
from pyflinklike.errors import DeclarationTypeError, SparkSetupError, StateValueError
from pyflinklike.pyflink._foreign_names import deprecated_alias, without_effect
from pyflinklike.pyflink._graph.execution_plan import draw_picture, execution_plan
from pyflinklike.pyflink._graph.files import FileSource, StreamFormat
from pyflinklike.pyflink._graph.functions import copy_function
from pyflinklike.pyflink._graph.job import RuntimeExecutionMode
from pyflinklike.pyflink._graph.nodes import FromSource
from pyflinklike.pyflink._graph.sources import CollectionSource, Source, SourceMaker
from pyflinklike.pyflink._graph.watermarks import WatermarkStrategy
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.configuration import Configuration
from pyflinklike.pyflink.common.execution_config import ExecutionConfig
from pyflinklike.pyflink.common.jobs import JobClient, JobExecutionResult, JobID
from pyflinklike.pyflink.common.options import Option, boolean, duration
from pyflinklike.pyflink.common.stored_settings import (
    RestartStrategyConfiguration,
    TimeCharacteristic,
)
from pyflinklike.pyflink.common.types import Types as RowTypes
from pyflinklike.pyflink.datastream.checkpoint_config import CheckpointConfig, CheckpointingMode
from pyflinklike.pyflink.datastream.data_stream import DataStream
from pyflinklike.pyflink.datastream.program import RUNTIME_MODE, SAVEPOINTS, Program
from pyflinklike.pyflink.datastream.python_requirements import install_requirements
from pyflinklike.pyflink.datastream.stream_node import output_type_of
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.nested_types import MapTypeInfo
from pyflinklike.types.row_types import RowTypeInfo

__all__ = ["StreamExecutionEnvironment"]

__getattr__ = of_pyflink(__name__)

_DEFAULTS_IN = "PYFLINKLIKE_CONFIGURATION"
"""The environment variable with settings for every environment: `key=value;key=value`."""


class StreamExecutionEnvironment(WithoutJava):
    """Declares the sources of a program and runs its jobs; `get_execution_environment` makes one."""

    def __init__(self) -> None:
        self._program = Program(self)
        self._time_characteristic = TimeCharacteristic.EventTime
        self._local_parallelism = os.cpu_count() or 1

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None,
    ) -> StreamExecutionEnvironment:
        """Make a new environment.

        Args:
            configuration: Settings to begin with; they override the settings in the environment
                variable `PYFLINKLIKE_CONFIGURATION`.
        """
        environment = StreamExecutionEnvironment()
        for pair in filter(None, os.environ.get(_DEFAULTS_IN, "").split(";")):
            key, _, value = pair.partition("=")
            environment._program.configuration.set_string(key.strip(), value.strip())
        return environment.configure(configuration or Configuration())

    # Settings

    def configure(self, configuration: Configuration) -> StreamExecutionEnvironment:
        """Copy the settings of a configuration into the environment.

        Args:
            configuration: Settings by key; they override earlier ones.
        """
        self._program.configuration.add_all(configuration)
        return self

    def get_config(self) -> ExecutionConfig:
        """Return the settings of all operators; a change to them changes the environment."""
        return self._program.execution_config

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of instances of operators that set none themselves.

        Args:
            parallelism: The number, at least 1; -1 leaves it to the host.

        Raises:
            DeclarationValueError: The number is out of this range.
        """
        self._program.execution_config.set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the number of instances of operators that set none themselves; 1 if it is not set."""
        return max(self._program.execution_config.get_parallelism(), 1)

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups, which is fixed for the life of a checkpoint.

        Args:
            max_parallelism: The number, from 1 to 32768.

        Raises:
            DeclarationValueError: The number is out of this range.
        """
        self._program.execution_config.set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups; -1 if it is not set."""
        return self._program.execution_config.get_max_parallelism()

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Set whether jobs run in batch or in streaming mode.

        Args:
            execution_mode: The mode; `AUTOMATIC` means batch if all sources are bounded.

        Raises:
            DeclarationTypeError: `execution_mode` is no `RuntimeExecutionMode`.
        """
        if not isinstance(execution_mode, RuntimeExecutionMode):
            msg = f"set_runtime_mode takes a RuntimeExecutionMode, got {short_repr(execution_mode)}; give for example RuntimeExecutionMode.BATCH"
            raise DeclarationTypeError(msg)
        self._program.configuration.set_string(RUNTIME_MODE, execution_mode.name)
        return self

    @deprecated_alias("the key state.backend.type: hashmap or rocksdb")
    def set_state_backend(self, state_backend: Any) -> StreamExecutionEnvironment:
        """Choose the store of working state, as in PyFlink 1; PyFlink 2 has the key `state.backend.type`.

        Args:
            state_backend: A `StateBackend`, which overrides the key.
        """
        self._program.state_backend = state_backend
        return self

    @deprecated_alias("the key state.backend.type")
    def get_state_backend(self) -> Any:
        """Return the backend of the last `set_state_backend`; None without a call."""
        return self._program.state_backend

    @deprecated_alias("the keys restart-strategy..., which have no effect either")
    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> StreamExecutionEnvironment:
        """Store a strategy for its getter: Spark retries a failed task.

        Args:
            restart_strategy_configuration: A strategy made by `RestartStrategies`.
        """
        self.get_config().restart_strategy = restart_strategy_configuration
        return self

    @deprecated_alias("nothing: it has no effect")
    def get_restart_strategy(self) -> RestartStrategyConfiguration | None:
        """Return the strategy that was set; None if none was."""
        return self.get_config().restart_strategy

    @deprecated_alias("nothing: event time counts wherever a stream has a WatermarkStrategy")
    def set_stream_time_characteristic(
        self, characteristic: TimeCharacteristic
    ) -> StreamExecutionEnvironment:
        """Store the kind of time for its getter: windows and timers name their own.

        Args:
            characteristic: A member of `TimeCharacteristic`.

        Raises:
            DeclarationTypeError: `characteristic` is no `TimeCharacteristic`.
        """
        if not isinstance(characteristic, TimeCharacteristic):
            msg = (
                f"the kind of time is a TimeCharacteristic, got {short_repr(characteristic)}; leave the call out, or "
                "give TimeCharacteristic.EventTime"
            )
            raise DeclarationTypeError(msg)
        self._time_characteristic = characteristic
        return self

    @deprecated_alias("nothing: event time counts wherever a stream has a WatermarkStrategy")
    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """Return the kind of time that was set; by default `EventTime`, as since Flink 1.12."""
        return self._time_characteristic

    # Checkpoints

    def enable_checkpointing(
        self, interval: int, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Set the least time of a micro-batch: each micro-batch is a checkpoint.

        Args:
            interval: The least time, in ms.
            mode: A mode, only for its getter: state is always exactly once.
        """
        config = self.get_checkpoint_config()
        config.set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the settings of checkpoints; a change to them changes the environment."""
        return CheckpointConfig(self._program.configuration)

    def get_checkpoint_interval(self) -> int:
        """Return the interval of checkpoints in ms; -1 if it is not set."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the mode of checkpoints that was set."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints may overtake elements in Flink; it has no effect here."""
        return bool(self.get_checkpoint_config().is_unaligned_checkpoints_enabled())

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return whether checkpoints always overtake elements in Flink; it has no effect here."""
        return bool(self.get_checkpoint_config().is_force_unaligned_checkpoints())

    # Settings without effect here

    def set_buffer_timeout(self, timeout_millis: DurationLike) -> StreamExecutionEnvironment:
        """Store the time after which Flink sends a buffer; here elements travel in batches.

        Args:
            timeout_millis: The time, an int in ms; -1 switches the timeout off.
        """
        return self._store(_BUFFER_TIMEOUT, to_milliseconds(timeout_millis, "the buffer timeout"))

    def get_buffer_timeout(self) -> int:
        """Return the buffer timeout that was set, in ms; -1 if it is switched off."""
        config = self._program.configuration
        return _BUFFER_TIMEOUT.of(config) if _BUFFER_TIMEOUT_ENABLED.of(config) else -1

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Store that operators are not chained; here the host decides which operators run together."""
        return self._store(_CHAINING, False)

    def is_chaining_enabled(self) -> bool:
        """Return whether chaining is enabled; it has no effect here."""
        return _CHAINING.of(self._program.configuration)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Return whether Flink chains such operators; it has no effect here."""
        return _CHAINING_OF_OTHERS.of(self._program.configuration)

    @without_effect("set_parallelism sets the number of instances of operators")
    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Store a number for its getter.

        Args:
            parallelism: A number of instances.
        """
        self._local_parallelism = parallelism

    def get_default_local_parallelism(self) -> int:
        """Return the number that was set; by default the number of this machine's cores."""
        return self._local_parallelism

    def enable_changelog_state_backend(self, enabled: bool) -> StreamExecutionEnvironment:
        """Store whether state is written as a changelog; here it always is.

        Args:
            enabled: True or False, for the getter.
        """
        return self._store(_CHANGELOG, bool(enabled))

    def is_changelog_state_backend_enabled(self) -> bool:
        """Return the value of the last `enable_changelog_state_backend`; False without a call."""
        return _CHANGELOG.of(self._program.configuration)

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Set the directory for savepoints if a caller names no directory.

        Args:
            directory: A path or an address.
        """
        return self._store(SAVEPOINTS, directory)

    def get_default_savepoint_directory(self) -> str | None:
        """Return the directory for savepoints; None if none was set."""
        return SAVEPOINTS.of(self._program.configuration)

    def set_python_executable(self, python_exec: str) -> None:
        """Store a path of Python as `python.executable`; functions run with the host's Python.

        Args:
            python_exec: The path of a Python, only for the setting.
        """
        self._program.configuration.set_string("python.executable", python_exec)

    def set_python_requirements(
        self,
        requirements_file_path: str,
        requirements_cache_dir: str | None = None,
    ) -> None:
        """Let functions import the packages of a requirements file; a later call replaces an earlier one.

        Packages that this Python has are not installed again.  pip installs the others into a folder of
        this process, and Spark sends them to its workers as it does for `add_python_file`.  Packages with
        compiled modules do not reach a cluster's nodes this way: ship an environment with `spark.archives`.

        Args:
            requirements_file_path: The path of the file, in pip's format.
            requirements_cache_dir: The path of a folder with the packages, filled by `pip download`;
                None for the index of pip.

        Raises:
            DeclarationValueError: The file or folder does not exist.
            SparkSetupError: pip cannot install the packages.
        """
        program = self._program
        found = install_requirements(requirements_file_path, requirements_cache_dir)
        program.requirements = () if found is None else (found,)

    @without_effect(
        "archives are not unpacked: add_python_file ships modules, and spark.archives environments"
    )
    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Accept an archive, which is not unpacked.

        Args:
            archive_path: The path of an archive; it is ignored.
            target_dir: The name of a folder; it is ignored.
        """

    def register_slot_sharing_group(self, slot_sharing_group: Any) -> StreamExecutionEnvironment:  # noqa: ARG002
        """Accept a slot sharing group without effect: the host decides where operators run.

        Args:
            slot_sharing_group: A group; it is ignored.
        """
        return self

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Accept a file without effect: only functions in Java read cached files.

        Args:
            file_path: A path; it is ignored.
            name: A name; it is ignored.
            executable: A flag; it is ignored.
        """

    def _store(self, option: Option[Any], value: Any) -> StreamExecutionEnvironment:
        option.set(self._program.configuration, value)
        return self

    # Modules for functions

    def add_python_file(self, file_path: str) -> None:
        """Let functions import a file's modules, in this process and in Spark's workers.

        Args:
            file_path: A module, an archive of modules, or a folder of modules.
        """
        self._program.python_files.append(file_path)

    @without_effect("jars are not loaded: connectors are written in Python")
    def add_jars(self, *jars_path: str) -> None:
        """Accept jars, which are not loaded.

        Args:
            jars_path: Paths of jars; they are ignored.
        """

    @without_effect("jars are not loaded: connectors are written in Python")
    def add_classpaths(self, *classpaths: str) -> None:
        """Accept jars, which are not loaded.

        Args:
            classpaths: Addresses of jars; they are ignored.
        """

    # Sources

    def from_collection(
        self,
        collection: Iterable[Any],
        type_info: TypeInformation | list[TypeInformation] | None = None,
    ) -> DataStream:
        """Make a stream of the elements of a collection, in order.

        Args:
            collection: A list or another iterable, but no text.
            type_info: The type to which elements are converted at once.  A list of types stands for a
                row, None for any object that pickle can write.  As in PyFlink, an object's attributes
                also make a row or map, and an int makes a text.

        Raises:
            DeclarationTypeError: `collection` is a text or cannot be iterated.
            StateValueError: An element does not have the type.
        """
        if isinstance(collection, (str, bytes)) or not hasattr(collection, "__iter__"):
            msg = f"from_collection takes a list, got {short_repr(collection)}; give for example [1, 2]"
            raise DeclarationTypeError(msg)
        kind = output_type_of(type_info)
        elements = tuple(_convert(list(collection), kind))
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
        """Make a stream of the elements of a source.

        Args:
            source: The source, such as a `FileSource`.
            watermark_strategy: Makes event times and watermarks; unlike in PyFlink, its timestamp
                assigner is used.
            source_name: The name of the source, for plans and messages.
            type_info: The type of the elements; None takes the type that the source has.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        if not isinstance(source, Source):
            remedy = instance_of(Source, source, "use for example a FileSource")
            msg = f"from_source takes a source, got {short_repr(source)}; {remedy}"
            raise DeclarationTypeError(msg)
        if not isinstance(watermark_strategy, WatermarkStrategy):
            msg = f"from_source takes a WatermarkStrategy, got {short_repr(watermark_strategy)}; give for example WatermarkStrategy.no_watermarks()"
            raise DeclarationTypeError(msg)
        kind = source.type_info if type_info is None else output_type_of(type_info)
        return self._source(source, copy_function(watermark_strategy), source_name, kind)

    def add_source(
        self,
        source_func: Any,
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Make a stream of the elements of a `FlinkKafkaConsumer`, or of any other source.

        Args:
            source_func: The consumer, or a source as for `from_source`.
            source_name: The name of the source, for plans and messages.
            type_info: The type of the elements; None takes the type that the source has.

        Raises:
            DeclarationTypeError: `source_func` is neither.
        """
        source = source_func.source() if isinstance(source_func, SourceMaker) else source_func
        if not isinstance(source, Source):
            remedy = instance_of(
                Source, source, "use from_collection, from_source or from_data_frame"
            )
            msg = f"add_source takes a FlinkKafkaConsumer or a source, got {short_repr(source)}; {remedy}"
            raise DeclarationTypeError(msg)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), source_name, type_info)

    def create_input(
        self, input_format: Any, type_info: TypeInformation | None = None
    ) -> DataStream:
        """Make a stream of the records that an `AvroInputFormat` reads.

        Args:
            input_format: The format; Flink's other formats are written in Java.
            type_info: The type of the elements; None takes the type that the format has.

        Raises:
            SparkSetupError: The format is no `AvroInputFormat`.
        """
        if not isinstance(input_format, SourceMaker):
            msg = (
                f"create_input takes an AvroInputFormat, got {short_repr(input_format)}; read with "
                "a FileSource and from_source, or with Spark and from_data_frame"
            )
            raise SparkSetupError(msg)
        return self.from_source(
            input_format.source(),
            WatermarkStrategy.no_watermarks(),
            "Custom File source",
            type_info,
        )

    @deprecated_alias(
        "FileSource.for_record_stream_format(StreamFormat.text_line_format(), path) and from_source"
    )
    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """Make a bounded stream of the lines of a file, or of all files in a folder.

        Args:
            file_path: The path of the file or folder.
            charset_name: The encoding of the text.
        """
        lines = StreamFormat.text_line_format(charset_name)
        source = FileSource.for_record_stream_format(lines, file_path).build()
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Text File Source")

    def from_data_frame(
        self,
        df: Any,
        watermark_strategy: WatermarkStrategy | None = None,
        event_time: str | None = None,
        source_name: str = "DataFrame",
    ) -> DataStream:
        """Make a stream of the rows of a Spark DataFrame, each a `Row` with the names of its columns.

        In PyFlink this method is `StreamTableEnvironment.to_data_stream`.  If a job ends in `to_data_frame`,
        it runs as a part of the query on that DataFrame.

        Args:
            df: A batch or streaming DataFrame of a classic session, without a watermark of its own.
            watermark_strategy: Makes watermarks; None takes `for_monotonous_timestamps` if there is an
                event time, otherwise `no_watermarks`.
            event_time: The timestamp column with the event times, cut to whole ms; a timestamp assigner
                of the strategy overrides it.
            source_name: The name of the source, for plans and messages.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is of the wrong kind, the event
                time is no column, or functions cannot get values of a column's type.
            SparkSetupError: PySpark is not installed.
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
        node = self._program.builder.add(
            FromSource, name=name, type_info=kind, source=source, strategy=strategy
        )
        return DataStream(self._program, node.id)

    # Jobs

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run all operators and sinks declared since the last job, and wait for the end.

        Args:
            job_name: The name of the job, by which a later run finds its checkpoint; None takes the
                name in the configuration.

        Raises:
            DeclarationError: No operator was declared since the last job, or a setting is wrong.
            PyflinklikeError: The job failed.
        """
        began = wall_clock()
        run = self._program.start(job_name)
        run.wait()
        return JobExecutionResult(JobID(), wall_clock() - began, run.metrics())

    def execute_async(self, job_name: str = "Flink Streaming Job") -> JobClient:
        """Run all operators and sinks declared since the last job, in the background.

        Args:
            job_name: The name of the job, by which a later run finds its checkpoint.

        Raises:
            DeclarationError: No operator was declared since the last job, or a setting is wrong.
        """
        run = self._program.start(job_name)
        return JobClient(run, SAVEPOINTS.of(self._program.configuration))

    def get_execution_plan(self) -> str:
        """Return the next job as JSON, in Flink's form; nothing runs.

        Raises:
            DeclarationError: No operator was declared since the last job.
        """
        return execution_plan(self._program.graph(), self.get_parallelism())

    def explain(self, form: str = "mermaid") -> str:
        """Return the next job as a picture; PyFlink has no such method.

        Args:
            form: "mermaid" for a flow chart in Mermaid's language, or "svg" for a drawing that a browser
                shows; "svg" needs the extra `plan`.

        Raises:
            DeclarationError: No operator was declared since the last job.
            DeclarationValueError: `form` is something else.
            RequirementError: The package that draws is not installed.
        """
        return draw_picture(self._program.graph(), form)

    def close(self) -> None:
        """Do nothing: an environment has nothing to close."""


def _convert(elements: list[Any], kind: TypeInformation) -> Iterable[Any]:
    """Convert elements to the type of their stream; the results are copies, which the program cannot change."""
    if kind == Types.PICKLED_BYTE_ARRAY():
        try:
            copies: list[Any] = pickle.loads(pickle.dumps(elements, protocol=5))  # noqa: S301
        except Exception as error:
            msg = f"pickle must be able to write the elements, got {short_repr(elements)}: {shown_error(error)}"
            raise StateValueError(msg) from error
        return copies
    made: list[Any] = []
    try:
        # One by one: if an element fails, the length of `made` is its position.
        made.extend(
            None if each is None else kind.converted(_take_apart(each, kind)) for each in elements
        )
    except StateValueError as error:
        msg = f"element {len(made)} of the collection does not fit its type_info: {error}"
        raise StateValueError(msg) from error
    return made


def _take_apart(value: Any, kind: TypeInformation) -> Any:
    """Convert an element as PyFlink's Java side converts its pickle, if its type is a row, map or text.

    That side (`PythonTypeUtils`) sees an object of any class as the map of its attributes, and makes rows and
    maps of it.  For a text it takes the `toString` of any value.
    """
    if isinstance(kind, MapTypeInfo):
        value = _attributes(value)
        if not isinstance(value, Mapping):
            return value
        of_key, of_value = kind._key_type_info, kind._value_type_info
        return {_take_apart(k, of_key): _take_apart(v, of_value) for k, v in value.items()}
    if isinstance(kind, RowTypeInfo):
        value, names = _attributes(value), kind.field_names
        if isinstance(value, Mapping):
            kinds = dict(zip(names, kind.field_types))
            return {k: _take_apart(v, kinds[k]) if k in kinds else v for k, v in value.items()}
        if type(value) in (tuple, list) and len(value) == len(names):
            return type(value)(map(_take_apart, value, kind.field_types))
        return value
    if kind == Types.STRING() and type(value) in (int, bool):
        return str(value).lower()  # Java writes true, not True
    return value


def _attributes(value: Any) -> Any:
    """Return the attributes of an object of the user's own class; return any other value as it is."""
    if isinstance(value, Iterable) or not hasattr(value, "__dict__"):
        return value
    return vars(value)


_BUFFER_TIMEOUT = duration("execution.buffer-timeout.interval", 100, "execution.buffer-timeout")
_BUFFER_TIMEOUT_ENABLED = boolean("execution.buffer-timeout.enabled", True)
_CHAINING = boolean("pipeline.operator-chaining.enabled", True, "pipeline.operator-chaining")
_CHAINING_OF_OTHERS = boolean(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism", True
)
_CHANGELOG = boolean("state.changelog.enabled", False, "state.backend.changelog.enabled")
