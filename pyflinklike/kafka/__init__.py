# SPDX-License-Identifier: Apache-2.0
"""Kafka as a Spark data source in Python, on confluent-kafka; needs the extra `kafka` and no jar.

    register(spark)
    spark.readStream.format("pyflinklike_kafka").option("subscribe", "clicks") ...

Options and columns are the same as in Spark's own Kafka connector.
"""

from pyflinklike._exports import export_public
from pyflinklike.kafka.packages import require_packages

require_packages()

# These modules import the packages that were just checked.
from pyflinklike.kafka.data_source import KafkaDataSource, register  # noqa: E402
from pyflinklike.kafka.history import add_kafka  # noqa: E402
from pyflinklike.kafka.repeats import drop_repeats  # noqa: E402

add_kafka()

__all__ = ["KafkaDataSource", "drop_repeats", "register"]

export_public(globals())
