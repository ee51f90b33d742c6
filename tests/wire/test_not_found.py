import pytest

from modelflow.wire.problem import Code, no_signature, unknown_model


@pytest.mark.parametrize(
    ("problem", "said", "code"),
    [
        (no_signature("x", ["y"]), 'Serving signature name: "x" not found in signature def', Code.INVALID_ARGUMENT),
        (no_signature("servin", ["serving"]), "Serving signature name: \"servin\" not found in signature def; did you mean 'serving'?", Code.INVALID_ARGUMENT),
        (unknown_model("m"), "Request for unknown model: 'm' is not found", Code.NOT_FOUND),
        (unknown_model("m", "x"), "Request for unknown model: 'm' version 'x' is not found; failed to get model version from "
         "specified version string 'x', which is neither a number nor a label", Code.NOT_FOUND),
        (unknown_model("m", "2"), "Request for unknown model: 'm' version 2 is not found", Code.NOT_FOUND),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said_in_the_words_that_clients_know(problem, said, code):
    assert str(problem) == said
    assert problem.code is code
