# SPDX-License-Identifier: Apache-2.0
"""Tools to test streaming code without Spark and without a JVM."""

from pyflinklike._exports import export_public
from pyflinklike.testing.harness_chain import HarnessChain
from pyflinklike.testing.harnesses import (
    BroadcastHarness,
    KeyedProcessHarness,
    KeyedTwoInputHarness,
)

__all__ = [
    "BroadcastHarness",
    "HarnessChain",
    "KeyedProcessHarness",
    "KeyedTwoInputHarness",
]

export_public(globals())
