# SPDX-License-Identifier: Apache-2.0
"""Orders enriched with prices from a service, with many requests at a time.

    python examples/enrich_orders.py local 500
    python examples/enrich_orders.py spark 500

runs a job of PyFlink's DataStream API with an asynchronous function.  The service is a small server
in this process.  It answers after 20 ms, and is sometimes busy, so the job retries.  At the end the
program compares the amounts that customers owe with a plain loop, and prints how long the job took
and how long the requests would take one by one.

On Spark it needs Java 17 and `pip install '.[spark]'`.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from pyflinklike.pyflink.common import Configuration, Time, Types
from pyflinklike.pyflink.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    StreamExecutionEnvironment,
)
from pyflinklike.pyflink.datastream.async_retry_predicates import has_exception_predicate

ORDER = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
OWED = Types.TUPLE([Types.STRING(), Types.LONG()])
PRICES = {"tea": 3, "coffee": 4, "cake": 6}
SECONDS = 0.02
BUSY_EVERY = 10

Order = tuple[str, str, int]
"""A customer, an article, and a quantity."""


class Price(AsyncFunction):
    """Asks the service for the price of an order's article.

    Args:
        port: The port of the service on this machine.
    """

    def __init__(self, port: int) -> None:
        self.port = port

    async def async_invoke(self, value: Order) -> list[tuple[str, int]]:
        customer, article, count = value
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"{article}\n".encode())
            answer = (await reader.readline()).decode().strip()
        finally:
            writer.close()
        if answer == "busy":
            raise ConnectionError(answer)
        return [(customer, count * int(answer))]


@contextmanager
def service() -> Iterator[int]:
    """Run the service in its own thread, and give its port."""
    loop, asked = asyncio.new_event_loop(), 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        is_busy = asked % BUSY_EVERY == 0
        article = (await reader.readline()).decode().strip()
        await asyncio.sleep(SECONDS)
        writer.write(b"busy\n" if is_busy else f"{PRICES[article]}\n".encode())
        await writer.drain()
        writer.close()

    server = loop.run_until_complete(asyncio.start_server(answer, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def made(count: int, seed: int = 7) -> list[Order]:
    """Return random orders of ten customers."""
    random = Random(seed)  # noqa: S311 - not for secrets
    articles = sorted(PRICES)
    return [
        (f"c{random.randrange(10)}", random.choice(articles), random.randint(1, 5))
        for _ in range(count)
    ]


def owed(orders: list[Order], port: int, target: str) -> dict[str, int]:
    """Return the amount that each customer owes, computed by a job.

    Args:
        orders: The orders, in any sequence.
        port: The port of the service.
        target: "local" or "spark".
    """
    settings = {"execution.target": target, "execution.runtime-mode": "BATCH"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    again = AsyncRetryStrategy.fixed_delay(5, 10, exception_predicate=has_exception_predicate)
    priced = AsyncDataStream.unordered_wait_with_retry(
        env.from_collection(orders, ORDER), Price(port), Time.seconds(30), again, 50, OWED
    )
    return dict(priced.key_by(lambda pair: pair[0], Types.STRING()).sum(1).execute_and_collect())


def owed_by_a_loop(orders: list[Order]) -> dict[str, int]:
    """Return the same amounts, computed without the service."""
    found: dict[str, int] = {}
    for customer, article, count in orders:
        found[customer] = found.get(customer, 0) + count * PRICES[article]
    return found


def main(target: str, count: int) -> None:
    """Run the job, and print its results."""
    if target == "spark":
        from sessions import local_session

        local_session("enrich-orders")
    orders = made(count)
    with service() as port:
        began = time.monotonic()
        found = owed(orders, port, target)
        took = time.monotonic() - began
    for customer, total in sorted(found.items()):
        print(customer, total)
    print(f"{took:.1f} s; one request after the other would take {count * SECONDS:.1f} s")
    if found != owed_by_a_loop(orders):
        sys.exit("the job and the loop differ")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
