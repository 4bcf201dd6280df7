# SPDX-License-Identifier: Apache-2.0
"""Reading from librdkafka's mock cluster: every record once, and a word where one is gone."""

from __future__ import annotations

import datetime
from itertools import chain
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka_support import Brokers

from pyflinklike.errors import BrokerError, CorruptStateError, DataLossError, DeclarationValueError
from pyflinklike.kafka import data_source
from pyflinklike.kafka.data_source import KafkaBatchReader
from pyflinklike.kafka.fetch import fetch
from pyflinklike.kafka.offsets import OffsetRange
from pyflinklike.kafka.options import reader_options

KEPT = 5 * 1024 * 1024

limits = pytest.mark.skipif(not data_source.HAS_LIMITS, reason="limits need PySpark 4.2")


def values(records: list[dict[str, Any]]) -> set[bytes]:
    """The values of records, each of which must be there once."""
    found = [record["value"] for record in records]
    assert len(found) == len(set(found))
    return set(found)


def streaming(brokers: Brokers, **options: str) -> Any:
    """A stream's reader, as Spark's driver has it."""
    given = {**brokers.options, "startingOffsets": "earliest", **options}
    return data_source.stream_reader(reader_options(given, streaming=True))


def latest(reader: Any, start: dict[str, Any]) -> dict[str, Any]:
    """What this PySpark is told."""
    if not data_source.HAS_LIMITS:
        return reader.latestOffset()
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def steps(reader: Any, start: dict[str, Any]) -> list[list[bytes]]:
    """The values of all micro-batches from there on, until there is no more."""
    found = []
    while (end := latest(reader, start)) != start:
        parts = reader.partitions(start, end)
        records = [
            row for part in parts for batch in reader.read(part) for row in batch.to_pylist()
        ]
        found.append([row["value"] for row in records])
        start = end
    return found


def test_a_record_comes_with_all_its_columns(brokers: Brokers, topic: str):
    """Those of Spark's own connector."""
    before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=1)
    brokers.write(topic, [(b"k", b"v")], partition=2, headers=[("h", b"1"), ("h", None)])

    (record,) = brokers.read(topic)

    assert before < record.pop("timestamp") < before + datetime.timedelta(minutes=1)
    assert record == {
        "key": b"k",
        "value": b"v",
        "topic": topic,
        "partition": 2,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    }


def test_nothing_and_something_empty_are_told_apart(brokers: Brokers, topic: str):
    """Of keys, values and headers."""
    brokers.write(topic, [(None, None), (b"", b"")], partition=0)

    nothing, empty = brokers.read(topic)

    assert (nothing["key"], nothing["value"], nothing["headers"]) == (None, None, None)
    assert (empty["key"], empty["value"]) == (b"", b"")


def test_all_records_are_read_however_they_are_split(brokers: Brokers, topic: str):
    """Into more tasks than partitions."""
    brokers.write(
        topic, [(b"%d" % n, b"v%d" % n) for n in range(3_000)], **{"batch.num.messages": 100}
    )

    assert values(brokers.read(topic, minPartitions="11")) == {b"v%d" % n for n in range(3_000)}


def test_big_records_come_in_batches_that_fit(brokers: Brokers, topic: str):
    """Some 16 MiB at most, beside the record that made it full."""
    big = {"message.max.bytes": 4_000_000}
    brokers.write(topic, [(None, bytes([n]) * 900_000) for n in range(5)], partition=1, **big)
    options = reader_options(
        {**brokers.options, "subscribe": topic, "kafka.fetch.message.max.bytes": "4000000"},
        streaming=False,
    )

    rows = [
        row for batch in fetch(OffsetRange(topic, 1, 0, 5), options) for row in batch.to_pylist()
    ]

    assert [row["value"][:1] for row in rows] == [bytes([n]) for n in range(5)]


