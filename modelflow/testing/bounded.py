"""Units that go on by themselves, bounded, so that a run of one ends."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from modelflow.unit.kind import Kind
from modelflow.unit.spec import FlowUnitSpec
from modelflow.unit.stream_context import StreamContext
from modelflow.unit.unit import Context, FlowUnit


def bounded(spec: FlowUnitSpec, device: str, max_calls: int) -> FlowUnitSpec:
    """Returns the spec of the same unit on one device, called at most so often by itself.

    A source is over after ``max_calls`` calls, a stream unit is given that many events. Neither is
    waited for: an event comes at once, whatever its delay, and `hold` holds nothing.
    """
    if not spec.is_source and spec.kind is not Kind.STREAM:
        return spec

    def make() -> FlowUnit:
        unit: Any = spec.create(device)
        unit.process = _Bounded(unit.process, max_calls)
        return unit  # type: ignore[no-any-return]

    return replace(spec, devices={device: make})


class _Bounded:
    """The ``process`` of a unit, which counts."""

    def __init__(self, process: Callable[[Context], object], max_calls: int) -> None:
        self._process = process
        self._left = max_calls

    def __call__(self, context: StreamContext) -> object:
        is_own = context.event is not None or not context.inputs
        if is_own and not self._left:
            context.finish()
            return None
        self._left -= is_own
        post = context._post
        context._post = lambda event, _delay: post(event, 0.0)
        try:
            return self._process(context)
        finally:
            context.is_held = False
