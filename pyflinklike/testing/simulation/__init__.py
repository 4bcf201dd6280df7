# SPDX-License-Identifier: Apache-2.0
"""A whole query simulated from one seed: driver, state store, tasks, files and clock."""

from pyflinklike.testing.simulation.user_programs import simulate

__all__ = ["simulate"]
