# SPDX-License-Identifier: Apache-2.0
"""The optional packages that the Kafka data source needs, checked before anything else."""

from __future__ import annotations

import importlib

from pyflinklike._checks import install
from pyflinklike.errors import SparkSetupError

__all__ = ["require_packages"]

_NEEDED = {
    "confluent_kafka": "confluent-kafka",
    "pyspark.sql.datasource": "PySpark 4.0 or newer",
}


def require_packages() -> None:
    """Check that confluent-kafka is installed, and a PySpark that has Python data sources.

    Raises:
        SparkSetupError: A package is missing; the message names the extra to install.
    """
    for module, name in _NEEDED.items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            msg = (
                f"pyflinklike.kafka needs {name}, got {error}; "
                f"{install('kafka')} on the driver and wherever its workers run"
            )
            raise SparkSetupError(msg) from error
