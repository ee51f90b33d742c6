"""Trains the network of ``graph.toml`` in a few seconds and writes the model of its unit.

Replace the model by your own, saved by Keras, TensorFlow, PyTorch (TorchScript) or as ONNX.
"""

from pathlib import Path

import keras
import numpy as np

COLOURS = ("blue", "green", "red")  # in the order of an image's channels
HERE = Path(__file__).resolve().parent


def main() -> None:
    """Trains on noise of each colour and writes the model."""
    keras.utils.set_random_seed(1)
    numbers = np.random.default_rng(1)
    classes = numbers.integers(0, 3, 2000)
    pictures = numbers.uniform(0.0, 0.6, (2000, 16, 16, 3)).astype(np.float32)
    pictures[np.arange(2000), :, :, classes] += 0.4
    picture = keras.Input((16, 16, 3), name="picture")
    values = keras.layers.GlobalAveragePooling2D()(picture)
    scores = keras.layers.Dense(3, activation="softmax", name="scores")(values)
    network = keras.Model(picture, scores)
    loss = "sparse_categorical_crossentropy"
    network.compile(keras.optimizers.Adam(0.1), loss, metrics=["accuracy"])
    network.fit(pictures, classes, epochs=10, batch_size=64, verbose=0)
    accuracy = network.evaluate(pictures, classes, verbose=0)[1]
    network.save(HERE / "units" / "colour" / "colour.keras")
    (HERE / "units" / "verdict" / "labels.txt").write_text("\n".join(COLOURS) + "\n")
    print(f"units/colour/colour.keras: accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
