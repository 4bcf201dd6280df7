# SPDX-License-Identifier: Apache-2.0
"""The one place where errors in decoding stored bytes become a `CorruptStateError`.

Damaged bytes make decoders fail in many ways: Arrow, `struct`, JSON and plain indexing each raise
their own errors, and none says which key group was read.  So everything that decodes stored bytes
does so within `decoding`.  Code of the user must not run within it, because an error there is a bug
in the user's code and not damage.
"""

from __future__ import annotations

import struct
from types import TracebackType

import attrs
import pyarrow as pa

from pyflinklike._messages import shown_error
from pyflinklike.errors import CorruptStateError, IncompatibleStateError

RESTORE_ADVICE = "the bytes are damaged, go back to an earlier checkpoint"
"""The advice at the end of messages."""

RAW_ERRORS = (
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""The errors that decoders raise if the bytes are not what they expect."""


@attrs.frozen
class decoding:  # noqa: N801 - it reads as a statement: `with decoding(...)`
    """Turn an error of a decoder within the block into one that names what was decoded.

    Args:
        where: Name of the place, for messages: operator, key group, segment.
        rule: The rule that the bytes break, for messages, such as "must be an Arrow batch".

    Raises:
        CorruptStateError: One of `RAW_ERRORS` was raised within the block.  An
            `IncompatibleStateError` and a lack of memory pass as they are.
    """

    where: str
    rule: str

    def __enter__(self) -> None:
        """Do nothing: only the end of the block matters."""

    def __exit__(
        self,
        _: type[BaseException] | None,
        error: BaseException | None,
        __: TracebackType | None,
    ) -> None:
        """Raise an error that names the place, if there was one."""
        if error is None or isinstance(error, (IncompatibleStateError, MemoryError)):
            return
        if isinstance(error, CorruptStateError):
            # An inner `decoding` may have named the place already.
            if str(error).startswith(self.where):
                return
            raise CorruptStateError(f"{self.where}: {error}") from error
        if isinstance(error, RAW_ERRORS):
            msg = f"{self.where}: {self.rule}, got {shown_error(error)}; {RESTORE_ADVICE}"
            raise CorruptStateError(msg) from error
