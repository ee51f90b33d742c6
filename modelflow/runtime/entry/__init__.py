"""The entry and the exit of a graph: backpressure, positions, results.

In: buffers from `StreamIO` and requests. Out: segments in the first queues. At the other end of the
graph, the sinks take results and ends.

The `Submitter` has one lock. Under this lock it checks for room, counts a row and appends the row.
Requests that arrive together enter as a group (``request_group.py``). If a queue is full, the
caller gets a `Backpressure`, with which it can wait for room.
"""
