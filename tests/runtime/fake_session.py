"""A session for tests of single queues."""


class FakeSession:
    """What queues look at, and nothing behind it."""

    def __init__(self, name="s", is_cancelled=False, deadlines=None):
        self.name = name
        self.is_cancelled = is_cancelled
        self.deadlines = deadlines or {}
        self.context = {}
        self.unread = 0
        self.errors = []

    def record_errors(self, buffers):
        self.errors += buffers
