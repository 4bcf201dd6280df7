# SPDX-License-Identifier: Apache-2.0
"""Dead letters: if a function raises on a record or timer, that becomes a row of a side output."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from pyflinklike._checks import is_int, is_number
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.types import Types

LETTER_FIELDS = (
    ("operator", Types.STRING()),
    ("call", Types.STRING()),
    ("subject", Types.STRING()),
    ("timestamp", Types.LONG()),
    ("watermark", Types.LONG()),
    ("processing_time", Types.LONG()),
    ("batch", Types.LONG()),
    ("error_class", Types.STRING()),
    ("message", Types.STRING()),
    ("raised_at", Types.STRING()),
    ("traceback", Types.STRING()),
    ("failure_snapshot", Types.PRIMITIVE_ARRAY(Types.BYTE())),
)
"""The columns of a dead letter behind those of its key, with their types."""

FEW = 10
"""So many dead letters never fail a task, if `at_most` is a share."""


@attrs.frozen(init=False)
class DeadLetters:
    """Let a query go on if its function raises: the record or timer becomes a dead letter.

    Everything that the call has written, registered, deleted and yielded is undone, as if the record
    had not come; a timer that failed is gone.  Windows and joins undo one call of the user's function,
    and go on, purge and end as if it had succeeded.  A dead letter is a row of the side output `tag`.
    It has the columns of the key (`key` in a harness), and

    | column | is |
    |---|---|
    | `operator` | the operator's uid |
    | `call` | the method that raised: `process_element`, `on_timer`, `process_element2` ... |
    | `subject` | the element, the time of the timer, the window and its contents, or the pair, shortened |
    | `timestamp` | the event time of the element, or the time of the timer, in ms; null without one |
    | `watermark`, `processing_time` | the times during the call, in ms |
    | `batch` | the number of the micro-batch; null in a batch and in a harness |
    | `error_class`, `message` | the class and the message of the error |
    | `raised_at` | the user's line: file, line and function |
    | `traceback` | the traceback, shortened to its last 8,000 characters |
    | `failure_snapshot` | bytes from which a harness makes the call again: `of_failure` of the harnesses |

    A failure snapshot has the states, stores and timers of the key before the call, the element or timer, and
    the times.  It is null if that takes more than `snapshot_bytes`.  It is also null if the element can
    be written neither as plain values nor, if the operator may unpickle, as a pickle.

    A bug in a new version must not turn a whole topic into dead letters.  So a task fails, and the query
    with it, if it has more dead letters than `at_most`.  With `per="record"` that is a share of the
    task's records and timers.  It is judged at the end of the task, over the micro-batch and over the
    last ones, and never for ten letters or fewer.  With `per="batch"` it is a number in a micro-batch.
    A harness judges no share.

    Some errors are not the record's fault, and always fail the query: errors of declarations, of
    outputs, of damaged or incompatible state, of the host, of brokers, and a lack of memory.

    Example:
        ```python
        letters = DeadLetters("dead", at_most=0.001)
        ```

    Args:
        tag: The side output, or its name.
        at_most: A share of the records and timers of a task, between 0 and 1; or a number of letters.
        per: "record" if `at_most` is a share of the records, "batch" if it is a number in a
            micro-batch.  A harness counts as one micro-batch.
        snapshot_bytes: The most bytes of a failure snapshot; 0 makes no failure snapshots.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: `at_most`, `per` or `snapshot_bytes` is out of range.
    """

    tag: OutputTag[Any]
    at_most: float
    per: Literal["record", "batch"]
    snapshot_bytes: int

    def __init__(
        self,
        tag: OutputTag[Any] | str,
        at_most: float = 0.01,
        per: Literal["record", "batch"] = "record",
        snapshot_bytes: int = 65_536,
    ) -> None:
        if isinstance(tag, str):
            tag = OutputTag(tag)
        given: Any = tag
        if not isinstance(given, OutputTag):
            msg = f"DeadLetters takes an OutputTag or its name, got {short_repr(given)}"
            raise DeclarationTypeError(f"{msg}; for example DeadLetters('dead')")
        if per not in ("record", "batch"):
            msg = f'DeadLetters: per must be "record" or "batch", got {short_repr(per)}'
            raise DeclarationValueError(
                f"{msg}; with at_most=0.01, per='record' is one in a hundred"
            )
        _check_bound(at_most, per)
        if not is_int(snapshot_bytes) or snapshot_bytes < 0:
            msg = f"DeadLetters: snapshot_bytes must be an int from 0 on, got {short_repr(snapshot_bytes)}"
            kind = DeclarationValueError if is_int(snapshot_bytes) else DeclarationTypeError
            raise kind(f"{msg}; 65536 is the default, 0 makes no failure snapshots")
        self.__attrs_init__(tag, at_most, per, snapshot_bytes)


def _check_bound(at_most: Any, per: str) -> None:
    if per == "record":
        rule, example = "a share between 0 and 1", "0.01 is one record in a hundred"
        is_kind = is_number(at_most)
        is_right = is_kind and 0 <= at_most <= 1
    else:
        rule, example = 'an int from 0 on with per="batch"', "100 is a hundred in a micro-batch"
        is_kind = is_int(at_most)
        is_right = is_kind and at_most >= 0
    msg = f"DeadLetters: at_most must be {rule}, got {short_repr(at_most)}; {example}"
    if not is_kind:
        raise DeclarationTypeError(msg)
    if not is_right:
        raise DeclarationValueError(msg)
