"""The bounded queue before each stage: pairing of inputs, batches, bounds, idle workers.

In: segments from outboxes and the graph's inputs. Out: batches for workers.

An `Inbox` is a lock and the parts that the lock guards:

- `Matcher` pairs the inputs of a node by stream and position.
- `Order` decides which rows the next batch gets.
- `BoundedQueue` makes producers wait while the queue is full.
- `DynamicBatching` decides when a batch closes.
- `IdleWorkers` holds the workers that wait. A sending thread may borrow the slot of such a worker.
"""
