# SPDX-License-Identifier: Apache-2.0
"""Replicas and views over HTTP: what is asked in a URL, and what comes back.

Most tests call the application as a server does; one asks a server.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import urllib.error
import urllib.request
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from decimal import Decimal
from urllib.parse import quote, urlencode

import pytest
from asgi_support import ask, serving
from replica_support import FollowedQuery, replica_of

from pyflinklike import (
    Instant,
    ListStateDescriptor,
    MapStateDescriptor,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import DeclarationError, DeclarationTypeError, StateValueError
from pyflinklike.queryable_state.http import app
from pyflinklike.queryable_state.http_values import json_key_of, json_value, store_key_of
from pyflinklike.queryable_state.version import NotAtOnceError, at_once
from pyflinklike.state_processor._logs.state_infos import StateInfo
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    SessionStoreDescriptor,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.views import MaterializedView

TEXT, LONG = Types.STRING(), Types.LONG()


def get(application, path, method="GET", *, raw=None, given=None, **query):
    """Status, body and headers of a request, which has the headers of `given`, too."""
    asked = urlencode(query).encode() if raw is None else raw
    status, headers, body = ask(application, path, asked, method, given)
    return status, json.loads(body) if body else None, headers


def act(on):
    """What is in every state and store."""
    on["total"].update(7)
    on["pages"].put("home", 2)
    on["words"].add("é")
    on["a%41/b"].update(41)
    on["kv"].put("a", 1)
    on["kv"].put("b", 2)
    on["own"].put("a", 3)
    for start in (10, 15, 20, 25):
        on["windows"].put("A", start, start)
    on["sessions"].put("A", 1, 5, 9)
    on["versions"].put("A", 1, 10)
    on["versions"].put("A", 2, 20)


@pytest.fixture
def query():
    """A query with a state and a store of each kind, after one batch."""
    query = FollowedQuery(
        [
            ValueStateDescriptor("total", LONG),
            MapStateDescriptor("pages", TEXT, LONG),
            ListStateDescriptor("words", TEXT),
            ValueStateDescriptor("aA/b", LONG),
            ValueStateDescriptor("a%41/b", LONG),
            KeyValueStoreDescriptor("kv", TEXT, LONG, scope="partition"),
            KeyValueStoreDescriptor("own", TEXT, LONG),
            WindowStoreDescriptor("windows", TEXT, LONG, window_size=10),
            SessionStoreDescriptor("sessions", TEXT, LONG),
            VersionedStoreDescriptor("versions", TEXT, LONG, history_retention=100),
        ]
    )
    query.batch([("ann", act)])
    return query


@pytest.fixture
def served(query):
    """The application over a replica of it."""
    with replica_of(query) as replica:
        yield app(replica)


@pytest.mark.parametrize(
    ("path", "asked", "expected"),
    [
        ("/states/total", {"key": '"ann"'}, {"key": "ann", "value": 7}),
        ("/states/total", {"key": "ann"}, {"key": "ann", "value": 7}),
        ("/states/pages", {"key": "ann"}, {"key": "ann", "value": {"home": 2}}),
        ("/states/words", {"key": "ann"}, {"key": "ann", "value": ["é"]}),
        ("/states/a%41/b", {"key": "ann"}, {"key": "ann", "value": 41}),
        ("/stores/kv/get", {"key": '"a"'}, {"value": 1}),
        (
            "/stores/kv/all",
            {"reverse": "true"},
            {"items": [{"key": "b", "value": 2}, {"key": "a", "value": 1}], "more": False},
        ),
        ("/stores/kv/range", {"to": "a"}, {"items": [{"key": "a", "value": 1}], "more": False}),
        ("/stores/own/get", {"key": "a", "current": "ann"}, {"value": 3}),
        (
            "/stores/windows/fetch",
            {"key": "A", "from": 10, "to": "1970-01-01T00:00:00.020Z", "current": "ann"},
            {"items": [[10, 10], [15, 15], [20, 20]], "more": False},
        ),
        ("/stores/windows/get", {"key": "A", "window_start": 20, "current": "ann"}, {"value": 20}),
        (
            "/stores/sessions/fetch_session",
            {"key": "A", "start": 1, "end": 5, "current": "ann"},
            {"value": 9},
        ),
        (
            "/stores/versions/get",
            {"key": "A", "as_of": 15, "current": "ann"},
            {"value": {"value": 1, "timestamp": 10, "valid_to": 20}},
        ),
    ],
)
def test_what_is_there_is_answered(served, path, asked, expected):
    """With the batch that it is of."""
    status, body, headers = get(served, path, **asked)
    assert (200, expected, "0") == (status, body, headers["X-Batch-Id"])


@pytest.mark.parametrize(
    ("status", "path", "asked"),
    [
        (404, "/states/total", {"key": "nobody"}),
        (404, "/states/nothing", {"key": "ann"}),
        (404, "/stores/nothing/get", {"key": "a"}),
        (404, "/stores/kv/fetch", {"key": "a"}),
        (404, "/stores/kv/get", {"key": "zz"}),
        (404, "/elsewhere", {}),
        (400, "/states/total", {}),
        (400, "/stores/own/get", {"key": "a"}),
        (400, "/stores/windows/get", {"key": "A", "current": "ann"}),
        (400, "/stores/windows/fetch", {"key": "A", "from": "soon", "current": "ann"}),
        (400, "/stores/kv/all", {"limit": "many"}),
        (400, "/stores/kv/all", {"limit": "-1"}),
        (400, "/states/total", {"key": "ann", "max_age": "x"}),
        (503, "/states/total", {"key": "ann", "at_least_batch": 3}),
    ],
)
def test_what_is_not_there_has_a_status(served, status, path, asked):
    """And says in words what is wrong."""
    found, body, _ = get(served, path, **asked)
    assert (status, True) == (found, bool(body["message"]))


@pytest.mark.parametrize("path", ["/states", "/states/total", "/stores/kv/get", "/", "/health"])
def test_a_parameter_of_another_name_is_refused(served, path):
    """It was meant to say something, and the ones there are are named."""
    asked = {"key": "ann"} if path.count("/") > 1 else {}
    status, body, _ = get(served, path, form="a", **asked)
    assert (400, True) == (status, "got 'form'" in body["message"])
    assert ("at_least_batch" in body["message"]) is (path not in ("/", "/health"))


@pytest.mark.parametrize(
    ("path", "raw"),
    [
        ("/states/total", b"key=ann&key=bob"),
        ("/states/total", b"key=%ff%fe"),
        ("/states/total", b"key=\xff"),
        ("/states/\ufffd", b"key=ann"),  # as a server decodes what is not UTF-8
        ("/stores/kv/all", b"limit=" + b"9" * 20),
        ("/stores/kv/all", b"limit=" + b"9" * 5_000),
        ("/stores/kv/all", b"limit=10001"),
        ("/stores/kv/all", b"after=a"),
        ("/stores/kv/all", b"reverse=maybe"),
        ("/states/total", b"key=ann&at_least_batch=" + b"9" * 5_000),
        ("/states/total", b"key=ann&timeout=30001"),
        ("/stores/windows/fetch", b"current=ann&key=A&from=99999999999999999999"),
    ],
)
def test_what_cannot_be_meant_is_a_bad_request(served, path, raw):
    """Not another key, and no error of the server."""
    assert 400 == get(served, path, raw=raw)[0]


def test_a_key_may_be_utf_8_as_it_is(query):
    """In the query string, quoted or not."""
    query.batch([("über", lambda on: on["total"].update(1))])
    with replica_of(query) as replica:
        quoted, raw = b"key=%C3%BCber", "key=über".encode()
        found = [get(app(replica), "/states/total", raw=each)[:2] for each in (quoted, raw)]
    assert [(200, {"key": "über", "value": 1})] * 2 == found


@pytest.mark.parametrize("key", ["[" * 100_000, "9" * 5_000, '"\\ud800"', "NaN"])
def test_a_key_that_python_cannot_read_is_no_error_of_the_server(served, key):
    """A text key may be all digits and brackets; what is no text is refused."""
    assert get(served, "/states/total", key=key)[0] in (400, 404)


def test_a_scan_goes_on_where_it_was(query):
    """All its answers are of one micro-batch, whatever comes meanwhile."""
    with replica_of(query) as replica:
        served = app(replica)
        _, first, _ = get(served, "/stores/kv/all", limit=1)
        query.batch([("ann", lambda on: on["kv"].put("0", 0))])
        replica.refresh()
        _, rest, headers = get(served, "/stores/kv/all", limit=5, after=first["after"])
        gone, _, _ = get(served, "/stores/kv/all", after="0123.1")
        now, _, _ = get(served, "/stores/kv/get", key="0")
    items = [{"key": "a", "value": 1}], [{"key": "b", "value": 2}]
    assert (*items, False, "0") == (
        first["items"],
        rest["items"],
        rest["more"],
        headers["X-Batch-Id"],
    )
    assert (410, 200) == (gone, now)


def test_what_a_request_says_is_short_in_the_log(served, caplog):
    """Or anybody who may ask could fill a disk."""
    with caplog.at_level("WARNING"):
        get(served, "/stores/kv/range", **{"from": "z" * 10_000, "to": "a"})
    assert [True] == [len(each.getMessage()) < 1000 for each in caplog.records]


def timers_at(*times):
    """A record that registers timers of event time, and one of processing time."""

    def act(on):
        for time in times:
            on["timers"].register_event_time_timer(time)
        on["timers"].register_processing_time_timer(2**63 - 1)

    return act


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"key": '"ann"'}, [("ann", 5), ("ann", 20), ("ann", str(2**63 - 1))]),
        ({"key": "ann", "domain": "event_time", "reverse": "1"}, [("ann", 20), ("ann", 5)]),
        ({"domain": "event_time"}, [("ann", 5), ("bob", 10), ("ann", 20)]),
        ({"from": "1970-01-01T00:00:00.010Z", "to": "20"}, [("bob", 10), ("ann", 20)]),
        ({"key": "ann", "from": "6", "to": "20"}, [("ann", 20)]),
        ({"key": "nobody"}, []),
    ],
)
def test_timers_are_found_by_key_and_by_time(query, asked, expected):
    """A time that a browser would round is a text."""
    query.batch([("ann", timers_at(20, 5)), ("bob", timers_at(10))])
    with replica_of(query) as replica:
        status, body, headers = get(app(replica), "/timers", **asked)
    found = [(each["key"], each["timestamp"]) for each in body["items"]]
    assert (200, expected, False) == (status, found, body["more"])
    assert "1" == headers["X-Batch-Id"]


def test_a_scan_of_timers_goes_on_in_its_batch(query):
    """Whatever is registered meanwhile; and it waits for a batch as all do."""
    query.batch([("ann", timers_at(20, 5)), ("bob", timers_at(10))])
    with replica_of(query) as replica:
        served = app(replica)
        _, first, _ = get(served, "/timers", limit=2, domain="event_time")
        query.batch([("ann", timers_at(1))])
        asked = {"domain": "event_time", "after": first["after"]}
        _, rest, headers = get(served, "/timers", at_least_batch=2, **asked)
        _, now, _ = get(served, "/timers", at_least_batch=2, limit=1)
    found = [[each["timestamp"] for each in body["items"]] for body in (first, rest, now)]
    assert ([[5, 10], [20], [1]], "1") == (found, headers["X-Batch-Id"])


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"key": "ann", "domain": "EVENT"}, "domain takes one of"),
        ({"from": "soon"}, "a time is given in ms"),
        ({"limit": "-1"}, "limit takes a whole number"),
        ({"before": "1"}, "its parameters are"),
        ({"after": "x"}, "after takes the 'after' of an answer"),
    ],
)
def test_what_is_no_question_about_timers_is_refused(served, asked, expected):
    """With the rule in the message."""
    status, body, _ = get(served, "/timers", **asked)
    assert (400, True) == (status, body["message"].startswith(expected))


def test_a_scan_of_timers_has_to_be_allowed(query):
    """Those of a key are answered."""
    query.batch([("ann", timers_at(5))])
    with replica_of(query, allow_scan=False) as replica:
        served = app(replica)
        assert (409, 200) == (
            get(served, "/timers")[0],
            get(served, "/timers", key="ann")[0],
        )


@pytest.mark.parametrize(("path", "items"), [("/stores/windows/fetch", 4), ("/timers", 5)])
def test_an_answer_of_a_scan_can_be_asked_for_again(query, path, items):
    """It is the same, though what was found is kept for the first who asks."""
    query.batch([("ann", timers_at(1, 2, 3, 4))])
    asked = {} if path == "/timers" else {"current": "ann", "key": "A"}
    with replica_of(query) as replica:
        served, found, after = app(replica), [], {}
        while True:
            body, again = (get(served, path, limit=1, **asked, **after)[1] for _ in range(2))
            assert body == again
            found += body["items"]
            if not body["more"]:
                break
            after = {"after": body["after"]}
    whole = get(served, path, **asked)
    assert 503 == whole[0]  # the replica is closed
    assert items == len({str(each) for each in found}) == len(found)


def test_what_can_be_asked_is_told(served):
    """At the root; and whether it answers at all."""
    _, index, _ = get(served, "/")
    _, health, headers = get(served, "/health")
    known = {"/health", "/states", "/states/<name>", "/stores/<name>/<verb>", "/timers"}
    assert known == set(index["requests"])
    assert ("ok", 0, "0") == (health["status"], health["batch_id"], headers["X-Batch-Id"])


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("[::1]:8000", 200),
        ("state.example:80", 200),
        ("state.example:81", 421),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("localhost:80:80", 421),
        ("", 421),
    ],
)
def test_only_names_of_its_own_are_answered(query, host, expected):
    """A web page has its own name lead to this machine, and would read the state."""
    with replica_of(query) as replica:
        served = app(replica, hosts=["localhost", "[::1]", "state.example:80"])
        assert expected == get(served, "/states", given={"host": host.encode()})[0]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Bearer s3cret", 200),
        ("bearer s3cret", 200),
        ("Bearer s3cre", 401),
        ("Basic s3cret", 401),
        ("s3cret", 401),
        ("Bearer \xfc", 401),
        ("", 401),
    ],
)
def test_a_token_is_asked_for(query, header, expected):
    """Of every request, before anything else is looked at."""
    with replica_of(query) as replica:
        served = app(replica, token="s3cret")
        asked = {"authorization": header.encode("latin-1")}
        found = [get(served, path, given=asked) for path in ("/states", "/health")]
    assert [expected] * 2 == [status for status, _, _ in found]
    assert (expected == 401) is ("WWW-Authenticate" in found[0][2])


@pytest.mark.parametrize(
    "given",
    [{"token": ""}, {"token": b"x"}, {"hosts": "localhost"}, {"hosts": []}, {"max_items": 0}],
)
def test_a_guard_that_would_guard_nothing_is_refused(query, given):
    """When the application is made."""
    with replica_of(query) as replica, pytest.raises(DeclarationError):
        app(replica, **given)


def test_no_more_requests_wait_than_may(query):
    """The next one is told to come again; one that need not wait is answered."""
    clock, refreshing, held = [0], threading.Event(), threading.Event()
    with replica_of(query, now=lambda: clock[0]) as replica:
        served, former, answers = app(replica, max_waiting=1), query.after, []

        def after(image):
            refreshing.set()
            held.wait(30)
            return former(image)

        query.after = after
        clock[0] = 10_000

        def ask():
            answers.append(get(served, "/states/total", key="ann", max_age=0)[0])

        asking = threading.Thread(target=ask)
        asking.start()
        refreshing.wait(30)
        busy, _, headers = get(served, "/states/total", key="ann", max_age=0)
        plain, _, _ = get(served, "/states/total", key="ann")
        held.set()
        asking.join()
    assert (503, "1", 200, [200]) == (busy, headers["Retry-After"], plain, answers)


def test_a_scan_that_is_not_allowed_is_a_conflict(query):
    """As the error of the replica."""
    with replica_of(query, allow_scan=False) as replica:
        status, body, _ = get(app(replica), "/stores/kv/all")
    assert (409, "ScanDisabledError") == (status, body["error"])


def test_only_reading_is_known(served):
    """HEAD is a GET without a body."""
    status, _, headers = get(served, "/states", method="POST")
    head, body, _ = get(served, "/states", method="HEAD")
    assert (405, "GET, HEAD", 200, None) == (status, headers["Allow"], head, body)


def test_a_replica_that_is_closed_is_not_available(query):
    """A load balancer may ask another one."""
    replica = replica_of(query)
    replica.close()
    status, _, headers = get(app(replica), "/states")
    assert (503, "1") == (status, headers["Retry-After"])


def test_the_states_are_listed(served):
    """With what a client must know to ask for them."""
    _, body, _ = get(served, "/states")
    told = {each["name"]: (each["kind"], each["key_columns"]) for each in body["states"]}
    assert (("value", [["k", "string"]]), ("key-value", [])) == (told["total"], told["kv"])


def test_a_view_is_served(tmp_path):
    """Rows by key, with the view's batch and its age in seconds."""
    now = [1_000]
    with MaterializedView("v", key="user", path=tmp_path, clock=lambda: now[0]) as view:
        view.apply([{"user": "ann", "total": 7}], 4)
        now[0] = 6_999
        served = app(view)
        status, body, headers = get(served, "/rows", key='"ann"')
        assert (200, {"user": "ann", "total": 7}) == (status, body["value"])
        assert ("4", "5") == (headers["X-Batch-Id"], headers["Age"])
        assert 404 == get(served, "/rows", key="bob")[0]


