"""The parts of the two protocols that REST and gRPC share.

In: requests as arrays and parameters. Out: replies as arrays, statuses, configurations.
"""
