# SPDX-License-Identifier: Apache-2.0
"""The schema of a wrapped envelope: the meaning of its fields, such as the unit of a number."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

__all__ = ["Semantic", "fields_of", "semantics_of"]


class Semantic(msgspec.Struct):
    """The schema of one field of a wrapped envelope."""

    field: str = ""
    name: str | None = None
    parameters: dict[str, str] = {}
    fields: list[Semantic] = []
    items: Semantic | None = None
    values: Semantic | None = None


_SEMANTIC = msgspec.json.Decoder(Semantic)


# Every wrapped record brings the schema of its table, so a few schemas come again and again.
@lru_cache(maxsize=256)
def fields_of(schema: bytes) -> Mapping[str, Semantic]:
    """Read the fields of a schema of Kafka Connect, by name; none if it is empty.

    Raises:
        ValueError: `schema` is not such a schema.
    """
    try:
        fields = _SEMANTIC.decode(schema).fields if schema else []
    except RecursionError as error:
        msg = f"the schema is nested too deeply: {error}"
        raise ValueError(msg) from error
    return {each.field: each for each in fields}


# Every wrapped record brings the schema of its table, so a few schemas come again and again.
@lru_cache(maxsize=256)
def semantics_of(schema: bytes) -> Mapping[str, Mapping[str, Semantic]]:
    """Read the fields of each struct of an envelope's schema, such as `before` and `after`.

    Raises:
        ValueError: `schema` is not such a schema.
    """
    return {
        name: {each.field: each for each in side.fields} for name, side in fields_of(schema).items()
    }
