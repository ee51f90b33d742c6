"""What REST and gRPC have in common of the two protocols.

In: requests as arrays and parameters. Out: answers as arrays, statuses, configurations.
"""
