"""The process that starts, watches and replaces the others. It runs no model.

In: what to run, the listening sockets, connections, signals, and what the children say. Out:
connections handed to the child with the fewest, answers to what all children are asked together,
and log lines that name the model version that a child died of.

`Supervisor` keeps a `Slot` for each child; a `ChildServer` is the process that fills it.
"""
