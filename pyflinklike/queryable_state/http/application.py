# SPDX-License-Identifier: Apache-2.0
"""A replica or a view as a WSGI application: any server runs it, and it needs no package.

| request | answer |
|---|---|
| `GET /` | all requests with their parameters |
| `GET /health` | whether the application answers, and its micro-batch |
| `GET /states` | all states and stores |
| `GET /states/<name>?key=..` | the state of a key; of a window with `namespace=` |
| `GET /stores/<name>/<verb>?key=..` | the result of a store's method; of scope "key" with `current=` |
| `GET /timers?key=..` | the timers of a key, or of all keys in the order of time |
| `GET /rows?key=..` | the row of a key in a view |

`X-Batch-Id` is the micro-batch of the answer, `Age` the time since its commit in seconds.
Errors are 400 (an unknown parameter or a bad value), 401 (no token), 404 (no such key, state, store or
verb), 405, 409 (a scan that was not allowed), 410 (a scan that went on too late), 421 (another host),
422 (a row that is an error), 500 (damaged state) and 503 (too old an answer, closed, or too many
requests wait).
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import logging
import math
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import attrs

from pyflinklike._clock import TimeDomain, wall_clock
from pyflinklike._messages import shown
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationError,
    DeclarationTypeError,
    HostError,
    IncompatibleStateError,
    PyflinklikeError,
    ScanDisabledError,
    StaleStateError,
    StateAccessError,
    StateValueError,
    StoreClosedError,
    StoreValueError,
    UnknownStateError,
    UnknownStoreError,
    ValueDecodeError,
)
from pyflinklike.queryable_state.http.request_keys import (
    json_key_of,
    namespace_of,
    state_key_of,
    verbs_of,
)
from pyflinklike.queryable_state.http.requests import (
    BOUNDS,
    Guard,
    count_of,
    path_of,
    query_of,
    whole,
)
from pyflinklike.queryable_state.queryable_state import QueryableState
from pyflinklike.queryable_state.read_only_states import StateReader, Timer
from pyflinklike.state_processor._logs.key_columns import time_of, user_key_of
from pyflinklike.types.row import Row
from pyflinklike.types.time_types import Instant
from pyflinklike.views.view import Freshness, View

__all__ = ["app", "json_value"]


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
    (IncompatibleStateError, HTTPStatus.BAD_REQUEST),
    (ValueDecodeError, HTTPStatus.UNPROCESSABLE_ENTITY),
]


LOG = logging.getLogger("pyflinklike.queryable_state.http")


_ITEMS = 1000
"""The number of items in one answer by default."""


_SCANS = 4
"""The number of snapshots kept for scans that go on; each holds on to state that has changed since."""


_PAGING = ("limit", "reverse", "after")


_OF_PAGE = ("limit", "after", *BOUNDS)
"""The parameters that may differ between two requests of one scan."""


_POLL_MS = 50


_PATIENCE_MS = 10_000
"""The time that a request waits for a view by default."""


StartResponse = Callable[[str, list[tuple[str, str]]], object]


Application = Callable[[Mapping[str, Any], StartResponse], Iterable[bytes]]


@attrs.frozen
class _Answer:
    body: Mapping[str, Any]
    batch_id: int | None = None
    age: int | None = None
    status: HTTPStatus = HTTPStatus.OK


_Ask = Callable[[list[str], Mapping[str, str]], _Answer]


class _BusyError(Exception):
    """Too many requests wait already."""


@attrs.frozen
class _Limits:
    """The limits of requests.

    Args:
        timeout: The longest wait of a request, in ms.
        waiting: Has a slot for each request that may wait at the same time.
        items: The most items of one answer.
        now: Returns the time in ms.
    """

    timeout: int
    waiting: threading.Semaphore
    items: int
    now: Callable[[], int]

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Take a slot among the waiting requests while the block runs.

        Raises:
            _BusyError: No slot is free.
        """
        if not self.waiting.acquire(blocking=False):
            raise _BusyError
        try:
            yield
        finally:
            self.waiting.release()


