# SPDX-License-Identifier: Apache-2.0
"""The side output of a store's changelog.

On Spark a side output has columns.  Those of a changelog follow from the
store's types and, where the current key is part of the logged key, from the key
columns of the stream, which only the host knows.
"""

from __future__ import annotations

import attrs

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.stores.records import ChangelogRecord
from pyflinklike.types import TypeInformation

__all__ = ["ChangelogTag"]


@attrs.frozen
class ChangelogTag(OutputTag[ChangelogRecord]):
    """An `OutputTag` that knows what `ChangelogRecord`s are made of.

    Args:
        key_fields: Names and types of what the store's part of a logged key is made of.
        value_type: Of the values.
        has_current_key: Whether the logged key begins with the current key.
    """

    key_fields: tuple[tuple[str, TypeInformation], ...] = attrs.field(kw_only=True, eq=False)
    value_type: TypeInformation = attrs.field(kw_only=True, eq=False)
    has_current_key: bool = attrs.field(kw_only=True, eq=False)
