# SPDX-License-Identifier: Apache-2.0
"""Recorded queries, played to a listener at a pace of the test's choice, and scraped.

What the queries told is as Spark had it; only the time between two micro-batches, as Prometheus
sees it, is the test's.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)
from surroundings import REPOSITORY

from pyflinklike.monitoring import PrometheusListener

_RECORDED = REPOSITORY / "tests" / "monitoring" / "recorded"
_TRIGGERS = {"slow": 0.2, "healthy": 60.0}


class Pace(NamedTuple):
    """Seconds from a micro-batch to the next, and from a scrape to the next."""

    batch: int
    scrape: int


FAST = Pace(8 * 60, 60)
SLOW = Pace(5 * 3_600, 30 * 60)


SICK = {
    "grows": (SLOW, {"StateGrows"}),
    "cleans-nothing": (SLOW, {"StateGrows", "TtlCleansNothing"}),
    "stands-still": (FAST, {"WatermarkStandsStill"}),
    "skewed": (FAST, {"KeyGroupSkew"}),
    "cold": (FAST, {"ColdLoads"}),
    "dead-letters": (FAST, {"DeadLetters"}),
    "slow": (FAST, {"BatchLongerThanTrigger"}),
    "fails": (FAST, {"QueryFailed"}),
}
"""Recorded queries with one sickness each: at which pace it shows, and the alerts that must fire."""


def short(names: Iterable[str]) -> set[str]:
    """Names of alerts without what all begin with."""
    return {each.removeprefix("Pyflinklike") for each in names}


def recorded(name: str) -> list[dict[str, Any]]:
    """What a listener was told of a query."""
    lines = (_RECORDED / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(each) for each in lines]


def tell(listener: Any, told: dict[str, Any]) -> None:
    """Tell a listener of an event, as PySpark does."""
    ((what, event),) = told.items()
    if what == "started":
        listener.onQueryStarted(QueryStartedEvent.fromJson(event))
    elif what == "progress":
        progress = StreamingQueryProgress.fromJson(event)
        listener.onQueryProgress(QueryProgressEvent(progress))
    else:
        listener.onQueryTerminated(QueryTerminatedEvent.fromJson(event))


@functools.cache
def play(name: str, pace: Pace) -> dict[Any, list[tuple[float, float]]]:
    """Play a query; the series that scrapes gave.

    The end of a query is played only if it failed: the others go on.
    """
    registry = CollectorRegistry()
    listener = PrometheusListener(registry=registry, triggers=_TRIGGERS)
    series: dict[Any, list[tuple[float, float]]] = {}
    now = 0
    for told in recorded(name):
        if "terminated" in told and not told["terminated"]["exception"]:
            continue
        tell(listener, told)
        found = [sample for family in registry.collect() for sample in family.samples]
        for at in range(now, now + pace.batch, pace.scrape):
            for sample in found:
                key = sample.name, frozenset(sample.labels.items())
                series.setdefault(key, []).append((at, sample.value))
        now += pace.batch
    return series
