"""One request from arrays into a flow and back, the same for every protocol.

In: arrays, a deadline and a callback. Out: arrays or a `Problem`.

`ServedModel` admits or refuses a request before its body is decoded. Short requests of rows wait
undecoded (`PendingRequests`), are decoded together, and travel as the members of a `RequestBatch`.
Each member keeps its own deadline and answer. Every other request is an `InferCall`. The
`SubmitQueue` submits all requests of one turn of the event loop together. `TimeLimit` gives up
requests whose model does not answer; results that arrive later are dropped. A `ResponseStream`
sends results one by one, as fast as the client reads.
"""
