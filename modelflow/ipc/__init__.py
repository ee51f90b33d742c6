"""Messages between processes of modelflow: framing, shared memory, sockets, start and end.

In: a message and its arrays from one process. Out: the same in another process.

``process.py``: a `ChildProcess` is started with channels to it, and ends with its parent. A unit
with ``workers="process"``, a replica of the process engine and Ray's client are each one.
``channel.py`` carries pickled objects between processes that may run one another's code anyway; it
blocks a thread. ``memory_channel.py`` moves the arrays through shared memory on one machine,
``socket_channel.py`` through a socket between machines, once both sides have proved a key.
``link.py`` carries requests between processes that serve, on their event loops: all that is said in
one turn is one write (``frame.py``). Workers meet clients, so nothing there is pickled, and arrays
stay where they lie for as long as the reader looks at them.
``serve/processes/control_channel.py`` carries what a supervisor and its processes tell one
another: small messages of JSON, which a thread reads also while an event loop stands still.

The framings stay apart for these reasons: what may be pickled, who waits, how long arrays live.

Two classes replace what has ended. `remote.slot.Slot`, a thread each, keeps replicas of pools and
servers on a cluster. The slot of `serve/processes/supervisor/child.py` keeps processes behind one
port on the event loop that also accepts their connections.
"""
