"""Says what limits a flow, on what evidence, and what to change; `diagnose` is the way in."""

from modelflow.insight.doctor.case import Case
from modelflow.insight.doctor.diagnosis import Diagnosis, diagnose
from modelflow.insight.doctor.finding import Cause, Finding
from modelflow.insight.doctor.service_time import ServiceTime

__all__ = ["Case", "Cause", "Diagnosis", "Finding", "ServiceTime", "diagnose"]
