"""The model in Triton's Python backend: the server of the wheel ``nvidia-pytriton``."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytriton
from mean import BATCH
from pytriton.utils.distribution import get_libs_path

sys.path.insert(0, str(Path(__file__).parents[1]))
from child import started

CONFIG = f"""
backend: "python"
max_batch_size: {BATCH}
input [ {{ name: "rows", data_type: TYPE_FP32, dims: [ -1 ] }} ]
output [ {{ name: "means", data_type: TYPE_FP32, dims: [ 1 ] }} ]
instance_group [ {{ kind: KIND_CPU, count: 1 }} ]
dynamic_batching {{ }}
"""
MODEL = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
import triton_python_backend_utils as utils
from mean import means


class TritonPythonModel:
    def execute(self, requests):
        rows = [utils.get_input_tensor_by_name(one, "rows").as_numpy()[0] for one in requests]
        answers = [np.full((1, 1), mean, np.float32) for mean in means(rows)]
        return [utils.InferenceResponse([utils.Tensor("means", answer)]) for answer in answers]
"""

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        version = Path(folder) / "models" / "mean" / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(CONFIG)
        (version / "model.py").write_text(MODEL.format(folder=str(Path(__file__).parent)))
        number = f"{sys.version_info.major}.{sys.version_info.minor}"
        root = Path(pytriton.__file__).parent / "tritonserver"
        # The wheel has a stub for each version of Python, and the server looks beside the backend.
        backends = shutil.copytree(root / "backends", Path(folder) / "backends")
        stub = root / "python_backend_stubs" / number / "triton_python_backend_stub"
        shutil.copy(stub, backends / "python")
        command = [
            f"{root}/bin/tritonserver",
            f"--model-repository={folder}/models",
            f"--backend-directory={backends}",
            f"--http-port={sys.argv[1]}",
            "--http-address=127.0.0.1",
            "--allow-grpc=false",
            "--allow-metrics=false",
        ]
        # Triton's interpreter does not know the virtual environment, and needs the paths of its
        # packages.
        paths = {"LD_LIBRARY_PATH": str(get_libs_path()), "PYTHONPATH": os.pathsep.join(sys.path)}
        with started(command, env={**os.environ, **paths}) as server:
            sys.exit(server.wait())
