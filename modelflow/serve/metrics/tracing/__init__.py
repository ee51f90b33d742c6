"""The OpenTelemetry spans of requests. Only this package uses OpenTelemetry.

The server imports this package only if tracing is on.
"""
