"""The command line, with flows that wait 1 s instead of 10 s for a unit that does not return."""

import sys

__all__ = ["COMMAND"]

_PROGRAM = """
from modelflow.flow.life import FlowLife
FlowLife.__init__.__kwdefaults__["stop_timeout"] = 1.0
from modelflow.__main__ import main
main()
"""

COMMAND = (sys.executable, "-c", _PROGRAM)
