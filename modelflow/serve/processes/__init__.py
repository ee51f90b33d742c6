"""Several processes behind one port: replicas, workers, and their supervisor.

In: the server's options. Out: processes that serve, each started again when it ends.

``replicas/`` has the supervisor of every mode, and children that are whole servers. ``workers/``
has children that read and write requests, the child that runs their models, and what passes between
them. An `Acceptor` hands each HTTP connection to the child with the fewest. The supervisor runs no
model. Each process notes in shared memory which version it works for; a
version that several processes died of is not loaded again.
"""
