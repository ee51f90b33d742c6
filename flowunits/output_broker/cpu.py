"""``output_broker`` on the CPU."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from flowunits.output_broker import OutputBrokerOptions
from flowunits.output_broker.targets import Target, read_targets
from modelflow import Buffer, Context, FlowUnit
from modelflow.http.reply import RAW, reply_of


@dataclass(eq=False)
class _Job:
    """A result that is to be sent to one target."""

    name: str
    target: Target
    data: bytes
    content_type: str
    meta: dict[str, Any]
    attempts: int = field(default=0)


class OutputBroker(FlowUnit):
    """Sends results at once and retries failed attempts by events, without a waiting thread.

    The state of a stream: ``targets``, ``jobs`` (the jobs to retry or to send later) and ``index``.
    """

    def open(self, config: OutputBrokerOptions) -> None:
        """Stores the options.

        Raises:
            ValueError: the description of the targets is wrong.
        """
        self._options = config
        self._targets = read_targets(config.brokers) if config.brokers else {}

    def process(self, ctx: Context) -> None:
        """Sends results, or tries again.

        Raises:
            ValueError: a target is unknown, the queue is full, or a result is given up.
        """
        jobs: deque[_Job] = ctx.state.setdefault("jobs", deque())
        if ctx.event is not None:
            self._go_on(ctx, jobs, ctx.event)
            return
        for buffer in ctx.input():
            new = self._jobs(ctx, buffer)
            if len(jobs) + len(new) > self._options.queue_size:
                raise ValueError(
                    f"{len(jobs)} results wait for another attempt; expected at most "
                    f"queue_size={self._options.queue_size}"
                )
            is_blocked = self._options.mode == "sync" and bool(jobs)
            jobs.extend(new)
            if not is_blocked:
                self._send(ctx, jobs, new)

    def _jobs(self, ctx: Context, buffer: Buffer) -> list[_Job]:
        targets = self._of_session(ctx)
        index = ctx.state.get("index", 0)
        ctx.state["index"] = index + 1
        given = buffer.get("output_broker_names")
        names = str(given).split("|") if given else list(targets)
        unknown = [name for name in names if name not in targets]
        if unknown or not names:
            known = ", ".join(targets) or "none"
            raise ValueError(f"got output_broker_names={given!r}; the targets are: {known}")
        reply = reply_of(Buffer(buffer.data, {RAW: buffer.get(RAW)}))
        kind, meta = reply.headers["content-type"], {"index": index, **buffer.all_meta()}
        return [_Job(name, targets[name], reply.body, kind, meta) for name in names]

    def _of_session(self, ctx: Context) -> dict[str, Target]:
        if "targets" not in ctx.state:
            own = ctx.session.get("brokers")
            ctx.state["targets"] = self._targets if own is None else read_targets(own)
        found: dict[str, Target] = ctx.state["targets"]
        return found

    def _go_on(self, ctx: Context, jobs: deque[_Job], job: _Job) -> None:
        if self._options.mode == "async":
            self._send(ctx, jobs, [job])
        else:
            self._send(ctx, jobs, list(jobs))

    def _send(self, ctx: Context, jobs: deque[_Job], tried: list[_Job]) -> None:
        """Tries jobs; in mode sync, the jobs after a failed job wait for its next attempt."""
        given_up: list[str] = []
        for job in tried:
            problem = _attempt(job)
            if problem is None:
                jobs.remove(job)
                continue
            if 0 <= self._options.retry_count_limit < job.attempts:
                jobs.remove(job)
                given_up.append(f"{job.name!r}, after {job.attempts} attempts: {problem}")
                continue
            ctx.send_event(job, delay=self._delay(job.attempts))
            if self._options.mode == "sync":
                break
        if given_up:
            raise ValueError(f"output_broker: given up: {'; '.join(given_up)}")

    def _delay(self, attempts: int) -> float:
        options = self._options
        more = options.retry_interval_increment_ms * (attempts - 1)
        wanted = options.retry_interval_base_ms + more
        # At least 1 ms: an event without a delay would call again at once, in a busy loop.
        return max(0.001, min(wanted, options.retry_interval_limit_ms) / 1e3)


def _attempt(job: _Job) -> Exception | None:
    job.attempts += 1
    try:
        job.target.send(job.data, job.content_type, job.meta)
    except Exception as error:  # noqa: BLE001 - a target's own error: retried, or reported
        return error
    return None
