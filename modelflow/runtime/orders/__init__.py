"""The orders in which a queue gives out ready rows, without locks or threads.

In: segments that were appended. Out: the next rows for a batch. `Fifo` is first come, first served.
With `Fair`, sessions take turns.
"""
