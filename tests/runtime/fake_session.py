"""A session for tests of single queues."""


class FakeProgress:
    """A stand-in for a session's progress, without any progress."""

    def __init__(self):
        self.unread = 0
        self.errors = []
        self.is_closed = self.is_finished = False

    def record_errors(self, buffers):
        self.errors += buffers


class FakeSession:
    """A stand-in for a session with only the attributes that queues read."""

    def __init__(self, name="s", is_cancelled=False):
        self.name = name
        self.is_cancelled = is_cancelled
        self.is_first = False
        self.has_deadlines = False
        self.request_batch = None
        self.context = {}
        self.progress = self.reader = FakeProgress()
