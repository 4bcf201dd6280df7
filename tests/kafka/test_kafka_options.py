# SPDX-License-Identifier: Apache-2.0
"""Options: what is understood, what is refused and in which words, and what is never shown."""

from __future__ import annotations

import pytest

from pyflinklike.errors import DeclarationValueError
from pyflinklike.kafka.options import make_client, reader_options, writer_options

LEAST = {"kafka.bootstrap.servers": "here:9092", "subscribe": "clicks"}
SECRET = "hunter2hunter2"


def test_names_of_options_count_whatever_their_case():
    """Spark hands them over in lower case."""
    options = reader_options({**LEAST, "STARTINGOFFSETS": "Earliest"}, streaming=True)

    assert options.starting == "earliest"


@pytest.mark.parametrize(("streaming", "start"), [(True, "latest"), (False, "earliest")])
def test_the_default_start_is_that_of_sparks_connector(streaming: bool, start: str):
    """A stream starts with what is new, a batch with all."""
    assert reader_options(LEAST, streaming=streaming).starting == start


def test_offsets_are_read_as_spark_writes_them():
    """By topic and partition, -2 for the earliest and -1 for the latest."""
    value = '{"clicks": {"0": 23, "1": -2, "2": -1}}'

    options = reader_options({**LEAST, "startingOffsets": value}, streaming=True)

    assert options.starting == {("clicks", 0): 23, ("clicks", 1): -2, ("clicks", 2): -1}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "exactly one of the options subscribe"),
        ({"subscribe": " , "}, "must name topics"),
        ({"startingOffsets": "soon"}, "must be earliest, latest or JSON"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "must be earliest, latest or JSON"),
        ({"startingOffsets": '{"a": {"0": true}}'}, "must be earliest, latest or JSON"),
        ({"startingOffsets": "[1]"}, "must be earliest, latest or JSON"),
        ({"maxOffsetsPerTrigger": "0"}, "positive whole number"),
        ({"maxOffsetsPerTrigger": "1e3"}, "positive whole number"),
        ({"failOnDataLoss": "no"}, "must be true or false"),
        ({"endingOffsets": "latest"}, "for a batch only"),
        ({"minOffsetsPerTrigger": "5"}, "has no option minOffsetsPerTrigger"),
        ({"kafka.auto.offset.reset": "earliest"}, "use the option startingOffsets"),
        ({"kafka.sasl.jaas.config": SECRET}, "use kafka.sasl.username"),
        ({"kafka.ssl.truststore.location": "x.jks"}, "use kafka.ssl.ca.location"),
        ({"kafka.group.id": "g", "kafka.bootstrap.servers": ""}, "a broker must be named"),
        ({"kafka.default.api.timeout.ms": "soon"}, "positive whole number"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str], says: str):
    """By name, with what to do instead, and before a broker is asked."""
    with pytest.raises(DeclarationValueError, match=says) as refused:
        reader_options({**LEAST, **given}, streaming=True)

    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"endingOffsets": "earliest"}, "cannot end at the earliest"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "cannot end at the earliest"),
        ({"maxOffsetsPerTrigger": "5"}, "for a stream only"),
    ],
)
def test_a_batch_refuses_what_is_for_streams(given: dict[str, str], says: str):
    """And an end at its beginning."""
    with pytest.raises(DeclarationValueError, match=says):
        reader_options({**LEAST, **given}, streaming=False)


def test_a_broken_pattern_is_refused_at_once():
    """It is a regular expression of Python."""
    given = {"kafka.bootstrap.servers": "here:9092", "subscribePattern": "("}

    with pytest.raises(DeclarationValueError, match="regular expression"):
        reader_options(given, streaming=True)


def test_what_spark_adds_for_itself_is_no_mistake():
    """A sink is handed the place of the checkpoint as well."""
    given = {**LEAST, "checkpointlocation": "/tmp/x", "queryname": "q"}
    del given["subscribe"]

    assert writer_options(given).topic is None


def test_settings_do_not_show_in_a_repr():
    """They may hold secrets, and end up in logs."""
    options = reader_options({**LEAST, "kafka.sasl.password": SECRET}, streaming=True)

    assert options.settings["sasl.password"] == SECRET
    assert SECRET not in repr(options)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_ways_to_log_in_reach_the_client(mechanism: str):
    """Librdkafka checks that it was built with the mechanism, and that all it needs is there."""
    from confluent_kafka import Consumer

    login = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.username": "u",
        "kafka.sasl.password": SECRET,
    }
    options = reader_options({**LEAST, **login, "kafka.log_level": "0"}, streaming=True)

    make_client(Consumer, {**options.settings, "bootstrap.servers": "127.0.0.1:1"}).close()


@pytest.mark.parametrize(
    "given",
    [
        {"kafka.nonsense": "5"},
        {"kafka.ssl.key.pem": SECRET, "kafka.security.protocol": "ssl"},
        {"kafka.sasl.password": SECRET, "kafka.security.protocol": SECRET},
    ],
    ids=["unknown", "not a key", "a secret in the wrong place"],
)
def test_what_librdkafka_refuses_is_told_without_secrets(given: dict[str, str]):
    """Its own messages quote values."""
    from confluent_kafka import Consumer

    options = reader_options({**LEAST, **given}, streaming=True)

    with pytest.raises(DeclarationValueError, match=r"kafka\.\* option") as refused:
        make_client(Consumer, options.settings)

    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
