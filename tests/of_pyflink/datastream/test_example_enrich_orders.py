# SPDX-License-Identifier: Apache-2.0
"""The example whose function waits for a service."""

from __future__ import annotations

import importlib

import pytest
from example_support import EXAMPLES


@pytest.fixture
def module(monkeypatch):
    """The example."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("enrich_orders")


def test_the_orders_are_priced_as_by_a_loop(module):
    """Each of them once, though the service is busy at times and is asked again."""
    orders = module.made(60)

    with module.service() as port:
        found = module.owed(orders, port, "local")

    assert module.owed_by_a_loop(orders) == found
