"""Several server processes behind one port.

The input is the server's options. The result is a group of processes, each restarted when it ends.

``supervisor/`` is the process that starts and watches the others. ``member/`` is the code inside
the others. ``rpc/`` sends requests from the processes that read them to the process that runs the
models. `Role` is the role of a process. Each process records in shared memory which versions are
active. A version that has crashed several processes is not loaded again.
"""
