"""State of a model that outlives a request: the open sequences, and the stored answers.

In: requests that `ServedModel` has checked. Out: calls that are answered by a session of several
requests (`Sequences`), or from the `ResponseCache`.
"""
