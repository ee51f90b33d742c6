"""A session: its segments, its progress, its results, and its limit on rows in flight.

Input: rows that were sent, and counts from the sinks. Output: results for the reader, and the end.

A `Segment` is a run of buffers of one stream with their positions. A `Span` describes the rows of
one stream in a batch. A `RequestBatch` is a session of many requests with an answer for each.
"""
