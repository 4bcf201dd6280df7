# SPDX-License-Identifier: Apache-2.0
"""Serves a replica or a view over HTTP, as an ASGI application of Starlette that only reads.

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

Starlette runs each request in a thread, so a request may wait for Spark or for the file of a view.
"""

from __future__ import annotations

import hmac
import itertools
import json
import logging
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import attrs
from anyio.to_thread import current_default_thread_limiter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pyflinklike._checks import is_int
from pyflinklike._clock import TimeDomain, wall_clock
from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    PyflinklikeError,
    ScanDisabledError,
    SparkSetupError,
    StaleStateError,
    StateAccessError,
    StateValueError,
    StoreClosedError,
    StoreValueError,
    UnknownStateError,
    UnknownStoreError,
    ValueDecodeError,
)
from pyflinklike.queryable_state.http.json_values import (
    VERBS,
    json_key_of,
    json_value,
    namespace_of,
    state_key_of,
)
from pyflinklike.queryable_state.queryable_state import QueryableState
from pyflinklike.queryable_state.read_only_states import StateReader, Timer
from pyflinklike.state_processor._logs.key_columns import time_of, user_key_of
from pyflinklike.views.view import Freshness, View

__all__ = ["app"]


_STATUS: dict[HTTPStatus, tuple[type[Exception], ...]] = {
    HTTPStatus.NOT_FOUND: (UnknownStateError, UnknownStoreError),
    HTTPStatus.CONFLICT: (ScanDisabledError,),
    HTTPStatus.SERVICE_UNAVAILABLE: (StaleStateError, StoreClosedError, SparkSetupError),
    HTTPStatus.UNPROCESSABLE_ENTITY: (ValueDecodeError,),
    HTTPStatus.BAD_REQUEST: (
        *(StateValueError, StoreValueError, StateAccessError),
        *(DeclarationError, IncompatibleStateError),
    ),
}


LOG = logging.getLogger("pyflinklike.queryable_state.http")


_ITEMS = 1000
"""The number of items in one answer by default."""


_SCANS = 4
"""How many snapshots are kept for next pages; each keeps state in memory that has changed since."""


_BOUNDS = ("at_least_batch", "max_age", "timeout")
"""The parameters of every request that reads state."""


_PAGING = ("limit", "reverse", "after")


_OF_PAGE = ("limit", "after", *_BOUNDS)
"""The parameters that may differ between two requests of one scan."""


_POLL_MS = 50


_PATIENCE_MS = 10_000
"""How long a request waits for a view by default, as `QueryableState.open` does."""


Query = Mapping[str, str]


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
    slots = threading.Semaphore(_count_of(max_waiting, "max_waiting"))
    limits = _Limits(
        _count_of(max_timeout, "max_timeout"), slots, _count_of(max_items, "max_items")
    )
    if isinstance(source, QueryableState):
        reads = _Replica(source, limits).reads()
    elif isinstance(source, View):
        reads = _View(source, limits).reads()
    else:
        msg = f"app takes a replica or a view, got {short_repr(source)}"
        raise DeclarationTypeError(f"{msg}; give the result of QueryableState.open()")
    index = {path: parameters for path, (_, parameters) in reads.items()}
    reads["/"] = (partial(_list_requests, index), ())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        # Starlette runs all requests in one pool of threads: requests that wait would fill it.
        current_default_thread_limiter().total_tokens += max_waiting
        yield

    found = Starlette(
        routes=[
            Route(_route_of(path), partial(_answer, read)) for path, (read, _) in reads.items()
        ],
        middleware=[guard],
        exception_handlers={
            PyflinklikeError: _answer_error,
            HTTPException: _answer_refusal,
            HTTPStatus.NOT_FOUND: partial(_answer_unknown, sorted(reads)),
        },
        lifespan=lifespan,
    )
    found.router.redirect_slashes = False  # `_Guard` drops a slash at the end
    return found


