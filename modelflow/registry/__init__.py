"""The registry: finds and reads flow units.

In: names of units. Out: `FlowUnitSpec` values.

Units are decorated functions and classes, installed packages (entry points), and folders with unit
files (``folder.py``, ``unit_file.py``), also in C++ (``native.py``). Modules next to a unit file
are imported as in ModelBox, as if all unit folders were on one ``sys.path``.
"""
