# SPDX-License-Identifier: Apache-2.0
"""Change data capture: decodes Debezium's records to events, and encodes changes as such records.

    event = decode_debezium(record)

`pyflinklike.spark.decode_debezium` does the same for DataFrames.
"""

from pyflinklike._exports import export_public
from pyflinklike.cdc.change_event import CdcEvent
from pyflinklike.cdc.debezium_decoder import decode_debezium
from pyflinklike.cdc.debezium_encoder import to_debezium

__all__ = ["CdcEvent", "decode_debezium", "to_debezium"]

export_public(globals())
