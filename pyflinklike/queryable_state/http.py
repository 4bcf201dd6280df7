# SPDX-License-Identifier: Apache-2.0
"""Serves a replica or a view over HTTP, as an ASGI application of Starlette that only reads.

    from pyflinklike.queryable_state.http import app

    application = app(QueryableState.open(spark, "/checkpoints/visits"))

It needs the extra `http`.

| request | answer |
|---|---|
| `GET /` | all requests with their parameters |
| `GET /health` | whether the application answers, and its micro-batch |
| `GET /states` | all states and stores |
| `GET /states/<name>?key=..` | the state of a key; of a window with `namespace=` |
| `GET /stores/<name>/<verb>?key=..` | the result of a store's method; of scope "key" with `current=` |
| `GET /timers?key=..` | the timers of a key, or of all keys in the order of time |
| `GET /rows?key=..` | the row of a key in a view |

The header `X-Batch-Id` has the micro-batch of the answer, `Age` the seconds since its commit.

| status | error |
|---|---|
| 400 | an unknown parameter or a bad value |
| 401 | no token, or another one |
| 404 | no such key, state, store or verb |
| 405 | another method than GET and HEAD |
| 409 | a scan, but scans are not allowed |
| 410 | the next page of a scan whose snapshot is no longer kept |
| 421 | a `Host` that is not among `hosts` |
| 422 | a row of a view that is an error |
| 500 | damaged state |
| 503 | the answer would be too old, the source is closed, or too many requests wait |

The event loop answers what is at hand itself, since the way to a thread and back takes longer than
such an answer.  A request that has to wait runs in a thread: for a batch, for Spark, for a key group
that is not decoded yet, or for the file of a view.  So does a scan.
"""

from __future__ import annotations

import hmac
import itertools
import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from http import HTTPStatus
from typing import Any

import attrs

from pyflinklike import errors
from pyflinklike._checks import check_count, lacking
from pyflinklike._clock import wall_clock
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError
from pyflinklike.queryable_state.http_values import (
    BOUNDS,
    DIGITS,
    PAGING,
    VERBS,
    Query,
    check_parameters,
    json_key_of,
    json_value,
    key_text,
    namespace_of,
    query_of,
)
from pyflinklike.queryable_state.queryable_state import QueryableState
from pyflinklike.queryable_state.read_only_states import StateReader, Timer
from pyflinklike.queryable_state.version import NotAtOnceError, at_once, begin_waiting
from pyflinklike.state_processor._logs.key_columns import time_of, user_key_of
from pyflinklike.views.view import Freshness, View

try:
    from anyio.to_thread import current_default_thread_limiter
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send
except ImportError as error:
    raise lacking(__name__, "http", error) from error

__all__ = ["app"]


_STATUS: dict[HTTPStatus, tuple[type[Exception], ...]] = {
    HTTPStatus.NOT_FOUND: (errors.UnknownStateError, errors.UnknownStoreError),
    HTTPStatus.CONFLICT: (errors.ScanDisabledError,),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        *(errors.StaleStateError, errors.StoreClosedError, errors.SparkSetupError),
    ),
    HTTPStatus.UNPROCESSABLE_ENTITY: (errors.ValueDecodeError,),
    HTTPStatus.BAD_REQUEST: (
        *(errors.StateValueError, errors.StoreValueError, errors.StateAccessError),
        *(errors.DeclarationError, errors.IncompatibleStateError),
    ),
    HTTPStatus.INTERNAL_SERVER_ERROR: (errors.CorruptStateError, errors.PyflinklikeError),
}
LOG = logging.getLogger("pyflinklike.queryable_state.http")
_ITEMS = 1000
"""The number of items in one answer by default."""
_SCANS = 4
"""How many snapshots are kept for next pages; each keeps state in memory that has changed since."""
_OF_PAGE = ("limit", "after", *BOUNDS)
"""The parameters that may differ between two requests of one scan."""
_POLL_MS = 50
_PATIENCE_MS = 10_000
"""How long a request waits for a view by default, as `QueryableState.open` does."""


