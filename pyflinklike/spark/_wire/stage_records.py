# SPDX-License-Identifier: Apache-2.0
"""Stage records: elements of jobs as bytes, with an address that is read without unpickling.

A stage record holds a list of records in one pickle.  Each of them is a tuple of key, element and
event time in ms.

A payload of the state operator is an Arrow record batch whose only cell is a stage record.  A payload
that only passes through the state operator begins with four bytes that no record batch begins with;
the operator emits it unchanged.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from pyflinklike._messages import short_repr, shown_error
from pyflinklike.errors import OutputError
from pyflinklike.spark._wire.payloads import payload_to_batch, to_payload

REASSIGNED_WATERMARKS = -2
"""The address of stage records from homes with the watermarks of reassigned timestamps.

Numbers of nodes begin with 1.
"""
PASSED_ON = 2**31 - 1
"""The output number of payloads that pass through a state operator."""

_PASSING = b"\0\0\0\0"
CALL = _PASSING
"""The payload that calls a key group without records; it is empty, so no payload passes on."""
_ADDRESS = struct.Struct("<iB?")


class Address(NamedTuple):
    """The input of a node that records go to.

    Args:
        node: The number of the node.
        position: The number of its input, from 0.
        is_early: Whether the records come before the watermark of their micro-batch.
    """

    node: int
    position: int
    is_early: bool = False


class StageRecord(NamedTuple):
    """A list of records with their address.

    Args:
        address: The input to which the records go.
        contents: A pickle of a list of records.
    """

    address: Address
    contents: bytes

    def to_bytes(self) -> bytes:
        """Write the address and the pickle as bytes."""
        return _ADDRESS.pack(*self.address) + self.contents

    @classmethod
    def from_bytes(cls, data: bytes) -> StageRecord:
        """Read a stage record from bytes; the pickle stays closed."""
        return cls(Address(*_ADDRESS.unpack_from(data)), data[_ADDRESS.size :])

    def records(self) -> list[Any]:
        """Unpickle the records."""
        opened: list[Any] = pickle.loads(self.contents)  # noqa: S301  # from the job's own stages
        return opened


def dump(values: list[Any]) -> bytes:
    """Pickle a list without a memo, or with a memo if an element holds itself.

    Raises:
        OutputError: An element cannot be pickled.
    """
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, protocol=5)
    # Writing is faster without a memo, and parts of different records never become one object.
    pickler.fast = True
    try:
        pickler.dump(values)
    except (ValueError, RecursionError):
        return _dump_with_memo(values)
    except Exception as error:
        raise _refusal(values, error) from error
    return buffer.getvalue()


def _dump_with_memo(values: list[Any]) -> bytes:
    try:
        return pickle.dumps(values, protocol=5)
    except Exception as error:
        raise _refusal(values, error) from error


def _refusal(values: list[Any], error: Exception) -> OutputError:
    return OutputError(
        f"pickle must be able to write an element that goes to another task, got "
        f"{short_repr(_first_unpicklable(values))}: {shown_error(error)}; leave out locks, files and "
        "lambdas, and define its class in a module"
    )


def _first_unpicklable(values: list[Any]) -> Any:
    for value in values:
        try:
            pickle.dumps(value, protocol=5)
        except Exception:  # __reduce__ of a user's class may raise anything
            return value
    return values


# As payloads of the state operator


def in_cell(data: bytes) -> pa.RecordBatch:
    """Make a record batch whose only cell holds the bytes, as the hosts carry them."""
    return pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], names=["parcel"])


def cell_of(batch: pa.RecordBatch) -> bytes:
    """Return the bytes in the only cell of a record batch."""
    data: bytes = batch.column(0)[0].as_py()
    return data


def unwrap(payload: bytes) -> bytes:
    """Return the stage record in a payload, which is for the operator or passes through."""
    if payload.startswith(_PASSING):
        return payload[len(_PASSING) :]
    return cell_of(payload_to_batch(payload))


def wrap(data: bytes) -> bytes:
    """Make a payload that the operator reads."""
    return to_payload(in_cell(data))


def wrap_to_pass(parcel: bytes) -> bytes:
    """Make a payload that passes through state operators."""
    return _PASSING + parcel


def divide_payloads(
    payloads: list[bytes] | None,
) -> tuple[list[bytes], list[bytes] | None]:
    """Divide payloads into the ones that pass through and the ones for the operator.

    Args:
        payloads: The payloads of a key group; None if it was called without any.
    """
    if payloads is None:
        return [], None
    through = [each for each in payloads if each.startswith(_PASSING) and each != CALL]
    return through, [each for each in payloads if not each.startswith(_PASSING)]


def pass_on(payloads: Iterable[bytes]) -> list[tuple[int, bytes, None, None]]:
    """Make results of the state operator from payloads that pass through."""
    return [(PASSED_ON, each, None, None) for each in payloads]
