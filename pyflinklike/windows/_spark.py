# SPDX-License-Identifier: Apache-2.0
"""Windows of DataFrames: `key_by(df, "user").window(TumblingEventTimeWindows.of(...)).aggregate(...)`.

`pyflinklike.windows` has the windows themselves.  A row of the result has the key columns, the
columns of the window and the columns of `output_type`.  The class of the assigner gives the
operator its name, so windows of one kind do not continue from the state of another kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike._checks import warn_of_short
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import Unpack
from pyflinklike.aggregations._element_types import element_type, type_of_ddl
from pyflinklike.aggregations._spark import WindowFolds
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.code_search import uses_processing_timers
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.spark._api.inputs import InputOf, OneInput, TwoFrames
from pyflinklike.spark._api.query import apply_function
from pyflinklike.spark._plan.process_options import (
    KeyedOptions,
    ProcessOptions,
    SideOutputs,
    check_columns,
)
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE, time_zone_of
from pyflinklike.spark._wire.output_layout import OutputEncoder
from pyflinklike.spark._wire.schema import key_type_of, output_schema
from pyflinklike.state.fold_functions import AggregateFunction, ReduceFunction
from pyflinklike.types import TypeInformation
from pyflinklike.windows._rows import WINDOW_TIME, WindowRows, window_fields
from pyflinklike.windows.assigners import WindowAssigner
from pyflinklike.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pyflinklike.windows.window_operator import WindowOperator
from pyflinklike.windows.window_options import LateDataOption, Windowed

AnyWindowFunction = (
    WindowFunction | ProcessWindowFunction | AllWindowFunction | ProcessAllWindowFunction
)


def window_all(df: DataFrame, assigner: WindowAssigner[Any, Any]) -> WindowedDataFrame:
    """Put all records of a DataFrame into windows, without keys, as PyFlink's `window_all` does.

    One task does all the work.  Functions are `AllWindowFunction` and `ProcessAllWindowFunction`.

    Args:
        df: A stream or a batch.
        assigner: Assigns windows to each record.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: A column has a name that the runtime cannot take.
    """
    if not isinstance(df, DataFrame):
        msg = f"window_all takes a Spark DataFrame, got {df!r}; read it into one"
        raise DeclarationTypeError(msg)
    check_columns(df)
    zone = time_zone_of(df.sparkSession)

    def source(options: ProcessOptions) -> OneInput:
        return OneInput.of(df, (), key_type_of([], zone), zone, options)

    return WindowedDataFrame(source, assigner, keyed=False)


class WindowedDataFrame(LateDataOption, WindowFolds):
    """The records of a DataFrame in windows.

    `KeyedDataFrame.window`, `KeyedDataFrame.count_window` and `window_all` make it.  `trigger`,
    `evictor` and the other settings change it and return it.  The methods that make a DataFrame
    take the options of `KeyedDataFrame.process` by keyword; windows of event time need
    `event_time`.

    The result has the key columns, then `window_start`, `window_end` and `window_time` (count
    windows: `window_id`; global windows: nothing), then the columns of `output_type`.
    `window_time` is the last millisecond of the window and the event time of the result, for
    later windows, timers and joins.
    """

    def __init__(
        self,
        source: InputOf,
        assigner: WindowAssigner[Any, Any],
        *,
        keyed: bool = True,
    ) -> None:
        self._source = source
        untimed = source(ProcessOptions())
        self._schema, self._time_zone = untimed.element_schema(), untimed.time_zone
        elements = element_type(self._schema, self._time_zone)
        self._windowed = Windowed(assigner, elements, keyed=keyed)
        warn_of_short(assigner)

    def reduce(  # type: ignore[override]  # folds pass its options on
        self,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        window_function: AnyWindowFunction | None = None,
        output_type: Any = None,
        *,
        side_outputs: SideOutputs = (),
        **options: Unpack[KeyedOptions],
    ) -> DataFrame:
        """Reduce the records of a window to one, record by record.

        Args:
            reduce_function: Reduces two records to one, such as `Sum("amount")` of
                `pyflinklike.aggregations`.
            window_function: Makes outputs from the reduced record; by default it is the output.
            output_type: The type of the outputs: DDL, a `StructType` or `Types.ROW_NAMED`.  By
                default the columns of the DataFrame without the key's, which the result has anyway.
            side_outputs: The tags whose outputs are wanted, without the tag of late records.
            **options: The options of `KeyedDataFrame.process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        operator = self._windowed.reduce(reduce_function, window_function)
        if output_type is None and window_function is None:
            output_type = self._schema
            return self._result(operator, output_type, side_outputs, options, is_record=True)
        return self._result(operator, output_type, side_outputs, options)

    def aggregate(
        self,
        aggregate_function: AggregateFunction[Any, Any, Any],
        window_function: AnyWindowFunction | None = None,
        accumulator_type: TypeInformation | list[TypeInformation] | str | None = None,
        output_type: Any = None,
        *,
        side_outputs: SideOutputs = (),
        **options: Unpack[KeyedOptions],
    ) -> DataFrame:
        """Fold the records of a window into an accumulator, record by record.

        Args:
            aggregate_function: Adds a record to the accumulator, and makes a result from it.
            window_function: Makes outputs from that result; by default the result is the output.
            accumulator_type: The type of the accumulator: a type, a list of the types of a row, or
                DDL.  By default anything that pickles.
            output_type: The type of the outputs: DDL, a `StructType` or `Types.ROW_NAMED`.
            side_outputs: The tags whose outputs are wanted, without the tag of late records.
            **options: The options of `KeyedDataFrame.process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        kind: Any = accumulator_type
        if isinstance(accumulator_type, str):
            df = self._source(ProcessOptions()).df
            kind = type_of_ddl(df, accumulator_type, "accumulator_type", self._time_zone)
        operator = self._windowed.aggregate(aggregate_function, window_function, kind)
        return self._result(operator, output_type, side_outputs, options)

    def apply(
        self,
        window_function: WindowFunction | AllWindowFunction,
        output_type: Any = None,
        *,
        side_outputs: SideOutputs = (),
        **options: Unpack[KeyedOptions],
    ) -> DataFrame:
        """Make outputs from all records of a window, with a `WindowFunction`.

        Args:
            window_function: The function; for `window_all` an `AllWindowFunction`.
            output_type: The type of the outputs: DDL, a `StructType` or `Types.ROW_NAMED`.
            side_outputs: The tags whose outputs are wanted, without the tag of late records.
            **options: The options of `KeyedDataFrame.process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        operator = self._windowed.apply(window_function)
        return self._result(operator, output_type, side_outputs, options)

    def process(
        self,
        process_window_function: ProcessWindowFunction | ProcessAllWindowFunction,
        output_type: Any = None,
        *,
        side_outputs: SideOutputs = (),
        **options: Unpack[KeyedOptions],
    ) -> DataFrame:
        """Make outputs from all records of a window, with a `ProcessWindowFunction`.

        Args:
            process_window_function: The function; for `window_all` a `ProcessAllWindowFunction`.
            output_type: The type of the outputs: DDL, a `StructType` or `Types.ROW_NAMED`.
            side_outputs: The tags whose outputs are wanted, without the tag of late records.
            **options: The options of `KeyedDataFrame.process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        operator = self._windowed.process(process_window_function)
        return self._result(operator, output_type, side_outputs, options)

    def _result(
        self,
        operator: WindowOperator,
        output_type: Any,
        side_outputs: SideOutputs,
        options: KeyedOptions,
        *,
        is_record: bool = False,
    ) -> DataFrame:
        if output_type is None:
            msg = (
                f"windows need the type of their outputs, got output_type={short_repr(output_type)}; "
                'write it as DDL, such as output_type="total long"'
            )
            raise DeclarationTypeError(msg)
        given = ProcessOptions.of(options, KeyedOptions)
        source = self._source(given)
        result = WindowResult.of(source, operator, output_type, is_record=is_record)
        return result.over(source, self._schema, attrs.evolve(given, side_outputs=side_outputs))


@attrs.frozen
class WindowResult:
    """The result of windows, and the operator that makes it.

    Args:
        operator: Makes rows of the schema.
        schema: The columns of the key, of the window, and of the outputs.
        name: The name of the operator.
    """

    operator: WindowOperator
    schema: st.StructType
    name: str

    @classmethod
    def of(
        cls,
        source: OneInput | TwoFrames,
        operator: WindowOperator,
        output_type: Any,
        name: str | None = None,
        *,
        is_record: bool = False,
    ) -> WindowResult:
        """Make the result of windows over keyed records.

        Args:
            source: The keyed records that are put into windows.
            operator: The windows, as the user declared them.
            output_type: The type of the outputs.
            name: The name of the operator; by default the name of the assigner's class.
            is_record: Whether outputs are records; then their key columns are left out.

        Raises:
            DeclarationTypeError, DeclarationValueError: The type cannot become columns, two
                columns have one name, or windows of event time have no `event_time`.
        """
        assigner = operator.declared.assigner
        _check_event_time(assigner, source)
        name = name or type(assigner).__name__
        result = output_schema(source.df, output_type)
        windows = assigner.get_window_serializer()
        first = [*source.key_fields(), *window_fields(windows)]
        names = [field.name for field in first]
        taken = [at for at, each in enumerate(result.names) if not (is_record and each in names)]
        double = sorted({result.names[at] for at in taken} & set(names))
        if double:
            msg = (
                f"the result of windows always has the columns {names}, got {double} in "
                "output_type, too; leave them out, or rename them"
            )
            raise DeclarationValueError(msg)
        zone = source.reader.time_zone
        encoder = OutputEncoder(result, zone, f"{name} output", _same)
        rows = WindowRows(
            len(source.columns), windows, encoder, tuple(taken) if is_record else None
        )
        schema = st.StructType([*first, *(result.fields[at] for at in taken)])
        return cls(operator.collecting(rows), schema, name)

    def over(
        self,
        source: OneInput | TwoFrames,
        late_schema: st.StructType,
        options: ProcessOptions,
    ) -> DataFrame:
        """Apply the windows to keyed records.

        Args:
            source: The keyed records that are put into windows.
            late_schema: The columns of the records, for the side output of late ones.
            options: The options of the operator.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        # A result has its window's time only if the host can hand times on and no clock fires it.
        uses_clock = self.operator.uses_processing_timers(uses_processing_timers)
        passes = HAS_TRANSFORM_WITH_STATE or not source.df.isStreaming
        has_time = self.operator.declared.assigner.is_event_time() and passes and not uses_clock
        options = attrs.evolve(
            options,
            uid=options.uid or self.name,
            side_outputs=self._with_late(options.side_outputs, late_schema),
            processing_time_timers=uses_clock,
            output_event_time=WINDOW_TIME if has_time else None,
        )
        return apply_function(self.operator, source, self.schema, options)

    def _with_late(self, declared: SideOutputs, late_schema: st.StructType) -> dict[OutputTag, Any]:
        tags = dict(declared) if isinstance(declared, Mapping) else dict.fromkeys(declared)
        late = self.operator.declared.late_data_tag
        if late is not None:
            tags[late] = late_schema
        return tags


def _same(key: Any) -> Any:
    return key


def _check_event_time(assigner: WindowAssigner[Any, Any], source: OneInput | TwoFrames) -> None:
    """Check that records have times if windows need them.

    Raises:
        DeclarationValueError: Windows of event time have no `event_time`.
    """
    if assigner.is_event_time() and source.event_time is None:
        msg = (
            f"{assigner!r} needs the time of the records, got no event_time; name the column "
            'with event_time="..."'
        )
        raise DeclarationValueError(msg)
