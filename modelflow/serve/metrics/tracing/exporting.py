"""The export of spans, configured by OpenTelemetry's environment variables (``OTEL_...``)."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SpanExporter,
    SpanExportResult,
)

from modelflow.errors import ConfigError, describe_error, did_you_mean

logger = logging.getLogger(__name__)

_EXPORTERS: dict[str, Callable[[], SpanExporter]] = {
    "otlp": OTLPSpanExporter,
    "console": lambda: ConsoleSpanExporter(out=sys.stdout),
}
_NONE = "none"
_EXPORTER = "OTEL_TRACES_EXPORTER"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
# Seconds that `close` waits for the remaining spans. The second value is used if the last export
# failed.
_LAST_SECONDS = 1.0
_LAST_OF_LOST = 0.25


class SpanExport:
    """The owner of a tracer provider of the SDK.

    Attributes:
        provider: The provider of tracers.
    """

    def __init__(self) -> None:
        """Creates the provider, and starts its threads.

        Raises:
            ConfigError: An environment variable has an unsupported value.
        """
        self._outlets: list[LimitedExporter] = []
        self._ending = threading.RLock()  # reentrant, for signal handlers
        self._is_closed = False
        names = _list_exporters()
        try:
            # `close` shuts the provider down, not a hook at the end of the process.
            self.provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
            for name in names:
                self._outlets.append(LimitedExporter(name, _EXPORTERS[name]()))
                self.provider.add_span_processor(BatchSpanProcessor(self._outlets[-1]))
        except ValueError as error:  # an invalid or too small number
            for outlet in self._outlets:
                outlet.close()
            raise ConfigError(
                f"tracing: an environment variable OTEL_... is invalid: {error}"
            ) from error

    def close(self) -> None:
        """Sends the remaining spans, within seconds. May be called again."""
        with self._ending:
            if self._is_closed:
                return
            self._is_closed = True
            is_lost = any(outlet.is_failing for outlet in self._outlets)
            # `shutdown` may wait for half a minute, and the SDK offers no shorter limit.
            ending = threading.Thread(
                target=self.provider.shutdown, name="modelflow/traces", daemon=True
            )
            ending.start()
            ending.join(_LAST_OF_LOST if is_lost else _LAST_SECONDS)
            for outlet in self._outlets:
                outlet.give_up()
            ending.join(_LAST_OF_LOST)
            if ending.is_alive():  # a running export, which cannot be interrupted
                logger.error("traces: no answer at the end; the remaining spans are lost")
            for outlet in self._outlets:
                outlet.close()


class LimitedExporter(SpanExporter):  # type: ignore[misc]
    """An exporter that logs only the first failure of another exporter, and its recovery.

    Attributes:
        is_failing: Whether the last export failed.
    """

    def __init__(self, name: str, exporter: SpanExporter) -> None:
        """Stores and owns an exporter.

        Args:
            name: The name of the exporter, for messages.
            exporter: The exporter.
        """
        self._name = name
        self._exporter = exporter
        self._reason = ""
        self._lost = 0
        self._is_given_up = False
        self.is_failing = False
        # The exporter logs the reason of every failed attempt. The filter keeps the
        # reason and drops the line.
        self._said = logging.getLogger(type(exporter).__module__)
        self._said.addFilter(self._hear)

    def _hear(self, record: logging.LogRecord) -> bool:
        self._reason = record.getMessage()
        return False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Exports spans, and waits for the result."""
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - is logged below, once for all attempts
            self._reason, result = describe_error(error), SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            if self.is_failing:
                logger.warning("traces: spans are taken again; %d were lost", self._lost)
            self.is_failing = False
        else:
            self._lost += len(spans)
            if not self.is_failing:
                logger.error("traces: %s does not take spans: %s", self._name, self._reason)
            self.is_failing = True
        return result

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Flushes the exporter."""
        return bool(self._exporter.force_flush(timeout_millis))

    def shutdown(self) -> None:
        """Shuts the exporter down, once."""
        self.give_up()

    def give_up(self) -> None:
        """Shuts the exporter down. Unsent spans are lost. May be called again."""
        if not self._is_given_up:
            self._is_given_up = True
            self._exporter.shutdown()

    def close(self) -> None:
        """Logs the number of lost spans, after the shutdown."""
        self._said.removeFilter(self._hear)
        if self.is_failing:
            logger.error("traces: %d spans were lost", self._lost)


def _list_exporters() -> list[str]:
    """Returns the names of the exporters in the environment.

    Raises:
        ConfigError: The exporter or its protocol is unknown.
    """
    text = os.environ.get(_EXPORTER, "").strip() or "otlp"
    names = [*dict.fromkeys(name.strip() for name in text.split(","))]
    for name in names:
        if name not in _EXPORTERS and name != _NONE:
            known = [*_EXPORTERS, _NONE]
            raise ConfigError(
                f"{_EXPORTER}: got {name!r}; expected one of {', '.join(known)}"
                f"{did_you_mean(name, known)}"
            )
    for variable in _PROTOCOLS:
        protocol = os.environ.get(variable, "").strip() or _PROTOCOL
        if "otlp" in names and protocol != _PROTOCOL:
            raise ConfigError(
                f"{variable}: got {protocol!r}; expected {_PROTOCOL}, which every collector takes "
                "(port 4318)"
            )
    return [name for name in names if name != _NONE]


def _resource() -> Resource:
    """Returns the resource of all spans. The service name defaults to ``modelflow``."""
    found = Resource.create({"process.pid": os.getpid()})
    if str(found.attributes["service.name"]).startswith("unknown_service"):
        found = found.merge(Resource({"service.name": "modelflow"}))
    return found
