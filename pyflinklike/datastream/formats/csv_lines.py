# SPDX-License-Identifier: Apache-2.0
"""Lines of CSV: their fields, and when a field is in quotes, as Jackson has it."""

from __future__ import annotations

import csv
import io

import attrs

__all__ = ["Dialect"]

_LONG = 24
"""Texts longer than this are in quotes."""


@attrs.frozen
class Dialect:
    """How lines are written.

    Args:
        field: Between fields.
        line: Behind a line.
        array: Between the elements of an array.
        quote: Around a field; None is nothing.
        escape: Before a quote in quotes; None has it doubled.
        null: Instead of None; None is an empty field when written, and no field when read.
        has_comments: Whether a line that begins with # is no row.
    """

    field: str = ","
    line: str = "\n"
    array: str = ";"
    quote: str | None = '"'
    escape: str | None = None
    null: str | None = None
    has_comments: bool = False

    def fields(self, text: str) -> list[str] | None:
        """The fields of a line; None for a comment.

        Raises:
            ValueError: It is not one line.
        """
        if self.has_comments and text.startswith("#"):
            return None
        lines = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=self.field,
            quotechar=self.quote,
            quoting=csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL,
            doublequote=self.escape is None,
            escapechar=self.escape,
            strict=True,
        )
        try:
            found = list(lines)
        except csv.Error as error:
            raise ValueError(str(error)) from error
        if len(found) != 1:
            msg = f"one line is wanted, got {len(found)}"
            raise ValueError(msg)
        return found[0]

    def text(self, field: str) -> str:
        """A field with quotes where it needs them."""
        if self.quote is None or not self._needs_quotes(field):
            return field
        escape = self.escape or self.quote
        for special in dict.fromkeys((escape, self.quote)):
            field = field.replace(special, f"{escape}{special}")
        return f"{self.quote}{field}{self.quote}"

    def number(self, field: str) -> str:
        """A number or boolean, with quotes only where it could be taken for something else."""
        return self.text(field) if self.field in field else field

    def _needs_quotes(self, field: str) -> bool:
        unsafe = max(self.field, self.quote or "", self.escape or "", *(self.line or [""]))
        return len(field) > _LONG or any(letter <= unsafe for letter in field)
