"""A load test of a flow or a server, with requests at a rate or from a number of clients.

In: `LoadOptions` and a `Target` (a flow in this process, or an HTTP server).
Out: a `LoadReport` with rates, exact percentiles and errors, second by second.
"""
