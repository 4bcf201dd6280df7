# SPDX-License-Identifier: Apache-2.0
"""A replica or a view as a WSGI application: any server runs it, and it needs no package.

| request | answer |
|---|---|
| `GET /states` | the states and stores there are |
| `GET /states/<name>?key=..` | what a key has of a state; of windows with `namespace=` |
| `GET /stores/<name>/<verb>?key=..` | what a store's verb gives; of scope "key" with `current=` |
| `GET /rows?key=..` | the row of a key, of a view |

`X-Batch-Id` is the micro-batch of the answer, `Age` how long ago that was committed, in seconds.
Errors are 400 (no such verb or argument, or it is no key), 404 (no such key, state or store), 405,
409 (a scan that was not allowed), 500 (damaged state) and 503 (older than was asked for, or closed).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import attrs

from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    HostError,
    PyflinklikeError,
    ScanDisabledError,
    StaleStateError,
    StateAccessError,
    StateValueError,
    StoreClosedError,
    StoreValueError,
    UnknownStateError,
    UnknownStoreError,
)
from pyflinklike.replica.queryable import QueryableState
from pyflinklike.replica.state_reader import StateReader
from pyflinklike.serve.json_values import json_value
from pyflinklike.serve.keys import json_key_of, namespace_of, state_key_of
from pyflinklike.serve.verbs import verbs_of
from pyflinklike.shown import shown
from pyflinklike.views.core.base import View

__all__ = ["app"]

_STATUS: list[tuple[type[Exception], HTTPStatus]] = [
    (UnknownStateError, HTTPStatus.NOT_FOUND),
    (UnknownStoreError, HTTPStatus.NOT_FOUND),
    (ScanDisabledError, HTTPStatus.CONFLICT),
    (StaleStateError, HTTPStatus.SERVICE_UNAVAILABLE),
    (StoreClosedError, HTTPStatus.SERVICE_UNAVAILABLE),
    (HostError, HTTPStatus.SERVICE_UNAVAILABLE),
    (StateValueError, HTTPStatus.BAD_REQUEST),
    (StoreValueError, HTTPStatus.BAD_REQUEST),
    (StateAccessError, HTTPStatus.BAD_REQUEST),
    (DeclarationError, HTTPStatus.BAD_REQUEST),
]
_MOST = 1000
"""Items of one answer, where a request does not say."""

StartResponse = Callable[[str, list[tuple[str, str]]], object]
Application = Callable[[Mapping[str, Any], StartResponse], Iterable[bytes]]


@attrs.frozen
class _Answer:
    body: Mapping[str, Any]
    batch_id: int | None = None
    age: int | None = None
    status: HTTPStatus = HTTPStatus.OK


def app(source: QueryableState | View) -> Application:
    """A WSGI application that answers from a replica or a view, as JSON.

    It reads only.  It knows neither users nor secrets: put it behind a server that does.

    Args:
        source: What `open_state` gave, or a `MaterializedView` or `PostgresView`; it stays the
            caller's to close.

    Returns:
        What a WSGI server calls, such as `wsgiref.simple_server.make_server("127.0.0.1", 8000,
        app(state))`; it may call it in many threads.

    Raises:
        DeclarationTypeError: It is neither.
    """
    if isinstance(source, QueryableState):
        answer: Callable[[list[str], Mapping[str, str]], _Answer] = _Replica(source)
    elif isinstance(source, View):
        answer = _View(source)
    else:
        msg = f"app takes a replica or a view, got {shown(source)}; give what open_state() gave"
        raise DeclarationTypeError(msg)

    def application(environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        return _answered(answer, environ, start_response)

    return application


def _answered(
    answer: Callable[[list[str], Mapping[str, str]], _Answer],
    environ: Mapping[str, Any],
    start_response: StartResponse,
) -> Iterable[bytes]:
    method = environ.get("REQUEST_METHOD", "GET")
    headers = [("Content-Type", "application/json; charset=utf-8"), ("Cache-Control", "no-cache")]
    if method not in ("GET", "HEAD"):
        found = _failed(HTTPStatus.METHOD_NOT_ALLOWED, f"only GET and HEAD are known, got {method}")
        headers.append(("Allow", "GET, HEAD"))
    else:
        found = _found(answer, environ)
    if found.batch_id is not None:
        headers.append(("X-Batch-Id", str(found.batch_id)))
    if found.age is not None:
        headers.append(("Age", str(max(found.age, 0) // 1000)))
    if found.status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append(("Retry-After", "1"))
    text = json.dumps(found.body, ensure_ascii=False, separators=(",", ":")).encode()
    headers.append(("Content-Length", str(len(text))))
    start_response(f"{found.status.value} {found.status.phrase}", headers)
    return [b"" if method == "HEAD" else text]


def _found(
    answer: Callable[[list[str], Mapping[str, str]], _Answer], environ: Mapping[str, Any]
) -> _Answer:
    # WSGI gives the bytes of a path as Latin-1.
    path = str(environ.get("PATH_INFO", "")).encode("latin-1").decode("utf-8", "replace")
    parts = path.strip("/").split("/")
    query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    try:
        return answer(parts, query)
    except PyflinklikeError as error:
        for kind, status in _STATUS:
            if isinstance(error, kind):
                return _failed(status, str(error), type(error).__name__)
        return _failed(HTTPStatus.INTERNAL_SERVER_ERROR, str(error), type(error).__name__)


def _failed(status: HTTPStatus, message: str, kind: str = "") -> _Answer:
    return _Answer({"error": kind or status.phrase, "message": message}, status=status)


def _int(query: Mapping[str, str], name: str) -> int | None:
    if name not in query:
        return None
    if not query[name].isdecimal():
        msg = f"{name} takes a whole number from 0 on, got {query[name]!r}; give one"
        raise StateValueError(msg)
    return int(query[name])


@attrs.frozen
class _Replica:
    state: QueryableState

    def __call__(self, parts: list[str], query: Mapping[str, str]) -> _Answer:
        bounds = {name: _int(query, name) for name in ("at_least_batch", "max_age", "timeout")}
        with self.state.snapshot(**bounds) as at:
            if parts == ["states"]:
                found: _Answer = _Answer({"states": [_described(each) for each in at.states()]})
            elif len(parts) > 1 and parts[0] == "states":
                found = _state(at, "/".join(parts[1:]), query)
            elif len(parts) == 3 and parts[0] == "stores":
                found = _store(at, parts[1], parts[2], query)
            else:
                wanted = "/states, /states/<name> and /stores/<name>/<verb>"
                found = _failed(HTTPStatus.NOT_FOUND, f"there are {wanted}, got /{'/'.join(parts)}")
            return attrs.evolve(found, batch_id=at.position.batch_id, age=at.position.age)


def _described(info: Any) -> dict[str, Any]:
    fields = ("name", "kind", "key_columns", "user_key_type", "value_type", "ttl", "options")
    return {name: json_value(getattr(info, name)) for name in fields}


def _state(at: StateReader, name: str, query: Mapping[str, str]) -> _Answer:
    state = at[name]
    key = None
    if state.info.key_type is not None:
        if "key" not in query:
            msg = f"state {name!r}: a lookup takes key=, got none; give it as JSON"
            raise StateValueError(msg)
        key = state_key_of(query["key"], state.info)
    namespace = namespace_of(query.get("namespace", "null"), state.info)
    value = state.get(key, namespace=namespace)
    if value is None:
        return _failed(
            HTTPStatus.NOT_FOUND, f"state {name!r} has nothing of {shown(key)}", "no key"
        )
    return _Answer({"key": json_value(key), "value": json_value(value)})


def _store(at: StateReader, name: str, verb: str, query: Mapping[str, str]) -> _Answer:
    infos = {info.name: info for info in at.states()}
    given = {}
    if name in infos and "current" in query:
        given["key"] = state_key_of(query["current"], infos[name])
    store = at.store(name, **given)
    verbs = verbs_of(store.info)
    if verb not in verbs:
        return _failed(
            HTTPStatus.NOT_FOUND, f"a {store.info.kind} store has {sorted(verbs)}, got {verb!r}"
        )
    chosen = verbs[verb]
    arguments = chosen.arguments(query, store.info)
    if not chosen.many:
        value = getattr(store, verb)(*arguments)
        if value is None:
            return _failed(HTTPStatus.NOT_FOUND, f"store {name!r} has nothing there", "no key")
        return _Answer({"value": json_value(value)})
    most = _int(query, "limit")
    is_reverse = query.get("reverse", "").lower() in ("1", "true")
    options: dict[str, Any] = {"reverse": is_reverse}
    if verb == "history":
        arguments.append("desc" if is_reverse else "asc")
        options = {}
    with getattr(store, verb)(*arguments, **options) as cursor:
        items = [
            json_value(each) for each in itertools.islice(cursor, _MOST if most is None else most)
        ]
        return _Answer({"items": items, "more": next(cursor, None) is not None})


@attrs.frozen
class _View:
    view: View

    def __call__(self, parts: list[str], query: Mapping[str, str]) -> _Answer:
        # Before the row, which is of this batch or a later one.
        fresh = self.view.freshness
        found = self._row(parts, query)
        return attrs.evolve(found, batch_id=fresh.batch_id, age=fresh.lag)

    def _row(self, parts: list[str], query: Mapping[str, str]) -> _Answer:
        if parts != ["rows"]:
            return _failed(HTTPStatus.NOT_FOUND, f"there is /rows, got /{'/'.join(parts)}")
        if "key" not in query:
            msg = f"view {self.view.name!r}: a lookup takes key=, got none; give it as JSON"
            raise StateValueError(msg)
        key = json_key_of(query["key"])
        row = self.view.get(key)
        if row is None:
            name = self.view.name
            return _failed(
                HTTPStatus.NOT_FOUND, f"view {name!r} has no row of {shown(key)}", "no key"
            )
        return _Answer({"key": json_value(key), "value": json_value(row)})
