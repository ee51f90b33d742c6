"""Units that run in processes of their own (``workers="process"``).

A worker thread has one process and waits for it; the runtime around it is the same. `channel.py` is
how the two talk, `process_unit.py` the side of the flow, `child.py` that of the process.
"""
