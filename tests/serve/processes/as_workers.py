"""A plugin of pytest: every `modelflow.serve.server.Server` of the tests is a `Linked`."""

from modelflow.serve import server
from tests.serve.processes.linked import Linked

setattr(server, "Server", Linked)  # noqa: B010 - it is a class
