# SPDX-License-Identifier: Apache-2.0
"""The reading verbs of stores as requests: what each takes, by name in the query string."""

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
    """A verb of a store.

    Args:
        name: The store's method.
        keys: Its first arguments, which are keys, by the names they have in a request.
        times: Those that follow, which are times, in ms or as ISO 8601.
        required: Those of them that must be given.
        many: Whether it gives a cursor, which can be read backwards.
    """

    name: str
    keys: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    many: bool = True

    def arguments(self, query: Mapping[str, str], info: StateInfo) -> list[Any]:
        """The arguments of a request.

        Raises:
            StateValueError: One is missing, or none of its type.
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
    """The verbs of a store's kind, by name."""
    return _VERBS[info.kind]
