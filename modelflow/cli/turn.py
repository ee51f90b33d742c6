"""One run of a graph, for whoever has it run."""

from collections.abc import Callable

__all__ = ["Turn"]


class Turn:
    """One run of a graph, for whoever has it run: told how it can be ended, and when it runs."""

    is_over = False
    """It was ended by that, not by a signal."""

    def begin(self, finish: Callable[[], None]) -> None:
        """Takes what ends the run, from any thread, as SIGTERM does; before it starts."""

    def run(self) -> None:
        """Is called when every unit is open."""
