"""The engine ``openvino``: OpenVINO, ONNX and SavedModel files on Intel and AMD processors."""
