"""The runtime: the threads, queues, batches and sessions that run a graph.

Input: an `ExecutionPlan`, and rows that are sent. Output: results of sessions, statistics, errors.

The `Scheduler` owns all objects. ``wiring.py`` connects the stages. ``runners.py`` runs the stages,
with a thread for each worker or on the calling thread. ``lifecycle.py`` starts and stops the flow.
Rows enter by ``entry/``, wait in ``queues/``, are processed by ``workers/``, and leave each stage
by ``stages/outbox.py``. ``kinds/`` has a file for each kind of unit, and ``orders/`` has the orders
of queues. Locks are taken in the order of ``locks.py``.
"""
