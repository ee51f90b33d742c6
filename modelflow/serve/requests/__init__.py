"""One request from arrays into a flow and back, the same for every protocol.

In: arrays, a deadline and a callback. Out: arrays or a `Problem`.

`ServedModel` admits a request or refuses it before it is read. The `SubmitQueue` offers the flow
all requests of one turn of the event loop. Small one-row requests wait unread (`PendingRequests`)
and are read together. `TimeLimit` gives up requests whose model does not answer; what the model
still computes is dropped. A `ResponseStream` moves results one by one, as the client has room.
"""
