# SPDX-License-Identifier: Apache-2.0
"""What drawn programs give where nothing fails: what their oracle says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated.choices import Choices
from simulated.programs import KINDS, draw_program
from simulated.simulation import Conditions, Outcome, Run, use_seed

FAULTLESS = Conditions(rates=(0.0,), may_be_damaged=False, restarts=0.5)
"""A world in which queries are only stopped and started again, often with another declaration."""


def ran(kind: str, seed: int) -> Outcome:
    """How a program of a kind ends there."""
    with use_seed(seed) as folder:
        run = Run(
            Choices(seed), lambda choices: draw_program(choices, [kind]), 8, folder, FAULTLESS
        )
        return run.outcome()


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=max(settings().max_examples // 25, 2), deadline=None)
def test_without_a_fault_a_program_gives_what_its_oracle_says(kind: str, seed: int) -> None:
    """Rows of each micro-batch and state at the end, over restarts; no error but that of a type that grew, which no record has told the checkpoint of."""
    outcome = ran(kind, seed)
    assert not outcome.is_failure, "\n".join((outcome.what, *outcome.history))
