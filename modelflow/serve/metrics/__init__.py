"""The counts and times of requests, snapshots of them, and spans.

In: events of requests, on the server's thread. Out: `ModelSnapshot` values, which can be summed
over processes.
"""
