"""As for the tests of the runtime: locks are taken in their order."""

from tests.runtime.conftest import lock_violations

__all__ = ["lock_violations"]
