# SPDX-License-Identifier: Apache-2.0
"""The check of the results that functions of joins return."""

from __future__ import annotations

from collections.abc import Iterable
from types import GeneratorType
from typing import Any

from pyflinklike.api.results import check_results

__all__ = ["outputs_in"]


def outputs_in(results: Iterable[Any] | None, function: object, method: str) -> Iterable[Any]:
    """Return the outputs of a call; None means no output.

    Args:
        results: The result of the call.
        function: The user's function, for messages.
        method: The name of the method that was called, for messages.

    Raises:
        OutputError: The result is a single output, not an iterable of outputs.
    """
    if results is None:
        return ()
    if results.__class__ is not GeneratorType:
        check_results(results, f"calls of {type(function).__qualname__}.{method}")
    return results
