# SPDX-License-Identifier: Apache-2.0
"""What jobs ask of the session that runs them, and how its errors are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from pyflinklike.backends.base import StateBackend
from pyflinklike.backends.heap.backend import HashMapStateBackend
from pyflinklike.graph.job import Job, JobSettings
from pyflinklike.spark.failures import error_of
from pyflinklike.spark.jobs.steps import SessionFacts
from pyflinklike.spark.setup.checks import checked_backend
from pyflinklike.spark.setup.requirements import packages_checked
from pyflinklike.spark.setup.settings import (
    max_parallelism_for,
    partitions_of,
    time_zone_of,
)

__all__ = ["backend_of", "facts_of", "told_as_ours", "with_partitions"]

_PARTITIONS = "spark.sql.shuffle.partitions"


def facts_of(spark: SparkSession, settings: JobSettings) -> SessionFacts:
    """What a job must know of a session: the parallelism is that of the job, if it asks for one.

    Args:
        spark: Which one.
        settings: Of the job.
    """
    partitions = settings.parallelism or partitions_of(spark)
    return SessionFacts(partitions, max_parallelism_for(partitions), time_zone_of(spark))


@contextmanager
def with_partitions(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Within it, queries that start have so many tasks behind a shuffle.

    Args:
        spark: Their session.
        partitions: How many.
    """
    former = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, str(partitions))
    try:
        yield
    finally:
        spark.conf.set(_PARTITIONS, former or "")


def backend_of(job: Job) -> StateBackend:
    """Where a job keeps working state.

    Args:
        job: Which one.
    """
    return checked_backend(job.settings.state_backend or HashMapStateBackend())


@contextmanager
def told_as_ours() -> Iterator[None]:
    """Raise the error of a worker for the failure of Spark that tells of it."""
    try:
        with packages_checked():
            yield
    except Exception as failure:
        told = error_of(failure)
        if told is None or told is failure:
            raise
        raise told from failure
