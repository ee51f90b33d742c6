"""Random graphs in this process, ended at random moments and in various ways."""

import contextlib
import gc
import logging
import random
import threading
import time

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from modelflow.errors import Cancelled, EndOfStream, StreamClosed
from tests.alarms import repeat_until_alarm, untraced
from tests.attack.traces import LONG, soon, traces
from tests.properties.programs import programs, sessions
from tests.runtime.graphs import Running

WAYS = ("stop", "drain", "cancel", "request_stop", "ctrl_c")


def attack_flows(moments, number):
    """Ends ``moments`` random graphs; returns how often in which way, and the longest end."""
    counts, longest = dict.fromkeys(WAYS, 0), 0.0

    @seed(number)
    @settings(
        max_examples=moments,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(), sessions, st.sampled_from(WAYS), st.floats(0, 0.03))
    def attack(program, rows, way, moment):
        nonlocal longest
        before = traces()
        longest = max(longest, end_after(program, rows, way, moment))
        counts[way] += 1
        assert soon(lambda: _adds_nothing(traces(), before)), (
            f"left behind: {traces()}, before: {before}"
        )

    level = logging.getLogger("modelflow").level
    logging.getLogger("modelflow").setLevel(logging.CRITICAL)
    gc.collect()  # the garbage of earlier tests is not freed in the middle
    try:
        with untraced():
            attack()
    finally:
        logging.getLogger("modelflow").setLevel(level)
    return counts, longest


def _adds_nothing(now, before):
    """Returns whether a process holds no more than before. Earlier tests may free theirs late."""
    return all(now[what] <= before[what] for what in before)


def end_after(program, rows, way, moment):
    """Ends one graph ``moment`` seconds after its start; returns how long that took."""
    flow = Running(program.graph(), stop_timeout=LONG)
    flow.scheduler.start()
    users = []
    try:
        streams = [flow.session() for _ in rows]
        users = [
            threading.Thread(
                target=use, args=(stream, program.columns(values)), name="modelflow-use"
            )
            for stream, values in zip(streams, rows, strict=True)
        ]
        for user in users:
            user.start()
        if way == "ctrl_c":
            interrupted(flow, program, moment)
        else:
            time.sleep(moment)
        start = time.monotonic()
        if way == "cancel":
            random.Random(moment).choice(streams).cancel()
        if way == "request_stop":
            flow.scheduler.request_stop(drain=moment < 0.015)
    finally:
        start = time.monotonic()
        flow.scheduler.stop(drain=way != "stop")
    seconds = time.monotonic() - start
    for user in users:
        user.join(LONG)
        assert not user.is_alive(), "a user of the flow hangs"
    assert flow.scheduler.count_held() == {}
    assert seconds < LONG / 2
    return seconds


def use(stream, columns):
    """Sends and receives until the end of the stream, for any cause."""
    with contextlib.suppress(StreamClosed, Cancelled):
        for row in zip(*columns.values(), strict=True):
            for port, value in zip(columns, row, strict=True):
                stream.send(port, value, timeout=LONG)
        stream.close_input()
        for name in stream.outputs:
            with contextlib.suppress(EndOfStream):
                while True:
                    stream.recv(name, timeout=LONG, errors="return")


def interrupted(flow, program, moment):
    """Uses a session on this thread until Ctrl-C comes, as from a terminal."""
    with contextlib.suppress(KeyboardInterrupt):
        repeat_until_alarm(
            lambda: use(flow.session(), program.columns(range(12))), moment, again=1.0
        )