def test_a_batch_reads_between_its_bounds(brokers: Brokers, topic: str):
    """From the first to before the last, of the partitions that are assigned."""
    brokers.write(topic, [(None, b"%d" % n) for n in range(10)], partition=0)

    found = KafkaBatchReader(
        reader_options(
            {
                **brokers.options,
                "assign": f'{{"{topic}": [0, 1]}}',
                "startingOffsets": f'{{"{topic}": {{"0": 3, "1": -2}}}}',
                "endingOffsets": f'{{"{topic}": {{"0": 7, "1": -1}}}}',
            },
            streaming=False,
        )
    ).partitions()

    assert found == [OffsetRange(topic, 0, 3, 7)]


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ({"startingOffsets": '{"%s": {"0": 0}}'}, "an offset for each partition"),
        ({"startingOffsets": '{"%s": {"0": 99, "1": 0, "2": 0, "3": 0}}'}, "which ends at 2"),
        ({"endingOffsets": '{"%s": {"0": 3, "1": 0, "2": 0, "3": 0}}'}, "which ends at 2"),
        (
            {
                "startingOffsets": '{"%s": {"0": 2, "1": 0, "2": 0, "3": 0}}',
                "endingOffsets": '{"%s": {"0": 1, "1": 0, "2": 0, "3": 0}}',
            },
            "must not lie before",
        ),
    ],
)
def test_bounds_that_do_not_fit_the_topic_are_refused(
    brokers: Brokers, topic: str, bounds: dict[str, str], says: str
):
    """Rather than fewer records read than were meant."""
    brokers.write(topic, [(None, b"1"), (None, b"2")], partition=0)

    with pytest.raises(DeclarationValueError, match=says):
        brokers.read(topic, **{name: value % topic for name, value in bounds.items()})


@limits
def test_a_stream_reads_all_within_its_limit(brokers: Brokers, topic: str):
    """In as many micro-batches as it takes, and then says that there is no more."""
    brokers.write(topic, [(b"%d" % n, b"v%d" % n) for n in range(250)])
    reader = streaming(brokers, subscribe=topic, maxOffsetsPerTrigger="100")

    batches = steps(reader, reader.initialOffset())

    assert [len(batch) for batch in batches] == [100, 100, 50]
    assert sorted(chain.from_iterable(batches)) == sorted(b"v%d" % n for n in range(250))


@limits
def test_progress_tells_how_much_is_left(brokers: Brokers, topic: str):
    """The latest offsets, beside those that the limit allows."""
    brokers.write(topic, [(None, b"v")] * 9, partition=0)
    reader = streaming(brokers, subscribe=topic, maxOffsetsPerTrigger="4")

    taken = latest(reader, reader.initialOffset())

    assert taken["offsets"][topic]["0"] == 4
    assert reader.reportLatestOffset()["offsets"][topic]["0"] == 9


@limits
def test_available_now_stops_where_it_began(brokers: Brokers, topic: str):
    """Records that come later are for the next run."""
    brokers.write(topic, [(None, b"old%d" % n) for n in range(30)], partition=0)
    reader = streaming(brokers, subscribePattern=f"{topic}.*", maxOffsetsPerTrigger="20")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    brokers.write(topic, [(None, b"new")], partition=0)
    brokers.write(f"{topic}-too", [(None, b"new as well")], partition=0)

    batches = steps(reader, start)

    assert batches == [[b"old%d" % n for n in range(20)], [b"old%d" % n for n in range(20, 30)]]


def test_topics_that_come_later_are_read_from_their_beginning(brokers: Brokers, topic: str):
    """If they fit the pattern, and wherever the query itself has started."""
    brokers.write(f"{topic}a", [(None, b"1")])
    reader = streaming(brokers, subscribePattern=f"{topic}.", startingOffsets="latest")
    start = reader.initialOffset()
    brokers.write(f"{topic}b", [(b"k", b"2"), (b"k", b"3")])

    assert steps(reader, start) == [[b"2", b"3"]]


def read_up(brokers: Brokers, topic: str) -> dict[str, Any]:
    """Where a query stands that has read a topic with one record."""
    brokers.write(topic, [(None, b"v")], partition=0)
    reader = streaming(brokers, subscribe=topic)
    return latest(reader, reader.initialOffset())


@pytest.mark.parametrize("others", [1, 2], ids=["another topic", "one fewer"])
@pytest.mark.restarts("source of a DataFrame: a Kafka topic left out", "refused")
def test_a_restart_may_not_leave_a_topic_out(brokers: Brokers, topic: str, others: int):
    """Offsets of the new one say nothing of it: the error names what was read."""
    start = read_up(brokers, topic)
    read_up(brokers, f"{topic}-new")
    if others > 1:
        start["offsets"][f"{topic}-new"] = {"0": 1}
    reader = streaming(brokers, subscribe=f"{topic}-new")

    with pytest.raises(DataLossError, match=f"{topic}/0, .* were read and are .* subscribed to"):
        reader.partitions(start, latest(reader, start))


