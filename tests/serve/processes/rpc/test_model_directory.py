"""Tests of the model directory: notifications to workers, and waits for their replies."""

import asyncio

import pytest

import modelflow
from modelflow.ipc.loop_queue import LoopQueue
from modelflow.serve.options import ServeOptions
from modelflow.serve.processes.rpc.model_directory import ModelDirectory
from modelflow.serve.processes.rpc.remote_model import RemoteModel
from modelflow.serve.repository.models import Models
from modelflow.serve.requests.served_model import ServedModel
from modelflow.wire.problem import Problem
from tests.serve.clients import TYPED, mean


class Worker:
    """Records its notifications, and confirms them when the test says so."""

    def __init__(self, directory):
        self.seen = 0
        self.told = []
        self.directory = directory

    def tell(self, number, document):
        self.told.append((number, document))

    def see(self):
        self.seen = self.told[-1][0]
        self.directory.look()


@pytest.fixture
def flow():
    with modelflow.Flow(TYPED.format(node="batch_size=8"), units=[mean]) as flow:
        yield flow


def on_a_loop(flow, scene):
    """Runs a scene with one model in a model directory."""

    async def main():
        loop_queue = LoopQueue(asyncio.get_running_loop())
        models = Models()
        model = ServedModel("m", 1, flow, loop_queue, ServeOptions())
        models.add(model)
        directory = ModelDirectory(models)
        directory.begin(loop_queue)
        await asyncio.sleep(0)
        await scene(directory, models, model)

    asyncio.run(main())


def test_a_worker_has_the_model_as_it_is(flow):
    async def scene(directory, models, model):
        worker = Worker(directory)
        directory.add(worker)
        (found,) = worker.told[0][1]["models"]
        remote = RemoteModel(found, model.options, None)
        assert remote.signature == model.signature
        assert remote.types == model.types
        assert remote.batching == model.batching
        assert (remote.name, remote.version) == ("m", 1)
        assert (remote.signature_name, remote.method) == (model.signature_name, model.method)
        remote_models = Models()
        remote_models.take(worker.told[0][1]["entries"], {found["key"]: remote}.__getitem__, 0)
        assert remote_models.find("m") is remote
        assert remote_models.statuses("m") == models.statuses("m")
        remote_models.lose(0)
        with pytest.raises(Problem, match="try again"):
            remote_models.find("m")

    on_a_loop(flow, scene)


def test_what_changes_in_one_turn_is_told_once(flow):
    async def scene(directory, models, _):
        worker = Worker(directory)
        directory.add(worker)
        await asyncio.sleep(0)
        before = len(worker.told)
        models.expect("n")
        models.expect("o")
        models.settle("n", is_complete=False, reason="gone")
        await asyncio.sleep(0)
        assert len(worker.told) == before + 1
        assert [one["name"] for one in worker.told[-1][1]["entries"]] == ["m", "n", "o"]

    on_a_loop(flow, scene)


def test_a_model_that_is_gone_can_be_asked_until_all_workers_have_seen_it(flow):
    async def scene(directory, models, model):
        one, other = Worker(directory), Worker(directory)
        directory.add(one)
        directory.add(other)
        key = one.told[0][1]["models"][0]["key"]
        ended = []
        models.remove(model)
        models.call_when_seen(lambda: ended.append(True))
        assert one.told[-1][1]["models"] == []
        one.see()
        assert directory.find(key) is model
        assert not ended
        other.see()
        assert ended == [True]
        with pytest.raises(KeyError):
            directory.find(key)

    on_a_loop(flow, scene)


def test_a_worker_that_ends_is_not_waited_for(flow):
    async def scene(directory, models, model):
        one, other = Worker(directory), Worker(directory)
        directory.add(one)
        directory.add(other)
        ended = []
        models.remove(model)
        models.call_when_seen(lambda: ended.append(True))
        one.see()
        assert not ended
        directory.remove(other)
        assert ended == [True]

    on_a_loop(flow, scene)


def test_without_workers_nobody_waits(flow):
    async def scene(_, models, model):
        ended = []
        models.remove(model)
        models.call_when_seen(lambda: ended.append(True))
        assert ended == [True]

    on_a_loop(flow, scene)
