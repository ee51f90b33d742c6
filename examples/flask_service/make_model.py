"""Makes the model of the three services, with random weights (no download).

Examples::

    python make_model.py                # ResNet-50, as big and as slow as the trained model
    python make_model.py --mobilenet    # MobileNetV2, a tenth of the work
    python make_model.py --tiny         # a few layers, for tests
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import tensorflow as tf

UNIT = """\
[base]
name = "classify_infer"
device = "cpu"
version = "1.0.0"
description = "Classifies images of 224 x 224."
entry = "saved_model"
type = "inference"
virtual_type = "tensorflow"

[input.input1]
name = "image"
type = "float"

[output.output1]
name = "scores"
type = "float"
"""


def network(options: argparse.Namespace) -> keras.Model:
    keras.utils.set_random_seed(7)
    if options.mobilenet:
        return keras.applications.MobileNetV2(weights=None)
    if not options.tiny:
        return keras.applications.ResNet50(weights=None)
    image = keras.Input((224, 224, 3))
    x = keras.layers.AveragePooling2D(16)(image)
    x = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(x))
    return keras.Model(image, keras.layers.Dense(10, activation="softmax")(x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--mobilenet", action="store_true")
    parser.add_argument("--to", type=Path, default=Path(__file__).with_name("model"))
    options = parser.parse_args()
    model = network(options)

    @tf.function(input_signature=[tf.TensorSpec((None, 224, 224, 3), tf.float32, name="image")])
    def serve(image):
        return {"scores": model(image, training=False)}

    options.to.mkdir(parents=True, exist_ok=True)
    (options.to / "classify_infer.toml").write_text(UNIT)
    tf.saved_model.save(model, str(options.to / "saved_model"), {"serving_default": serve})
    print(options.to)


if __name__ == "__main__":
    main()
