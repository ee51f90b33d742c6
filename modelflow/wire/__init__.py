"""Conversion between bytes and arrays, for protocols and models. Opens no file and no socket.

The inputs are bodies and messages of clients, within limits. The results are arrays, or a `Problem`
with a `Code`.

``json_reader.py`` chooses the parser and limits a text before it is parsed. ``json_to_array.py`` is
strict about types. ``raw_tensor.py`` returns views of received bytes; BF16 becomes float32.
``proto.py`` makes message classes of ``.proto`` texts without generated code.
"""
