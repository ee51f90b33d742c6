"""Says what limits a flow, on what evidence, and what to change; `diagnose` is the way in."""

from modelflow.doctor.case import Case
from modelflow.doctor.diagnosis import Diagnosis, diagnose
from modelflow.doctor.finding import Cause, Finding
from modelflow.doctor.service_time import ServiceTime

__all__ = ["Case", "Cause", "Diagnosis", "Finding", "ServiceTime", "diagnose"]
