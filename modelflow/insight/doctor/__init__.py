"""The doctor: what limits a flow, on what evidence, and what to change.

In: two snapshots of a flow (`Case`). Out: a `Diagnosis` with findings, the limit first.

``limits.py`` has the rules that look for the limit of the rate, in the order in which they are
asked; ``faults.py`` the rules for troubles of one node. All rules are pure.
"""

from modelflow.insight.doctor.case import Case
from modelflow.insight.doctor.diagnosis import Diagnosis, diagnose
from modelflow.insight.doctor.finding import Cause, Finding
from modelflow.insight.doctor.service_time import ServiceTime

__all__ = ["Case", "Cause", "Diagnosis", "Finding", "ServiceTime", "diagnose"]
