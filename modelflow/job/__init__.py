"""Many inputs through a flow: files and lines in, results and errors out, resumable.

In: ``PORT=FILE|DIR|GLOB|-`` for inputs and outputs, and a flow. Out: JSON lines, a folder, or
Parquet (``writer.py``, ``result_folder.py``, ``parquet.py``), and an error report.

A job with ``resume`` has two files. The list (``done_inputs.py``) gets a line when the results of
an input are written, with the size of each output; the next run cuts outputs to the last line. The
journal (``suspects.py``) is mapped memory and names the inputs under way: inputs that were under
way when a process died run first, one by one, so the third death blames the right one.
"""
