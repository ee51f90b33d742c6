"""Several processes behind one port.

In: the server's options. Out: processes that serve, each started again when it ends.

``supervisor/`` is the process that keeps the others. ``member/`` is the inside of each of those.
``rpc/`` brings requests from processes that read them to the one that runs the models. `Role` says
what a process is for. Each process notes in shared memory which version it works for; a version
that several processes died of is not loaded again.
"""
