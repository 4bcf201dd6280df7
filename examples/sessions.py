# SPDX-License-Identifier: Apache-2.0
"""The Spark that the examples run on."""

import os
import sys

from pyspark.sql import SparkSession


def local_session(name: str) -> SparkSession:
    """A Spark with two cores of this machine, reachable from this machine only.

    Its Python workers run this interpreter.

    Args:
        name: Of the application.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2]")
        .appName(name)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
        .config("spark.log.level", "ERROR")
        # The JVM compiles less of what a short run does only a few times.
        .config("spark.driver.defaultJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
