"""Where spans go: as OpenTelemetry's variables of the environment say (``OTEL_...``)."""

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
# Seconds within which the end sends what is left; the shorter where nothing was taken before.
_LAST_SECONDS = 1.0
_LAST_OF_LOST = 0.25


class SpanExport:
    """A provider of the SDK's, and its end.

    Attributes:
        provider: What makes spans.
    """

    def __init__(self) -> None:
        """Makes the provider, and starts its threads.

        Raises:
            ConfigError: a variable asks for what there is not.
        """
        self._outlets: list[LimitedExporter] = []
        self._ending = threading.RLock()  # as `Server` has it
        self._is_closed = False
        names = _list_exporters()
        try:
            # `close` ends it, not the end of the process.
            self.provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
            for name in names:
                self._outlets.append(LimitedExporter(name, _EXPORTERS[name]()))
                self.provider.add_span_processor(BatchSpanProcessor(self._outlets[-1]))
        except ValueError as error:  # of a number that is none, or too small
            for outlet in self._outlets:
                outlet.close()
            raise ConfigError(
                f"tracing: one of the variables OTEL_... is not to be used: {error}"
            ) from error

    def close(self) -> None:
        """Sends what is left, within seconds. May be called again."""
        with self._ending:
            if self._is_closed:
                return
            self._is_closed = True
            is_lost = any(outlet.is_failing for outlet in self._outlets)
            # The SDK waits for half a minute, and has no bound to give it.
            ending = threading.Thread(
                target=self.provider.shutdown, name="modelflow/traces", daemon=True
            )
            ending.start()
            ending.join(_LAST_OF_LOST if is_lost else _LAST_SECONDS)
            for outlet in self._outlets:
                outlet.give_up()
            ending.join(_LAST_OF_LOST)
            if ending.is_alive():  # an attempt under way, which nothing ends
                logger.error("traces: nobody answers at the end; what was not taken is lost")
            for outlet in self._outlets:
                outlet.close()


class LimitedExporter(SpanExporter):  # type: ignore[misc]
    """Hands spans to an exporter; says once where they are not taken, once where they are again.

    Attributes:
        is_failing: The last ones were not taken.
    """

    def __init__(self, name: str, exporter: SpanExporter) -> None:
        """Takes an exporter, which becomes its own, and what it is called."""
        self._name = name
        self._exporter = exporter
        self._reason = ""
        self._lost = 0
        self._is_given_up = False
        self.is_failing = False
        # Where the exporter says why, with a line for each attempt.
        self._said = logging.getLogger(type(exporter).__module__)
        self._said.addFilter(self._hear)

    def _hear(self, record: logging.LogRecord) -> bool:
        self._reason = record.getMessage()
        return False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Hands spans on; waits until they are taken, or are not."""
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - said below, once, and not for every attempt
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
        """Has the exporter send what it holds."""
        return bool(self._exporter.force_flush(timeout_millis))

    def shutdown(self) -> None:
        """Ends the exporter; once."""
        self.give_up()

    def give_up(self) -> None:
        """Ends the exporter: what is not sent is lost. May be called again."""
        if not self._is_given_up:
            self._is_given_up = True
            self._exporter.shutdown()

    def close(self) -> None:
        """Says what was lost, behind the end."""
        self._said.removeFilter(self._hear)
        if self.is_failing:
            logger.error("traces: %d spans were lost", self._lost)


def _list_exporters() -> list[str]:
    """The exporters that the environment names.

    Raises:
        ConfigError: there is no such one.
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
    """What every span is of: the environment's, else a service of our name."""
    found = Resource.create({"process.pid": os.getpid()})
    if str(found.attributes["service.name"]).startswith("unknown_service"):
        found = found.merge(Resource({"service.name": "modelflow"}))
    return found
