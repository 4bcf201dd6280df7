# SPDX-License-Identifier: Apache-2.0
"""Backends agree with a model of Flink's rules, whatever happens to their workers.

CI tries harder: HYPOTHESIS_PROFILE=ci or thorough.
"""

from agreement import agreement_machine
from hypothesis import settings

from pyflinklike.backends.heap.heap_backend import HashMapStateBackend

# A history takes some 50 ms; `thorough` takes thousands of them.
HISTORIES = settings(stateful_step_count=40)

TestAgreement = agreement_machine(HashMapStateBackend()).TestCase
TestAgreement.settings = HISTORIES

TestBackgroundAgreement = agreement_machine(HashMapStateBackend(), background=True).TestCase
TestBackgroundAgreement.settings = HISTORIES