def test_a_view_is_waited_for(tmp_path):
    """As long as is asked for; a batch that does not come, or an old one, is not available."""
    now = [1_000]
    with MaterializedView("v", key="user", path=tmp_path, clock=lambda: now[0]) as view:
        view.apply([{"user": "ann", "total": 7}], 4)
        now[0] = 2_000
        served = app(view)
        asked = [
            {},
            {"at_least_batch": 4},
            {"at_least_batch": 5},
            {"max_age": 1_000},
            {"max_age": 999},
        ]
        found = [get(served, "/rows", key="ann", timeout=1, **each)[0] for each in asked]
        wrong = [
            get(served, "/rows", key="ann", **each)[0] for each in ({"max_age": "x"}, {"form": 1})
        ]
        coming = threading.Thread(target=lambda: view.apply([{"user": "ann", "total": 8}], 5))
        coming.start()
        _, body, headers = get(served, "/rows", key="ann", at_least_batch=5)
        coming.join()
    assert ([200, 200, 503, 200, 503], [400, 400]) == (found, wrong)
    assert (8, "5") == (body["value"]["total"], headers["X-Batch-Id"])


def test_a_server_runs_it(served):
    """Over a socket, with a name that has to be quoted."""
    with serving(served) as address:
        with urllib.request.urlopen(f"{address}/states/total?key=ann") as answer:
            assert {"key": "ann", "value": 7} == json.load(answer)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/states/{quote('über')}?key=1")
        with pytest.raises(urllib.error.HTTPError) as undecoded:
            urllib.request.urlopen(f"{address}/states/%ff?key=1")
    assert (404, True) == (refused.value.code, "über" in json.load(refused.value)["message"])
    assert 400 == undecoded.value.code


