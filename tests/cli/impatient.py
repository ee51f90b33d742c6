"""The command line, whose flows wait a second, and not ten, for a unit that does not come back."""

import sys

__all__ = ["COMMAND"]

_PROGRAM = """
from modelflow.flow.life import FlowLife
FlowLife.__init__.__kwdefaults__["stop_timeout"] = 1.0
from modelflow.__main__ import main
main()
"""

COMMAND = (sys.executable, "-c", _PROGRAM)
