# SPDX-License-Identifier: Apache-2.0
"""What a user's function subclasses and receives: contexts, timers, side outputs, metrics.

Declarations and documentation only; `pyflinklike._runtime` has what runs.
"""
