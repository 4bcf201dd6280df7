# SPDX-License-Identifier: Apache-2.0
"""`key_by(df, "user").window(...).sum("amount")`: the folds of windows by a field.

Flink's Java API has them; PyFlink's windows have not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike.folds.reducers import FieldFold, Max, MaxBy, Min, MinBy, Sum
from pyflinklike.spark.folds import check_field

if TYPE_CHECKING:
    from pyflinklike.spark.setup.options import KeyedOptions
    from pyflinklike.type_vars import Unpack

__all__ = ["WindowFolds"]


class WindowFolds:
    """What a `WindowedStream` can fold; each is a `reduce`, whose options it takes.

    A field is given by its name or by its position, from 0.
    """

    _schema: st.StructType

    def reduce(self, reduce_function: Any, **options: Any) -> DataFrame:
        """`WindowedStream.reduce`."""
        raise NotImplementedError

    def sum(self, position_to_sum: int | str = 0, **options: Unpack[KeyedOptions]) -> DataFrame:
        """Add a field up; the other columns are those of the window's first record.

        Args:
            position_to_sum: The field, of a type of numbers.
            **options: Of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(Sum(position_to_sum), options)

    def min(self, position_to_min: int | str = 0, **options: Unpack[KeyedOptions]) -> DataFrame:
        """The least value of a field; the other columns are those of the window's first record.

        Args:
            position_to_min: The field.
            **options: Of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(Min(position_to_min), options)

    def max(self, position_to_max: int | str = 0, **options: Unpack[KeyedOptions]) -> DataFrame:
        """The greatest value of a field; the other columns are those of the window's first record.

        Args:
            position_to_max: The field.
            **options: Of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(Max(position_to_max), options)

    def min_by(
        self, position_to_min_by: int | str = 0, **options: Unpack[KeyedOptions]
    ) -> DataFrame:
        """The record of a window with the least value of a field, the earliest of them.

        Args:
            position_to_min_by: The field.
            **options: Of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(MinBy(position_to_min_by), options)

    def max_by(
        self, position_to_max_by: int | str = 0, **options: Unpack[KeyedOptions]
    ) -> DataFrame:
        """The record of a window with the greatest value of a field, the earliest of them.

        Args:
            position_to_max_by: The field.
            **options: Of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(MaxBy(position_to_max_by), options)

    def _by_field(self, fold: FieldFold, options: KeyedOptions) -> DataFrame:
        check_field(self._schema, fold)
        return self.reduce(fold, **options)
