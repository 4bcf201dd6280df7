# SPDX-License-Identifier: Apache-2.0
"""Secrets: the settings that hold one, and messages without them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["hide_secrets", "is_secret"]

_SECRET: Final = re.compile(r"password|secret|token|jaas|credential|\.pem$|oauthbearer\.config")
_HIDDEN: Final = "***"


def is_secret(setting: str) -> bool:
    """Return whether the value of a setting of that name must not be shown."""
    return _SECRET.search(setting.lower()) is not None


def hide_secrets(text: str, settings: Mapping[str, str]) -> str:
    """Return the text with `***` for every secret of these settings that it quotes.

    Args:
        text: A message of librdkafka, which quotes values that it refuses.
        settings: The settings that librdkafka was given.
    """
    for name, value in settings.items():
        if value and is_secret(name):
            text = text.replace(value, _HIDDEN)
    return text
