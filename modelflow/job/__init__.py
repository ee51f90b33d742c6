"""Jobs, which send many inputs through a flow: files and lines in, results and errors out.

In: ``PORT=FILE|DIR|GLOB|-`` for inputs and outputs, and a flow. Out: JSON lines, a folder, or
Parquet (``writer.py``, ``result_folder.py``, ``parquet.py``), and an error report.

A job with ``resume`` has two files:

- The list (``done_inputs.py``) gets a line when the results of an input are written. The line has
  the size of each output. The next run truncates the outputs to the sizes of the last line.
- The journal (``suspects.py``) is a memory-mapped file with the inputs in flight. If a process
  died, its inputs in flight run first in the next run, one by one. The third death therefore has
  one cause.
"""
