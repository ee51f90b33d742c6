"""The bounded queue before each stage: pairing of inputs, batches, room, idle workers.

In: segments from outboxes and the entry. Out: batches for workers.

An `Inbox` is a lock with a `Matcher` (pairs the inputs of a node by stream and position), an
`Order`, bounds (`BoundedQueue`), the closing of batches (`DynamicBatching`), and the workers that
wait (`IdleWorkers`), whose slot a sending thread may borrow.
"""
