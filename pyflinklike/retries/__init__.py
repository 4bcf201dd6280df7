# SPDX-License-Identifier: Apache-2.0
"""Does a function give the same when Spark retries it, restarts it, or moves it?

simulate(MyFunction(), records, key_columns="user")    # raises AssertionError if it does not
"""

from pyflinklike._exports import export_public
from pyflinklike.retries.simulation import simulate

__all__ = ["simulate"]

export_public(globals())
