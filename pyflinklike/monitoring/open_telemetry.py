# SPDX-License-Identifier: Apache-2.0
"""The metrics of queries for OpenTelemetry, by observable instruments.

The SDK's readers call the instruments whenever they export.  So a `PeriodicExportingMetricReader` pushes
the metrics, and other readers are scraped.  This module needs only OpenTelemetry's API; the program
chooses the reader and the exporter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pyflinklike._checks import install
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, RequirementError
from pyflinklike.monitoring.catalogue import CATALOGUE, CatalogueEntry
from pyflinklike.monitoring.query_listener import MAX_SERIES, QueryListener

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

__all__ = ["OpenTelemetryListener"]

_SCOPE = "pyflinklike"


class OpenTelemetryListener(QueryListener):
    """Passes the metrics of a session's queries to OpenTelemetry.

    `spark.streams.addListener(OpenTelemetryListener())` does so until `close`, through the readers of
    the `MeterProvider` that the program has set.  The labels are attributes: `query` is the name of a
    query, `operator` the `uid` of an operator.  An instrument has the name of Prometheus'
    metric without unit and ending: `pyflinklike.records` for `pyflinklike_records_total`.

    Args:
        meter_provider: The provider of meters; by default OpenTelemetry's global one.
        max_series: The most series that are kept; more are left out and counted.
        triggers: The interval of each query's trigger in seconds, by the query's name.  Spark does
            not report it, and the alert for batches that take longer needs it.

    Raises:
        RequirementError: OpenTelemetry's API is missing: the extra `otel`.
        DeclarationError: An argument has another type or range.
    """

    def __init__(
        self,
        meter_provider: Any = None,
        *,
        max_series: int = MAX_SERIES,
        triggers: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(max_series, triggers)
        api = _api()
        provider = api.get_meter_provider() if meter_provider is None else meter_provider
        if not isinstance(provider, api.MeterProvider):
            msg = f"meter_provider must be a MeterProvider, got {short_repr(meter_provider)}"
            raise DeclarationTypeError(f"{msg}; leave it out for the global one")
        self._observation = api.Observation
        self._is_closed = False
        meter = provider.get_meter(_SCOPE)
        create: dict[str, Callable[..., Any]] = {
            "counter": meter.create_observable_counter,
            "sum": meter.create_observable_up_down_counter,
            "gauge": meter.create_observable_gauge,
        }
        for each in CATALOGUE:
            create[each.kind](
                *(each.instrument, [self._observes(each)]), each.instrument_unit, each.help
            )

    def close(self) -> None:
        """Pass no more numbers on; OpenTelemetry has no way to remove an instrument."""
        self._is_closed = True

    def _observes(self, of: CatalogueEntry) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> list[Observation]:
            if self._is_closed:
                # An instrument without observations is not exported.
                return []
            return [
                self._observation(value, dict(zip(of.labels, labels)))
                for labels, value in self.samples(of)
            ]

        return observe


def _api() -> Any:
    try:
        from opentelemetry import metrics
    except ImportError as error:
        msg = f"OpenTelemetryListener needs opentelemetry-api, got no module {error.name!r}"
        remedy = f"{install('otel')} installs it, and the SDK"
        raise RequirementError(f"{msg}; {remedy}", name=error.name) from error
    return metrics
