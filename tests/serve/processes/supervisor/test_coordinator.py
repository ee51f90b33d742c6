"""Tests of changes that clients request of all processes at once."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from modelflow.serve.processes.role import Role
from modelflow.serve.processes.supervisor.coordinator import Coordinator

REFUSED = {"text": "the file is not there", "code": "INTERNAL"}


class Child:
    """A child that answers changes with ``fails`` late, with a problem, and others at once."""

    role, number, name = Role.REPLICA, 1, "replica 1"

    def __init__(self):
        self.may_answer = asyncio.Event()

    async def ask(self, message):
        if "fails" not in message:
            return {"problem": None}
        await self.may_answer.wait()
        return {"problem": REFUSED}


def load(name, **more):
    return {"what": "load", "name": name, **more}


def unload(name, **more):
    return {"what": "unload", "name": name, **more}


def configure(config, *names, **more):
    return {"what": "configure", "config": config, "names": list(names), **more}


async def coordinated(*messages):
    """Returns the remembered changes while the failing changes are open, and afterwards."""
    child: Any = Child()
    coordinator = Coordinator(lambda: [child], lambda: [child], 1, {}, [child.name])
    under_way = []
    for message in messages:
        under_way.append(asyncio.create_task(coordinator.answer(child, message)))
        await asyncio.sleep(0)  # the child has received the question
        if "fails" not in message:
            assert await under_way.pop() == {"problem": None}
    before = coordinator.changes
    child.may_answer.set()
    for one in under_way:
        assert await one == {"problem": REFUSED}
    return before, coordinator.changes


@pytest.mark.parametrize(
    ("messages", "under_way", "after"),
    [
        ([unload("a"), load("a", fails=1)], (None, []), (None, ["a"])),
        ([unload("a", fails=1)], (None, ["a"]), (None, [])),
        (
            [unload("a"), load("a", fails=1), configure("X", "c"), unload("b")],
            ("X", ["b"]),
            ("X", ["a", "b"]),
        ),
        ([configure("X", fails=1), configure("Y")], ("Y", []), ("Y", [])),
        ([configure("X", fails=1), configure("Y", fails=2)], ("Y", []), (None, [])),
        ([configure("X"), configure("Y", fails=1), configure("X")], ("X", []), ("X", [])),
        ([unload("a"), configure("X", "a", fails=1)], ("X", []), (None, ["a"])),
        ([unload("a"), load("a", fails=1), unload("a")], (None, ["a"]), (None, ["a"])),
        ([unload("a", fails=1), load("a")], (None, []), (None, [])),
    ],
)
def test_a_change_that_fails_takes_back_itself_alone(messages, under_way, after):
    found = asyncio.run(coordinated(*messages))
    keys = ("configured", "unloaded")
    assert [tuple(one[key] for key in keys) for one in found] == [under_way, after]


def test_shared_memory_is_kept_for_processes_that_start_later():
    def share(**change):
        return {"what": "share", "change": change}

    async def change():
        child: Any = Child()
        child.may_answer.set()
        coordinator = Coordinator(list, lambda: [child], 1, {}, [child.name])
        a, b = {"name": "a", "key": "k"}, {"name": "b", "key": "k"}
        found = []
        for message in (
            share(register=a),
            share(register=b),
            share(unregister="a"),
            {**share(register=a), "fails": 1},
            share(unregister=""),
        ):
            await coordinator.answer(child, message)
            found.append([region["name"] for region in coordinator.changes["regions"]])
        return found

    assert asyncio.run(change()) == [["a"], ["a", "b"], ["b"], ["b"], []]


class Client:
    """A part of a change; weak references show whether the coordinator keeps the change."""


def test_of_changes_that_others_have_replaced_nothing_is_kept():
    async def change():
        child: Any = Child()
        child.may_answer.set()
        coordinator = Coordinator(lambda: [child], lambda: [child], 1, {}, [child.name])
        kept = weakref.WeakSet[Client]()

        async def ask(change):
            kept.add(client := Client())
            await coordinator.answer(child, {**change, "client": client})

        for number in range(100):
            for each in (load("a"), unload("a"), unload(f"no{number}", fails=1)):
                await ask(each)
        gc.collect()
        return len(kept), coordinator.changes

    kept, changes = asyncio.run(change())
    assert (kept, changes["unloaded"]) == (1, ["a"])
