# SPDX-License-Identifier: Apache-2.0
"""The manifest of a savepoint: it names the files, and describes their columns.

It is written last, so a directory without a manifest is not a savepoint, or not finished.  It has a
checksum of itself and of every file: a wrong number in it would lead a query to wrong offsets, or let
entries expire too early.

If a job or a batch made the savepoint, the manifest has its sources, too, and how far each was read.  The
position of a source is plain data.  It has one of these forms:

    {"splits": 2, "read": [7, null]}        7 elements of the first of two splits, all of the second
    {"left": [["/in/a", 3], ["/in/b", 0]]}  of the first split all but 3 elements are left, of the other all
    {"found": ["/in/a", "/in/b"]}           splits that were read, of a source that looks for more
    {"offset": "..."}                       the text that Spark's checkpoint has for a stream of Spark's,
                                            or that `startingOffsets` takes
    {"said": "..."}                         what the user says of it

The first two may have `"first": 4`, too: then 4 more elements were read, counted over the rest of all
splits in their order.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import attrs

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike.errors import CorruptStateError, UnknownStateError
from pyflinklike.state_processor._folders.folder_paths import compact, seal

MANIFEST = "_manifest.json"
"""The name of the manifest in the directory."""
HISTORY = "_history.json"
"""The name of the file that says which batch writes the savepoint, until the manifest is written."""
TIMERS = "timers"
"""The name of the folder of timers, beside the folders of states."""
_FORMAT = 1
# File systems take 255 bytes; Spark adds extensions such as ".crc".
_LONGEST_NAME = 200


@attrs.frozen
class SavedFile:
    """A Parquet file of the savepoint.

    Args:
        path: The path within the directory.
        bytes: The size of the file in bytes.
        sha256: The SHA-256 checksum of the file, in hexadecimal.
    """

    path: str
    bytes: int
    sha256: str


@attrs.frozen
class SavedRows:
    """The rows of a state, or the timers of an operator.

    Args:
        rows: The number of rows in all files.
        files: The files that hold the rows.
    """

    rows: int
    files: tuple[SavedFile, ...] = ()


@attrs.frozen
class SavedOperator:
    """An operator in a savepoint.

    Args:
        record: The operator's record, which declares its states.
        states: The rows of each state, by name.
        timers: The rows of the operator's timers.
        domains: The number of timers in each time domain, by name in lower case.
    """

    record: OperatorRecord
    states: Mapping[str, SavedRows]
    timers: SavedRows
    domains: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def uid(self) -> str:
        """The operator's name."""
        return self.record.identity.name

    def files(self) -> Iterator[SavedFile]:
        """Iterate over the files of all states and of the timers."""
        for rows in (*self.states.values(), self.timers):
            yield from rows.files


