"""One session: its segments, its progress, its results, and its bound on rows in flight.

In: rows that were sent, and counts from the sinks. Out: results for the reader, and the end.

A `Segment` is a run of buffers of one stream with their positions; a `Span` of it is what a batch
takes. A `RequestBatch` is a session of many requests, each answered on its own.
"""
