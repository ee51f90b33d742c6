"""One request from arrays into a flow and back, the same for every protocol.

In: arrays, a deadline and a callback. Out: arrays or a `Problem`.

`ServedModel` admits a request or refuses it before it is read. Short requests of rows wait unread
(`PendingRequests`), are read together, and travel as the members of a `RequestBatch`, each with its
own deadline and answer. Others are an `InferCall` each. The `SubmitQueue` offers the flow all of
one turn of the event loop. `TimeLimit` gives up requests whose model does not answer; what the
model still computes is dropped. A `ResponseStream` moves results one by one, as the client has
room.
"""
