"""Messages between processes of modelflow: framing, shared memory, sockets, start and end.

The input is a message with arrays in one process. The output is the same message in another.

- ``process.py`` starts a `ChildProcess` with channels, which ends with its parent. A unit with
  ``workers="process"``, a replica of the process engine, and Ray's client each use one.
- ``channel.py`` carries pickled objects between processes that trust each other's code. It blocks a
  thread. ``memory_channel.py`` moves arrays through shared memory on one machine.
  ``socket_channel.py`` moves arrays through a socket between machines, after both sides have proved
  that they know a key.
- ``link.py`` carries requests between server processes, on their event loops. All messages of one
  turn of the loop are one write (``frame.py``). Workers receive data of clients, so links pickle
  nothing. Arrays stay in shared memory while the reader uses them.
- ``serve/processes/control_channel.py`` carries small JSON messages between a supervisor and its
  processes. A thread reads them, even while the event loop is blocked.

The framings differ in three points: pickling, blocking, and the lifetime of arrays.

Two classes replace ended processes. `remote.slot.Slot`, with a thread each, keeps replicas of pools
and servers on a cluster. The slot of `serve/processes/supervisor/child.py` keeps processes behind
one port, on the event loop that also accepts their connections.
"""
