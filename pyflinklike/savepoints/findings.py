# SPDX-License-Identifier: Apache-2.0
"""What a check tells: findings, and how much was looked at."""

from __future__ import annotations

import attrs

__all__ = ["Checked", "Finding"]


@attrs.frozen
class Finding:
    """Something that is not as it must be.

    Args:
        part: Of what: "manifest", "counts" or "file".
        message: Where, the rule, and what was found.
    """

    part: str
    message: str


@attrs.frozen
class Checked:
    """How much was looked at.

    Args:
        entries: In the files.
        files: That the manifest names.
    """

    entries: int = 0
    files: int = 0

    def __add__(self, other: Checked) -> Checked:
        return Checked(*(a + b for a, b in zip(attrs.astuple(self), attrs.astuple(other))))