def status_of(address):
    """The status that a server answers with."""
    try:
        with urllib.request.urlopen(address) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_requests_that_wait_do_not_keep_others_from_an_answer(query):
    """Even if more of them wait than the server has threads for other requests."""
    clock, held, slots = [0], threading.Event(), 60
    with replica_of(query, now=lambda: clock[0]) as replica:
        former, clock[0] = query.after, 10_000
        query.after = lambda image: former(image) if held.wait(60) else None
        served = app(replica, max_waiting=slots)
        with serving(served) as address, ThreadPoolExecutor(slots + 1) as pool:
            asked = f"{address}/states/total?key=ann"
            waits = [pool.submit(status_of, f"{asked}&max_age=0") for _ in range(slots + 1)]
            refused, others = wait(waits, timeout=30, return_when=FIRST_COMPLETED)
            found = status_of(asked) if refused else None  # the others have all the slots
            held.set()
    assert (1, slots, 200) == (len(refused), len(others), found)
    assert ({503}, {200}) == tuple({each.result() for each in some} for some in (refused, others))


def test_what_is_at_hand_is_answered_without_a_thread(query):
    """A key group that is not decoded yet is left to one, and so is a scan."""
    on_loop, former = [], query.route

    def route(record):
        def find(key):
            on_loop.append(threading.current_thread() is threading.main_thread())
            return former(record)(key)

        return find

    query.route = route
    with replica_of(query) as replica:
        served = app(replica)
        found = [get(served, "/states/total", key="ann")[0] for _ in range(2)]
        found.append(get(served, "/timers", key="ann")[0])
    assert ([200] * 3, [True, False, True, False]) == (found, on_loop)