@pytest.mark.restarts(
    "source of a DataFrame: a Kafka topic left out, with failOnDataLoss false",
    "goes on",
)
def test_a_restart_may_leave_a_topic_out_where_loss_may_be(
    brokers: Brokers, topic: str, caplog: pytest.LogCaptureFixture
):
    """The new one is read from its beginning, and a word says what is left out."""
    start = read_up(brokers, topic)
    read_up(brokers, f"{topic}-new")
    reader = streaming(brokers, subscribe=f"{topic}-new", failOnDataLoss="false")

    assert steps(reader, start) == [[b"v"]]
    assert f"{topic}/0" in caplog.text


@pytest.mark.restarts("source of a DataFrame: one more Kafka topic", "goes on")
def test_a_restart_may_read_one_more_topic(brokers: Brokers, topic: str):
    """From its beginning, whatever `startingOffsets` says; the others go on."""
    start = read_up(brokers, topic)
    brokers.write(f"{topic}-new", [(None, b"new")], partition=0)
    reader = streaming(brokers, subscribe=f"{topic},{topic}-new", startingOffsets="latest")

    assert steps(reader, start) == [[b"new"]]


@pytest.mark.restarts("source of a DataFrame: `pyflinklike_kafka` for another source", "refused")
def test_a_restart_may_not_read_a_topic_for_files(brokers: Brokers, topic: str):
    """Spark hands over the offset that its own source of files has written."""
    read_up(brokers, topic)
    reader = streaming(brokers, subscribe=topic)

    with pytest.raises(CorruptStateError, match=r"logOffset.*another source wrote them"):
        reader.partitions({"logOffset": 0}, latest(reader, {"logOffset": 0}))


def test_a_restart_reads_the_batch_that_was_planned(brokers: Brokers, topic: str):
    """Between the very offsets of the checkpoint, by a reader that has never seen them."""
    brokers.write(topic, [(None, b"%d" % n) for n in range(9)], partition=3)
    first = streaming(brokers, subscribe=topic)
    start = first.initialOffset()
    end = latest(first, start)
    brokers.write(topic, [(None, b"later")], partition=3)

    again = streaming(brokers, subscribe=topic, startingOffsets="latest")

    assert again.partitions(start, end) == [OffsetRange(topic, 3, 0, 9)]


