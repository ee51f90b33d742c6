"""TensorFlow Serving's protocol: REST documents and gRPC messages.

In: predict, classify and regress requests. Out: arrays by name, and answers.
"""
