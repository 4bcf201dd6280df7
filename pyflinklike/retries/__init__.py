# SPDX-License-Identifier: Apache-2.0
"""Check that a function gives the same results when Spark retries, restarts or moves it.

simulate(MyFunction(), records, key_columns="user")    # raises AssertionError if it does not
"""

from pyflinklike._exports import export_public
from pyflinklike.retries.simulation import simulate

__all__ = ["simulate"]

export_public(globals())
