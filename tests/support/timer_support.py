# SPDX-License-Identifier: Apache-2.0
"""The two domains of timers, as a test drives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from probe import Driver, drive


class Domain:
    """One of the two domains, as a test drives it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def register(self, driver: Driver, *timestamps: int) -> None:
        """Register timers of the driver's key, in one call."""
        self.call(driver, "register", timestamps)

    def delete(self, driver: Driver, *timestamps: int) -> None:
        """Delete timers of the driver's key, in one call."""
        self.call(driver, "delete", timestamps)

    def call(self, driver: Driver, verb: str, timestamps: Iterable[int]) -> None:
        """Call a method of the timer service for each of the timestamps."""
        driver.run(lambda _, ctx: [self.method(ctx, verb)(each) for each in timestamps] and None)

    def method(self, ctx: Any, verb: str) -> Any:
        """That method of the timer service for this domain."""
        plural = "s" if verb == "list" else ""
        return getattr(ctx.timer_service(), f"{verb}_{self.name}_time_timer{plural}")

    def advance(self, driver: Driver, time: int) -> list[Any]:
        """Let the time of this domain come to `time`; (key, timestamp) of what fires."""
        clock = driver.harness
        advance = clock.process_watermark if self.name == "event" else clock.set_processing_time
        return [each[:2] if isinstance(each, tuple) else each for each in advance(time)]

    def count(self, driver: Driver) -> int:
        """How many timers there are."""
        counted: int = getattr(driver.harness, f"num_{self.name}_time_timers")()
        return counted


EVENT, PROCESSING = Domain("event"), Domain("processing")
both_domains = pytest.mark.parametrize("domain", [EVENT, PROCESSING], ids=["event", "processing"])


def firing(on_timer: Callable[[int, Any], Any]) -> Driver:
    """A driver whose timers do this with the context, and yield their timestamp."""

    def script(_: Any, timestamp: int, ctx: Any) -> int:
        on_timer(timestamp, ctx)
        return timestamp

    return drive(on_timer=script)
