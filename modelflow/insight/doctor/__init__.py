"""The doctor finds the limit of a flow, with evidence and a suggested change.

In: two snapshots of a flow (`Case`). Out: a `Diagnosis` with its findings.

``limits.py`` has the rules for the limit of the rate, in the order of their use. ``faults.py`` has
the rules for faults of single nodes. All rules are pure functions.
"""

from modelflow.insight.doctor.case import Case
from modelflow.insight.doctor.diagnosis import Diagnosis, diagnose
from modelflow.insight.doctor.finding import Cause, Confidence, Finding
from modelflow.insight.doctor.service_time import ServiceTime

__all__ = ["Case", "Cause", "Confidence", "Diagnosis", "Finding", "ServiceTime", "diagnose"]
