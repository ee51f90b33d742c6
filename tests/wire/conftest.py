import pytest

from modelflow.wire import json_reader as json_document
from modelflow.wire import json_writer as json_text


@pytest.fixture(params=["json", "orjson", "simdjson"])
def parser(request, monkeypatch):
    """Runs a test with each set of JSON packages: none, orjson alone, or both."""
    if request.param == "json":
        monkeypatch.setattr(json_document, "orjson", None)
        monkeypatch.setattr(json_text, "orjson", None)
    else:
        pytest.importorskip("orjson", reason="orjson is not installed")
    if request.param == "simdjson":
        pytest.importorskip("simdjson", reason="pysimdjson is not installed")
    else:
        monkeypatch.setattr(json_document, "simdjson", None)
    return request.param