def test_the_loop_does_not_wait_for_a_thread_that_reads(query):
    """A thread does, and then answers."""
    held, reading = threading.Event(), threading.Event()

    def hold(lock):
        with lock:
            reading.set()
            held.wait(30)

    with replica_of(query) as replica:
        served = app(replica)
        get(served, "/states/total", key="ann")
        states = replica._current().states
        holding = threading.Thread(target=hold, args=(states.lock,))
        holding.start()
        reading.wait(30)
        with pytest.raises(NotAtOnceError), at_once():
            replica["total"].get("ann")
        held.set()
        status = get(served, "/states/total", key="ann")[0]
        holding.join()
    assert 200 == status


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**53, 2**53),
        (2**53 + 1, "9007199254740993"),
        (float("nan"), "nan"),
        (b"\x00a", "0x0061"),
        (Row(a=1, b=[Row(1, 2)]), {"a": 1, "b": [[1, 2]]}),
        ({1: (2, None)}, [[1, [2, None]]]),
        (dt.datetime(2026, 1, 2, 3), "2026-01-02T03:00:00"),
        (Decimal("1.10"), "1.10"),
        (True, True),
    ],
)
def test_values_are_json(value, expected):
    """What JSON has no form for is a text, and no digit is lost."""
    assert expected == json.loads(json.dumps(json_value(value)))


