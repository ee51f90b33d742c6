"""The engine ``onnx``: ONNX files, by ONNX Runtime."""
