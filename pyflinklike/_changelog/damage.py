# SPDX-License-Identifier: Apache-2.0
"""The one place where errors at stored bytes become a `CorruptStateError`.

Everything that decodes stored bytes does so within `decoding`.  It must not be put around code of
the user's, whose errors are the user's own.
"""

from __future__ import annotations

import struct
from types import TracebackType

import attrs
import pyarrow as pa

from pyflinklike._messages import shown_error
from pyflinklike.errors import CorruptStateError, IncompatibleStateError

__all__ = ["RAW_ERRORS", "RESTORE_ADVICE", "decoding"]

RESTORE_ADVICE = "the bytes are damaged, go back to an earlier checkpoint"
"""Remedy in messages."""

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
"""Errors of decoders at bytes that they did not expect."""


@attrs.frozen
class decoding:  # noqa: N801 - it reads as a statement: `with decoding(...)`
    """Within it, an error of a decoder becomes one that names what was decoded.

    Args:
        where: Name of the place, for messages: operator, key group, segment.
        rule: What the bytes must be, for messages.

    Raises:
        CorruptStateError: Anything but an `IncompatibleStateError` or a lack of memory was raised
            within it.
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
            # A `decoding` within this one may have named the place already.
            if str(error).startswith(self.where):
                return
            raise CorruptStateError(f"{self.where}: {error}") from error
        if isinstance(error, RAW_ERRORS):
            msg = f"{self.where}: {self.rule}, got {shown_error(error)}; {RESTORE_ADVICE}"
            raise CorruptStateError(msg) from error
