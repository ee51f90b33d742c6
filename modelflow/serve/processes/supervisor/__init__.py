"""The process that starts, watches and replaces the other processes. It runs no model.

Inputs are the configuration, listening sockets, connections, signals, and messages of the children.
Each connection goes to the child with the fewest connections. The supervisor also combines the
answers of all children. Log lines name the model version that a child has crashed on.

`Supervisor` keeps a `Slot` for each child. A `ChildServer` is the process in the slot.
"""
