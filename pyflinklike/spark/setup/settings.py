# SPDX-License-Identifier: Apache-2.0
"""The Spark settings that a streaming query needs: they are set, or an error names them."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyflinklike.errors import HostError
from pyflinklike.spark.setup.checks import MAX_KEY_GROUPS

__all__ = ["default_max_parallelism", "partitions_of", "prepare_session", "time_zone_of"]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_DEFAULT = "HDFSBackedStateStoreProvider"
_MIN_KEY_GROUPS = 16
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def prepare_session(spark: SparkSession) -> None:
    """Have the session keep streaming state in RocksDB, which `transformWithState` demands.

    A setting at its default is changed; another choice of the user's is an error.

    Raises:
        HostError: The session keeps another state store provider.
    """
    provider = spark.conf.get(_PROVIDER, "") or ""
    if not provider.endswith("RocksDBStateStoreProvider"):
        if provider and not provider.endswith(_DEFAULT):
            msg = (
                f"keyed state on a stream needs {_PROVIDER} to be {_ROCKSDB}, got {provider!r}; "
                f'call spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")'
            )
            raise HostError(msg)
        _set(spark, _PROVIDER, _ROCKSDB)
    if spark.conf.get(_CHANGELOG, "false") != "true":
        _set(spark, _CHANGELOG, "true")


def partitions_of(spark: SparkSession) -> int:
    """The number of tasks after a shuffle; 1 if Spark is left to choose."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions") or ""
    return int(partitions) if partitions.isdigit() else 1


def default_max_parallelism(spark: SparkSession) -> int:
    """The number of key groups if the user gives none.

    Each key group that has data costs a micro-batch some round trips, so there should be few;
    and a multiple of the partitions, so that each gets as many as the others.
    """
    partitions = partitions_of(spark)
    per_partition = -(-_MIN_KEY_GROUPS // partitions)
    return min(partitions * per_partition, MAX_KEY_GROUPS)


def time_zone_of(spark: SparkSession) -> str:
    """The session's time zone."""
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"


def _set(spark: SparkSession, name: str, value: str) -> None:
    try:
        spark.conf.set(name, value)
    except PySparkException as error:
        msg = (
            f"keyed state on a stream needs {name} to be {value}, and this session does not let "
            f'us set it; start it with --conf "{name}={value}"'
        )
        raise HostError(msg) from error
