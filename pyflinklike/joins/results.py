# SPDX-License-Identifier: Apache-2.0
"""What a function that a join calls gave back, as the outputs it is."""

from __future__ import annotations

from collections.abc import Iterable
from types import GeneratorType
from typing import Any

from pyflinklike.api.results import check_results

__all__ = ["outputs_in"]


def outputs_in(results: Iterable[Any] | None, function: object, method: str) -> Iterable[Any]:
    """The outputs; none for None.

    Args:
        results: What the call gave.
        function: The user's, for messages.
        method: Of it, that was called.

    Raises:
        OutputError: It is a single output, not an iterable of outputs.
    """
    if results is None:
        return ()
    if results.__class__ is not GeneratorType:
        check_results(results, f"calls of {type(function).__qualname__}.{method}")
    return results
