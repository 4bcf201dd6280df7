# SPDX-License-Identifier: Apache-2.0
"""A demonstration on a year of real flights; `scripts/demo` runs it.

This module imports only the standard library, attrs and pyarrow; the runs need PySpark.
"""

from demo.flights import (
    ALERT_TYPE,
    FLIGHT_TYPE,
    SILENT,
    LateAircraft,
    flown,
    read_days,
    write_days,
)

__all__ = [
    "ALERT_TYPE",
    "FLIGHT_TYPE",
    "SILENT",
    "LateAircraft",
    "flown",
    "read_days",
    "write_days",
]
