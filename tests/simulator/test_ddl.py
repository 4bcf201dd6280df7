# SPDX-License-Identifier: Apache-2.0
"""DDL without a JVM, as simulated frames read it."""

from __future__ import annotations

import pytest
from simulated.frames import parse_ddl

from pyflinklike.errors import DeclarationError


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("a int", "struct<a:int>"),
        ("long", "struct<value:bigint>"),
        ("decimal(5,2)", "struct<value:decimal(5,2)>"),
        (
            "`a b` array<string>, m map<int,array<double>> not null, s struct<x: date, y: binary>",
            "struct<a b:array<string>,m:map<int,array<double>>,s:struct<x:date,y:binary>>",
        ),
    ],
)
def test_ddl_is_parsed_without_a_jvm(ddl: str, told: str) -> None:
    """Several columns, or a single type."""
    assert parse_ddl(ddl).simpleString() == told


@pytest.mark.parametrize("ddl", ["", "a", "a int,", "a nothing", "a array<int", "a int b", "a ?"])
def test_ddl_that_does_not_parse_is_refused(ddl: str) -> None:
    """With the place where it stops."""
    with pytest.raises(DeclarationError, match="DDL"):
        parse_ddl(ddl)
