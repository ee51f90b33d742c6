"""Changes that clients ask of all processes at once."""

import asyncio
from typing import Any

from modelflow.serve.processes.role import Role
from modelflow.serve.processes.supervisor.coordinator import Coordinator

REFUSED = {"text": "the file is not there", "code": "INTERNAL"}


class Child:
    """Answers a load when it is told to, with a problem; everything else at once, with none."""

    role, number, name = Role.REPLICA, 1, "replica 1"

    def __init__(self):
        self.may_answer = asyncio.Event()

    async def ask(self, message):
        if message["what"] != "load":
            return {"problem": None}
        await self.may_answer.wait()
        return {"problem": REFUSED}


def test_a_change_that_fails_takes_back_no_other_that_came_meanwhile():
    async def change():
        child: Any = Child()
        coordinator = Coordinator(lambda: [child], 1, {}, [child.name])
        await coordinator.answer(child, {"what": "unload", "name": "a"})
        load = asyncio.create_task(coordinator.answer(child, {"what": "load", "name": "a"}))
        await asyncio.sleep(0)
        assert coordinator.changes["unloaded"] == []  # who comes now loads it, too
        configure = {"what": "configure", "config": "models", "names": ["c"]}
        await coordinator.answer(child, configure)
        await coordinator.answer(child, {"what": "unload", "name": "b"})
        child.may_answer.set()
        assert await load == {"problem": REFUSED}
        return coordinator.changes

    assert asyncio.run(change()) == {"configured": "models", "unloaded": ["a", "b"]}
