# SPDX-License-Identifier: Apache-2.0
"""From an exception of Spark back to the error of ours that it tells of."""

from __future__ import annotations

import re
from typing import Final

from pyflinklike import errors
from pyflinklike.errors import DeclarationTypeError, PyflinklikeError
from pyflinklike.shown import shown

__all__ = ["error_of"]

# Spark keeps the text of a worker's traceback; what follows the sentence begins with one of these.
_TOLD: Final = re.compile(
    r"\bpyflinklike\.errors\.(?P<name>\w+): (?P<sentence>.*?)"
    r"(?=\n\nThe above exception|\nTraceback |\n  File |\n\s*SQLSTATE| SQLSTATE|\n\tat |\n===|\s*\Z)",
    re.DOTALL,
)


def error_of(failure: BaseException) -> PyflinklikeError | None:
    """The error that a worker raised, for which a query or an action failed.

    Spark hands on the text of what a worker raised, and not the exception.  This gives it back:
    of the same class, with the same message, and without a cause.

    Args:
        failure: A `StreamingQueryException`, also that of `query.exception()`, or the
            `PythonException` of a batch.

    Returns:
        The error, or None if the failure tells of none of pyflinklike.

    Raises:
        DeclarationTypeError: It is not an exception.
    """
    if not isinstance(failure, BaseException):
        msg = f"error_of takes an exception, got {shown(failure)}; query.exception() may be None"
        raise DeclarationTypeError(msg)
    if isinstance(failure, PyflinklikeError):
        return failure
    found = _TOLD.search(str(failure))
    kind = getattr(errors, found["name"], None) if found else None
    if found is None or not isinstance(kind, type) or not issubclass(kind, PyflinklikeError):
        return None
    return kind(found["sentence"].rstrip())
