# SPDX-License-Identifier: Apache-2.0
"""Records that a topic no longer has: an error, or a warning where the program may go on."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from pyflinklike.errors import DataLossError
from pyflinklike.kafka.offsets import Offsets, Partition

__all__ = ["refuse_new_topics", "refuse_step_back", "report_gone", "report_loss"]

_LOG: Final = logging.getLogger("pyflinklike.kafka")


def report_loss(what: str, *, fail: bool) -> None:
    """Report that records cannot be read any more: raise, or log a warning.

    Args:
        what: The topic, partition and offsets, and the reason, as the end of a sentence.
        fail: The option `failOnDataLoss`.

    Raises:
        DataLossError: `fail` is set.
    """
    if fail:
        msg = (
            f"every record must be read once failOnDataLoss is true, which is the default; {what}; "
            "set failOnDataLoss to false to go on without what is gone"
        )
        raise DataLossError(msg)
    _LOG.warning("failOnDataLoss is false, so the query goes on although %s", what)


def refuse_new_topics(start: Offsets, topic_ids: Mapping[str, str]) -> None:
    """Check that a topic is still the one that the stream has read.

    Args:
        start: How far the stream has read.
        topic_ids: The ids of the topics that exist.

    Raises:
        DataLossError: A topic was deleted and made anew.
    """
    for topic, known in start.topic_ids.items():
        found = topic_ids.get(topic, known)
        if found != known:
            _refuse(f"topic {topic} was deleted and made anew: its id was {known} and is {found}")


def refuse_step_back(start: Mapping[Partition, int], latest: Mapping[Partition, int]) -> None:
    """Check that no partition ends before the offset up to which it was read.

    Raises:
        DataLossError: A partition does.
    """
    for (topic, partition), offset in start.items():
        end = latest.get((topic, partition), offset)
        if end < offset:
            _refuse(
                f"partition {partition} of topic {topic} was read up to offset {offset} and now "
                f"ends at {end}: it was made anew, or brokers lost its end"
            )


def report_gone(start: Iterable[Partition], present: Iterable[Partition], *, fail: bool) -> None:
    """Report partitions that were read and no longer exist, or are no longer asked for.

    Raises:
        DataLossError: There are such partitions, and `fail` is set.
    """
    gone = sorted(set(start) - set(present))
    if gone:
        names = ", ".join(f"{topic}/{partition}" for topic, partition in gone)
        report_loss(
            f"partitions {names} were read and are no longer there, or no longer subscribed to",
            fail=fail,
        )


def _refuse(what: str) -> NoReturn:
    msg = (
        f"offsets of a topic must go on from where they were; {what}; "
        "start with a new checkpoint, whatever failOnDataLoss says"
    )
    raise DataLossError(msg)
