"""Attacks servers: good clients over both protocols, while foreign code and processes misbehave.

The judgement is from outside alone: the answers to clients and their times, the end of the server,
and its leftovers.
"""

import contextlib
import http.client
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from modelflow.wire.proto import OPEN_INFERENCE
from tests.serve.grpc.stub import OIP, Stub
from tests.serve.processes.faulty_models import write_models
from tests.serve.processes.server_processes import Fleet, is_alive, serving

__all__ = ["MODES", "Attack", "Found"]

_ISOLATED = ("--isolate", "bad", "--isolate", "loads")
MODES = {
    "one": _ISOLATED,
    "replicas": ("--replicas", "2", *_ISOLATED),
    "workers": ("--workers", "2", *_ISOLATED),
    "shared-replicas": ("--replicas", "2"),
    "shared-workers": ("--workers", "2"),
}
"""The attacked servers by their options; in the shared modes, bad models also end good models."""
_PHASES = {"undisturbed": 10.0, "beside bad models": 20.0, "with deaths": 40.0}
"""Seconds of each phase: undisturbed, with bad foreign code, and with dying processes as well."""
_RATE = 0.95
_LATE = 0.2  # seconds beyond a deadline
_DRAIN = 2.0
_END = _DRAIN + 2.0 + 0.5  # and the time to start and to notice an end
_REQUESTS = ("hang", "abort", "exit", "leave", "raise", "memory")
_LOADS = ("hang", "abort", "raise", "")


@dataclass
class Found:
    """The observations of an attack.

    Attributes:
        is_isolated: The bad models have processes of their own.
        answers: Answers to good clients, by kind.
        wrong: Answers that were not those of the request.
        late: Answers beyond their deadline: the kind, the delay, and the time in the attack.
        deeds: The actions against the server.
        recovery: Seconds from the end of a process until a good client was answered again.
        rates: Right answers a second in each phase, without `recovery`.
        end: Seconds from SIGTERM to the end of the process.
        code: Its exit code.
        left: The leftovers of the server.
    """

    is_isolated: bool = True
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    deeds: Counter[str] = field(default_factory=Counter)
    recovery: list[float] = field(default_factory=list)
    rates: dict[str, float] = field(default_factory=dict)
    end: float = 0.0
    code: int = 0
    left: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """Returns the observations that must not occur."""
        found = [f"wrong: {text}" for text in self.wrong]
        found += [f"late: {text}" for text in self.late]
        found += [f"left: {one}" for one in self.left]
        if self.end > _END:
            found.append(f"the end took {self.end:.2f} s")
        if self.code not in (143, 1):
            found.append(f"exit code {self.code}")
        undisturbed = self.rates["undisturbed"]
        if self.is_isolated and self.rates["beside bad models"] < _RATE * undisturbed:
            found.append(f"rates: {self.rates}")
        if not self.answers["right"]:
            found.append("nothing was answered")
        return found


class _Clients:
    """Good clients, each on a thread of its own."""

    def __init__(self, replica_group: Fleet, found: Found, seed: int, pause: float) -> None:
        self._group, self._found, self._pause = replica_group, found, pause
        self._began = time.monotonic()
        self._is_over = threading.Event()
        self._changed = threading.Condition()
        self.count = 0  # number of right answers
        asks = [self._ask_rest] * 4 + [self._ask_grpc] * 2
        self._threads = [
            threading.Thread(target=ask, args=(random.Random(seed + number),))
            for number, ask in enumerate(asks)
        ]

    def __enter__(self) -> "_Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def wait_for_one(self, seconds: float) -> bool:
        """Waits for the next right answer."""
        with self._changed:
            before = self.count
            return self._changed.wait_for(lambda: self.count > before, seconds)

    def count_during(self, seconds: float, meanwhile: Callable[[], object]) -> tuple[int, float]:
        """Returns the right answers and the seconds without recovery, while an action repeats."""
        before, start, lost = self.count, time.monotonic(), sum(self._found.recovery)
        while time.monotonic() < start + seconds:
            meanwhile()
        lost = sum(self._found.recovery) - lost
        return self.count - before, time.monotonic() - start - lost

    def _ask_rest(self, dice: random.Random) -> None:
        connection = self._group.connect()
        while not self._is_over.is_set():
            text, deadline = _words(dice)
            headers = {"Inference-Timeout-Ms": str(deadline * 1e3)}
            start = time.monotonic()
            try:
                body = json.dumps({"input": text})
                connection.request("POST", "/v2/models/good/generate", body, headers)
                response = connection.getresponse()
                status, answer = response.status, json.loads(response.read())
            except (OSError, http.client.HTTPException):
                connection.close()
                self._note("connection lost", start, deadline)
                continue
            if status == 200:
                self._compare(answer, {"output": text.upper()}, start, deadline)
            else:
                self._note(str(status), start, deadline)
        connection.close()

    def _ask_grpc(self, dice: random.Random) -> None:
        with grpc.insecure_channel(self._group.grpc) as channel:
            stub = Stub(channel)
            while not self._is_over.is_set():
                text, deadline = _words(dice)
                message = OPEN_INFERENCE["inference.ModelInferRequest"](model_name="good")
                tensor = message.inputs.add(name="input", datatype="BYTES", shape=[1])
                tensor.contents.bytes_contents.append(text.encode())
                start = time.monotonic()
                try:
                    answer = stub.call(OIP, "ModelInfer", message, timeout=deadline)
                except grpc.RpcError as error:
                    self._note(error.code().name, start, deadline)
                    continue
                (raw,) = answer.raw_output_contents
                self._compare(raw[4:].decode(), text.upper(), start, deadline)

    def _compare(self, answer: object, expected: object, start: float, deadline: float) -> None:
        if answer != expected:
            self._found.wrong.append(f"{answer!r}; expected {expected!r}")
            return
        with self._changed:
            self.count += 1
            self._changed.notify_all()
        self._note("right", start, deadline)

    def _note(self, kind: str, start: float, deadline: float) -> None:
        now = time.monotonic()
        beyond = now - start - deadline
        with self._changed:
            self._found.answers[kind] += 1
            if beyond > _LATE:
                text = f"{kind}, by {beyond:.2f} s, after {now - self._began:.1f} s"
                self._found.late.append(text)
        # A client that gets 503 does not come again at once.
        pause = self._pause if kind == "right" else max(0.02, self._pause)
        if pause:
            self._is_over.wait(pause)


