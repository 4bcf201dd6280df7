# SPDX-License-Identifier: Apache-2.0
"""The local Spark session of the examples."""

import os
import sys

from pyspark.sql import SparkSession


def local_session(name: str) -> SparkSession:
    """Start a Spark with two cores that only this machine can reach.

    Its Python workers run this interpreter.

    Args:
        name: The name of the application.
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
        # In a short run the JVM's optimizing compiler costs more than it saves.
        .config("spark.driver.defaultJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