def test_an_instant_is_a_text():
    """Its own."""
    assert isinstance(json_value(Instant(1, 0)), str)


def test_nothing_else_is_served():
    """It is refused when the application is made."""
    with pytest.raises(DeclarationTypeError, match=r"QueryableState\.open"):
        app({"ann": 7})


# Keys in a URL

PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])


def store_of(key_type):
    """What is known of a store with such keys."""
    fields = dict.fromkeys(each.name for each in StateInfo.__attrs_attrs__)
    return StateInfo(**{**fields, "name": "s", "user_key_type": key_type.signature})


@pytest.mark.parametrize(
    ("text", "key_type", "expected"),
    [
        ('[1, "a"]', PAIR, (1, "a")),
        ("0.1", Types.DOUBLE(), 0.1),
        ("2", Types.DOUBLE(), 2.0),
        ("007", Types.STRING(), "007"),
    ],
)
def test_a_key_of_a_store_is_what_was_given(text, key_type, expected):
    """By the type of the store's keys."""
    assert expected == store_key_of(text, store_of(key_type))


@pytest.mark.parametrize(
    ("text", "key_type"),
    [
        ('[1, "a", 2]', PAIR),
        ("[1]", PAIR),
        ("9007199254740993.0", Types.DOUBLE()),
        ("1e400", Types.DOUBLE()),
    ],
)
def test_a_key_of_a_store_is_not_cut_or_rounded(text, key_type):
    """It would be that of another entry."""
    with pytest.raises(StateValueError, match="a key must be"):
        store_key_of(text, store_of(key_type))


def test_a_key_of_a_view_is_not_rounded():
    """Not within an array either."""
    assert (1, (0.5, "a")) == json_key_of('[1, [0.5, "a"]]')
    with pytest.raises(StateValueError, match="without a point"):
        json_key_of("[9007199254740993.0]")
