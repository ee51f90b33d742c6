"""What is counted of requests: counts and times of a model, snapshots, spans.

In: events of requests, on the server's thread. Out: `ModelSnapshot` values, which add up
over processes.
"""
