"""Copies between devices keep what travels with a buffer."""

import numpy as np

from modelflow.buffer import Buffer
from modelflow.device import CPU, Device, device_memories, memory_of
from modelflow.runtime.stats import WorkerStats
from modelflow.runtime.transfer import Transfer
from modelflow.unit.spec import Port