@pytest.fixture
def expired(brokers: Brokers, topic: str) -> str:
    """A topic whose partition 0 has lost its beginning: the mock cluster keeps 5 MB."""
    record = b"x" * 10_000
    brokers.write(topic, [(None, record) for _ in range(KEPT // 10_000 + 100)], partition=0)
    return topic


def test_expired_records_stop_a_query(brokers: Brokers, expired: str):
    """The message names what is gone, and what to set."""
    options = reader_options({**brokers.options, "subscribe": expired}, streaming=True)

    with pytest.raises(
        DataLossError, match=r"offsets 0 to .* are gone.*set failOnDataLoss to false"
    ):
        list(fetch(OffsetRange(expired, 0, 0, 600), options))


def test_a_query_may_go_on_without_expired_records(
    brokers: Brokers, expired: str, caplog: pytest.LogCaptureFixture
):
    """It says so, and reads every record that is still there."""
    given = {**brokers.options, "subscribe": expired, "failOnDataLoss": "false"}
    options = reader_options(given, streaming=True)

    offsets = [
        offset
        for batch in fetch(OffsetRange(expired, 0, 0, 600), options)
        for offset in batch["offset"].to_pylist()
    ]

    assert offsets == list(range(offsets[0], 600))
    assert f"offsets 0 to {offsets[0] - 1} of partition 0" in caplog.text


def test_a_range_that_has_expired_as_a_whole_is_passed_over_with_a_word(
    brokers: Brokers, expired: str, caplog: pytest.LogCaptureFixture
):
    """And does not wait for records that will never come."""
    given = {**brokers.options, "subscribe": expired, "failOnDataLoss": "false"}

    assert list(fetch(OffsetRange(expired, 0, 0, 5), reader_options(given, streaming=True))) == []
    assert "offsets 0 to 4 of partition 0" in caplog.text


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_partition_that_ends_before_its_start_is_refused(
    brokers: Brokers, topic: str, fail: str, monkeypatch: pytest.MonkeyPatch
):
    """It was made anew: what it has now was never read, whatever failOnDataLoss says."""
    monkeypatch.setattr(data_source, "_STEP_BACK_WAITS", (0,))
    brokers.write(topic, [(None, b"new")], partition=0)
    reader = streaming(brokers, subscribe=topic, failOnDataLoss=fail)
    start = {"offsets": {topic: {"0": 500, "1": 0, "2": 0, "3": 0}}, "topic_ids": {}}

    with pytest.raises(DataLossError, match="read up to offset 500 and now ends at 1"):
        reader.partitions(start, latest(reader, start))


@limits
def test_a_step_back_is_refused_before_it_is_noted(
    brokers: Brokers, topic: str, monkeypatch: pytest.MonkeyPatch
):
    """Spark writes the end of a micro-batch into the checkpoint before it asks for its parts."""
    monkeypatch.setattr(data_source, "_STEP_BACK_WAITS", (0,))
    brokers.write(topic, [(None, b"new")], partition=0)
    start = {"offsets": {topic: {"0": 500, "1": 0, "2": 0, "3": 0}}, "topic_ids": {}}
    reader = streaming(brokers, subscribe=topic)

    with pytest.raises(DataLossError, match="read up to offset 500 and now ends at 1"):
        reader.latestOffset(start, reader.getDefaultReadLimit())


@limits
def test_the_id_of_a_topic_is_kept_while_none_is_told(brokers: Brokers, topic: str):
    """As by brokers that have no controller for a moment."""
    brokers.write(topic, [(None, b"v")], partition=0)
    reader = streaming(brokers, subscribe=topic)
    start = {**reader.initialOffset(), "topic_ids": {topic: "known"}}

    assert reader.latestOffset(start, reader.getDefaultReadLimit())["topic_ids"] == {topic: "known"}


def test_a_reader_that_is_not_told_its_start_compares_it_later(brokers: Brokers, topic: str):
    """Before PySpark 4.2 a restarted query asks for the latest offset without saying where it is."""
    brokers.write(topic, [(None, b"v")], partition=0)
    given = {**brokers.options, "subscribe": topic}
    reader = data_source.KafkaStreamReader(reader_options(given, streaming=True))
    end = reader.latestOffset()

    with pytest.raises(DataLossError, match=f"{topic}/9 were read and are no longer there"):
        reader.partitions({"offsets": {topic: {"0": 0, "9": 5}}, "topic_ids": {}}, end)


@pytest.mark.parametrize(("start", "end"), [(5, 9), (0, 9)], ids=["start", "end"])
def test_a_range_beyond_the_end_is_refused(brokers: Brokers, topic: str, start: int, end: int):
    """A planned micro-batch whose records the brokers have lost."""
    brokers.write(topic, [(None, b"only")], partition=0)
    given = {
        **brokers.options,
        "subscribe": topic,
        "failOnDataLoss": "false",
        "kafkaConsumer.pollTimeoutMs": "700",
    }

    with pytest.raises(DataLossError, match="made anew nor cut off at its end"):
        list(fetch(OffsetRange(topic, 0, start, end), reader_options(given, streaming=True)))


def test_a_topic_that_is_not_there_is_named(brokers: Brokers):
    """Before anything is read."""
    with pytest.raises(
        BrokerError, match="must have all topics of the subscription, got no nowhere"
    ):
        brokers.read("nowhere")


def test_brokers_that_are_away_are_named_in_time():
    """With what to look at, and without the time-outs of librdkafka's own."""
    away = Brokers("127.0.0.1:1")

    with pytest.raises(BrokerError, match=r"within 300 ms .* from 127\.0\.0\.1:1") as refused:
        away.read("t", **{"kafka.default.api.timeout.ms": "300", "kafka.sasl.password": "hunter2"})

    assert "hunter2" not in str(refused.value)


def test_a_task_gives_up_when_nothing_comes():
    """After the time that Spark's own connector has a name for."""
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
    options = reader_options({**given, "kafkaConsumer.pollTimeoutMs": "300"}, streaming=True)

    with pytest.raises(
        BrokerError, match=r"waited 300 ms .kafkaConsumer.pollTimeoutMs. from offset 4"
    ):
        list(fetch(OffsetRange("t", 0, 4, 9), options))


@pytest.mark.parametrize(("time", "is_there"), [(2**63 // 1000 - 1, True), (2**63 // 1000, False)])
def test_a_time_that_spark_has_not_is_none(brokers, topic, time, is_there):
    """A producer may write any number, and one record must not stop the query for ever."""
    producer = Producer({"bootstrap.servers": brokers.servers})
    producer.produce(topic, b"v", partition=0, timestamp=time)
    producer.flush(20)
    options = reader_options({**brokers.options, "subscribe": topic}, streaming=False)

    (batch,) = fetch(OffsetRange(topic, 0, 0, 1), options)

    found = batch.column("timestamp").cast("int64").to_pylist()
    assert ([b"v"], [1000 * time if is_there else None]) == (
        batch.column("value").to_pylist(),
        found,
    )
