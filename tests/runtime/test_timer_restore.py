# SPDX-License-Identifier: Apache-2.0
"""Timers after a restore, and at the end of the input."""

from probe import drive
from timer_support import EVENT, PROCESSING, both_domains

from pyflinklike import MAX_WATERMARK

# Restore


@both_domains
def test_timers_are_restored(domain):
    """They fire as if nothing had happened."""
    driver = drive()
    domain.register(driver, 10)
    domain.register(driver.of("b"), 20)
    again = driver.restored()
    assert 2 == domain.count(again)
    assert [("k", 10), ("b", 20)] == domain.advance(again, 20)


@both_domains
def test_a_restored_timer_keeps_its_identity(domain):
    """Registered again it fires once, deleted it does not fire."""
    driver = drive()
    domain.register(driver, 10, 20)
    again = driver.restored()
    domain.register(again, 10)
    domain.delete(again, 20)
    assert [("k", 10)] == domain.advance(again, 100)


@both_domains
def test_a_restored_timer_that_is_due_fires_at_the_first_advance(domain):
    """However long it was due."""
    driver = drive()
    domain.register(driver, -100)
    again = driver.restored()
    assert [] == again.harness.output
    assert [("k", -100)] == domain.advance(again, 0)


def test_a_timer_that_fired_is_not_restored():
    """Firing removed it."""
    driver = drive()
    EVENT.register(driver, 10)
    EVENT.advance(driver, 10)
    assert 0 == EVENT.count(driver.restored())


# End of input


def test_the_end_of_input_fires_every_event_timer():
    """One at the end of time, too."""
    driver = drive()
    EVENT.register(driver, 10, MAX_WATERMARK)
    fired = [timestamp for _, timestamp, _ in driver.harness.end_of_input()]
    assert ([10, MAX_WATERMARK], MAX_WATERMARK) == (fired, driver.harness.watermark)


def test_the_end_of_input_fires_no_processing_timer():
    """Pending ones are dropped."""
    driver = drive()
    PROCESSING.register(driver, 0)
    assert [] == driver.harness.end_of_input()
