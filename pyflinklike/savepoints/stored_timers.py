# SPDX-License-Identifier: Apache-2.0
"""Timers of a savepoint as sections of a log."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.clock import TimeDomain
from pyflinklike.errors import StateValueError
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.log.segments import Section
from pyflinklike.replay.described import timers_of
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.replay.stored_values import stored
from pyflinklike.savepoints.stored_rows import section_of
from pyflinklike.types.signature import type_of

__all__ = ["sections_of_timers"]


def sections_of_timers(record: OperatorRecord, saved: pa.Table) -> Iterator[Section]:
    """Write the timers of one key group as sections; a timer that is there twice is one.

    Args:
        record: Record of the operator.
        saved: All timers of the key group, in the columns of a savepoint.

    Raises:
        StateValueError: A timer has no known domain, or no time.
    """
    keys, domains = KeyColumns.of(record), saved.column("domain")
    known = pa.array([each.name.lower() for each in TimeDomain])
    fits = not saved.column("timestamp").null_count and pc.all(pc.is_in(domains, known)).as_py()
    if saved.num_rows and not fits:
        msg = f"timers have one of the domains {known.to_pylist()} and a time in ms, got another"
        raise StateValueError(f"{msg}; mend or leave out such rows")
    for domain in TimeDomain:
        declaration = timers_of(record, domain)
        mine = saved.filter(pc.equal(domains, domain.name.lower()))
        found = {name: mine.column(name).combine_chunks() for name in mine.column_names}
        columns = {"key": keys.stored([found[name] for name in keys.names])}
        if declaration.namespace:
            namespace = type_of(declaration.namespace)
            columns["namespace"] = stored(found["namespace"], namespace, "timers", as_key=True)
        columns["user_key"] = found["timestamp"].cast(pa.int64())
        yield from section_of(declaration, pa.table(columns))
