"""TensorFlow Serving's protocol: REST documents and gRPC messages.

Turns predict, classify and regress requests into arrays by name, and results into answers.
"""
