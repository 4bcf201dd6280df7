# SPDX-License-Identifier: Apache-2.0
"""Change data capture: the records of Debezium as events, and changes as such records.

    event = decode_debezium(record)

`pyflinklike.spark.decode_debezium` does the same for DataFrames.
"""

from pyflinklike.cdc.decode import decode_debezium
from pyflinklike.cdc.encode import to_debezium
from pyflinklike.cdc.event import CdcEvent
from pyflinklike.doors import pin

__all__ = ["CdcEvent", "decode_debezium", "to_debezium"]

pin(globals())
