import sys

import modelflow
from tests import programs


def test_all_is_sorted_and_every_name_is_there():
    assert modelflow.__all__ == sorted(modelflow.__all__)
    for name in modelflow.__all__:
        assert getattr(modelflow, name) is not None
    assert dir(modelflow) == modelflow.__all__


def test_importing_modelflow_loads_nothing_heavy():
    program = "import modelflow, sys; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    loaded = programs.run([sys.executable, "-c", program], check=True)
    heavy = {"cv2", "tensorflow", "torch", "numpy", "yaml", "tomlkit", "click", "rich"}
    assert not heavy & set(loaded.stdout.split())


def test_using_flow_loads_no_engine_and_no_image_library():
    program = "from modelflow import Flow, Model, StreamIO; import sys; print(*sys.modules)"
    loaded = programs.run([sys.executable, "-c", program], check=True)
    assert not {"cv2", "tensorflow", "torch"} & set(loaded.stdout.split())
