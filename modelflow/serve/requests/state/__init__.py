"""State that outlives a request: open sequences, stored answers, and registered shared memory.

In: requests that `ServedModel` has checked, and regions that clients register. Out: calls that are
answered by a session of several requests (`Sequences`), or from the `ResponseCache`, and the bytes
of tensors in shared memory (`SharedRegions`).
"""
