# SPDX-License-Identifier: Apache-2.0
"""Sources one after the other, on the local runner."""

from __future__ import annotations

import itertools

import pytest
from local_support import Endless, local

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.pyflink.common import WatermarkStrategy
from pyflinklike.pyflink.datastream.connectors import (
    FileSource,
    HybridSource,
    NumberSequenceSource,
    StreamFormat,
)

NONE = WatermarkStrategy.no_watermarks()


def lines_of(path):
    """A source of the files that are there."""
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()


def numbers(first, *others):
    """Sequences of numbers one after the other."""
    builder = HybridSource.builder(NumberSequenceSource(*first))
    for each in others:
        builder.add_source(NumberSequenceSource(*each))
    return builder.build()


@pytest.mark.parametrize("parallelism", ["1", "3"])
def test_sources_come_one_after_the_other(parallelism):
    """One instance reads them all, so it holds for any parallelism."""
    stream = local(parallelism__default=parallelism).from_source(
        numbers((1, 3), (1, 2), (7, 7)), NONE, "numbers"
    )

    assert [1, 2, 3, 1, 2, 7] == list(stream.execute_and_collect())


def test_the_last_source_need_not_end():
    """It begins when those before have ended."""
    source = HybridSource.builder(Finite()).add_source(Endless()).build()
    results = local().from_source(source, NONE, "numbers").execute_and_collect()

    assert not source.is_bounded
    assert [100, 101, 0, 1, 2] == list(itertools.islice(results, 5))


class Finite(Endless):
    """Two numbers, of the type that `Endless` has."""

    @property
    def is_bounded(self):
        return True

    def read(self, index, parallelism):
        return iter([(100, None), (101, None)])


def test_files_are_followed_by_other_files(tmp_path):
    """Splits are those of the sources, each with its number."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    source = HybridSource.builder(lines_of(tmp_path / "b")).add_source(lines_of(tmp_path / "a"))
    found = source.build()

    assert ["b", "a"] == list(local().from_source(found, NONE, "files").execute_and_collect())
    assert [f'[0, "{tmp_path / "b"}"]', f'[1, "{tmp_path / "a"}"]'] == found.splits()
    assert [["b"], ["a"]] == [[e for e, _ in found.read_split(each)] for each in found.splits()]
    assert f"the files of {tmp_path / 'b'}, then the files of {tmp_path / 'a'}" == found.identity


def test_a_source_whose_splits_have_no_names_is_one_split():
    """Numbers say nothing of how many there are."""
    source = numbers((1, 2), (3, 4))

    assert [[1, 2], [3, 4]] == [[e for e, _ in source.read_split(each)] for each in source.splits()]


def test_what_is_declared_wrongly_is_refused_with_the_remedy(tmp_path):
    """When it is declared."""
    with pytest.raises(DeclarationTypeError, match="give for example a FileSource"):
        HybridSource.builder("x")
    with pytest.raises(DeclarationValueError, match="but the last one end, got another one after"):
        HybridSource.builder(Endless()).add_source(Endless())
    with pytest.raises(DeclarationValueError, match="give one type, got Long and then String"):
        HybridSource.builder(NumberSequenceSource(1, 2)).add_source(lines_of(tmp_path))