def app(
    source: QueryableState | View,
    *,
    hosts: Iterable[str] | None = None,
    token: str | None = None,
    max_timeout: int = 30_000,
    max_waiting: int = 16,
    max_items: int = 10_000,
) -> Application:
    """Make a WSGI application that answers from a replica or a view, as JSON.

    The application only reads.  It knows no users: whoever may ask may read everything.

    Args:
        source: The result of `open_state`, or a `MaterializedView` or `PostgresView`; the caller
            closes it.
        hosts: The names under which requests may come (`Host`), such as `["localhost",
            "127.0.0.1"]`, each with a port or for every port; None for any.  Give names where a
            browser runs on the same machine: a web page could read the state by DNS rebinding.
        token: The token that requests must send as `Authorization: Bearer <token>`; None for none.
        max_timeout: The longest wait of a request in ms, also by default.
        max_waiting: The most requests that wait at the same time, for a batch or for a look at
            the checkpoint; further ones get status 503.
        max_items: The most items of one answer.

    Returns:
        An application for a WSGI server, such as `wsgiref.simple_server.make_server("127.0.0.1",
        8000, app(state))`, which may call it in many threads.

    Raises:
        DeclarationTypeError: The source is neither, or an argument is of another type.
        DeclarationValueError: A limit is below 1, or the token is not printable ASCII.
    """
    guard = Guard.of(hosts, token)
    limits = _Limits(
        count_of(max_timeout, "max_timeout"),
        threading.Semaphore(count_of(max_waiting, "max_waiting")),
        count_of(max_items, "max_items"),
        wall_clock,
    )
    if isinstance(source, QueryableState):
        answer: _Ask = _Replica(source, limits)
    elif isinstance(source, View):
        answer = _View(source, limits)
    else:
        msg = f"app takes a replica or a view, got {shown(source)}; give what open_state() gave"
        raise DeclarationTypeError(msg)

    def application(environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        return _respond(answer, guard, environ, start_response)

    return application


def _respond(
    answer: _Ask, guard: Guard, environ: Mapping[str, Any], start_response: StartResponse
) -> Iterable[bytes]:
    method = environ.get("REQUEST_METHOD", "GET")
    headers = [("Content-Type", "application/json; charset=utf-8"), ("Cache-Control", "no-cache")]
    if not guard.knows_host(environ):
        host = shown(environ.get("HTTP_HOST", ""))
        msg = f"it is asked under the names that it was given, got Host {host}; add it to hosts"
        found = _make_failure(HTTPStatus.MISDIRECTED_REQUEST, msg)
    elif not guard.knows_token(environ):
        msg = "a request must give the token, got none or another; send Authorization: Bearer .."
        found = _make_failure(HTTPStatus.UNAUTHORIZED, msg)
        headers.append(("WWW-Authenticate", 'Bearer realm="pyflinklike"'))
    elif method not in ("GET", "HEAD"):
        msg = f"only GET and HEAD are known, got {shown(method)}"
        found = _make_failure(HTTPStatus.METHOD_NOT_ALLOWED, msg)
        headers.append(("Allow", "GET, HEAD"))
    else:
        found = _find_answer(answer, environ)
    if found.batch_id is not None:
        headers.append(("X-Batch-Id", str(found.batch_id)))
    if found.age is not None:
        headers.append(("Age", str(max(found.age, 0) // 1000)))
    if found.status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append(("Retry-After", "1"))
    text = _encode(found.body)
    headers.append(("Content-Length", str(len(text))))
    start_response(f"{found.status.value} {found.status.phrase}", headers)
    return [b"" if method == "HEAD" else text]


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can write as an escape
        return json.dumps(body, separators=(",", ":")).encode()


def _find_answer(answer: _Ask, environ: Mapping[str, Any]) -> _Answer:
    try:
        return answer(path_of(environ), query_of(environ))
    except _BusyError:
        msg = "as many requests wait as may; ask again later, or without at_least_batch and max_age"
        return _make_failure(HTTPStatus.SERVICE_UNAVAILABLE, msg)
    except PyflinklikeError as error:
        for kind, status in _STATUS:
            if isinstance(error, kind):
                return _make_failure(status, str(error), type(error).__name__)
        if not isinstance(error, CorruptStateError):
            LOG.exception("a request could not be answered")
        return _make_failure(HTTPStatus.INTERNAL_SERVER_ERROR, str(error), type(error).__name__)


def _make_failure(status: HTTPStatus, message: str, kind: str = "") -> _Answer:
    return _Answer({"error": kind or status.phrase, "message": message}, status=status)


def _check_parameters(query: Mapping[str, str], *names: str) -> None:
    """Check that a request has no other parameters.

    Raises:
        StateValueError: A parameter has another name.
    """
    unknown = sorted(set(query) - set(names))
    if unknown:
        are = f"its parameters are {sorted(names)}" if names else "it takes no parameters"
        msg = f"{are}, got {shown(unknown[0])}; leave it out"
        raise StateValueError(msg)


# A replica


_OF_TIMERS = ("domain", "from", "to")


_DOMAINS = {domain.name.lower(): domain for domain in TimeDomain}


_OF_KEYS = ["key", "namespace", *BOUNDS]


_INDEX = {
    "/health": [],
    "/states": [*BOUNDS],
    "/states/<name>": _OF_KEYS,
    "/stores/<name>/<verb>": ["current", "<arguments of the verb>", *_PAGING, *BOUNDS],
    "/timers": ["key", *_OF_TIMERS, *_PAGING, *BOUNDS],
}


class _Replica:
    def __init__(self, state: QueryableState, limits: _Limits) -> None:
        self.state, self.limits = state, limits
        self.scans = _Scans()

    def __call__(self, parts: list[str], query: Mapping[str, str]) -> _Answer:
        if parts == [""]:
            _check_parameters(query)
            return _Answer({"requests": _INDEX})
        if parts == ["health"]:
            _check_parameters(query)
            now = self.state.position
            body = {"status": "ok", "batch_id": now.batch_id, "watermark": now.watermark}
            return _Answer(body, now.batch_id, now.age)
        is_known = parts == ["timers"] or parts[0] == "states"
        if not is_known and not (parts[0] == "stores" and len(parts) > 2):
            wanted = "/, /health, /states, /states/<name>, /stores/<name>/<verb> and /timers"
            got = shown("/" + "/".join(parts))
            return _make_failure(HTTPStatus.NOT_FOUND, f"there are {wanted}, got {got}")
        with self._snapshot(query) as at:
            if parts == ["states"]:
                _check_parameters(query, *BOUNDS)
                found = _Answer({"states": [_describe(each) for each in at.states()]})
            elif parts[0] == "states":
                found = _state(at, "/".join(parts[1:]), query)
            elif parts[0] == "timers":
                found = self._timers(at, query)
            else:
                found = self._store(at, "/".join(parts[1:-1]), parts[-1], query)
            if found.batch_id is not None:
                return found
            return attrs.evolve(found, batch_id=at.position.batch_id, age=at.position.age)

    @contextmanager
    def _snapshot(self, query: Mapping[str, str]) -> Iterator[StateReader]:
        at_least = whole(query, "at_least_batch")
        max_age = whole(query, "max_age")
        timeout = whole(query, "timeout", self.limits.timeout)
        if timeout is None:
            timeout = min(self.state.timeout, self.limits.timeout)
        is_there = at_least is None or self.state.position.batch_id >= at_least
        with ExitStack() as stack:
            # The slot is given back before the answer is read: only waiting is limited.
            with ExitStack() as slot:
                if max_age is not None or not is_there:
                    slot.enter_context(self.limits.slot())
                at = stack.enter_context(
                    self.state.snapshot(at_least_batch=at_least, max_age=max_age, timeout=timeout)
                )
            yield at

    def _store(self, at: StateReader, name: str, verb: str, query: Mapping[str, str]) -> _Answer:
        infos = {info.name: info for info in at.states()}
        info = infos.get(name)
        given = {}
        has_key = info is not None and info.is_store and info.key_type is not None
        if has_key and "current" in query:
            assert info is not None
            given["key"] = state_key_of(query["current"], info)
        store = at.store(name, **given)
        verbs = verbs_of(store.info)
        if verb not in verbs:
            msg = f"a {store.info.kind} store has {sorted(verbs)}, got {shown(verb)}"
            return _make_failure(HTTPStatus.NOT_FOUND, msg)
        chosen = verbs[verb]
        current = ("current",) if store.scope == "key" else ()
        paging = _PAGING if chosen.many else ()
        _check_parameters(query, *current, *chosen.keys, *chosen.times, *paging, *BOUNDS)
        arguments = chosen.arguments(query, store.info)
        if not chosen.many:
            value = getattr(store, verb)(*arguments)
            if value is None:
                return _make_failure(
                    HTTPStatus.NOT_FOUND, f"store {name!r} has nothing there", "no key"
                )
            return _Answer({"value": json_value(value)})
        is_reverse = _flag(query, "reverse")

        def read(scan: StateReader) -> Iterator[Any]:
            asked = getattr(scan.store(name, **given), verb)
            if verb == "history":
                return iter(asked(*arguments, "desc" if is_reverse else "asc"))
            return iter(asked(*arguments, reverse=is_reverse))

        return self._page(at, (name, verb), query, read, json_value)

    def _timers(self, at: StateReader, query: Mapping[str, str]) -> _Answer:
        timers = at.timers()
        _check_parameters(query, "key", *_OF_TIMERS, *_PAGING, *BOUNDS)
        is_reverse, domain = _flag(query, "reverse"), _domain(query)
        begin, end = (time_of(query[each]) if each in query else None for each in ("from", "to"))
        has_windows = timers.namespace_type is not None
        key = None
        if "key" in query:
            key = user_key_of(query["key"], timers.key_columns, timers.key_type.signature)

        def read(scan: StateReader) -> Iterator[Timer]:
            timers = scan.timers()
            if "key" not in query:
                return timers.all(begin, end, domain=domain, reverse=is_reverse)
            found = timers.get(key, domain=domain)
            mine = (each for each in (reversed(found) if is_reverse else found))
            return (each for each in mine if _is_between(each.timestamp, begin, end))

        def shown_timer(timer: Timer) -> dict[str, Any]:
            window = {"namespace": json_value(timer.namespace)} if has_windows else {}
            time = json_value(timer.timestamp)
            domain = timer.domain.name.lower()
            return {"key": json_value(timer.key), **window, "domain": domain, "timestamp": time}

        return self._page(at, ("timers",), query, read, shown_timer)

    def _page(
        self,
        at: StateReader,
        path: tuple[str, ...],
        query: Mapping[str, str],
        read: Callable[[StateReader], Iterator[Any]],
        item: Callable[[Any], Any],
    ) -> _Answer:
        """Answer with the next items of a scan.

        Args:
            at: The snapshot of a scan that begins.
            path: The path of the request, as a part of the scan's identity.
            query: The parameters of the request.
            read: Returns all items of a snapshot.
            item: Makes JSON's values of an item.
        """
        most = whole(query, "limit", self.limits.items)
        limit = min(_ITEMS, self.limits.items) if most is None else most
        asked = {name: each for name, each in query.items() if name not in _OF_PAGE}
        question = (*path, *sorted(asked.items()))
        scan, start, rest = at, 0, None
        if "after" in query:
            found = self.scans.find(query["after"], question)
            if found is None:
                msg = "the snapshot of this scan is no longer kept; begin it anew, without after="
                return _make_failure(HTTPStatus.GONE, msg)
            scan, start, rest = found
        if rest is None:
            rest = read(scan)
            for _ in itertools.islice(rest, start):
                pass  # earlier answers had these items
        items = [item(each) for each in itertools.islice(rest, limit)]
        following = next(rest, None)
        body: dict[str, Any] = {"items": items, "more": following is not None}
        if following is not None:
            rest = itertools.chain((following,), rest)
            body["after"] = self.scans.keep(scan, start + len(items), question, rest)
        return _Answer(body, scan.position.batch_id, scan.position.age)


def _describe(info: Any) -> dict[str, Any]:
    fields = ("name", "kind", "key_columns", "user_key_type", "value_type", "ttl", "options")
    return {name: json_value(getattr(info, name)) for name in fields}


def _state(at: StateReader, name: str, query: Mapping[str, str]) -> _Answer:
    state = at[name]
    is_keyed = state.info.key_type is not None
    of_windows = () if state.info.namespace_type is None else ("namespace",)
    _check_parameters(query, *(("key",) if is_keyed else ()), *of_windows, *BOUNDS)
    key = None
    if is_keyed:
        if "key" not in query:
            msg = f"state {name!r}: a lookup takes key=, got none; give it as JSON"
            raise StateValueError(msg)
        key = state_key_of(query["key"], state.info)
    namespace = namespace_of(query.get("namespace", "null"), state.info)
    value = state.get(key, namespace=namespace)
    if value is None:
        msg = f"state {name!r} has nothing of {shown(key)}"
        return _make_failure(HTTPStatus.NOT_FOUND, msg, "no key")
    return _Answer({"key": json_value(key), "value": json_value(value)})


def _flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "false").lower()
    if text not in ("true", "false", "1", "0"):
        msg = f"{name} takes true or false, got {shown(query[name])}; give one"
        raise StateValueError(msg)
    return text in ("true", "1")


def _domain(query: Mapping[str, str]) -> TimeDomain | None:
    if "domain" not in query:
        return None
    found = _DOMAINS.get(query["domain"])
    if found is None:
        msg = f"domain takes one of {sorted(_DOMAINS)}, got {shown(query['domain'])}"
        raise StateValueError(f"{msg}; leave it out for both")
    return found


def _is_between(time: int, begin: int | None, end: int | None) -> bool:
    return (begin is None or begin <= time) and (end is None or time <= end)


class _Scans:
    """Snapshots of scans that go on, so that all their answers are of one micro-batch.

    The text by which a scan goes on has a meaning to this process only.
    """

    def __init__(self) -> None:
        self._readers: OrderedDict[str, StateReader] = OrderedDict()
        self._rests: OrderedDict[tuple[Any, ...], Iterator[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(
        self, reader: StateReader, count: int, question: tuple[Any, ...], rest: Iterator[Any]
    ) -> str:
        """Keep a scan that goes on, and return the text to send as `after=`.

        Args:
            reader: The snapshot that all answers of the scan read.
            count: The number of items in the answers so far.
            question: Path and parameters, which must be the same in the next request.
            rest: The items that no answer has had.
        """
        with self._lock:
            name = next(
                (
                    name
                    for name, each in self._readers.items()
                    if each is reader or each.position is reader.position
                ),
                None,
            )
            if name is None:
                name = secrets.token_hex(8)
                self._readers[name] = reader
            self._readers.move_to_end(name)
            while len(self._readers) > _SCANS:
                gone, _ = self._readers.popitem(last=False)
                for key in [each for each in self._rests if each[0] == gone]:
                    del self._rests[key]
            # Kept, since to find these items anew costs as much as all answers before: of a
            # million timers 7 s for an answer, against 12 ms.
            self._rests[name, count, question] = rest
            while len(self._rests) > _SCANS:
                self._rests.popitem(last=False)
        return f"{name}.{count}"

    def find(
        self, after: str, question: tuple[Any, ...]
    ) -> tuple[StateReader, int, Iterator[Any] | None] | None:
        """Return the snapshot of a scan, the number of its items so far, and the rest if kept.

        The rest is handed out once: a second request for the same answer gets None, and must find
        the items anew.

        Raises:
            StateValueError: The text is no `after` of an answer.
        """
        name, _, count = after.partition(".")
        if not (count.isascii() and count.isdecimal() and len(count) < 18):
            msg = f"after takes what an answer had as its after, got {shown(after)}; give that"
            raise StateValueError(msg)
        with self._lock:
            reader = self._readers.get(name)
            rest = self._rests.pop((name, int(count), question), None)
        return None if reader is None else (reader, int(count), rest)


# A view


class _View:
    def __init__(self, view: View, limits: _Limits) -> None:
        self.view, self.limits = view, limits
        self._never = threading.Event()

    def __call__(self, parts: list[str], query: Mapping[str, str]) -> _Answer:
        if parts == [""]:
            _check_parameters(query)
            return _Answer({"requests": {"/health": [], "/rows": ["key", *BOUNDS]}})
        if parts not in (["rows"], ["health"]):
            got = shown("/" + "/".join(parts))
            return _make_failure(HTTPStatus.NOT_FOUND, f"there are /, /health and /rows, got {got}")
        if parts == ["health"]:
            _check_parameters(query)
            fresh = self.view.freshness
            body = {"status": "ok", "batch_id": fresh.batch_id, "watermark": fresh.watermark}
            return _Answer(body, fresh.batch_id, fresh.lag)
        _check_parameters(query, "key", *BOUNDS)
        # Asked before the row, so that the row is of this batch or of a later one.
        fresh = self._fresh(query)
        return attrs.evolve(self._row(query), batch_id=fresh.batch_id, age=fresh.lag)

    def _fresh(self, query: Mapping[str, str]) -> Freshness:
        """Wait until the view is as fresh as the request asks, and return its freshness.

        Raises:
            StaleStateError: The view is not as fresh within the timeout.
        """
        batch, age = whole(query, "at_least_batch"), whole(query, "max_age")
        timeout = whole(query, "timeout", self.limits.timeout)
        patience = min(_PATIENCE_MS, self.limits.timeout) if timeout is None else timeout

        def is_fresh(found: Freshness) -> bool:
            has_come = batch is None or (found.batch_id is not None and found.batch_id >= batch)
            return has_come and (age is None or (found.lag is not None and found.lag <= age))

        found = self.view.freshness
        if is_fresh(found):
            return found
        with self.limits.slot():
            end = self.limits.now() + patience
            while (left := end - self.limits.now()) > 0:
                self._never.wait(min(left, _POLL_MS) / 1000)
                found = self.view.freshness
                if is_fresh(found):
                    return found
        asked = [f"of batch {batch} or later"] if batch is not None else []
        asked += [f"no older than {age} ms"] if age is not None else []
        msg = f"view {self.view.name!r}: an answer must be {' and '.join(asked)}, got {found}"
        raise StaleStateError(f"{msg} after {patience} ms; wait longer, or see what feeds it")

    def _row(self, query: Mapping[str, str]) -> _Answer:
        if "key" not in query:
            msg = f"view {self.view.name!r}: a lookup takes key=, got none; give it as JSON"
            raise StateValueError(msg)
        key = json_key_of(query["key"])
        row = self.view.get(key)
        if row is None:
            msg = f"view {self.view.name!r} has no row of {shown(key)}"
            return _make_failure(HTTPStatus.NOT_FOUND, msg, "no key")
        return _Answer({"key": json_value(key), "value": json_value(row)})


# Values as JSON


_EPOCH = dt.datetime(1970, 1, 1)


_EXACT = 2**53
"""The largest int that keeps its digits where JSON's numbers are floats, as in a browser."""


def _iso(instant: Instant) -> str:
    """Return an instant in ISO 8601 with all digits; as `str` if its year has too many digits."""
    try:
        seconds = _EPOCH + dt.timedelta(seconds=instant.seconds)
    except OverflowError:
        return str(instant)
    digits = f".{instant.nanos:09}".rstrip("0").rstrip(".")
    return f"{seconds.isoformat()}{digits}Z"


def json_value(value: Any) -> Any:
    """Return a value in a form that `json.dumps` writes.

    Rows and named tuples become objects.  A map becomes an object if its keys are texts, else a list
    of pairs.  Bytes become hex after 0x, times ISO 8601, and numbers that JSON lacks a text.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return value if -_EXACT <= value <= _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray)):
        return f"0x{value.hex()}"
    if isinstance(value, Row):
        names = getattr(value, "_fields", None)
        return json_value(value.as_dict() if names else list(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return json_value(value._asdict())
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: json_value(each) for key, each in value.items()}
        return [[json_value(key), json_value(each)] for key, each in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(each) for each in value]
    if isinstance(value, (dt.date, dt.time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, Instant):
        return _iso(value)
    if isinstance(value, Decimal):
        return str(value)
    return repr(value)
