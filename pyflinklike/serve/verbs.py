# SPDX-License-Identifier: Apache-2.0
"""The reading methods (verbs) of stores as requests: their arguments as named parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from pyflinklike.errors import StateValueError
from pyflinklike.replay.described import StateInfo
from pyflinklike.replay.typed import time_of
from pyflinklike.serve.keys import store_key_of

__all__ = ["Verb", "verbs_of"]

_RANGE = ("from", "to")


@attrs.frozen
class Verb:
    """A reading method of a store.

    Args:
        name: The name of the method.
        keys: The parameters of its first arguments, which are keys.
        times: The parameters of its further arguments, which are times in ms or ISO 8601.
        required: The parameters that a request must have.
        many: Whether the method returns a cursor, which can be read backwards.
    """

    name: str
    keys: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    many: bool = True

    def arguments(self, query: Mapping[str, str], info: StateInfo) -> list[Any]:
        """Return the method's arguments of a request.

        Raises:
            StateValueError: A parameter is missing, or its value does not fit the type.
        """
        for name in self.required:
            if name not in query:
                msg = f"store {info.name!r}: {self.name} takes {name}=, got none; give it"
                raise StateValueError(msg)
        keys = [store_key_of(query[name], info) if name in query else None for name in self.keys]
        return keys + [time_of(query[name]) if name in query else None for name in self.times]


def _named(*verbs: Verb) -> dict[str, Verb]:
    return {verb.name: verb for verb in verbs}


_KEY = ("key",)
_BY_KEY = _named(
    Verb("get", _KEY, required=_KEY, many=False),
    Verb("range", _RANGE),
    Verb("prefix_scan", ("prefix",), required=("prefix",)),
    Verb("all"),
)
_VERBS: dict[str, dict[str, Verb]] = {
    "key-value": _BY_KEY,
    "timestamped": _BY_KEY,
    "lru": _BY_KEY,
    "window": _named(
        Verb("get", _KEY, ("window_start",), ("key", "window_start"), many=False),
        Verb("fetch", _KEY, _RANGE, _KEY),
        Verb("fetch_range", ("key_from", "key_to"), _RANGE),
        Verb("fetch_all", (), _RANGE),
        Verb("all"),
    ),
    "session": _named(
        Verb("fetch_session", _KEY, ("start", "end"), ("key", "start", "end"), many=False),
        Verb("fetch", _KEY, required=_KEY),
        Verb("fetch_range", ("key_from", "key_to")),
        Verb("find_sessions", _KEY, ("earliest_end", "latest_start"), _KEY),
        Verb("find_sessions_range", ("key_from", "key_to"), ("earliest_end", "latest_start")),
        Verb("find_ended_sessions", (), ("earliest_end", "latest_end")),
    ),
    "versioned": _named(
        Verb("get", _KEY, ("as_of",), _KEY, many=False),
        Verb("history", _KEY, _RANGE, _KEY),
    ),
}


def verbs_of(info: StateInfo) -> Mapping[str, Verb]:
    """Return the reading methods of a store's kind, by name."""
    return _VERBS[info.kind]
