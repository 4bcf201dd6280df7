# SPDX-License-Identifier: Apache-2.0
"""Elements of jobs in bytes: parcels, with an address that can be read without opening them.

A parcel holds records, each a tuple of key, element and event time in ms, in one pickle without
memo: that is faster to write, and the parts of different records are never one object behind it.

A payload of the state operator is an Arrow batch whose only cell is a parcel.  One that passes
through it begins with four bytes that no Arrow batch begins with; the operator gives it out as it is.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from pyflinklike.errors import OutputError
from pyflinklike.shown import shown, shown_error
from pyflinklike.spark.wire.packing import payload_to_batch, to_payload

__all__ = [
    "PASSED_ON",
    "Address",
    "Parcel",
    "cell_of",
    "dumped",
    "in_cell",
    "passed_on",
    "passing",
    "passing_and_others",
    "unwrapped",
    "wrapped",
]

PASSED_ON = 2**31 - 1
"""The number of the output by which payloads pass through a state operator."""

_PASSING = b"\0\0\0\0"
_ADDRESS = struct.Struct("<iB?")


class Address(NamedTuple):
    """Where records go.

    Args:
        node: The number of a node.
        position: Which of its inputs, from 0.
        is_early: Whether they come before the watermark of their micro-batch.
    """

    node: int
    position: int
    is_early: bool = False


class Parcel(NamedTuple):
    """Records with their address.

    Args:
        address: Where they go.
        contents: A pickle of a list of records.
    """

    address: Address
    contents: bytes

    def to_bytes(self) -> bytes:
        """The parcel as bytes."""
        return _ADDRESS.pack(*self.address) + self.contents

    @classmethod
    def from_bytes(cls, data: bytes) -> Parcel:
        """The parcel of these bytes."""
        return cls(Address(*_ADDRESS.unpack_from(data)), data[_ADDRESS.size :])

    def records(self) -> list[Any]:
        """The records, opened."""
        opened: list[Any] = pickle.loads(self.contents)  # noqa: S301  # of the job's own stages
        return opened


def dumped(values: list[Any]) -> bytes:
    """A list as a pickle without memo; with it where an element holds itself.

    Raises:
        OutputError: An element cannot be pickled.
    """
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, protocol=5)
    pickler.fast = True
    try:
        pickler.dump(values)
    except (ValueError, RecursionError):
        return _dumped_with_memo(values)
    except Exception as error:
        raise _refused(values, error) from error
    return buffer.getvalue()


def _dumped_with_memo(values: list[Any]) -> bytes:
    try:
        return pickle.dumps(values, protocol=5)
    except Exception as error:
        raise _refused(values, error) from error


def _refused(values: list[Any], error: Exception) -> OutputError:
    return OutputError(
        f"an element that goes to another task must be one that pickle can write, got "
        f"{shown(_first_unpicklable(values))}: {shown_error(error)}; leave out locks, files and "
        "lambdas, and define its class in a module"
    )


def _first_unpicklable(values: list[Any]) -> Any:
    for value in values:
        try:
            pickle.dumps(value, protocol=5)
        except Exception:  # whatever it raises, it is the one
            return value
    return values


# As payloads of the state operator


def in_cell(data: bytes) -> pa.RecordBatch:
    """Bytes as the only cell of a batch, as the hosts carry them."""
    return pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], names=["parcel"])


def cell_of(batch: pa.RecordBatch) -> bytes:
    """The bytes in the only cell of a batch."""
    data: bytes = batch.column(0)[0].as_py()
    return data


def unwrapped(payload: bytes) -> bytes:
    """The bytes in a payload: of its cell, or of what passes."""
    if payload.startswith(_PASSING):
        return payload[len(_PASSING) :]
    return cell_of(payload_to_batch(payload))


def wrapped(data: bytes) -> bytes:
    """Bytes as a payload that the operator reads."""
    return to_payload(in_cell(data))


def passing(parcel: bytes) -> bytes:
    """A parcel as a payload that passes through state operators."""
    return _PASSING + parcel


def passing_and_others(
    payloads: list[bytes] | None,
) -> tuple[list[bytes], list[bytes] | None]:
    """The payloads that pass through, and those for the operator.

    Args:
        payloads: Of a key group; None where it has none.
    """
    if payloads is None:
        return [], None
    through = [each for each in payloads if each.startswith(_PASSING)]
    return through, [each for each in payloads if not each.startswith(_PASSING)]


def passed_on(payloads: Iterable[bytes]) -> list[tuple[int, bytes, None, None]]:
    """Payloads that pass through, as results of the state operator."""
    return [(PASSED_ON, each, None, None) for each in payloads]
