"""Trains the digits network and writes ``saved_model/`` and ``samples/`` in its own folder.

Run it from any folder: ``python graphs/models/digits/train.py``. The same versions of the packages
give the same weights.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import cv2
import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = Path(__file__).resolve().parent
SEED = 7
HELD_OUT = 360
LARGEST = 300_000  # bytes of the SavedModel
ENLARGED = 4  # samples are drawn at 32 x 32; the graph resizes them to the original 8 x 8 pixels

Array = npt.NDArray[Any]


def main() -> None:
    """Trains and checks the network, and writes the files."""
    keras.utils.set_random_seed(SEED)
    tf.config.experimental.enable_op_determinism()
    digits = load_digits()
    # The set has ink values from 0 to 16, images have 0 to 255.
    images = np.round(digits.images * 255 / 16).astype(np.uint8)[..., np.newaxis]
    numbers = np.arange(len(images))
    trained, held_out = train_test_split(
        numbers, test_size=HELD_OUT, random_state=SEED, stratify=digits.target
    )
    network = make_network()
    train(network, images[trained] / np.float32(255), digits.target[trained])
    scores = network.predict(images[held_out] / np.float32(255), verbose=0)
    accuracy = float(np.mean(scores.argmax(axis=1) == digits.target[held_out]))
    if accuracy < 0.97:
        message = f"accuracy {accuracy:.2%} on the held-out images; expected 97 % at least"
        raise SystemExit(message)
    size = export(network, HERE / "saved_model")
    write_samples(HERE / "samples", sorted(held_out), images, digits.target)
    sys.stdout.write(f"accuracy {accuracy:.2%} of {HELD_OUT}; SavedModel of {size} bytes\n")


def make_network() -> keras.Model:
    """Returns the network: float32 (N, 8, 8, 1), ink from 0 to 1 -> probabilities (N, 10)."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(32, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(10, activation="softmax"),
        ]
    )


def train(network: keras.Model, images: Array, labels: Array) -> None:
    """Fits ``network`` without the held-out images."""
    network.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy")
    network.fit(images, labels, batch_size=64, epochs=60, verbose=0)


def export(network: keras.Model, folder: Path) -> int:
    """Writes the SavedModel (``image`` -> ``scores``) and returns its size in bytes."""
    module = tf.Module()
    module.weights = [weight.value for weight in network.weights]

    def serve(image: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"scores": network(image, training=False)}

    spec = tf.TensorSpec((None, 8, 8, 1), tf.float32, name="image")
    signature = tf.function(serve).get_concrete_function(spec)
    shutil.rmtree(folder, ignore_errors=True)
    options = tf.saved_model.SaveOptions(save_debug_info=False)
    tf.saved_model.save(module, str(folder), {"serving_default": signature}, options)
    (folder / "fingerprint.pb").unlink()
    (folder / "assets").rmdir()
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if size > LARGEST:
        message = f"the SavedModel has {size} bytes; expected {LARGEST} at most"
        raise SystemExit(message)
    return size


def write_samples(folder: Path, numbers: list[int], images: Array, labels: Array) -> None:
    """Writes the held-out images as PNG files NUMBER_LABEL.png."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number in numbers:
        drawn = images[number].repeat(ENLARGED, axis=0).repeat(ENLARGED, axis=1)
        cv2.imwrite(str(folder / f"{number:04}_{labels[number]}.png"), drawn)


if __name__ == "__main__":
    main()
