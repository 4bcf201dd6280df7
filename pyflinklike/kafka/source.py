# SPDX-License-Identifier: Apache-2.0
"""The data source from which Spark makes readers and writers."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyflinklike.errors import DeclarationValueError
from pyflinklike.kafka.batch_reader import KafkaBatchReader
from pyflinklike.kafka.columns import spark_columns
from pyflinklike.kafka.options import reader_options, writer_options
from pyflinklike.kafka.stream_reader import stream_reader
from pyflinklike.kafka.writers import batch_writer, stream_writer
from pyflinklike.spark.setup.shipping import prepare_workers

__all__ = ["FORMAT", "KafkaDataSource", "register"]

FORMAT = "pyflinklike_kafka"
"""The argument of `format(...)`."""


class KafkaDataSource(DataSource):
    """Kafka's topics as DataFrames, streaming and batch, read and written; no jar is needed.

    Options and columns are those of Spark's own connector; `register` makes it known to a session.
    The reference lists the differences.
    """

    @classmethod
    def name(cls) -> str:
        """Return the argument of `format(...)`: "pyflinklike_kafka"."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of a reader: those of Spark's own Kafka connector.

        With `includeHeaders` there are also headers.
        """
        headers = self.options.get("includeHeaders", "false").lower() == "true"
        return spark_columns(headers=headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of a batch.

        Raises:
            DeclarationValueError: An option is wrong, or the columns were declared by the program.
        """
        options = reader_options(self.options, streaming=False)
        self._refuse_other(schema)
        return KafkaBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make the reader of a stream.

        Raises:
            DeclarationValueError: An option is wrong, or the columns were declared by the program.
            HostError: `maxOffsetsPerTrigger` is set and PySpark is older than 4.2.
        """
        options = reader_options(self.options, streaming=True)
        self._refuse_other(schema)
        return stream_reader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make the writer of a batch; records are only ever added to a topic.

        Raises:
            DeclarationValueError: An option or a column is wrong, or the mode is "overwrite".
        """
        return batch_writer(writer_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        """Make the writer of a stream; every output mode adds to the topic, as Spark's connector.

        Raises:
            DeclarationValueError: An option or a column is wrong.
        """
        return stream_writer(writer_options(self.options), schema)

    def _refuse_other(self, schema: StructType) -> None:
        if schema != self.schema():
            msg = (
                f"the columns of a topic are always the same, got schema({schema.simpleString()!r}); "
                "leave .schema() out, and cast or parse key and value afterwards"
            )
            raise DeclarationValueError(msg)


def register(spark: SparkSession) -> None:
    """Make `format("pyflinklike_kafka")` known to a session.

    Args:
        spark: The session, also one of Spark Connect.
    """
    prepare_workers(spark)  # which read it, and one on the driver plans
    spark.dataSource.register(KafkaDataSource)
