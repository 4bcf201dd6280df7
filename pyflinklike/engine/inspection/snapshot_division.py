# SPDX-License-Identifier: Apache-2.0
"""A table of a snapshot, replayed without its program.

The last row of an entry counts, unless it deletes the entry or its key was cleared since.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import groupby, repeat
from typing import Any

import attrs
import pyarrow as pa

from pyflinklike.errors import IncompatibleStateError, StateValueError
from pyflinklike.log.declaration import Declaration
from pyflinklike.log.decoding import decoding
from pyflinklike.log.entries import CLEAR, DELETE, divided_batch, encode_batch
from pyflinklike.log.segments import Section
from pyflinklike.log.stored_entries import has_stamps, keys_of, read_batch
from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.keys import ANY_KEY
from pyflinklike.types.signature import type_of

__all__ = ["ReplayedTable"]

_Form = tuple[str, bool]
"""Form of rows: the signature of the type of their values, and whether they have stamps."""


class ReplayedTable:
    """One table of a snapshot, replayed section by section.

    Args:
        declaration: Declaration of the first section.
    """

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.rows: dict[Hashable, dict[Hashable, tuple[_Form, int]]] = {}
        """The row of `_batches` that holds the entry under a key and user key."""
        self._batches: dict[_Form, list[pa.RecordBatch]] = {}
        self._sizes: dict[_Form, int] = {}
        self._key_type = type_of(declaration.key)
        with decoding(f"state {declaration.name!r}", "must be declared with known types"):
            self._spec = self._spec_of(declaration)

    @staticmethod
    def _spec_of(declaration: Declaration) -> TableSpec:
        return TableSpec(
            declaration.name,
            Shape(declaration.shape),
            declaration.kind,
            type_of(declaration.value) if declaration.value else None,
            type_of(declaration.user_key) if declaration.user_key else None,
            namespace_type=type_of(declaration.namespace) if declaration.namespace else None,
        )

    def key_of(self, owner: Any) -> Hashable:
        """Return the key alone of an owner, which is a key or a pair with a namespace."""
        own: Hashable = owner if self._spec.namespace_type is None else owner[0]
        return own

    def read(self, section: Section, where: str) -> None:
        """Replay the next section.

        Raises:
            IncompatibleStateError: The values of neither declaration, the first section's and this
                one's, grow into those of the other.
        """
        self.declaration.check_alike(section.declaration)
        spec = self._spec
        if section.declaration != self.declaration:
            spec = self._spec_of(section.declaration)
        batch = read_batch(section, spec, self._key_type, where)
        form = section.declaration.value, has_stamps(section)
        with decoding(f"{where}, state {self.declaration.name!r}", "must hold keys of its types"):
            self._replay(batch, form)

    def _replay(self, batch: pa.RecordBatch, form: _Form) -> None:
        count = batch.num_rows
        keys = keys_of(dict(zip(batch.schema.names, batch.columns)), self._spec, self._key_type)
        user_keys: Iterable[Any] = repeat(None, count)
        if self._spec.shape is not Shape.SINGLE:
            user_keys = (self._spec.user_key_type or Types.LONG()).from_arrow(
                batch.column("user_key")
            )
        operations: Iterable[Any] = repeat(None, count)
        if "operation" in batch.schema.names:
            operations = batch.column("operation").to_pylist()
            batch = batch.select([name for name in batch.schema.names if name != "operation"])
        rows = self.rows
        place = self._sizes.get(form, 0)
        for key, user_key, operation in zip(keys, user_keys, operations):
            if operation == CLEAR:
                rows.pop(key, None)
            elif operation == DELETE:
                rows.get(key, {}).pop(user_key, None)
            else:
                rows.setdefault(key, {})[user_key] = form, place
            place += 1
        self._batches.setdefault(form, []).append(batch)
        self._sizes[form] = place

    def convert_keys(self, key_type: TypeInformation, where: str) -> None:
        """Give the keys the form of another type.

        Raises:
            IncompatibleStateError: Both types are declared and differ, or a key does not fit.
        """
        declaration = attrs.evolve(self.declaration, key=key_type.signature)
        if self.declaration == declaration and type(self._key_type) is type(key_type):
            return
        if ANY_KEY not in (self.declaration.key, declaration.key):
            self.declaration.check_types(declaration)
        if self._key_type.is_pickled:
            msg = (
                f"{where}: pickled keys are read only where the program declares their type, "
                f"got {self.declaration.key!r} for keys of {key_type.signature!r}; pass a harness "
                "key_type, if whoever wrote the snapshot may run code here"
            )
            raise IncompatibleStateError(msg)
        try:
            thaw, freeze = self._key_type.thaw_key, key_type.freeze_key
            owners = {key: freeze(thaw(key)) for key in map(self.key_of, self.rows)}
            self.rows = {self._moved(owner, owners): mine for owner, mine in self.rows.items()}
        except StateValueError as error:
            msg = f"{where}: its keys must fit the keys of the program, got one that does not: "
            raise IncompatibleStateError(f"{msg}{error}") from error
        self.declaration, self._key_type = declaration, key_type

    def _moved(self, owner: Any, keys: Mapping[Hashable, Hashable]) -> Hashable:
        """Return an owner whose key is replaced."""
        key = keys[self.key_of(owner)]
        return key if self._spec.namespace_type is None else (key, owner[1])

    def sections(self, groups: Mapping[Hashable, int], limit: int) -> Iterator[tuple[int, Section]]:
        """Divide the entries into sections by key group; values keep the type they were read with.

        Args:
            groups: The key group of each key.
            limit: Most bytes of a payload with more than one entry.

        Yields:
            Pairs of a key group and a section, in order.
        """
        keys = sorted(self.rows, key=lambda owner: groups[self.key_of(owner)])
        for form, batches in self._batches.items():
            # Sections may go in any order, since the elements of a list have positions.
            chosen = [
                (key, row)
                for key in keys
                for found, row in self.rows[key].values()
                if found == form
            ]
            if not chosen:
                continue
            taken = pa.Table.from_batches(batches).take(pa.array([row for _, row in chosen]))
            column = self._key_type.to_arrow([self.key_of(key) for key, _ in chosen])
            field = pa.field("key", self._key_type.arrow_type)
            taken = taken.set_column(0, field, column)
            declaration = attrs.evolve(self.declaration, value=form[0])
            start = 0
            for index, some in groupby(chosen, lambda each: groups[self.key_of(each[0])]):
                count = sum(1 for _ in some)
                for batch in taken.slice(start, count).combine_chunks().to_batches():
                    for part in divided_batch(batch, limit):
                        yield index, Section(declaration, encode_batch(part))
                start += count