def _route_of(path: str) -> str:
    return path.replace("<name>", "{name:path}").replace("<verb>", "{verb}")


def _count_of(given: Any, what: str) -> int:
    if not is_int(given) or given < 1:
        msg = f"{what} takes an int from 1 on, got {short_repr(given)}; give one"
        raise DeclarationValueError(msg)
    return int(given)


# Requests and answers


_Read = Callable[..., Response]
"""Answers a request from its parameters, and from the names in its path as keywords."""


_Reads = dict[str, tuple[_Read, tuple[str, ...]]]
"""For each path the function that answers, and the names of its parameters."""


def _answer(read: _Read, request: Request) -> Response:
    path = request.scope["path"]
    if "\ufffd" in path:  # the server replaces what is not UTF-8, and so one name by another
        msg = f"the path must be UTF-8, got {short_repr(path)}; encode it as UTF-8"
        raise StateValueError(msg)
    return read(_query_of(request), **request.path_params)


def _list_requests(index: Mapping[str, Iterable[str]], query: Query) -> Response:
    _check_parameters(query)
    return _respond({"requests": index})


def _query_of(request: Request) -> dict[str, str]:
    """Return the parameters by name.

    Raises:
        StateValueError: The query string is not UTF-8, or has a parameter twice.
    """
    try:
        text = request.scope["query_string"].decode()
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as error:
        msg = f"the query string must be UTF-8, got bytes that are not ({error.reason})"
        raise StateValueError(f"{msg}; encode it as UTF-8") from error
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"a parameter is given once, got {short_repr(twice)} twice; leave one out"
        raise StateValueError(msg)
    return found


def _respond(body: Any, status: HTTPStatus = HTTPStatus.OK, **headers: str) -> Response:
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can write as an escape
        text = json.dumps(body, separators=(",", ":")).encode()
    found = Response(text, status, media_type="application/json; charset=utf-8")
    found.headers["Cache-Control"] = "no-cache"
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        found.headers["Retry-After"] = "1"
    found.headers.update(headers)
    return found


