"""Checks, as in the tests of the runtime, that threads take locks in the declared order."""

from tests.runtime.conftest import lock_violations

__all__ = ["lock_violations"]
