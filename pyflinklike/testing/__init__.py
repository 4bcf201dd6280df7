# SPDX-License-Identifier: Apache-2.0
"""Tools to test streaming code without Spark and without a JVM."""

from pyflinklike.doors import pin
from pyflinklike.testing.batch_harness import KeyedBatchHarness
from pyflinklike.testing.broadcast import BroadcastHarness
from pyflinklike.testing.chain import HarnessChain
from pyflinklike.testing.harness import KeyedProcessHarness
from pyflinklike.testing.two_inputs import KeyedTwoInputHarness

__all__ = [
    "BroadcastHarness",
    "HarnessChain",
    "KeyedBatchHarness",
    "KeyedProcessHarness",
    "KeyedTwoInputHarness",
]

pin(globals())
