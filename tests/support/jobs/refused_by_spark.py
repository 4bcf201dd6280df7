# SPDX-License-Identifier: Apache-2.0
"""Jobs of the collection that Spark does not run yet: it must say so by name."""

from __future__ import annotations

import pytest

from pyflinklike.errors import SparkSetupError

__all__ = ["REFUSED", "REFUSED_ON_STREAMS", "runs_or_is_refused"]

REFUSED: set[str] = set()
REFUSED_ON_STREAMS: set[str] = set()


def runs_or_is_refused(name, refused, collect):
    """The elements of a job; None if it is one that is refused, and was.

    Args:
        name: Of the job.
        refused: The names of those that are.
        collect: Runs it.
    """
    if name not in refused:
        return list(collect())
    with pytest.raises(SparkSetupError, match="not there on Spark yet"):
        collect()
    return None
