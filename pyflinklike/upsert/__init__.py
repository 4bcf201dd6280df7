# SPDX-License-Identifier: Apache-2.0
"""Upsert and change data capture: from change events to a table that can be queried."""

from __future__ import annotations

from pyflinklike.upsert.cdc_event import CdcEvent
from pyflinklike.upsert.debezium import decode_debezium
from pyflinklike.upsert.debezium_encoding import to_debezium

__all__ = ["CdcEvent", "decode_debezium", "to_debezium"]
