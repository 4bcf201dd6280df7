# SPDX-License-Identifier: Apache-2.0
"""Predicates for `AsyncRetryStrategy`, as `pyflink.datastream.async_retry_predicates`."""

from __future__ import annotations

from typing import Any

from pyflinklike.pyflink._names import of_pyflink

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]

__getattr__ = of_pyflink(__name__)


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Return whether an element has no outputs.

    Args:
        result: The outputs of the element, or None.
    """
    return not result


def has_exception_predicate(error: Exception | None) -> bool:
    """Return whether an error was raised.

    Args:
        error: The error of the attempt, or None.
    """
    return error is not None


def exception_type_predicate(
    error: Exception | None, expected_error_type: type[BaseException]
) -> bool:
    """Return whether an error of a class was raised.

    Args:
        error: The error of the attempt, or None.
        expected_error_type: The class of the error; bind it with `functools.partial`.
    """
    return isinstance(error, expected_error_type)