@attrs.frozen
class _Limits:
    """The limits of requests.

    Args:
        timeout: The longest wait of a request, in ms.
        waiting: Has a slot for each request that may wait at the same time.
        items: The most items in one answer.
        now: Returns the time in ms.
    """

    timeout: int
    waiting: threading.Semaphore
    items: int
    now: Callable[[], int] = wall_clock

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Take a slot among the waiting requests while the block runs.

        Raises:
            HTTPException: No slot is free.
        """
        if not self.waiting.acquire(blocking=False):
            msg = "too many requests wait; ask again later, or without at_least_batch and max_age"
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, msg)
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
) -> Starlette:
    """Make an ASGI application that answers from a replica or a view, as JSON.

    The application only reads.  It knows no users: every client with the token may read everything.

        import uvicorn

        with QueryableState.open(spark, "/checkpoints/visits") as state:
            uvicorn.run(app(state, hosts=["localhost"]), host="127.0.0.1", port=8000)

    Args:
        source: The result of `QueryableState.open`, or a `MaterializedView` or `PostgresView`; the
            caller closes it.
        hosts: The names that the header `Host` may have, such as `["localhost", "127.0.0.1"]`,
            each with a port or for every port; None allows any.  Give names if a browser runs on
            the same machine: without them a web page could read the state by DNS rebinding.
        token: The token that requests must send as `Authorization: Bearer <token>`, or None.
        max_timeout: The longest wait of a request in ms, also by default.
        max_waiting: How many requests may wait at the same time, for a batch or for a look at
            the checkpoint; further ones get status 503.
        max_items: The most items in one answer.

    Returns:
        An application for an ASGI server such as uvicorn, or for `Mount` of another application.

    Raises:
        DeclarationTypeError: The source is neither a replica nor a view, or an argument is of
            another type.
        DeclarationValueError: A limit is below 1, or the token is not printable ASCII.
    """
    guard = Middleware(_Guard, hosts=_checked_hosts(hosts), token=_checked_token(token))
    limits = _Limits(
        check_count(max_timeout, "max_timeout"),
        threading.Semaphore(check_count(max_waiting, "max_waiting")),
        check_count(max_items, "max_items"),
    )
    served: _Replica | _View
    if isinstance(source, QueryableState):
        served = _Replica(source, limits)
    elif isinstance(source, View):
        served = _View(source, limits)
    else:
        msg = f"app takes a replica or a view, got {short_repr(source)}"
        raise DeclarationTypeError(f"{msg}; give the result of QueryableState.open()")
    reads: _Reads = {"/health": (partial(_health, served), ()), **served.reads()}
    index = {path: parameters for path, (_, parameters) in reads.items()}
    reads["/"] = (partial(_list_requests, index), ())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        # Starlette runs all requests in one pool of threads: requests that wait would fill it.
        current_default_thread_limiter().total_tokens += max_waiting
        yield

    made = Starlette(
        routes=[
            Route(_route_of(path), partial(_answer, read, limits))
            for path, (read, _) in reads.items()
        ],
        middleware=[guard],
        exception_handlers={
            **{kind: partial(_answer_error, code) for code in _STATUS for kind in _STATUS[code]},
            HTTPException: partial(_answer_refusal, sorted(reads)),
        },
        lifespan=lifespan,
    )
    made.router.redirect_slashes = False  # `_Guard` drops a slash at the end
    return made


def _route_of(path: str) -> str:
    return path.replace("<name>", "{name:path}").replace("<verb>", "{verb}")


# Requests and answers


_Read = Callable[..., Response]
"""Answers a request from its parameters, and from the names in its path as keywords."""


_Reads = dict[str, tuple[_Read, tuple[str, ...]]]
"""For each path the function that answers, and the names of its parameters."""


_UNKNOWN = Freshness(None, None, None)


async def _answer(read: _Read, limits: _Limits, request: Request) -> Response:
    path = request.scope["path"]
    if "\ufffd" in path:  # the server replaces what is not UTF-8, and so one name by another
        msg = f"the path must be UTF-8, got {short_repr(path)}; encode it as UTF-8"
        raise StateValueError(msg)
    most = {"timeout": limits.timeout, "limit": limits.items}
    query = query_of(request.scope["query_string"], most)
    try:
        with at_once():
            return read(query, **request.path_params)
    except NotAtOnceError:
        return await run_in_threadpool(read, query, **request.path_params)


def _list_requests(index: Mapping[str, Iterable[str]], query: Query) -> Response:
    check_parameters(query)
    return _respond({"requests": index})


def _health(served: _Replica | _View, query: Query) -> Response:
    check_parameters(query)
    now = served.freshness
    body = {"status": "ok", "batch_id": now.batch_id, "watermark": now.watermark}
    return _respond(body, now)


def _respond(
    body: Any,
    at: Freshness = _UNKNOWN,
    status: HTTPStatus = HTTPStatus.OK,
    more: Mapping[str, str] | None = None,
) -> Response:
    """Return an answer as JSON, with the micro-batch and the age in ms that it has."""
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can write as an escape
        text = json.dumps(body, separators=(",", ":")).encode()
    headers = {"Cache-Control": "no-cache", **(more or {})}
    if at.batch_id is not None:
        headers["X-Batch-Id"] = str(at.batch_id)
    if at.lag is not None:
        headers["Age"] = str(max(at.lag, 0) // 1000)
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    return Response(text, status, headers, "application/json; charset=utf-8")


def _fail(
    status: HTTPStatus,
    message: str,
    kind: str = "",
    at: Freshness = _UNKNOWN,
    more: Mapping[str, str] | None = None,
) -> Response:
    return _respond({"error": kind or status.phrase, "message": message}, at, status, more)


async def _answer_error(status: HTTPStatus, _: Request, error: Exception) -> Response:
    if status is HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(
        error, errors.CorruptStateError
    ):
        LOG.error("a request could not be answered", exc_info=error)
    return _fail(status, str(error), type(error).__name__)


async def _answer_refusal(paths: list[str], request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        msg = f"the paths are {', '.join(paths)}, got {short_repr(request.scope['path'])}"
        return _fail(HTTPStatus.NOT_FOUND, msg)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        msg = f"requests are GET or HEAD, got {short_repr(request.method)}"
        return _fail(HTTPStatus.METHOD_NOT_ALLOWED, msg, more={"Allow": "GET, HEAD"})
    return _fail(HTTPStatus(error.status_code), error.detail)


# Who may ask


_HOST = re.compile(r"(\[[0-9a-f:.%]+\]|[^:\[\]]+)(:[0-9]*)?")


def _checked_hosts(hosts: Iterable[str] | None) -> frozenset[str] | None:
    if hosts is None:
        return None
    names = [] if isinstance(hosts, (str, bytes)) else list(hosts)
    if not names or not all(isinstance(each, str) and _HOST.fullmatch(each) for each in names):
        msg = f"hosts takes a list of names, got {short_repr(hosts)}; write hosts=['localhost']"
        raise DeclarationTypeError(msg)
    return frozenset(each.lower() for each in names)


def _checked_token(token: str | None) -> bytes | None:
    if token is None:
        return None
    if not isinstance(token, str):
        msg = f"token takes a text, got {type(token).__name__}; give one"
        raise DeclarationTypeError(msg)
    if not (token.isascii() and token.isprintable() and token.strip()):
        msg = "token must be printable ASCII, got another text or an empty one"
        raise DeclarationValueError(f"{msg}; for example secrets.token_urlsafe()")
    return token.encode()


@attrs.frozen
class _Guard:
    """Refuses requests under another name or without the token, before anything else is read.

    Args:
        app: The application that answers the other requests.
        hosts: The names that `Host` may have, each with a port or for every port; None allows any.
        token: The token that `Authorization: Bearer` must have; None asks for no token.
    """

    app: ASGIApp
    hosts: frozenset[str] | None
    token: bytes | None = attrs.field(repr=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = self.app
        if scope["type"] == "http":
            headers = Request(scope).headers
            host = headers.get("host", "")
            if not self._knows_host(host.lower()):
                msg = f"requests must come under a name in hosts, got Host {short_repr(host)}"
                answer = _fail(HTTPStatus.MISDIRECTED_REQUEST, f"{msg}; add it to hosts")
            elif not self._knows_token(headers.get("authorization", "")):
                msg = "a request must give the token, got none or another"
                asks = {"WWW-Authenticate": 'Bearer realm="pyflinklike"'}
                msg = f"{msg}; send Authorization: Bearer .."
                answer = _fail(HTTPStatus.UNAUTHORIZED, msg, more=asks)
            path = scope["path"].rstrip("/")
            if path != scope.get("root_path", ""):
                scope = {**scope, "path": path}
        await answer(scope, receive, send)

    def _knows_host(self, given: str) -> bool:
        # A web page can make its own name lead to this machine, and the browser then lets it read
        # the answers (DNS rebinding).  The page cannot change the `Host` of its requests.
        if self.hosts is None:
            return True
        found = _HOST.fullmatch(given)
        return found is not None and (given in self.hosts or found[1].rstrip(".") in self.hosts)

    def _knows_token(self, given: str) -> bool:
        """Return whether a request has the token; the comparison takes constant time."""
        if self.token is None:
            return True
        kind, _, text = given.partition(" ")
        is_right = hmac.compare_digest(text.strip().encode("utf-8", "replace"), self.token)
        return is_right and kind.lower() == "bearer"


# A replica


_OF_TIMERS = ("domain", "from", "to")


_DESCRIBED = ("name", "kind", "key_columns", "user_key_type", "value_type", "ttl", "options")


def _freshness_of(reader: StateReader) -> Freshness:
    position = reader.position
    return Freshness(position.batch_id, position.watermark, position.age)


class _Replica:
    def __init__(self, state: QueryableState, limits: _Limits) -> None:
        self.state, self.limits = state, limits
        self.scans = _Scans()

    def reads(self) -> _Reads:
        of_verb = ("current", "<arguments of the verb>", *PAGING, *BOUNDS)
        return {
            "/states": (self._states, BOUNDS),
            "/states/<name>": (self._state, ("key", "namespace", *BOUNDS)),
            "/stores/<name>/<verb>": (self._store, of_verb),
            "/timers": (self._timers, ("key", *_OF_TIMERS, *PAGING, *BOUNDS)),
        }

    @property
    def freshness(self) -> Freshness:
        return _freshness_of(self.state)

    def _snapshot(self, query: Query) -> StateReader:
        """Return a snapshot that is as new as a request asks."""
        at_least, max_age = query.get("at_least_batch"), query.get("max_age")
        timeout = query.get("timeout", min(self.state.timeout, self.limits.timeout))
        is_there = at_least is None or self.state.position.batch_id >= at_least
        # The slot is given back before the answer is read: only waiting is limited.
        slot: AbstractContextManager[None] = nullcontext()
        if max_age is not None or not is_there:
            slot = self.limits.slot()
        with (
            slot,
            self.state.snapshot(at_least_batch=at_least, max_age=max_age, timeout=timeout) as at,
        ):
            return at  # it can be read as long as the replica is open

    def _states(self, query: Query) -> Response:
        at = self._snapshot(query)
        check_parameters(query, *BOUNDS)
        described = [{name: getattr(each, name) for name in _DESCRIBED} for each in at.states()]
        return _respond({"states": json_value(described)}, _freshness_of(at))

    def _state(self, query: Query, name: str) -> Response:
        at = self._snapshot(query)
        state = at[name]
        info, key = state.info, None
        known = {"key": info.key_type, "namespace": info.namespace_type}
        check_parameters(query, *(each for each in known if known[each] is not None), *BOUNDS)
        if info.key_type is not None:
            key = user_key_of(key_text(query, f"state {name!r}"), info.key_columns, info.key_type)
        value = state.get(key, namespace=namespace_of(query.get("namespace", "null"), info))
        if value is None:
            msg = f"state {name!r} has nothing of {short_repr(key)}"
            return _fail(HTTPStatus.NOT_FOUND, msg, "no key", _freshness_of(at))
        return _respond({"key": json_value(key), "value": json_value(value)}, _freshness_of(at))

    def _store(self, query: Query, name: str, verb: str) -> Response:
        at = self._snapshot(query)
        info = next((info for info in at.states() if info.name == name), None)
        given = {}
        if info is not None and info.is_store and info.key_type and "current" in query:
            given["key"] = user_key_of(query["current"], info.key_columns, info.key_type)
        store = at.store(name, **given)
        verbs = VERBS[store.info.kind]
        if verb not in verbs:
            msg = f"a {store.info.kind} store has {sorted(verbs)}, got {short_repr(verb)}"
            return _fail(HTTPStatus.NOT_FOUND, msg, at=_freshness_of(at))
        chosen = verbs[verb]
        current = ("current",) if store.scope == "key" else ()
        paging = PAGING if chosen.many else ()
        check_parameters(query, *current, *chosen.keys, *chosen.times, *paging, *BOUNDS)
        arguments = chosen.arguments(query, verb, store.info)
        if not chosen.many:
            value = getattr(store, verb)(*arguments)
            if value is None:
                msg = f"store {name!r} has nothing there"
                return _fail(HTTPStatus.NOT_FOUND, msg, "no key", _freshness_of(at))
            return _respond({"value": json_value(value)}, _freshness_of(at))
        is_reverse = query.get("reverse", False)

        def read(scan: StateReader) -> Iterator[Any]:
            asked = getattr(scan.store(name, **given), verb)
            if verb == "history":
                return iter(asked(*arguments, "desc" if is_reverse else "asc"))
            return iter(asked(*arguments, reverse=is_reverse))

        return self._page(at, (name, verb), query, read, json_value)

    def _timers(self, query: Query) -> Response:
        at = self._snapshot(query)
        timers = at.timers()
        check_parameters(query, "key", *_OF_TIMERS, *PAGING, *BOUNDS)
        is_reverse, domain = query.get("reverse", False), query.get("domain")
        begin, end = (time_of(query[each]) if each in query else None for each in ("from", "to"))
        key = None
        if "key" in query:
            key = user_key_of(query["key"], timers.key_columns, timers.key_type.signature)

        def read(scan: StateReader) -> Iterator[Timer]:
            timers = scan.timers()
            if "key" not in query:
                return timers.all(begin, end, domain=domain, reverse=is_reverse)
            found = timers.get(key, domain=domain)
            mine = reversed(found) if is_reverse else found
            return (each for each in mine if _is_between(each.timestamp, begin, end))

        def describe(timer: Timer) -> dict[str, Any]:
            has_windows = timers.namespace_type is not None
            window = {"namespace": timer.namespace} if has_windows else {}
            domain, time = timer.domain.name.lower(), timer.timestamp
            found = {"key": timer.key, **window, "domain": domain, "timestamp": time}
            return {name: json_value(each) for name, each in found.items()}

        return self._page(at, ("timers",), query, read, describe)

    def _page(
        self,
        at: StateReader,
        path: tuple[str, ...],
        query: Query,
        read: Callable[[StateReader], Iterator[Any]],
        item: Callable[[Any], Any],
    ) -> Response:
        """Answer with the next items of a scan.

        Args:
            at: The snapshot to read if the request begins a scan.
            path: The path of the request, as a part of the scan's identity.
            query: The parameters of the request.
            read: Returns all items of a snapshot.
            item: Returns an item as values for JSON.
        """
        begin_waiting()
        limit = query.get("limit", min(_ITEMS, self.limits.items))
        asked = {name: each for name, each in query.items() if name not in _OF_PAGE}
        question = (*path, *sorted(asked.items()))
        scan, start, rest = at, 0, None
        if "after" in query:
            found = self.scans.find(query["after"], question)
            if found is None:
                msg = "the snapshot of this scan is no longer kept; begin it anew, without after="
                return _fail(HTTPStatus.GONE, msg)
            scan, start, rest = found
        if rest is None:
            rest = itertools.islice(read(scan), start, None)  # earlier answers had those before
        items = [item(each) for each in itertools.islice(rest, limit)]
        following = next(rest, None)
        body: dict[str, Any] = {"items": items, "more": following is not None}
        if following is not None:
            rest = itertools.chain((following,), rest)
            body["after"] = self.scans.keep(scan, start + len(items), question, rest)
        return _respond(body, _freshness_of(scan))


def _is_between(time: int, begin: int | None, end: int | None) -> bool:
    return (begin is None or begin <= time) and (end is None or time <= end)


class _Scans:
    """Keeps the snapshots of scans with further pages, so that all pages are of one micro-batch.

    The text of `after=` has a meaning in this process only.
    """

    def __init__(self) -> None:
        self._readers: OrderedDict[str, StateReader] = OrderedDict()
        self._rests: OrderedDict[tuple[Any, ...], Iterator[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(
        self, reader: StateReader, count: int, question: tuple[Any, ...], rest: Iterator[Any]
    ) -> str:
        """Keep a scan for its next page, and return the text to send as `after=`.

        Args:
            reader: The snapshot that all pages of the scan read.
            count: The number of items in the pages so far.
            question: Path and parameters, which must be the same in the next request.
            rest: The items of the next pages.
        """
        # A number may be given to two batches, by a query that went back.
        name = f"{reader.position.batch_id}-{reader.position.committed_at}"
        with self._lock:
            self._readers.setdefault(name, reader)
            self._readers.move_to_end(name)
            while len(self._readers) > _SCANS:
                gone, _ = self._readers.popitem(last=False)
                for key in [each for each in self._rests if each[0] == gone]:
                    del self._rests[key]
            # Finding these items anew would cost as much as all pages before: 7 s for a page of a
            # million timers, against 12 ms.
            self._rests[name, count, question] = rest
            while len(self._rests) > _SCANS:
                self._rests.popitem(last=False)
        return f"{name}.{count}"

    def find(
        self, after: str, question: tuple[Any, ...]
    ) -> tuple[StateReader, int, Iterator[Any] | None] | None:
        """Return the snapshot of a scan, the number of its items so far, and the rest if kept.

        The rest is returned once: a second request for the same page gets None, and has to find
        the items anew.

        Raises:
            StateValueError: The text is not the `after` of an answer.
        """
        name, _, count = after.rpartition(".")
        if not DIGITS.fullmatch(count):
            msg = f"after takes the 'after' of an answer, got {short_repr(after)}"
            raise StateValueError(f"{msg}; send it unchanged")
        with self._lock:
            reader = self._readers.get(name)
            rest = self._rests.pop((name, int(count), question), None)
        return None if reader is None else (reader, int(count), rest)


# A view


class _View:
    def __init__(self, view: View, limits: _Limits) -> None:
        self.view, self.limits = view, limits
        self._never = threading.Event()

    def reads(self) -> _Reads:
        return {"/rows": (self._row, ("key", *BOUNDS))}

    @property
    def freshness(self) -> Freshness:
        begin_waiting()
        return self.view.freshness

    def _row(self, query: Query) -> Response:
        check_parameters(query, "key", *BOUNDS)
        # The batch is asked first, so that the row is of this batch or of a later one.
        fresh = self._fresh(query)
        key = json_key_of(key_text(query, f"view {self.view.name!r}"))
        row = self.view.get(key)
        if row is None:
            msg = f"view {self.view.name!r} has no row of {short_repr(key)}"
            return _fail(HTTPStatus.NOT_FOUND, msg, "no key", fresh)
        return _respond({"key": json_value(key), "value": json_value(row)}, fresh)

    def _fresh(self, query: Query) -> Freshness:
        """Wait until the view is as fresh as the request asks, and return its freshness.

        Raises:
            StaleStateError: The view is not as fresh within the timeout.
        """
        batch, age = query.get("at_least_batch"), query.get("max_age")
        patience = query.get("timeout", min(_PATIENCE_MS, self.limits.timeout))

        def is_fresh(found: Freshness) -> bool:
            has_come = batch is None or (found.batch_id is not None and found.batch_id >= batch)
            return has_come and (age is None or (found.lag is not None and found.lag <= age))

        found = self.freshness
        if is_fresh(found):
            return found
        with self.limits.slot():
            end = self.limits.now() + patience
            while (left := end - self.limits.now()) > 0:
                self._never.wait(min(left, _POLL_MS) / 1000)
                found = self.freshness
                if is_fresh(found):
                    return found
        asked = [f"of batch {batch} or later"] if batch is not None else []
        asked += [f"no older than {age} ms"] if age is not None else []
        msg = f"view {self.view.name!r}: an answer must be {' and '.join(asked)}, got {found}"
        raise errors.StaleStateError(
            f"{msg} after {patience} ms; wait longer, or see what feeds it"
        )
