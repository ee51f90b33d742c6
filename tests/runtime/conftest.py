"""Checks in every test of the runtime that threads take locks in the declared order."""

import pytest

from tests.runtime.ordered_locks import order_locks


@pytest.fixture(autouse=True)
def lock_violations(monkeypatch):
    """Fails a test in which a lock is taken out of order, or held during a callback."""
    violations = order_locks(monkeypatch)
    yield violations
    assert violations == []
