"""Messages between processes of modelflow: framing, shared memory, sockets, start and end.

In: a message and its arrays from one process. Out: the same in another process.

``channel.py`` is the interface; ``memory_channel.py`` moves arrays through shared memory on one
machine, ``socket_channel.py`` through a socket between machines. ``link.py`` does the same on an
event loop: all that is said in one turn is one write. ``process.py`` starts processes that end with
their parent. Only messages of modelflow's own processes are read; nothing from clients.
"""
