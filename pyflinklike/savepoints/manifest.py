# SPDX-License-Identifier: Apache-2.0
"""The manifest of a savepoint: what its files are, and what their columns mean.

It is written last, so a directory without one is no savepoint, or not yet.  It has a checksum of
itself, as it has of every file: a wrong number in it would lead a query to wrong offsets, or let
entries expire too early.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import attrs

from pyflinklike.errors import CorruptStateError, UnknownStateError
from pyflinklike.log.operator_record import OperatorRecord

__all__ = ["MANIFEST", "TIMERS", "Manifest", "SavedFile", "SavedOperator", "SavedRows", "folder_of"]

MANIFEST = "_manifest.json"
"""Its name in the directory."""
TIMERS = "timers"
"""What the rows of timers are called where those of states have the name of the state."""
_FORMAT = 1
_LONGEST_NAME = 200


@attrs.frozen
class SavedFile:
    """A Parquet file.

    Args:
        path: Within the directory.
        bytes: Its size.
        sha256: Its checksum, in hexadecimal.
    """

    path: str
    bytes: int
    sha256: str


@attrs.frozen
class SavedRows:
    """The rows of a state, or the timers of an operator.

    Args:
        rows: How many there are.
        files: That have them.
    """

    rows: int
    files: tuple[SavedFile, ...] = ()


@attrs.frozen
class SavedOperator:
    """An operator in a savepoint.

    Args:
        record: What it says of itself.
        states: The rows of each state, by name.
        timers: Its timers.
        domains: How many timers there are of each time domain, by name in lower case.
    """

    record: OperatorRecord
    states: Mapping[str, SavedRows]
    timers: SavedRows
    domains: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def uid(self) -> str:
        """Its name."""
        return self.record.identity.name


@attrs.frozen
class Manifest:
    """What a savepoint says of itself.

    Args:
        library: Version of pyflinklike that wrote it.
        taken_at: When, in ms.
        operators: What there is of each operator.
        batch_id: Of which micro-batch it is; None of one that was made otherwise.
        processing_time: The clock of that batch, in ms; likewise.
        watermark: Of that batch, in ms; likewise.
        offsets: The sources' offsets of that batch, as Spark noted them: where to read on from.
        query_id: The id that Spark gave to the query, which stays as long as its checkpoint.
    """

    library: str
    taken_at: int
    operators: tuple[SavedOperator, ...]
    batch_id: int | None = None
    processing_time: int | None = None
    watermark: int | None = None
    offsets: str | None = None
    query_id: str | None = None

    def operator(self, uid: str | None, where: str) -> SavedOperator:
        """One operator.

        Args:
            uid: Its name; None for the only one there is.
            where: Which savepoint, for messages.

        Raises:
            UnknownStateError: There is no such operator, or more than one.
        """
        if uid is None and len(self.operators) == 1:
            return self.operators[0]
        for each in self.operators:
            if each.uid == uid:
                return each
        names = [each.uid for each in self.operators]
        msg = f"{where}: its operators are {names}, got {uid!r}; give the uid of one of them"
        raise UnknownStateError(msg)

    def to_json(self) -> str:
        """The manifest as it is stored."""
        fields = attrs.asdict(self, recurse=False)
        fields["operators"] = [_operator_fields(each) for each in self.operators]
        fields = {"format": _FORMAT, **fields}
        whole = {**fields, "checksum": zlib.crc32(_compact(fields))}
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """The manifest that `to_json` wrote.

        Args:
            text: What was stored.
            where: Which savepoint, for messages.

        Raises:
            CorruptStateError: It is none, or of another format.
        """
        try:
            fields = json.loads(text)
            checksum = fields.pop("checksum", None)
            is_whole = checksum == zlib.crc32(_compact(fields))
            found = fields.pop("format")
            if found != _FORMAT:
                msg = f"{where}: this version of pyflinklike reads savepoint format {_FORMAT}"
                raise CorruptStateError(
                    f"{msg}, got {found}; read it with the version that wrote it"
                )
            operators = tuple(_operator(each, where) for each in fields.pop("operators"))
            if not is_whole:
                msg = f"{where}: {MANIFEST} must be as it was written, got another checksum"
                raise CorruptStateError(f"{msg} than {checksum}; take the savepoint again")
            return cls(operators=operators, **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            msg = (
                f"{where}: {MANIFEST} must be the JSON object that was written, got {text[:200]!r}"
            )
            raise CorruptStateError(f"{msg}; take the savepoint again") from error


def folder_of(uid: str, state: str | None) -> str:
    """The folder of a state's files, or of an operator's timers, within a savepoint."""
    operator = f"operators/{_file_name(uid)}"
    return f"{operator}/{TIMERS}" if state is None else f"{operator}/states/{_file_name(state)}"


def _file_name(name: str) -> str:
    """A name percent-encoded: one that Hadoop does not hide, and no file system finds too long."""
    encoded = quote(name, safe="")
    if encoded.startswith((".", "_")):
        encoded = f"%{ord(encoded[0]):02X}{encoded[1:]}"
    if len(encoded) <= _LONGEST_NAME:
        return encoded
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{encoded[:_LONGEST_NAME]}~{digest}"


def _operator_fields(operator: SavedOperator) -> dict[str, Any]:
    return {
        "record": json.loads(operator.record.to_bytes()),
        "states": {name: attrs.asdict(rows) for name, rows in operator.states.items()},
        "timers": attrs.asdict(operator.timers),
        "domains": dict(operator.domains),
    }


def _operator(fields: dict[str, Any], where: str) -> SavedOperator:
    return SavedOperator(
        OperatorRecord.from_bytes(_compact(fields["record"]), where),
        {name: _rows(each) for name, each in fields["states"].items()},
        _rows(fields["timers"]),
        fields["domains"],
    )


def _rows(fields: dict[str, Any]) -> SavedRows:
    return SavedRows(fields["rows"], tuple(SavedFile(**each) for each in fields["files"]))


def _compact(fields: Mapping[str, Any]) -> bytes:
    """The one way to write an object, however it was laid out."""
    return json.dumps(fields, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