def _stamp(response: Response, batch_id: int | None, age: int | None) -> Response:
    """Add the micro-batch of an answer and its age in ms, unless the answer says them already."""
    if batch_id is not None:
        response.headers.setdefault("X-Batch-Id", str(batch_id))
    if age is not None:
        response.headers.setdefault("Age", str(max(age, 0) // 1000))
    return response


def _fail(status: HTTPStatus, message: str, kind: str = "", **headers: str) -> Response:
    return _respond({"error": kind or status.phrase, "message": message}, status, **headers)


def _answer_error(_: Request, error: Exception) -> Response:
    found = (status for status, kinds in _STATUS.items() if isinstance(error, kinds))
    status = next(found, HTTPStatus.INTERNAL_SERVER_ERROR)
    if status is HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, CorruptStateError):
        LOG.error("a request could not be answered", exc_info=error)
    return _fail(status, str(error), type(error).__name__)


def _answer_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        msg = f"requests are GET or HEAD, got {short_repr(request.method)}"
        return _fail(HTTPStatus.METHOD_NOT_ALLOWED, msg, Allow="GET, HEAD")
    return _fail(HTTPStatus(error.status_code), error.detail)


def _answer_unknown(paths: list[str], request: Request, _: Exception) -> Response:
    msg = f"the paths are {', '.join(paths)}, got {short_repr(request.scope['path'])}"
    return _fail(HTTPStatus.NOT_FOUND, msg)


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
                answer = _fail(HTTPStatus.UNAUTHORIZED, msg, **asks)
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


# Parameters


_DIGITS = re.compile(r"[0-9]{1,18}")


_DOMAINS = {domain.name.lower(): domain for domain in TimeDomain}


def _check_parameters(query: Query, *names: str) -> None:
    """Check that a request has no other parameters.

    Raises:
        StateValueError: A parameter has another name.
    """
    unknown = sorted(set(query) - set(names))
    if unknown:
        are = f"its parameters are {sorted(names)}" if names else "it takes no parameters"
        msg = f"{are}, got {short_repr(unknown[0])}; leave it out"
        raise StateValueError(msg)


def _whole(query: Query, name: str, most: int | None = None) -> int | None:
    """Return a parameter that is a whole number; None if it is missing.

    Raises:
        StateValueError: The value is not a whole number, or too large.
    """
    if name not in query:
        return None
    text = query[name]
    if not _DIGITS.fullmatch(text) or (most is not None and int(text) > most):
        end = "on, of at most 18 digits" if most is None else f"to {most}"
        msg = f"{name} takes a whole number from 0 {end}, got {short_repr(text)}; give one"
        raise StateValueError(msg)
    return int(text)


def _key_text(query: Query, what: str) -> str:
    if "key" not in query:
        msg = f"{what}: a lookup takes key=, got none; give it as JSON"
        raise StateValueError(msg)
    return query["key"]


def _flag(query: Query, name: str) -> bool:
    text = query.get(name, "false").lower()
    if text not in ("true", "false", "1", "0"):
        msg = f"{name} takes true or false, got {short_repr(query[name])}; give one"
        raise StateValueError(msg)
    return text in ("true", "1")


def _domain(query: Query) -> TimeDomain | None:
    if "domain" not in query:
        return None
    found = _DOMAINS.get(query["domain"])
    if found is None:
        msg = f"domain takes one of {sorted(_DOMAINS)}, got {short_repr(query['domain'])}"
        raise StateValueError(f"{msg}; leave it out for both")
    return found


# A replica


_OF_TIMERS = ("domain", "from", "to")


_DESCRIBED = ("name", "kind", "key_columns", "user_key_type", "value_type", "ttl", "options")


class _Replica:
    def __init__(self, state: QueryableState, limits: _Limits) -> None:
        self.state, self.limits = state, limits
        self.scans = _Scans()

    def reads(self) -> _Reads:
        of_verb = ("current", "<arguments of the verb>", *_PAGING, *_BOUNDS)
        return {
            "/health": (self._health, ()),
            "/states": (partial(self._at, self._states), _BOUNDS),
            "/states/<name>": (partial(self._at, self._state), ("key", "namespace", *_BOUNDS)),
            "/stores/<name>/<verb>": (partial(self._at, self._store), of_verb),
            "/timers": (
                partial(self._at, self._timers),
                ("key", *_OF_TIMERS, *_PAGING, *_BOUNDS),
            ),
        }

    def _health(self, query: Query) -> Response:
        _check_parameters(query)
        now = self.state.position
        body = {"status": "ok", "batch_id": now.batch_id, "watermark": now.watermark}
        return _stamp(_respond(body), now.batch_id, now.age)

    def _at(self, read: _Read, query: Query, **names: str) -> Response:
        """Answer from a snapshot that is as new as the request asks."""
        at_least = _whole(query, "at_least_batch")
        max_age = _whole(query, "max_age")
        timeout = _whole(query, "timeout", self.limits.timeout)
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
            return _stamp(read(at, query, **names), at.position.batch_id, at.position.age)

    def _states(self, at: StateReader, query: Query) -> Response:
        _check_parameters(query, *_BOUNDS)
        described = [{name: getattr(each, name) for name in _DESCRIBED} for each in at.states()]
        return _respond({"states": json_value(described)})

    def _state(self, at: StateReader, query: Query, name: str) -> Response:
        state = at[name]
        is_keyed = state.info.key_type is not None
        of_windows = () if state.info.namespace_type is None else ("namespace",)
        _check_parameters(query, *(("key",) if is_keyed else ()), *of_windows, *_BOUNDS)
        key = None
        if is_keyed:
            key = state_key_of(_key_text(query, f"state {name!r}"), state.info)
        namespace = namespace_of(query.get("namespace", "null"), state.info)
        value = state.get(key, namespace=namespace)
        if value is None:
            return _fail(
                HTTPStatus.NOT_FOUND, f"state {name!r} has nothing of {short_repr(key)}", "no key"
            )
        return _respond({"key": json_value(key), "value": json_value(value)})

    def _store(self, at: StateReader, query: Query, name: str, verb: str) -> Response:
        info = next((info for info in at.states() if info.name == name), None)
        given = {}
        if info is not None and info.is_store and info.key_type and "current" in query:
            given["key"] = state_key_of(query["current"], info)
        store = at.store(name, **given)
        verbs = VERBS[store.info.kind]
        if verb not in verbs:
            msg = f"a {store.info.kind} store has {sorted(verbs)}, got {short_repr(verb)}"
            return _fail(HTTPStatus.NOT_FOUND, msg)
        chosen = verbs[verb]
        current = ("current",) if store.scope == "key" else ()
        paging = _PAGING if chosen.many else ()
        _check_parameters(query, *current, *chosen.keys, *chosen.times, *paging, *_BOUNDS)
        arguments = chosen.arguments(query, verb, store.info)
        if not chosen.many:
            value = getattr(store, verb)(*arguments)
            if value is None:
                msg = f"store {name!r} has nothing there"
                return _fail(HTTPStatus.NOT_FOUND, msg, "no key")
            return _respond({"value": json_value(value)})
        is_reverse = _flag(query, "reverse")

        def read(scan: StateReader) -> Iterator[Any]:
            asked = getattr(scan.store(name, **given), verb)
            if verb == "history":
                return iter(asked(*arguments, "desc" if is_reverse else "asc"))
            return iter(asked(*arguments, reverse=is_reverse))

        return self._page(at, (name, verb), query, read, json_value)

    def _timers(self, at: StateReader, query: Query) -> Response:
        timers = at.timers()
        _check_parameters(query, "key", *_OF_TIMERS, *_PAGING, *_BOUNDS)
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
            mine = reversed(found) if is_reverse else found
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
        most = _whole(query, "limit", self.limits.items)
        limit = min(_ITEMS, self.limits.items) if most is None else most
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
        return _stamp(_respond(body), scan.position.batch_id, scan.position.age)


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
        with self._lock:
            known = self._readers.items()
            same = (name for name, each in known if each.position is reader.position)
            name = next(same, None) or secrets.token_hex(8)
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
        name, _, count = after.partition(".")
        if not _DIGITS.fullmatch(count):
            msg = (
                f"after takes the 'after' of an answer, got {short_repr(after)}; send it unchanged"
            )
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

    def reads(self) -> _Reads:
        return {"/health": (self._health, ()), "/rows": (self._row, ("key", *_BOUNDS))}

    def _health(self, query: Query) -> Response:
        _check_parameters(query)
        fresh = self.view.freshness
        body = {"status": "ok", "batch_id": fresh.batch_id, "watermark": fresh.watermark}
        return _stamp(_respond(body), fresh.batch_id, fresh.lag)

    def _row(self, query: Query) -> Response:
        _check_parameters(query, "key", *_BOUNDS)
        # The batch is asked first, so that the row is of this batch or of a later one.
        fresh = self._fresh(query)
        key = json_key_of(_key_text(query, f"view {self.view.name!r}"))
        row = self.view.get(key)
        if row is None:
            msg = f"view {self.view.name!r} has no row of {short_repr(key)}"
            found = _fail(HTTPStatus.NOT_FOUND, msg, "no key")
        else:
            found = _respond({"key": json_value(key), "value": json_value(row)})
        return _stamp(found, fresh.batch_id, fresh.lag)

    def _fresh(self, query: Query) -> Freshness:
        """Wait until the view is as fresh as the request asks, and return its freshness.

        Raises:
            StaleStateError: The view is not as fresh within the timeout.
        """
        batch, age = _whole(query, "at_least_batch"), _whole(query, "max_age")
        timeout = _whole(query, "timeout", self.limits.timeout)
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
