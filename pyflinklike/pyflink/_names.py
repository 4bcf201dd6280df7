# SPDX-License-Identifier: Apache-2.0
"""The names of PyFlink 2.3 and of Flink 1: where they are here, and why some are refused.

`pyflink.json` has every name that can be imported from PyFlink, and the module that defines it
(`scripts/pyflink_names.py` reads them from its wheel).  A module at a path of PyFlink defines its own
names, and finds all others by `__getattr__ = of_pyflink(__name__)`, which looks in this order:

1. `_FORMER`: Flink 1 had the name there.  The import warns, and says what programs write today.
2. `_HERE`: PyFlink imports the name there from another module, and ours is elsewhere.
3. `pyflink.json`: the name is imported from our module at the path where PyFlink defines it.
4. `_REFUSED`: we do not have the name.  The import gives a class that raises the reason when it is used.

If we have no name of a module, the module has no file: `pyflinklike.run` makes it of these tables.
A module of `_ELSEWHERE` has no file either, since another module of ours has its names.  `add_modules` makes
it, so that `pyflinklike.pyflink.common.time` can be imported as `pyflink.common.time` can.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module, resources
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, NamedTuple

from pyflinklike._deprecation import INSIDE, JAVA, warn_once
from pyflinklike.pyflink._foreign_names import make_refused

_PACKAGE: Final = "pyflinklike.pyflink"
_DOT: Final = "/"
"""Replaces the dots in the qualified name of a refused name: pickle would take them for attributes."""


class _Former(NamedTuple):
    """A name that Flink 1 had.

    Args:
        here: Our module and the name in it, as `module:name`.
        today: The code that programs write today, for the warning.
    """

    here: str
    today: str


# Names that are elsewhere

_ELSEWHERE: Final[Mapping[str, str]] = {
    "common.completable_future": "common.jobs",
    "common.config_options": "common.configuration",
    "common.job_client": "common.jobs",
    "common.job_execution_result": "common.jobs",
    "common.job_id": "common.jobs",
    "common.job_status": "common",
    "common.restart_strategy": "common.stored_settings",
    "common.time": "common",
    "common.watermark_strategy": "common",
    "datastream.checkpoint_storage": "common.stored_settings",
    "datastream.checkpointing_mode": "datastream",
    "datastream.connectors.base": "datastream.connectors",
    "datastream.connectors.hybrid_source": "datastream.connectors",
    "datastream.connectors.number_seq": "datastream.connectors",
    "datastream.execution_mode": "datastream",
    "datastream.externalized_checkpoint_retention": "datastream",
    "datastream.output_tag": "datastream",
    "datastream.slot_sharing_group": "common.stored_settings",
    "datastream.time_domain": "datastream",
    "datastream.timerservice": "datastream",
}
"""Our module with the names of each module of PyFlink whose names we define in another one."""

_HERE: Final[Mapping[str, str]] = {
    "common.constants.MAX_LONG_VALUE": "pyflinklike._clock:MAX_WATERMARK",
    "common.constants.MIN_LONG_VALUE": "pyflinklike._clock:MIN_WATERMARK",
    "common.config_options.T": "pyflinklike._type_vars:T",
    "common.serializer.T": "pyflinklike._type_vars:T",
    "common.typeinfo.PickledBytesTypeInfo": "pyflinklike.types.pickled_type:PickledByteArrayTypeInfo",
    "datastream.async_retry_strategies.OUT": "pyflinklike._type_vars:OUT",
    "datastream.data_stream.AllWindowedStream": "datastream:WindowedStream",
    "datastream.functions.KEY": "pyflinklike._type_vars:K",
    "datastream.functions.IN": "pyflinklike._type_vars:IN",
    "datastream.functions.IN1": "pyflinklike._type_vars:IN",
    "datastream.functions.IN2": "pyflinklike._type_vars:IN",
    "datastream.functions.OUT": "pyflinklike._type_vars:OUT",
    "datastream.functions.W": "pyflinklike._type_vars:W",
    "datastream.functions.W2": "pyflinklike._type_vars:W",
    "datastream.state.IN": "pyflinklike._type_vars:IN",
    "datastream.state.K": "pyflinklike._type_vars:K",
    "datastream.state.OUT": "pyflinklike._type_vars:OUT",
    "datastream.state.T": "pyflinklike._type_vars:T",
    "datastream.state.V": "pyflinklike._type_vars:V",
    "datastream.window.IN": "pyflinklike._type_vars:IN",
    "datastream.window.KEY": "pyflinklike._type_vars:K",
    "datastream.window.OUT": "pyflinklike._type_vars:OUT",
    "datastream.window.T": "pyflinklike._type_vars:T",
    "datastream.window.W": "pyflinklike._type_vars:W",
    "datastream.window.W2": "pyflinklike._type_vars:W",
    "metrics.metricbase.Counter": "metrics:Counter",
    "metrics.metricbase.Distribution": "metrics:Distribution",
    "metrics.metricbase.Meter": "metrics:Meter",
    "metrics.metricbase.Metric": "metrics:Metric",
    "metrics.metricbase.MetricGroup": "metrics:MetricGroup",
    "table.types.DataTypes": "common.data_types:DataTypes",
    "serializers.T": "pyflinklike._type_vars:T",
    "util.api_stability_decorators.T": "pyflinklike._type_vars:T",
    "version.__version__": "pyflinklike:__version__",
}
"""Our module and name for each name of PyFlink that we define at another path."""

_CONSUMER = "KafkaSource.builder() and env.from_source(source, watermark_strategy, source_name)"
_RETENTION = _Former(
    "datastream:ExternalizedCheckpointRetention",
    "ExternalizedCheckpointRetention, from pyflink.datastream",
)
_TIMES = _Former(
    "common.stored_settings:TimeCharacteristic",
    "nothing: event time counts wherever a stream has a WatermarkStrategy",
)
_FORMATS = {
    f"{kind}Row{what}Schema": _Former(
        f"datastream.formats.{kind.lower()}:{kind}Row{what}Schema",
        f"from pyflink.datastream.formats.{kind.lower()} import {kind}Row{what}Schema",
    )
    for kind in ("Avro", "Csv", "Json")
    for what in ("Serialization", "Deserialization")
}
_WATERMARKS = {
    name: _Former(
        f"common:{name}",
        f"from pyflink.common.watermark_strategy import {name}",
    )
    for name in ("WatermarkStrategy", "TimestampAssigner", "Duration")
}
_BACKENDS = {
    name: _Former(f"datastream.state_backend:{name}", f"{today}, from pyflink.datastream")
    for name, today in (
        ("FsStateBackend", "HashMapStateBackend"),
        ("MemoryStateBackend", "HashMapStateBackend"),
        ("RocksDBStateBackend", "EmbeddedRocksDBStateBackend"),
    )
}
_CONNECTORS = {
    name: _Former(
        f"datastream.connectors.{module}:{name}",
        f"from pyflink.datastream.connectors.{module} import {name}",
    )
    for module, names in {
        "file_system": "DefaultRollingPolicy OnCheckpointRollingPolicy",
        "kafka": "KafkaOffsetsInitializer KafkaOffsetResetStrategy KafkaRecordSerializationSchema "
        "KafkaSink KafkaSinkBuilder KafkaSourceBuilder KafkaTopicPartition",
    }.items()
    for name in names.split()
}

_FORMER: Final[Mapping[str, _Former]] = {
    **{f"common.{name}": found for name, found in _FORMATS.items()},
    **{f"common.serialization.{name}": found for name, found in _FORMATS.items()},
    "common.serialization.SimpleStringEncoder": _Former(
        "common:Encoder", "Encoder.simple_string_encoder()"
    ),
    **{f"datastream.watermark_strategy.{name}": found for name, found in _WATERMARKS.items()},
    **{f"datastream.{name}": found for name, found in _BACKENDS.items()},
    **{f"datastream.connectors.{name}": found for name, found in _CONNECTORS.items()},
    "datastream.ExternalizedCheckpointCleanup": _RETENTION,
    "datastream.checkpoint_config.ExternalizedCheckpointCleanup": _RETENTION,
    "datastream.externalized_checkpoint_cleanup.ExternalizedCheckpointCleanup": _RETENTION,
    "datastream.TimeCharacteristic": _TIMES,
    "datastream.time_characteristic.TimeCharacteristic": _TIMES,
    "datastream.stream_execution_environment.TimeCharacteristic": _TIMES,
}
"""Names of Flink 1, by their modules there."""


# Names that we do not have


def _connector(spark: str) -> str:
    """Return the reason and the remedy for a connector that is written in Java.

    Args:
        spark: The code with which Spark reads and writes there.
    """
    return (
        f"its connector is written in Java, and Spark has its own: {spark}; join the job by "
        "env.from_data_frame(df) and stream.to_data_frame()"
    )


_BULK = "Spark reads and writes such files: spark.read and env.from_data_frame(df), stream.to_data_frame() and DataFrame.write; a job itself has Parquet, Avro and CSV"
_SPLITS = "one task reads a file, and the host chooses the task: leave it out"
_COMPACT = "small files are not merged: call set_parallelism of the sink, or merge them with Spark"
_TABLE = (
    "the Table API is not here: env.from_data_frame(df) and stream.to_data_frame() with Spark SQL between "
    "them do the same (docs: Migrate from PyFlink)"
)
_OPERATOR = "it makes an operator in Java: declare the function with process(), or with connect() and process()"
_ASSIGNER = "it wraps an assigner in Java: use a WatermarkStrategy with_timestamp_assigner"

_INSIDE_NAMES: Final[Mapping[str, str]] = {
    "datastream.data_stream": "WINDOW_STATE_NAME",
    "datastream.functions": "AsyncFunctionDescriptor FunctionWrapper "
    "InternalIterableAllWindowFunction InternalIterableProcessAllWindowFunction "
    "InternalIterableProcessWindowFunction InternalIterableWindowFunction "
    "InternalProcessAllWindowContext InternalProcessWindowContext "
    "InternalSingleValueAllWindowFunction InternalSingleValueProcessAllWindowFunction "
    "InternalSingleValueProcessWindowFunction InternalSingleValueWindowFunction "
    "InternalWindowFunction PassThroughAllWindowFunction PassThroughWindowFunction "
    "ReduceFunctionWrapper",
    "datastream.window": "Min WindowOperationDescriptor long_to_int_with_bit_mixing mod_inverse",
}
"""Names that only PyFlink itself uses, by module."""

_REFUSED: Final[Mapping[str, str]] = {
    # A key is a module or a name in it: `reason_why` asks for the name first, then for the modules around.
    **{
        f"{module}.{name}".lstrip("."): INSIDE
        for module, names in _INSIDE_NAMES.items()
        for name in names.split()
    },
    "common.constants.DEFAULT_OUTPUT_TAG": INSIDE,
    "common.input_dependency_constraint": "it has no effect in Flink either: leave it out",
    "common.io": "a format in Java reads it: use a FileSource, AvroInputFormat with create_input, or Spark and env.from_data_frame(df)",
    "common.serialization.RowDataBulkWriterFactory": "ParquetBulkWriters.for_row_type and CsvBulkWriters.for_schema make it",
    "common.serializer": INSIDE,
    "common.serializer.TypeSerializer": "a WindowSerializer writes windows to state, by "
    "to_namespace and to_window: give one, such as TimeWindowSerializer()",
    "common.typeinfo.ExternalTypeInfo": INSIDE,
    "common.typeinfo._from_java_type": f"{JAVA}; get_type() of a stream gives the type of its elements",
    "common.typeinfo.LocalTimeTypeInfo": "use Types.SQL_DATE(), Types.SQL_TIME() or Types.SQL_TIMESTAMP()",
    "common.utils": INSIDE,
    "common.watermark_strategy.AssignerWithPeriodicWatermarksWrapper": _ASSIGNER,
    "datastream.connectors.base.StreamTransformer": JAVA,
    "datastream.connectors.base.SupportsPreprocessing": JAVA,
    "datastream.connectors.cassandra": _connector(
        'spark.read and df.write.format("org.apache.spark.sql.cassandra") of the package spark-cassandra-connector'
    ),
    "datastream.connectors.dynamic_kafka": "a source reads the topics of one cluster: use a KafkaSource for each cluster, and union",
    "datastream.connectors.elasticsearch": _connector(
        'df.write.format("es") of the package elasticsearch-spark, on streams, too'
    ),
    "datastream.connectors.file_system.FileCompactStrategy": _COMPACT,
    "datastream.connectors.file_system.FileCompactor": _COMPACT,
    "datastream.connectors.file_system.FileEnumeratorProvider": _SPLITS,
    "datastream.connectors.file_system.FileSplitAssignerProvider": _SPLITS,
    "datastream.connectors.kinesis": _connector(
        'spark.readStream.format("aws-kinesis") of the package spark-sql-kinesis-connector, which writes as well'
    ),
    "datastream.connectors.pulsar": _connector(
        'spark.readStream.format("pulsar") of the package pulsar-spark-connector, which writes as well'
    ),
    "datastream.connectors.rabbitmq": "its connector is written in Java, and Spark has no other: write a data source in Python "
    "(pyspark.sql.datasource) over pika and join the job by env.from_data_frame(df) and stream.to_data_frame(), or "
    "bring the queue to a topic of Kafka",
    "datastream.data_stream._get_one_input_stream_operator": _OPERATOR,
    "datastream.data_stream._get_two_input_stream_operator": _OPERATOR,
    "datastream.formats.orc": _BULK,
    "datastream.functions.JavaFunctionWrapper": JAVA,
    "datastream.functions.SinkFunction": "it is written in Java: use sink_to with a sink, print, or a function that writes",
    "datastream.functions.SourceFunction": "it is written in Java: use from_collection, from_source or env.from_data_frame(df)",
    "datastream.state.OperatorStateStore": "operators have keyed state and broadcast state only: a function with a broadcast "
    "input calls ctx.get_broadcast_state(descriptor)",
    "datastream.utils": INSIDE,
    "java_gateway": "no Java runs here: leave it out, or ask Spark's session for its own",
    "serializers": INSIDE,
    "table": _TABLE,
    "table.catalog": f"{_TABLE}; Spark has spark.catalog",
    "table.expressions": f"{_TABLE}; expressions are pyspark.sql.functions",
    "table.expression": f"{_TABLE}; expressions are pyspark.sql.Column",
    "table.types": f"{_TABLE}; formats of files take DataTypes.ROW(...), and types are pyspark.sql.types",
    "table.udf": f"{_TABLE}; functions are pyspark.sql.functions.udf, or stream.map",
    "table.functions": f"{_TABLE}; functions are pyspark.sql.functions.udf, or stream.map",
    "table.window": f"{_TABLE}; windows are pyspark.sql.functions.window, or stream.key_by(...).window",
    "util.api_stability_decorators": INSIDE,
    "util.exceptions": "errors here come from pyflinklike.errors: catch PyflinklikeError",
    "util.java_utils": JAVA,
}
"""The reason and the remedy for modules and names of PyFlink that we do not have."""

_REFUSED_FORMER: Final[Mapping[str, str]] = {
    "table": "BatchTableEnvironment CsvTableSink CsvTableSource TableSink TableSource WriteMode",
    "table.descriptors": "BatchTableDescriptor ConnectTableDescriptor Csv CustomConnectorDescriptor "
    "CustomFormatDescriptor Elasticsearch FileSystem HBase Json Kafka OldCsv Schema "
    "StreamTableDescriptor",
    "table.sinks": "CsvTableSink TableSink WriteMode",
    "table.sources": "CsvTableSource TableSource",
}
"""Names of Flink 1 in modules that we do not have."""

_MISSING: Final[Mapping[str, str]] = {
    "dataset": "Flink 2 has no DataSet API either: a DataStream in batch mode does the same",
    "find_flink_home": "Flink is not installed: leave it out",
    "fn_execution": INSIDE,
    "pyflink_callback_server": JAVA,
    "pyflink_gateway_server": JAVA,
    "shell": "start python, and import pyflinklike.pyflink.datastream",
    "testing": "use pyflinklike.testing",
}
"""Modules that cannot be imported: a program that imports one needs it, so an early error is better."""


@cache
def names_of(module: str) -> Mapping[str, str]:
    """Return the names of a module of PyFlink, each with the module that defines it; "" means this one.

    Args:
        module: The name of the module, without `pyflink.`.
    """
    found: dict[str, str] = dict(_names_of_today().get(module, {}))
    return found | dict.fromkeys(_REFUSED_FORMER.get(module, "").split(), "")


@cache
def _names_of_today() -> Mapping[str, Mapping[str, str]]:
    text = resources.files(__package__).joinpath("pyflink.json").read_text(encoding="utf-8")
    names: dict[str, dict[str, str]] = json.loads(text)
    return names


def former_names() -> Mapping[str, str]:
    """Return what programs write today for each name of Flink 1, by its place."""
    return {place: found.today for place, found in _FORMER.items()}


def modules_left_out() -> Mapping[str, str]:
    """Return why the modules that cannot be imported are not here, by their names."""
    return _MISSING


def is_known(module: str) -> bool:
    """Return whether this table has names for a module, or for one below it.

    Args:
        module: The name of the module, without `pyflink.`.
    """
    elsewhere = (each.rpartition(".")[0] for each in (*_FORMER, *_HERE))
    places = (*_names_of_today(), *_REFUSED_FORMER, *elsewhere)
    return any(f"{place}.".startswith(f"{module}.") for place in places)


def why_missing(module: str) -> str | None:
    """Return why a module of PyFlink cannot be imported; None if no reason is known.

    Args:
        module: The name of the module, without `pyflink.`.
    """
    return next(
        (why for each, why in _MISSING.items() if f"{module}.".startswith(f"{each}.")), None
    )


def reason_why(module: str, name: str) -> str | None:
    """Return the reason and the remedy for a name that we do not have; None if we know no reason.

    Args:
        module: The module of PyFlink that defines the name, without `pyflink.`.
        name: The name, without its module.
    """
    place = f"{module}.{name}" if module else name
    while place:
        if place in _REFUSED:
            return _REFUSED[place]
        place = place.rpartition(".")[0]
    return INSIDE if name.startswith("_") else None


def of_pyflink(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module at a path of PyFlink.

    Args:
        module: The full name of our module.
    """
    inner = module[len(_PACKAGE) + 1 :]

    def find(name: str) -> Any:
        """Return our object for a name that PyFlink has in the module and the module does not define.

        Raises:
            AttributeError: PyFlink has no such name there.
        """
        return _find(inner, name)

    return find


