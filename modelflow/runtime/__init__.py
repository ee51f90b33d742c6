"""The runtime: threads, queues, batches, sessions; the only folder that runs a graph.

In: an `ExecutionPlan`, and rows that are sent. Out: results of sessions, statistics, errors.

The `Scheduler` owns everything. ``wiring.py`` connects the stages, ``runners.py`` runs them (a
thread a worker, or all on the calling thread), ``lifecycle.py`` starts and stops. Rows enter by
``entry/``, wait in ``queues/``, are worked on by ``workers/``, and leave each stage by
``stages/outbox.py``. ``kinds/`` has a file for each kind of unit, ``orders/`` the pure orders of
queues. Locks are taken in the order of ``locks.py``.
"""
