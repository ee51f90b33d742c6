"""The doctor finds the limit of a flow, with evidence and a suggested change.

In: two snapshots of a flow (`Case`), or a running flow (`examination.Examination`). Out: a
`Diagnosis` with its findings.

Rules are pure functions of a case. `diagnosis.diagnose` asks them in this order:

1. ``faults.py``: faults that matter whatever the load is, such as errors.
2. Is a source or a sender held back? If not, the flow keeps up, and nothing limits it.
3. ``limits.foreign_load``: other programs have the processors, so nothing else can be told.
4. ``bounds.py``: bounds outside a node's threads, such as ``max_in_flight``.
5. ``faults.WASTES``: time that a busy node wastes, such as padding.
6. ``limits.py``: the stage with the greatest load.

Rules show where rows wait, and seldom why. An examination therefore tries changes of the running
flow (``experiments.py``): the cause is the one whose change gains.
"""

from modelflow.insight.doctor.case import Case
from modelflow.insight.doctor.diagnosis import Diagnosis, diagnose
from modelflow.insight.doctor.finding import Cause, Confidence, Finding, format_changes
from modelflow.insight.doctor.service_time import ServiceTime

__all__ = [
    "Case",
    "Cause",
    "Confidence",
    "Diagnosis",
    "Finding",
    "ServiceTime",
    "diagnose",
    "format_changes",
]
