# SPDX-License-Identifier: Apache-2.0
"""The classes that a user's function derives from and receives: contexts, timers, outputs, metrics.

This room only declares and documents them; `pyflinklike._runtime` has the code that runs.
"""