def module_of_names(fullname: str, inner: str) -> ModuleType:
    """Make a module for a path of PyFlink at which we have no file.

    Args:
        fullname: The name of the module as the program imports it.
        inner: Its name without `pyflink.`.
    """
    made = ModuleType(fullname, f"The names of `{fullname}`, as pyflinklike has them.")
    made.__getattr__ = of_pyflink(f"{_PACKAGE}.{inner}")  # type: ignore[method-assign]
    made.__spec__ = ModuleSpec(fullname, None)
    return made


def add_modules() -> None:
    """Let programs import the modules whose names another module of ours has."""
    for inner in _ELSEWHERE:
        fullname = f"{_PACKAGE}.{inner}"
        sys.modules[fullname] = module_of_names(fullname, inner)


def _shown_names(module: str) -> list[str]:
    """Return what `import *` gives: of a package what its modules define, of a module its own names."""
    is_package = any(each.startswith(f"{module}.") for each in _names_of_today())
    names = names_of(module).items()
    return sorted(name for name, home in names if name[0] != "_" and (is_package or not home))


def _find(module: str, name: str) -> Any:
    place = f"{module}.{name}" if module else name
    if name == "__all__":  # only a module without a file asks for it
        return _shown_names(module)
    if place in _ELSEWHERE:
        return import_module(f"{_PACKAGE}.{place}")
    if place in _FORMER:
        here, today = _FORMER[place]
        warn_once(f"pyflink.{place} is of Flink 1: write {today}", DeprecationWarning)
        return _import(here)
    if place in _HERE:
        return _import(_HERE[place])
    # Python itself asks modules for names such as `__path__`, so these are never refused.
    home = None if name.startswith("__") else names_of(module).get(name)
    if home is None:
        msg = f"module '{_PACKAGE}.{module}' has no attribute {name!r}"
        raise AttributeError(msg)
    if not home:
        elsewhere = _ELSEWHERE.get(module)
        defined = vars(import_module(f"{_PACKAGE}.{elsewhere}")) if elsewhere else {}
        return defined[name] if name in defined else _refusal(module, name)
    inside = f"{home}.{name}"
    if inside in _names_of_today():  # a module of a package, such as `common.typeinfo`
        ours = f"{_PACKAGE}.{inside}"
        return import_module(ours) if _is_ours(inside) else module_of_names(ours, inside)
    if _is_ours(home):
        return getattr(import_module(f"{_PACKAGE}.{home}"), name)
    return _find(home, name)


