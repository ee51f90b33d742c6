"""Contexts for tests that call a unit themselves."""

from modelflow.unit.stream_context import StreamContext


def source_context(outputs, state=None):
    """Returns the context of a source's ``process``."""
    return StreamContext(
        {}, outputs, {}, {} if state is None else state, {}, lambda _event, _delay: True
    )
