# SPDX-License-Identifier: Apache-2.0
"""Scripts of Flink 1 run with their old meaning, and are told today's form once."""

from __future__ import annotations

import warnings
from textwrap import dedent
from typing import Any

import pytest

from pyflinklike import _deprecation
from pyflinklike.errors import DeclarationError
from pyflinklike.run import install, uninstall

BEGIN = """
from pyflink.common import Configuration, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment(
    Configuration.from_dict({"execution.target": "local"})
)
env.set_parallelism(1)

def collected(stream):
    return list(stream.execute_and_collect())
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Runs the text of a script, and returns its `result` and what it was told."""
    monkeypatch.setattr(_deprecation, "_SHOWN", set())
    (tmp_path / "lines.txt").write_text("a\nb\n", encoding="utf-8")
    install()

    def run(text: str) -> tuple[Any, list[str]]:
        values = {"__name__": "script", "folder": str(tmp_path)}
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            exec(compile(BEGIN + dedent(text), "script.py", "exec", dont_inherit=True), values)
        of_script = [each for each in told if each.filename == "script.py"]
        assert told == of_script
        return values["result"], [f"{each.category.__name__}: {each.message}" for each in told]

    yield run
    uninstall()


FORMS = {
    "TimeCharacteristic": (
        """
        from pyflink.datastream import TimeCharacteristic
        from pyflink.common import Duration, Time
        from pyflink.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
        from pyflink.datastream.window import TumblingEventTimeWindows

        class Itself(TimestampAssigner):
            def extract_timestamp(self, value, record_timestamp):
                return value

        env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
        times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
        stream = env.from_collection([1, 2, 11]).assign_timestamps_and_watermarks(times)
        windows = stream.key_by(lambda n: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        result = collected(windows.reduce(lambda a, b: a + b))
        """,
        [3, 11],
        ["TimeCharacteristic is of Flink 1", "set_stream_time_characteristic is of Flink 1"],
    ),
    "read_text_file": (
        """
        result = collected(env.read_text_file(folder + "/lines.txt").map(str.upper))
        """,
        ["A", "B"],
        ["read_text_file is of Flink 1: write FileSource.for_record_stream_format"],
    ),
    "ExternalizedCheckpointCleanup": (
        """
        from pyflink.datastream import ExternalizedCheckpointCleanup
        config = env.get_checkpoint_config()
        config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
        result = collected(env.from_collection([1])), config.get_externalized_checkpoint_retention().name
        """,
        ([1], "RETAIN_ON_CANCELLATION"),
        [
            "write ExternalizedCheckpointRetention, from pyflink.datastream",
            "write set_externalized_checkpoint_retention(retention_mode)",
        ],
    ),
    "set_checkpoint_storage": (
        """
        from pyflink.datastream import FileSystemCheckpointStorage
        config = env.get_checkpoint_config()
        config.set_checkpoint_storage(FileSystemCheckpointStorage("file:///checkpoints"))
        result = config.get_checkpoint_storage().get_checkpoint_path()
        """,
        "file:///checkpoints",
        ["write set_checkpoint_storage_dir(path)", "the key execution.checkpointing.dir"],
    ),
    "RestartStrategies": (
        """
        from pyflink.common import RestartStrategies
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10_000))
        strategy = env.get_config().get_restart_strategy()
        result = collected(env.from_collection([1])), strategy.get_restart_attempts()
        """,
        ([1], 3),
        [
            "UserWarning: RestartStrategies.FixedDelayRestartStrategyConfiguration has no effect",
            "StreamExecutionEnvironment.set_restart_strategy is of Flink 1",
            "get_restart_strategy is of Flink 1",
        ],
    ),
    "JsonRowDeserializationSchema": (
        """
        from pyflink.common.serialization import JsonRowDeserializationSchema, JsonRowSerializationSchema
        kind = Types.ROW_NAMED(["a"], [Types.INT()])
        reads = JsonRowDeserializationSchema.builder().type_info(type_info=kind).build()
        writes = JsonRowSerializationSchema.builder().with_type_info(kind).build()
        result = collected(
            env.from_collection([b'{"a": 7}']).map(reads.deserialize, kind).map(writes.serialize)
        )
        """,
        [b'{"a":7}'],
        ["import JsonRowDeserializationSchema", "import JsonRowSerializationSchema"],
    ),
    "SimpleStringEncoder": (
        """
        from pathlib import Path
        from pyflink.common.serialization import SimpleStringEncoder
        from pyflink.datastream.connectors import StreamingFileSink
        from pyflink.datastream.connectors.file_system import BucketAssigner
        sink = StreamingFileSink.for_row_format(folder + "/out", SimpleStringEncoder())
        sink = sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
        env.from_collection(["x", "y"], Types.STRING()).add_sink(sink)
        env.execute()
        result = [path.read_text() for path in Path(folder, "out").iterdir()]
        """,
        ["x\ny\n"],
        ["write Encoder.simple_string_encoder()", "write FileSink.for_row_format"],
    ),
    "datastream.watermark_strategy": (
        """
        from pyflink.datastream.watermark_strategy import WatermarkStrategy
        stream = env.from_collection([1])
        result = collected(stream.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()))
        """,
        [1],
        ["write from pyflink.common.watermark_strategy import WatermarkStrategy"],
    ),
    "result_type": (
        """
        stream = env.from_collection([3, 4]).flat_map(range, result_type=Types.LONG())
        stream = stream.map(lambda n: (n, n), type_info=Types.TUPLE([Types.LONG(), Types.LONG()]))
        keyed = stream.key_by(lambda pair: pair[0], key_type_info=Types.LONG())
        result = collected(keyed.sum(1))[-1], stream.get_type() == keyed.get_type()
        """,
        ((3, 3), True),
        [
            "result_type= of DataStream.flat_map is of Flink 1: write output_type=",
            "type_info= of DataStream.map is of Flink 1: write output_type=",
            "key_type_info= of DataStream.key_by is of Flink 1: write key_type=",
        ],
    ),
    "set_state_backend": (
        """
        from pyflink.datastream import MemoryStateBackend
        env.set_state_backend(MemoryStateBackend())
        result = collected(env.from_collection([1, 2]).key_by(lambda n: 0).reduce(lambda a, b: a + b))
        """,
        [1, 3],
        [
            "write HashMapStateBackend, from pyflink.datastream",
            "MemoryStateBackend",
            "set_state_backend is of Flink 1: write the key state.backend.type",
        ],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_flink_1_has_its_old_meaning_and_is_told_today_s(script, form):
    """Each name is told once, at the line of the script."""
    text, expected, told = FORMS[form]

    result, warned = script(text)

    assert expected == result
    assert len(told) == len(warned), warned
    assert [] == [(part, said) for part, said in zip(told, warned) if part not in said]


def test_a_name_is_told_of_once(script):
    """However often it is imported or called."""
    _, warned = script(
        """
        for _ in range(3):
            from pyflink.datastream import TimeCharacteristic
            env.read_text_file(folder)
        result = None
        """
    )

    assert 2 == len(warned)


UNUSED = (
    "UserWarning: SlotSharingGroup has no effect here: the host decides where operators run",
    "add_jars has no effect here: jars are not loaded",
    "add_python_archive has no effect here: archives are not unpacked",
    "set_default_local_parallelism has no effect here: set_parallelism sets",
    "disable_generic_types has no effect here: any object that pickles",
)


def test_a_setting_of_flink_s_deployment_is_taken_and_told_of_once(script):
    """It says why it has no effect, and what has one."""
    result, warned = script(
        """
        from pyflink.datastream import MemorySize, SlotSharingGroup
        group = SlotSharingGroup.builder("a").set_task_heap_memory_mb(2).build()
        env.add_jars("file:///a.jar")
        env.add_jars("file:///b.jar")
        env.add_python_archive("venv.zip", "venv")
        env.set_default_local_parallelism(7)
        env.get_config().disable_generic_types()
        stream = env.from_collection([1]).map(str).slot_sharing_group(group)
        result = (
            collected(stream), env.get_default_local_parallelism(), group.get_task_heap_memory(),
            MemorySize.of_mebi_bytes(2), env.get_config().has_generic_types_disabled()
        )
        """
    )

    assert (["1"], 7, result[3], result[2], True) == result
    assert len(UNUSED) == len(warned), warned
    assert [] == [(part, said) for part, said in zip(UNUSED, warned) if part not in said]


def test_a_script_that_imports_tables_and_does_not_use_them_runs(script):
    """Also where they are in annotations."""
    result, warned = script(
        """
        from typing import Optional
        from pyflink.table import *
        from pyflink.table import expressions as expr, StreamTableEnvironment
        from pyflink.table.descriptors import Kafka
        from pyflink.java_gateway import get_gateway

        def of_table(table: Optional[Table], kind: "DataTypes | None" = None) -> Table:
            return table

        result = collected(env.from_collection([1])), isinstance(env, StreamTableEnvironment)
        """
    )

    assert ([1], False) == result
    assert [] == warned


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        (
            "from pyflink.table import StreamTableEnvironment\nStreamTableEnvironment.create(env)",
            "table.table_environment.StreamTableEnvironment.create",
            "env.from_data_frame",
        ),
        (
            "from pyflink.table.udf import udf\n@udf(result_type=None)\ndef f(x): pass",
            "table.udf.udf",
            "pyspark.sql.functions.udf",
        ),
        (
            "from pyflink.table.expressions import col\ncol('a').sum",
            "table.expressions.col",
            "pyspark.sql.functions",
        ),
        (
            "from pyflink.datastream.functions import SinkFunction\nclass Mine(SinkFunction): pass",
            "datastream.functions.SinkFunction",
            "sink_to",
        ),
        (
            "from pyflink.datastream.connectors.kinesis import KinesisStreamsSink\nKinesisStreamsSink.builder()",
            "datastream.connectors.kinesis.KinesisStreamsSink.builder",
            'format("aws-kinesis")',
        ),
        (
            "import pyflink.datastream.connectors.elasticsearch as e\ne.Elasticsearch7SinkBuilder()",
            "datastream.connectors.elasticsearch.Elasticsearch7SinkBuilder",
            'format("es")',
        ),
        (
            "from pyflink.java_gateway import get_gateway\nget_gateway().jvm",
            "java_gateway.get_gateway",
            "no Java runs here",
        ),
        ("env._j_stream_execution_environment", "_j_stream_execution_environment", "Java's"),
        ("Types.INT().get_java_type_info()", "IntegralTypeInfo.get_java_type_info", "Java's"),
        ("env.from_collection([1])._j_data_stream", "DataStream._j_data_stream", "Java's"),
        ("Types.INT().need_conversion()", "need_conversion", "inside PyFlink"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name_when_it_is_used(script, text, place, remedy):
    """With the reason and what does the same; it is an `AttributeError` of ours, for `hasattr`."""
    with pytest.raises(DeclarationError) as refusal:
        script(f"{text}\nresult = None")

    assert isinstance(refusal.value, AttributeError)
    assert place in str(refusal.value)
    assert remedy in str(refusal.value)


def test_a_function_with_a_refused_name_in_its_annotations_travels(script):
    """A worker that has never seen the script gets the very name."""
    result, _ = script(
        """
        import pickle
        import cloudpickle
        from pyflink.table import DataTypes, Table

        def of_table(table: Table) -> "DataTypes":
            return DataTypes

        made = pickle.loads(cloudpickle.dumps(of_table))
        result = made.__annotations__["table"] is Table, made(None) is DataTypes
        """
    )

    assert (True, True) == result


def test_no_attribute_of_java_is_there(script):
    """Who asks first is not refused."""
    result, _ = script(
        "result = hasattr(env, '_j_env'), hasattr(env.from_collection([1]), '_gateway')"
    )

    assert (False, False) == result
