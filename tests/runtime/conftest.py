"""Checks in every test of the runtime that threads take locks in the declared order."""

import pytest

from tests.runtime.ordered_locks import order_locks


@pytest.fixture(autouse=True)
def lock_violations(monkeypatch):
    """Fails a test in which a thread takes a lock out of turn, or calls back with one held."""
    violations = order_locks(monkeypatch)
    yield violations
    assert violations == []
