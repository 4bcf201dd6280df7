# SPDX-License-Identifier: Apache-2.0
"""The schemas that Kafka Connect's JsonConverter writes beside values and keys.

JSON has fewer types than a table.  A schema says what a number, a text or an object stands for.  It
has the name of a logical type of Debezium or Connect, or else only Connect's own type
(https://github.com/apache/kafka/blob/trunk/connect/json/src/main/java/org/apache/kafka/connect/json/JsonConverter.java).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from pyflinklike.cdc.envelope import check_depth

__all__ = ["Meaning", "SemanticType", "classify", "fields_of", "schema_at"]


class SemanticType(msgspec.Struct):
    """The schema of one field."""

    field: str = ""
    type: str | None = None
    name: str | None = None
    parameters: dict[str, str] = {}
    fields: list[SemanticType] = []
    items: SemanticType | None = None
    values: SemanticType | None = None

    def part(self, name: str) -> SemanticType | None:
        """Return the schema of a struct's field, or of a map's values; None if it is missing."""
        return next((each for each in self.fields if each.field == name), self.values)


class Meaning(NamedTuple):
    """The meaning of a field's values.

    Args:
        kind: One of "bare" (there is no schema), "boolean", "integer", "float", "double", "text",
            "bytes", "decimal", "date", "time", "zoned time", "local time" (a date and a time
            without a zone), "instant", "duration", "array", "map" and "struct".
        fraction: How many digits after the second a time as a number has; 0 for times as text.
    """

    kind: str
    fraction: int = 0


_BARE: Final = Meaning("bare")

_BY_NAME: Final[Mapping[str, Meaning]] = {
    "org.apache.kafka.connect.data.Decimal": Meaning("decimal"),
    "org.apache.kafka.connect.data.Date": Meaning("date"),
    "org.apache.kafka.connect.data.Time": Meaning("time", 3),
    "org.apache.kafka.connect.data.Timestamp": Meaning("local time", 3),
    "io.debezium.data.VariableScaleDecimal": Meaning("decimal"),
    "io.debezium.time.Date": Meaning("date"),
    "io.debezium.time.IsoDate": Meaning("date"),
    "io.debezium.time.Time": Meaning("time", 3),
    "io.debezium.time.MicroTime": Meaning("time", 6),
    "io.debezium.time.NanoTime": Meaning("time", 9),
    "io.debezium.time.IsoTime": Meaning("time"),
    "io.debezium.time.ZonedTime": Meaning("zoned time"),
    "io.debezium.time.Timestamp": Meaning("local time", 3),
    "io.debezium.time.MicroTimestamp": Meaning("local time", 6),
    "io.debezium.time.NanoTimestamp": Meaning("local time", 9),
    "io.debezium.time.IsoTimestamp": Meaning("local time"),
    "io.debezium.time.ZonedTimestamp": Meaning("instant"),
    "io.debezium.time.MicroDuration": Meaning("duration"),
    "io.debezium.time.NanoDuration": Meaning("duration"),
}
# Other logical types mean what their type says: texts, bytes, numbers, arrays and structs.
_BY_TYPE: Final[Mapping[str, Meaning]] = {
    "boolean": Meaning("boolean"),
    "int8": Meaning("integer"),
    "int16": Meaning("integer"),
    "int32": Meaning("integer"),
    "int64": Meaning("integer"),
    "float": Meaning("float"),
    "double": Meaning("double"),
    "string": Meaning("text"),
    "bytes": Meaning("bytes"),
    "array": Meaning("array"),
    "map": Meaning("map"),
    "struct": Meaning("struct"),
}


def classify(semantic: SemanticType | None) -> Meaning:
    """Return the meaning of a field's values, "bare" if there is no schema."""
    if semantic is None:
        return _BARE
    return _BY_NAME.get(semantic.name or "") or _BY_TYPE.get(semantic.type or "", _BARE)


_SEMANTIC = msgspec.json.Decoder(SemanticType)
_ANYTHING = msgspec.json.Decoder()


# Every wrapped record brings the schema of its table, so the same few schemas come again and again.
@lru_cache(maxsize=256)
def schema_at(schema: bytes) -> SemanticType | None:
    """Read a schema; None if it is empty or null.

    Raises:
        ValueError: It is not a schema of Kafka Connect.
    """
    if not schema:
        return None
    try:
        check_depth(schema, _ANYTHING.decode(schema))
        return _SEMANTIC.decode(schema) if schema != b"null" else None
    except RecursionError as error:
        msg = "the schema is nested too deeply"
        raise ValueError(msg) from error


def fields_of(schema: bytes) -> Mapping[str, SemanticType]:
    """Read the fields of a struct's schema by name; an empty schema has no fields.

    Raises:
        ValueError: It is not a schema of Kafka Connect.
    """
    root = schema_at(schema)
    return {} if root is None else {each.field: each for each in root.fields}
