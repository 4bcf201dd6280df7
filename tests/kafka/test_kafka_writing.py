# SPDX-License-Identifier: Apache-2.0
"""Writing to librdkafka's mock cluster: in order, to Java's partitions, acknowledged or an error."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from kafka_support import Brokers
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from pyflinklike.errors import DeclarationValueError, DeliveryError, SparkSetupError
from pyflinklike.kafka.data_source import batch_writer, stream_writer
from pyflinklike.kafka.delivery import deliver
from pyflinklike.kafka.messages import HEADER, Message, RecordIds, check_columns, of_batches
from pyflinklike.kafka.options import writer_options


def settings(brokers: Brokers, **more: str) -> dict[str, str]:
    """Of librdkafka."""
    return {"bootstrap.servers": brokers.servers, **more}


def test_records_of_a_key_arrive_in_their_order(brokers: Brokers, topic: str):
    """Once each, however many are on their way at a time."""
    messages = [Message(topic, b"%d" % (n % 7), b"%d" % n) for n in range(5_000)]

    assert deliver(messages, settings(brokers, **{"queue.buffering.max.messages": "300"})) == 5_000

    found = defaultdict(list)
    for record in brokers.read(topic):
        found[record["key"]].append(int(record["value"]))
    assert dict(found) == {b"%d" % key: list(range(key, 5_000, 7)) for key in range(7)}


@pytest.mark.parametrize(
    ("key", "murmur2"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)],
)
def test_a_key_goes_where_javas_client_puts_it(
    brokers: Brokers, topic: str, key: bytes, murmur2: int
):
    """The hashes are those of Kafka's own test of its partitioner."""
    deliver([Message(topic, key, b"v")], settings(brokers))

    (record,) = brokers.read(topic)

    assert record["partition"] == (murmur2 & 0x7FFFFFFF) % 4


def test_a_record_goes_to_the_partition_it_names(brokers: Brokers, topic: str):
    """With its headers, an empty value and no value."""
    headers = (("a", b"1"), ("a", None))
    deliver(
        [Message(topic, None, None, 3, headers), Message(topic, b"", b"", 0)], settings(brokers)
    )

    empty, nothing = sorted(brokers.read(topic), key=lambda record: record["partition"])

    assert (empty["partition"], empty["key"], empty["value"]) == (0, b"", b"")
    assert (nothing["partition"], nothing["key"], nothing["value"]) == (3, None, None)
    assert [(each["key"], each["value"]) for each in nothing["headers"]] == list(headers)


def test_a_record_that_is_too_large_is_an_error(brokers: Brokers, topic: str):
    """Before it is sent; those before it may arrive."""
    messages = [Message(topic, None, b"small"), Message(topic, None, b"x" * 5_000)]

    with pytest.raises(DeliveryError, match=f"one for topic {topic} cannot be sent: .*too large"):
        deliver(messages, settings(brokers, **{"message.max.bytes": "1000"}))


def test_a_record_without_a_topic_is_an_error(brokers: Brokers):
    """Its column may be null."""
    with pytest.raises(DeliveryError, match="record 0 of the task has no topic"):
        deliver([Message(None, None, b"v")], settings(brokers))


def test_brokers_that_are_away_fail_the_task():
    """After Java's delivery.timeout.ms; nothing is taken for written."""
    away = {"bootstrap.servers": "127.0.0.1:1", "delivery.timeout.ms": "400", "linger.ms": "0"}

    with pytest.raises(DeliveryError, match=r"one for topic t failed: .*127\.0\.0\.1:1"):
        deliver([Message("t", None, b"v")], away)


def test_a_user_may_not_give_up_acknowledgements(brokers: Brokers):
    """An idempotent producer needs those of all replicas."""
    with pytest.raises(DeclarationValueError, match="acks"):
        deliver([], settings(brokers, acks="1"))


SCHEMA = {"key": StringType(), "value": StringType(), "topic": StringType()}


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"key": StringType()}, "a column value is needed"),
        ({"value": IntegerType()}, "value must be string or binary, got int"),
        ({**SCHEMA, "price": IntegerType()}, "a column price would not be written"),
        ({"value": StringType()}, "records need a topic"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns: dict[str, Any], says: str):
    """Before anything is written, by name."""
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])

    with pytest.raises(DeclarationValueError, match=says):
        check_columns(schema, None)


def test_the_option_goes_before_the_column():
    """As in Spark's own connector."""
    batch = pa.RecordBatch.from_pydict({"key": ["k"], "value": [None], "topic": ["column"]})

    assert list(of_batches([batch], "option")) == [Message("option", b"k", None)]
    assert list(of_batches([batch], None)) == [Message("column", b"k", None)]


def test_a_topic_cannot_be_overwritten():
    """Kafka only adds."""
    schema = StructType([StructField("value", StringType())])
    options = writer_options({"kafka.bootstrap.servers": "x", "topic": "t"})

    with pytest.raises(DeclarationValueError, match="append"):
        batch_writer(options, schema, overwrite=True)


def test_a_failed_micro_batch_is_told_in_the_log(caplog: pytest.LogCaptureFixture):
    """With how many records stay behind; a task that failed has no message."""
    schema = StructType([StructField("value", StringType())])
    writer = stream_writer(writer_options({"kafka.bootstrap.servers": "x", "topic": "t"}), schema)

    writer.abort([None], 7)

    assert "micro-batch 7 failed; at least 0 records stay" in caplog.text


def ids(messages: list[Message], batch: str = "5") -> list[bytes | None]:
    """The ids that a task gives them."""
    local = {"sql.streaming.queryId": "q", "streaming.sql.batchId": batch}
    named = RecordIds(SimpleNamespace(getLocalProperty=local.get, partitionId=lambda: 1)).add_to
    return [dict(named(message).headers)[HEADER] for message in messages]


def test_a_record_has_the_same_id_when_it_is_written_again():
    """In whatever order a repeated task has its rows, also rows that hold the same."""
    messages = [Message("t", b"%d" % (n % 3), b"v") for n in range(30)]
    again = Random(1).sample(messages, 30)

    assert len({*ids(messages)}) == 30
    assert sorted(ids(again)) == sorted(ids(messages))
    assert not {*ids(messages, "6")} & {*ids(messages)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Message("t", b"ab", b"c"), Message("t", b"a", b"bc")),
        (Message("t", None, b""), Message("t", b"", None)),
        (Message("t", None, b"v", 1), Message("t", None, b"v", None)),
        (
            Message("t", None, b"v", None, (("a", b""),)),
            Message("t", None, b"v", None, (("a", None),)),
        ),
    ],
)
def test_records_that_differ_have_ids_that_differ(one: Message, other: Message):
    """Wherever the difference lies."""
    assert ids([one]) != ids([other])


def test_ids_are_for_streams():
    """A batch has no number that stays when it runs again."""
    with pytest.raises(SparkSetupError, match="recordIds is for streams"):
        RecordIds(SimpleNamespace(getLocalProperty=lambda _: None, partitionId=lambda: 0))


def test_the_error_names_the_extra_where_the_package_is_missing():
    """At the import, which is the first thing a program does."""
    code = "import sys; sys.modules['confluent_kafka'] = None; import pyflinklike.kafka"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "SparkSetupError: pyflinklike.kafka needs confluent-kafka" in run.stderr
    assert "pip install '.[kafka]'" in run.stderr