@cache
def _refusal(module: str, name: str) -> Any:
    reason = reason_why(module, name)
    if reason is None:
        msg = f"module '{_PACKAGE}.{module}' has no attribute {name!r}"
        raise AttributeError(msg)
    is_error = module == "util.exceptions" and name.endswith("Exception")
    place = f"{module}.{name}"
    made = make_refused(place, reason, Exception if is_error else object)
    # A function is pickled with its annotations: a worker finds the name by `__getattr__` below.
    made.__module__, made.__qualname__ = __name__, place.replace(".", _DOT)
    return made


def __getattr__(name: str) -> Any:
    """Return a refused name for a pickle, which has its place with slashes for dots."""
    module, dot, last = name.rpartition(_DOT)
    if not dot:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return _refusal(module.replace(_DOT, "."), last)


@cache
def _is_ours(module: str) -> bool:
    """Return whether we have a file for a module of PyFlink."""
    parent = module.rpartition(".")[0]
    # `find_spec` imports the parent, and raises if there is no such package.
    return (not parent or _is_ours(parent)) and find_spec(f"{_PACKAGE}.{module}") is not None


def _import(here: str) -> Any:
    module, _, name = here.partition(":")
    is_elsewhere = module.partition(".")[0] == __name__.partition(".")[0]
    return getattr(import_module(module if is_elsewhere else f"{_PACKAGE}.{module}"), name)