@attrs.frozen
class Manifest:
    """A savepoint's description of itself.

    Args:
        library: The version of pyflinklike that wrote it.
        taken_at: When it was taken, in ms.
        operators: The rows of each operator.
        batch_id: The number of the micro-batch after which it was taken; None if a stream did not
            make it.
        processing_time: The clock of that batch, in ms, or None.
        watermark: The watermark of that batch, in ms, or None.
        offsets: The offsets of that batch, as Spark noted them: its sources read on from there.
        query_id: Spark's id of the query, which stays as long as its checkpoint.
        job: The job of the DataStream API; None for any other query, and for a harness.
        history: The batch that wrote it; None if a stream or a harness did.
    """

    library: str
    taken_at: int
    operators: tuple[SavedOperator, ...]
    batch_id: int | None = None
    processing_time: int | None = None
    watermark: int | None = None
    offsets: str | None = None
    query_id: str | None = None
    job: SavedJob | None = None
    history: SavedHistory | None = None

    def operator(self, uid: str | None, where: str) -> SavedOperator:
        """Return one operator.

        Args:
            uid: The operator's name; None returns the only operator.
            where: The name of the savepoint, for messages.

        Raises:
            UnknownStateError: There is no such operator, or `uid` is None and there are several.
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
        """Return the manifest as it is stored."""
        fields = {"format": _FORMAT, **attrs.asdict(self, recurse=False)}
        fields["operators"] = [encode_operator(each) for each in self.operators]
        for name in ("job", "history"):
            part = fields.pop(name)
            if part is not None:
                fields[name] = attrs.asdict(part)
        return seal(fields)

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """Read a manifest that `to_json` wrote.

        Args:
            text: The stored text, which may be damaged.
            where: The name of the savepoint, for messages.

        Raises:
            CorruptStateError: The text is not a manifest, is damaged, or is of another format.
        """
        try:
            fields = json.loads(text)
            checksum = fields.pop("checksum", None)
            is_whole = checksum == zlib.crc32(compact(fields))
            found = fields.pop("format")
            if found != _FORMAT:
                msg = f"{where}: this version of pyflinklike reads format {_FORMAT} of savepoints"
                raise CorruptStateError(
                    f"{msg}, got {found}; read it with the version that wrote it"
                )
            operators = tuple(decode_operator(each, where) for each in fields.pop("operators"))
            if not is_whole:
                msg = f"{where}: {MANIFEST} must be as it was written, got another checksum"
                raise CorruptStateError(f"{msg} than {checksum}; take the savepoint again")
            if "job" in fields:
                fields["job"] = SavedJob.from_json(fields["job"])
            if "history" in fields:
                fields["history"] = SavedHistory.from_json(fields["history"])
            return cls(operators=operators, **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            msg = (
                f"{where}: {MANIFEST} must be the JSON object that was written, got {text[:200]!r}"
            )
            raise CorruptStateError(f"{msg}; take the savepoint again") from error


def folder_of(uid: str, state: str | None) -> str:
    """Return the folder of a state's files, or of an operator's timers, within a savepoint."""
    operator = f"operators/{_file_name(uid)}"
    return f"{operator}/{TIMERS}" if state is None else f"{operator}/states/{_file_name(state)}"


def _file_name(name: str) -> str:
    """Percent-encode a name, so that Hadoop does not hide it and no file system finds it too long."""
    # Hadoop and Spark take names that begin with "." or "_" for hidden files.
    encoded = quote(name, safe="")
    if encoded.startswith((".", "_")):
        encoded = f"%{ord(encoded[0]):02X}{encoded[1:]}"
    if len(encoded) <= _LONGEST_NAME:
        return encoded
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{encoded[:_LONGEST_NAME]}~{digest}"


def encode_operator(operator: SavedOperator) -> dict[str, Any]:
    """Return an operator as plain data."""
    return {
        "record": json.loads(operator.record.to_bytes()),
        "states": {name: attrs.asdict(rows) for name, rows in operator.states.items()},
        "timers": attrs.asdict(operator.timers),
        "domains": dict(operator.domains),
    }


def decode_operator(fields: Mapping[str, Any], where: str) -> SavedOperator:
    """Return the operator that `encode_operator` encoded.

    Raises:
        CorruptStateError: The record of the operator is damaged.
    """
    return SavedOperator(
        # A record is read from compact JSON only, and the manifest is indented.
        OperatorRecord.from_bytes(compact(fields["record"]), where),
        {name: _rows(each) for name, each in fields["states"].items()},
        _rows(fields["timers"]),
        fields["domains"],
    )


def _rows(fields: dict[str, Any]) -> SavedRows:
    return SavedRows(fields["rows"], tuple(SavedFile(**each) for each in fields["files"]))


# The job or the batch in a savepoint


Position = Mapping[str, Any]


@attrs.frozen
class SavedSource:
    """A source of the job.

    Args:
        uid: The uid that the program gives, or None.
        kind: The name of the source's class.
        what: The paths, topics or columns that it reads.
        is_bounded: Whether the source ends.
        position: How far it was read; None if that is not known.
        reason: Why the position is not known; empty if it is known.
    """

    uid: str | None
    kind: str
    what: str
    is_bounded: bool
    position: Position | None = None
    reason: str = ""

    def __str__(self) -> str:
        return f"source {self.uid!r}, {self.what}" if self.uid else f"source {self.what}"

    def is_same(self, other: SavedSource) -> bool:
        """Return whether it is the same source: by the uids if both have one, else by `what`."""
        if self.uid and other.uid:
            return self.uid == other.uid
        mine = self.kind, self.what, self.is_bounded
        return mine == (other.kind, other.what, other.is_bounded)


@attrs.frozen
class SavedJobOperator:
    """An operator of the job that has state.

    Args:
        name: The name of its state: the uid, or its kind and its number among operators with state.
        uid: The uid that the program gives, or None.
        function: The name of the class of its function.
    """

    name: str
    uid: str | None
    function: str


@attrs.frozen
class SavedJob:
    """A job.

    Args:
        name: The name that the program gives to the job.
        sources: The sources of the job, in the order of the program.
        operators: The operators with state, in the order of the program.
    """

    name: str
    sources: tuple[SavedSource, ...]
    operators: tuple[SavedJobOperator, ...]

    def operator(self, name: str) -> SavedJobOperator | None:
        """Return the operator whose state has a name, or None."""
        return next((each for each in self.operators if each.name == name), None)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> SavedJob:
        """Return the job that `attrs.asdict` made into these fields."""
        sources = tuple(SavedSource(**each) for each in fields["sources"])
        operators = tuple(SavedJobOperator(**each) for each in fields["operators"])
        return cls(fields["name"], sources, operators)


@attrs.frozen
class SavedHistory:
    """The batch that wrote a savepoint, with which a stream goes on.

    Args:
        run: The id of the batch.
        sources: The batch's sources, each with the position at which the stream begins.
        delay: How late records may be, in ms: the watermark is this far behind the latest time; None
            if no operator has event time.
    """

    run: str
    sources: tuple[SavedSource, ...]
    delay: int | None = None

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> SavedHistory:
        """Return the history that `attrs.asdict` made into these fields."""
        sources = tuple(SavedSource(**each) for each in fields["sources"])
        return cls(fields["run"], sources, fields["delay"])


def move_on(position: Position, count: int) -> Position:
    """Return the position behind some more elements, counted over all splits in their order."""
    return {**position, "first": position.get("first", 0) + count} if count else position
