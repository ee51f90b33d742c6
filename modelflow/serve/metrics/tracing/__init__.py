"""Spans of OpenTelemetry, which this package alone knows; imported where they are asked for."""
