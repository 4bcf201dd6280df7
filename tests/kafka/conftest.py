# SPDX-License-Identifier: Apache-2.0
"""A broker, and a topic on it; where confluent-kafka is missing, nobody asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafka_support import Brokers


@pytest.fixture(scope="module")
def brokers() -> Brokers:
    """One mock cluster; every test has topics of its own."""
    from kafka_support import mock_brokers

    return mock_brokers()


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    from kafka_support import new_topic

    return new_topic()
