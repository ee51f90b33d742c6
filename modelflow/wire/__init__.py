"""Between bytes and arrays, for protocols and models: pure, no file and no socket.

In: bodies and messages of clients, within limits. Out: arrays, or a `Problem` with a `Code`.

``json_reader.py`` chooses the parser and bounds a text before it is parsed. ``json_to_array.py`` is
strict about types. ``raw_tensor.py`` gives views of received bytes; BF16 becomes float32.
``proto.py`` makes message classes of ``.proto`` texts without generated code.
"""
