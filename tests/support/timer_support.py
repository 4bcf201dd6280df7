# SPDX-License-Identifier: Apache-2.0
"""The two domains of timers, as a test drives them."""

import pytest
from probe import drive


class Domain:
    """One of the two domains, as a test drives it."""

    def __init__(self, name):
        self.name = name

    def register(self, driver, *timestamps):
        """Register timers of the driver's key, in one call."""
        self.call(driver, "register", timestamps)

    def delete(self, driver, *timestamps):
        """Delete timers of the driver's key, in one call."""
        self.call(driver, "delete", timestamps)

    def call(self, driver, verb, timestamps):
        """Call a method of the timer service for each of the timestamps."""
        driver.run(lambda _, ctx: [self.method(ctx, verb)(each) for each in timestamps] and None)

    def method(self, ctx, verb):
        """That method of the timer service for this domain."""
        return getattr(ctx.timer_service(), f"{verb}_{self.name}_time_timer")

    def advance(self, driver, time):
        """Let the time of this domain come to `time`; (key, timestamp) of what fires."""
        clock = driver.harness
        advance = clock.process_watermark if self.name == "event" else clock.set_processing_time
        return [each[:2] if isinstance(each, tuple) else each for each in advance(time)]

    def count(self, driver):
        """How many timers there are."""
        return getattr(driver.harness, f"num_{self.name}_time_timers")()


EVENT, PROCESSING = Domain("event"), Domain("processing")
both_domains = pytest.mark.parametrize("domain", [EVENT, PROCESSING], ids=["event", "processing"])


def firing(on_timer):
    """A driver whose timers do this with the context, and yield their timestamp."""

    def script(_, timestamp, ctx):
        on_timer(timestamp, ctx)
        return timestamp

    return drive(on_timer=script)
