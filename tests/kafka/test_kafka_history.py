# SPDX-License-Identifier: Apache-2.0
"""Topics as history: where a batch ends, and where a stream begins."""

from __future__ import annotations

import json

import pytest
from kafka_support import Brokers, new_topic

from pyflinklike.errors import DeclarationValueError
from pyflinklike.kafka.data_source import KafkaBatchReader, _Progress
from pyflinklike.kafka.history import KafkaHistory
from pyflinklike.kafka.options import reader_options


def write(brokers: Brokers, topic: str, *values: str) -> None:
    """Append values, dealt to two partitions."""
    for at, value in enumerate(values):
        brokers.write(topic, [(None, value.encode())], partition=at % 2)


def values_of(options: dict[str, str]) -> list[str]:
    """What a batch of these options reads."""
    reader = KafkaBatchReader(reader_options(options, streaming=False))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return sorted(
        value.decode() for batch in batches for value in batch.column("value").to_pylist()
    )


def begin_of(options: dict[str, str]) -> dict[int, int]:
    """Where a stream of these options starts, by partition."""
    first = _Progress(reader_options(options, streaming=True)).first()
    return {number: offset for (_, number), offset in first.at.items() if offset}


def test_a_batch_ends_where_the_topic_ended_and_the_stream_begins_there(brokers):
    """Whatever comes while the batch reads is the stream's."""
    topic = new_topic()
    write(brokers, topic, "a", "b", "c")
    options = {**brokers.options, "subscribe": topic, "maxOffsetsPerTrigger": "5"}
    kind = KafkaHistory(is_own=True)

    what, pinned, position = kind.pin(options)
    write(brokers, topic, "later", "later")
    stream = kind.go_on(options, json.loads(json.dumps(position)))

    assert f"subscribe {topic}" == what
    assert ["a", "b", "c"] == values_of(pinned)
    assert {0: 2, 1: 1} == begin_of(stream)
    assert "5" == stream["maxOffsetsPerTrigger"]


@pytest.mark.parametrize("is_own", [False, True])
def test_offsets_of_the_user_are_the_end(brokers, is_own):
    """Spark's connector needs no client then."""
    topic = new_topic()
    write(brokers, topic, "a", "b", "c")
    ends = json.dumps({topic: {"0": 1, "1": 1, "2": 0, "3": 0}})
    options = {**brokers.options, "subscribe": topic, "endingOffsets": ends}
    kind = KafkaHistory(is_own=is_own)

    _, pinned, position = kind.pin(options)

    assert ["a", "b"] == values_of(pinned)
    assert {"offset": ends} == position
    assert {0: 1, 1: 1} == begin_of(kind.go_on(options, position))


def test_a_partition_that_came_since_is_read_from_its_beginning(brokers):
    """It has no record that the batch has read."""
    topic = new_topic()
    write(brokers, topic, "a", "b")
    options = {**brokers.options, "subscribe": topic}
    position = {"offset": json.dumps({topic: {"0": 1}})}

    stream = KafkaHistory(is_own=True).go_on(options, position)

    assert {"0": 1, "1": -2, "2": -2, "3": -2} == json.loads(stream["startingOffsets"])[topic]


@pytest.mark.parametrize("text", ["{", '{"t": 1}'])
def test_ends_of_another_form_are_refused(brokers, text):
    """With the form that they have."""
    options = {**brokers.options, "subscribe": "t", "endingOffsets": text}

    with pytest.raises(DeclarationValueError, match="endingOffsets must be like"):
        KafkaHistory(is_own=False).pin(options)
