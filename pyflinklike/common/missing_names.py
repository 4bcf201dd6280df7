# SPDX-License-Identifier: Apache-2.0
"""What PyFlink has and this library has not, and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

__all__ = ["MISSING_MODULES", "refusing"]

_CONNECTOR = "it is a connector in Java: read or write with Spark's, and mix by DataFrames"
_TABLE = "the Table API is not there: use Spark SQL and DataFrames"
_FORMAT = "Spark reads and writes this format: spark.read, DataFrame.write"

MISSING_MODULES: Mapping[str, str] = {
    "table": _TABLE,
    **{f"datastream.formats.{name}": _FORMAT for name in ("orc", "parquet")},
    "datastream.formats.avro": "use fastavro in a SerializationSchema or DeserializationSchema of your own",
    "datastream.utils": "it is inside PyFlink",
    "java_gateway": "there is no Java gateway: Spark's session has one",
    "pyflink_gateway_server": "there is no Java gateway: Spark's session has one",
    "fn_execution": "it is inside PyFlink",
    "serializers": "it is inside PyFlink",
    "util": "it is inside PyFlink",
    **{
        f"datastream.connectors.{name}": _CONNECTOR
        for name in (
            "cassandra",
            "dynamic_kafka",
            "elasticsearch",
            "hybrid_source",
            "jdbc",
            "kinesis",
            "pulsar",
            "rabbitmq",
        )
    },
}
"""By the name below `pyflink`: why it is not there, and the remedy."""


def refusing(module: str, missing: Mapping[str, str]) -> Any:
    """A module's `__getattr__` that says of a name of PyFlink's why it is not there.

    Args:
        module: Its name.
        missing: Names, each with the reason and the remedy.
    """

    def refuse(name: str) -> NoReturn:
        if name in missing:
            msg = f"{module} has no {name}, which PyFlink has: {missing[name]}"
            raise ImportError(msg, name=module)
        msg = f"module {module!r} has no attribute {name!r}"
        raise AttributeError(msg)

    return refuse
