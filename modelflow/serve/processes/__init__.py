"""Several processes behind one port: replicas, workers, and their supervisor.

In: the server's options. Out: processes that serve, each started again when it ends.

``replicas/``: each process is a whole server; an `Acceptor` hands each connection to the replica
with the fewest. ``workers/``: processes read and write requests, and one process runs all models.
The supervisor runs no model. Each process notes in shared memory which version it works for; a
version that several processes died of is not loaded again.
"""
