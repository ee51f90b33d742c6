import pytest

from modelflow.serve.grpc.service import Rpc
from modelflow.wire.problem import Code, Problem


def taken(rpc):
    """Returns the responses up to the last."""
    return list(iter(rpc.take, None))


def test_answers_come_in_order_and_none_behind_the_last():
    ended, rpc = [], Rpc(None)
    rpc.on_end = lambda: ended.append(rpc.is_over)
    rpc.send("a")
    rpc.answer("b")
    rpc.answer("late")
    rpc.leave()
    assert taken(rpc) == ["a", "b"]
    assert ended == [True]


def test_a_problem_is_raised_where_answers_are_taken():
    rpc = Rpc(None)
    rpc.refuse(Problem("no"))
    with pytest.raises(Problem, match="no"):
        taken(rpc)


def test_a_problem_is_an_answer_where_the_protocol_has_one():
    rpc = Rpc(None)
    rpc.refusal = str
    rpc.refuse(Problem("no"))
    assert taken(rpc) == ["no"]


def test_the_last_answer_is_made_or_why_it_is_not_is_said():
    def make(error):
        if error is None:
            return "made"
        raise error

    rpc = Rpc(None)
    rpc.settle(make, None)
    assert (taken(rpc), rpc.is_over) == (["made"], True)
    rpc = Rpc(None)
    rpc.settle(make, Problem("no", Code.ABORTED))
    with pytest.raises(Problem, match="no"):
        taken(rpc)
    rpc = Rpc(None)
    rpc.settle(make, ZeroDivisionError("a secret"))
    with pytest.raises(Problem, match="inside the server") as found:
        taken(rpc)
    assert found.value.code is Code.INTERNAL


def test_a_client_that_leaves_is_told_of_once_and_gets_nothing_more():
    gone, rpc = [], Rpc(None)
    rpc.on_gone, rpc.on_end = lambda: gone.append("gone"), lambda: gone.append("over")
    rpc.leave()
    rpc.leave()
    rpc.answer("late")
    assert gone == ["over", "gone"]


def test_who_takes_answers_is_told_of_each_and_who_gives_them_when_there_is_room():
    told, room, rpc = [], [], Rpc(None)
    rpc.on_answer, rpc.on_room = lambda: told.append(rpc.has_answer), lambda: room.append(True)
    rpc.send("a")
    rpc.send("b")
    assert (told, rpc.has_room) == ([True, True], False)
    assert rpc.take() == "a"
    assert not room
    assert rpc.take() == "b"
    assert (room, rpc.has_room) == ([True], True)
    rpc.answer("c")
    assert (len(told), taken(rpc), room) == (4, ["c"], [True])
