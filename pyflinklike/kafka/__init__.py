# SPDX-License-Identifier: Apache-2.0
"""Kafka as a Spark data source in Python, on confluent-kafka; needs the extra `kafka` and no jar.

    register(spark)
    spark.readStream.format("pyflinklike_kafka").option("subscribe", "clicks") ...

Options and columns are the same as in Spark's own Kafka connector.
"""

import importlib

from pyflinklike._checks import install
from pyflinklike._exports import export_public
from pyflinklike.errors import SparkSetupError


def _require(module: str, name: str) -> None:
    """Check that a package is installed, before the modules below import it."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        msg = (
            f"pyflinklike.kafka needs {name}, got {error}; "
            f"{install('kafka')} on the driver and wherever its workers run"
        )
        raise SparkSetupError(msg) from error


_require("confluent_kafka", "confluent-kafka")
_require("pyspark.sql.datasource", "PySpark 4.0 or newer")

from pyflinklike.kafka.data_source import KafkaDataSource, register  # noqa: E402
from pyflinklike.kafka.history import add_kafka  # noqa: E402
from pyflinklike.kafka.messages import drop_repeats  # noqa: E402

add_kafka()

__all__ = ["KafkaDataSource", "drop_repeats", "register"]

export_public(globals())
