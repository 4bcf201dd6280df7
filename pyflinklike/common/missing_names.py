# SPDX-License-Identifier: Apache-2.0
"""Names of PyFlink that this library does not have, and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

__all__ = ["MISSING_MODULES", "refuse_names"]

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
"""Modules by their name below `pyflink`: why each is not there, and the remedy."""


def refuse_names(module: str, missing: Mapping[str, str]) -> Any:
    """Return a module's `__getattr__`, which says why a name of PyFlink is not there.

    Args:
        module: The name of the module.
        missing: The reason and the remedy for each name.
    """

    def refuse(name: str) -> NoReturn:
        if name in missing:
            msg = f"{module} has no {name}, which PyFlink has: {missing[name]}"
            raise ImportError(msg, name=module)
        msg = f"module {module!r} has no attribute {name!r}"
        raise AttributeError(msg)

    return refuse
