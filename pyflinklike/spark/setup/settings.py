# SPDX-License-Identifier: Apache-2.0
"""The Spark settings that a streaming query needs: they are set, or an error names them."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyflinklike.errors import HostError
from pyflinklike.spark.setup.checks import MAX_KEY_GROUPS

__all__ = [
    "check_file_manager",
    "check_watermark_policy",
    "max_parallelism_for",
    "partitions_of",
    "partitions_told",
    "prepare_session",
    "time_zone_of",
]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_DEFAULT = "HDFSBackedStateStoreProvider"
_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_MIN_KEY_GROUPS = 16
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_NOT_REPLACING = "FileSystemBasedCheckpointFileManager"


def prepare_session(spark: SparkSession) -> None:
    """Have the session keep streaming state in RocksDB, which `transformWithState` demands.

    A setting at its default is changed; another choice of the user's is an error.  A session that
    does not show a setting is trusted with it: Spark itself refuses another provider, when the
    stream starts.

    Raises:
        HostError: The session keeps another state store provider, or does not let us set what is
            needed; the message then has all of it.  Or its checkpoints do not replace files.
    """
    check_file_manager(spark)
    provider = _shown(spark, _PROVIDER) or ""
    chosen = provider and not provider.endswith((_DEFAULT, "RocksDBStateStoreProvider"))
    if chosen:
        msg = (
            f"keyed state on a stream needs {_PROVIDER} to be {_ROCKSDB}, got {provider!r}; "
            f'call spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")'
        )
        raise HostError(msg)
    refused = {}
    if not provider.endswith("RocksDBStateStoreProvider"):
        refused.update(_refused(spark, _PROVIDER, _ROCKSDB))
    if _shown(spark, _CHANGELOG) != "true":
        refused.update(_refused(spark, _CHANGELOG, "true"))
    if refused:
        needed = " and ".join(f"{name} to be {value}" for name, value in refused.items())
        flags = " ".join(f'--conf "{name}={value}"' for name, value in refused.items())
        msg = (
            f"keyed state on a stream needs {needed}, and this session does not let us set that; "
            f"start its cluster, or the server of Spark Connect, with {flags}"
        )
        raise HostError(msg)


def check_file_manager(spark: SparkSession) -> None:
    """See that the files of a checkpoint are replaced by a micro-batch that is done again.

    One manager's rename says false where the file is there, and Spark takes that for success: the
    state of the second attempt then stays in memory alone, and the next micro-batch is added to what
    the first one left.

    Raises:
        HostError: The session has that manager.
    """
    manager = _shown(spark, _MANAGER) or ""
    if manager.endswith(_NOT_REPLACING):
        msg = (
            "keyed state on a stream needs checkpoint files that are replaced when a micro-batch is "
            f"done again, got {_MANAGER}={manager}, which leaves the former ones and breaks the "
            f'checkpoint at the second restart; call spark.conf.unset("{_MANAGER}")'
        )
        raise HostError(msg)


def check_watermark_policy(spark: SparkSession) -> None:
    """See that the watermark of a query is the smallest one of its inputs'.

    Raises:
        HostError: The session takes the greatest one.
    """
    policy = _shown(spark, _POLICY) or "min"
    if policy.lower() != "min":
        msg = (
            f"two inputs with event time need {_POLICY} to be min, got {policy!r}, with which "
            "timers would fire before the slower input has come to their time; call "
            f'spark.conf.set("{_POLICY}", "min")'
        )
        raise HostError(msg)


def partitions_of(spark: SparkSession) -> int:
    """The number of tasks after a shuffle; 1 if Spark is left to choose."""
    return partitions_told(spark) or 1


def partitions_told(spark: SparkSession) -> int | None:
    """The number of tasks after a shuffle, or None where the session does not tell."""
    try:
        partitions = spark.conf.get("spark.sql.shuffle.partitions") or ""
    except PySparkException:
        return None  # serverless platforms choose, and some do not tell
    return int(partitions) if partitions.isdigit() else None


def max_parallelism_for(partitions: int) -> int:
    """The number of key groups if the user gives none, for a number of tasks.

    Each key group that has data costs a micro-batch some round trips, so there should be few;
    and a multiple of the partitions, so that each gets as many as the others.
    """
    per_partition = -(-_MIN_KEY_GROUPS // partitions)
    return min(partitions * per_partition, MAX_KEY_GROUPS)


def time_zone_of(spark: SparkSession) -> str:
    """The session's time zone."""
    try:
        zone = spark.conf.get("spark.sql.session.timeZone")
    except PySparkException:  # a setting that the session does not show
        zone = spark.sql("SELECT current_timezone()").collect()[0][0]
    return zone or "UTC"


def _shown(spark: SparkSession, name: str) -> str | None:
    """A setting; "" where it has its default, None where the session does not show it."""
    try:
        return spark.conf.get(name, "")
    except PySparkException:
        return None


def _refused(spark: SparkSession, name: str, value: str) -> dict[str, str]:
    """Set it; the setting itself where it is known to be another and the session refuses."""
    try:
        spark.conf.set(name, value)
    except PySparkException:
        return {} if _shown(spark, name) is None else {name: value}
    return {}
