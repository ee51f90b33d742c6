"""Load on a flow or a server: requests at a rate or from waiting clients, and the outcome.

In: `LoadOptions` and a `Target` (a flow in this process, or an HTTP server).
Out: a `LoadReport` with rates, exact percentiles and errors, second by second.
"""
