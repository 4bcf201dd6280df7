# SPDX-License-Identifier: Apache-2.0
"""The figures of a side, and the check of its outputs."""

from __future__ import annotations

import math
import statistics
from typing import Any

import attrs
from inputs import Shape


class WrongResultError(Exception):
    """A side computed something else than the reference: its time means nothing."""


class UnavailableError(Exception):
    """A side cannot run here, and why."""


@attrs.frozen
class Check:
    """The number and the sum of the outputs of a run.

    Args:
        rows: The number of outputs.
        total: The sum of their second column.
    """

    rows: int
    total: float

    def must_be(self, expected: Check, who: str) -> None:
        """Compare with the reference.

        Raises:
            WrongResultError: They differ.
        """
        if self.rows != expected.rows or not math.isclose(
            self.total, expected.total, rel_tol=1e-9, abs_tol=1e-9
        ):
            msg = f"{who}: the outputs must equal the reference's, got {self}, not {expected}"
            raise WrongResultError(msg)


@attrs.frozen
class Result:
    """One side on one workload.

    Args:
        side: Its name.
        workload: Its name.
        shape: The size of its input.
        seconds: The time of each steady-state micro-batch, or equal share of the records.
    """

    side: str
    workload: str
    shape: Shape
    seconds: tuple[float, ...]

    @property
    def rates(self) -> list[float]:
        """Records per second, a figure for each micro-batch."""
        return [self.shape.records / each for each in self.seconds]

    @property
    def median(self) -> float:
        """The median of the records per second."""
        return statistics.median(self.rates)

    @property
    def median_seconds(self) -> float:
        """The median time of a micro-batch."""
        return statistics.median(self.seconds)

    def to_json(self) -> dict[str, Any]:
        """For the file of raw figures."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Result:
        """Back again."""
        return cls(raw["side"], raw["workload"], Shape(**raw["shape"]), tuple(raw["seconds"]))