class Attack:
    """An attack on one server."""

    def __init__(self, mode: str, seed: int, folder: Path, pause: float = 0.0) -> None:
        """Writes the models.

        Args:
            mode: Of `MODES`.
            seed: The seed of the actions and their times.
            folder: Where the models are written; empty.
            pause: Seconds of each client between two requests. Without a pause, clients and server
                use all processors of a small machine, which delays the start of a process.
        """
        self._pause = pause
        self._mode, self._seed, self._folder = mode, seed, folder
        self._dice = random.Random(seed)
        self._found = Found("shared" not in mode)
        self._asking: list[threading.Thread] = []
        self._counts = {phase: [0, 0.0] for phase in _PHASES}  # answers and seconds
        write_models(folder, good="works", bad="works", loads="Loads")

    def run(self, seconds: float, on_round: Callable[[Found], None] = lambda _: None) -> Found:
        """Starts the server, attacks for so many seconds, and ends the server.

        The phases alternate. Thus a temporarily slower machine affects all of them.

        Args:
            seconds: How long; a last round is shorter in all its phases.
            on_round: Called after each round with the observations so far.

        Returns:
            The observations.
        """
        first, count, *more = MODES[self._mode]
        options = [
            *("good.dot", "bad.dot", "loads.dot", "--allow-repository", "--grpc", "127.0.0.1:0"),
            *("--load-timeout", "2", "--request-timeout", "4", "--drain-timeout", str(_DRAIN)),
            *("--access-log", "/dev/full", *more),
        ]
        found = self._found
        with serving(self._folder, *options, option=first, count=count) as replica_group:
            self._group = replica_group
            with _Clients(replica_group, found, self._seed, self._pause) as clients:
                self._clients = clients
                clients.wait_for_one(60.0)
                pause, whole = threading.Event(), sum(_PHASES.values())
                foreign = [self._ask, self._load]
                deaths = [self._kill, self._stop, self._hang_up, self._reload]
                does = [
                    lambda: pause.wait(0.5),
                    lambda: self._do_one(foreign),
                    lambda: self._do_one([*foreign, *foreign, *deaths]),
                ]
                while seconds > 0:
                    for meanwhile, (phase, length) in zip(does, _PHASES.items(), strict=True):
                        self._count(phase, length * min(1.0, seconds / whole), meanwhile)
                    for thread in self._asking:
                        thread.join()
                    seconds -= whole
                    on_round(found)
            children = replica_group.children()
            start = time.monotonic()
            found.code = replica_group.end(signal.SIGTERM)
            found.end = time.monotonic() - start
            found.left += [f"process {pid}" for pid in children if is_alive(pid)]
        return found

    def _count(self, phase: str, seconds: float, meanwhile: Callable[[], object]) -> None:
        answers, took = self._clients.count_during(seconds, meanwhile)
        counts = self._counts[phase]
        counts[0] += answers
        counts[1] += took
        self._found.rates[phase] = counts[0] / counts[1]

    def _do_one(self, deeds: Sequence[Callable[[], str]]) -> None:
        threading.Event().wait(self._dice.uniform(0.0, 1.0))
        if deed := self._dice.choice(deeds)():
            self._found.deeds[deed] += 1

    def _ask(self) -> str:
        what = self._dice.choice(_REQUESTS)
        self._post("/v2/models/bad/generate", {"input": what})
        return f"a request that does {what}"

    def _load(self) -> str:
        what = self._dice.choice(_LOADS)
        (self._folder / "load").write_text(what)
        for name in ("loads", "bad"):
            self._post(f"/v2/repository/models/{name}/load", {})
        return f"a load that does {what or 'nothing wrong'}"

    def _reload(self) -> str:
        self._post("/v2/repository/models/good/load", {})
        return "a reload of the good model"

    def _kill(self) -> str:
        children = self._group.children()
        if not children:
            return ""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._dice.choice(children), signal.SIGKILL)
        start = time.monotonic()
        if self._clients.wait_for_one(60.0):
            self._found.recovery.append(time.monotonic() - start)
        return "kill -9 of a process"

    def _stop(self) -> str:
        children = self._group.children()
        if not children:
            return ""
        victim = self._dice.choice(children)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGSTOP)
            threading.Event().wait(self._dice.uniform(0.0, 0.15))
            os.kill(victim, signal.SIGCONT)
        return "SIGSTOP and SIGCONT of a process"

    def _hang_up(self) -> str:
        self._group.process.send_signal(signal.SIGHUP)
        return "SIGHUP"

    def _post(self, path: str, document: Any) -> None:
        """Sends the request on a new thread, because the model may hang."""

        def ask() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                self._group.ask(path, document)

        thread = threading.Thread(target=ask)
        self._asking = [one for one in self._asking if one.is_alive()]
        self._asking.append(thread)
        thread.start()


def _words(dice: random.Random) -> tuple[str, float]:
    text = "".join(dice.choices("abcdefgh", k=dice.randint(1, 30)))
    return text, dice.choice([0.5, 1.0, 3.0])
