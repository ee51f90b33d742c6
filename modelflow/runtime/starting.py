"""How a flow starts: modules are imported, units open, each on its worker's thread, and then begin.

The calling thread imports the modules, in the graph's order: units may change ``sys.path`` there,
and no other unit imports or runs meanwhile.
"""

from collections.abc import Callable, Sequence

from modelflow.runtime.ending import Ending
from modelflow.runtime.life import Life
from modelflow.runtime.runners import Runner
from modelflow.runtime.worker import Worker

__all__ = ["Starting"]


class Starting:
    """The start of a flow. A stop from another thread, or a Ctrl-C, may come between any two steps.

    Whatever comes, workers that wait until all are open are told: of a start that was given up they
    close what they have opened.
    """

    def __init__(
        self, life: Life, workers: Sequence[Worker], runner: Runner, ending: Ending
    ) -> None:
        """Starts nothing yet.

        Args:
            life: The flow's.
            workers: Its workers, in the graph's order.
            runner: Who runs its workers.
            ending: What gives the start up.
        """
        self._life = life
        self._workers = workers
        self._runner = runner
        self._ending = ending

    def open(self, check: Callable[[], None] | None) -> None:
        """Has the units opened, and then lets them run.

        Args:
            check: Called when every unit is open, before anyone runs.

        Raises:
            FlowUnitError: the system has no more threads.
        """
        life = self._life
        try:
            for worker in self._workers:
                if life.state == "running":  # else a stop has come from another thread
                    worker.try_load()
            self._runner.start()
            life.wait_while(lambda: life.opening and life.goes_on)
            if life.goes_on and check is not None:
                check()
        except BaseException:
            self._ending.abort()  # before anyone runs
            raise
        finally:  # only now may a unit begin, run, or be closed
            with life.lock:
                life.is_opening = False
                life.changed.wake()
        self._runner.begin()
        life.wait_while(lambda: life.beginning and life.goes_on)
