"""Trains the network of ``sentiment.toml`` and writes the model and its vocabulary.

python graphs/models/sentiment/train.py

The files are written next to this script. Needs modelflow-graph[tensorflow]. The same versions of
the packages give the same weights.
"""

import re
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from sentences import reviews

from modelflow import Flow

HERE = Path(__file__).resolve().parent
VOCABULARY = HERE / "vocabulary.txt"
# The pattern of a word, and the tokens of a text, as in the graph.
WORD, LENGTH = r"[^\W_]+(?:'[^\W_]+)?", 48
SEED = 7
TRAINED, HELD_OUT = 12_000, 2_000


def main() -> None:
    """Trains and checks the network, and writes the files."""
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    texts, moods = reviews(TRAINED + HELD_OUT, SEED)
    words = sorted({word for text in texts[:TRAINED] for word in re.findall(WORD, text.lower())})
    VOCABULARY.write_text("\n".join(words) + "\n", encoding="utf-8")
    tokens = tokens_of(texts)
    labels = np.asarray(moods)
    network = make_network(len(words) + 2)
    network.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy")
    network.fit(tokens[:TRAINED], labels[:TRAINED], batch_size=64, epochs=6, verbose=0)
    scores = network.predict(tokens[TRAINED:], verbose=0)
    accuracy = float(np.mean(scores.argmax(axis=1) == labels[TRAINED:]))
    if accuracy < 0.97:
        message = f"accuracy {accuracy:.2%} on the held-out reviews; expected 97 % at least"
        raise SystemExit(message)
    network.save(HERE / "sentiment.keras")
    size = (HERE / "sentiment.keras").stat().st_size
    sys.stdout.write(f"accuracy {accuracy:.2%} of {HELD_OUT}; {len(words)} words, {size} bytes\n")


def tokens_of(texts: list[str]) -> np.ndarray:
    """Returns the texts as token ids (N, 48), made by the unit that the graph uses."""
    graph = f"""digraph {{
        text [type=input]
        tokenize [flowunit=text_vectorize, path="{VOCABULARY}", max_length={LENGTH},
            token_pattern="{WORD}"]
        tokens [type=output]
        text -> tokenize -> tokens
    }}"""
    with Flow(graph) as flow:
        return np.stack([answer.data for _, answer in flow.map(texts)])


def make_network(words: int) -> keras.Model:
    """Returns the network: int32 (N, 48) -> probabilities float32 (N, 2).

    The convolution combines neighbouring words, to recognize "not good". The mean includes the
    padding.
    """
    layers = keras.layers
    tokens = keras.Input((LENGTH,), dtype="int32", name="tokens")
    values = layers.Embedding(words, 16)(tokens)
    values = layers.Conv1D(24, 3, padding="same", activation="relu")(values)
    values = layers.GlobalAveragePooling1D()(values)
    values = layers.Dropout(0.2)(values)
    return keras.Model(tokens, layers.Dense(2, activation="softmax", name="scores")(values))


if __name__ == "__main__":
    main()
