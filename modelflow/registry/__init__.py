"""The registry: how flow units are found and read.

In: names of units. Out: `FlowUnitSpec` values.

Units are decorated functions and classes, installed packages (entry points), and folders with unit
files (``folder.py``, ``unit_file.py``), also in C++ (``native.py``). Modules beside a unit file are
imported as ModelBox does it, as if all unit folders were on one ``sys.path``.
"""
