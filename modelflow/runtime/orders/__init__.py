"""The orders in which a queue hands out what is ready: pure, without locks or threads.

In: segments that were appended. Out: the next rows for a batch. `Fifo` is first come, first served;
`Fair` lets sessions take turns.
"""
