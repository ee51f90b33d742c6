"""Makes ``frozen_graph.pb``, the model of ``image_classify.toml``, with random weights.

With ``--tiny`` it makes a small model with the same ports within seconds: the mean colour of the
image and one dense layer. The weights are the same in each run.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

SEED = 101
CLASSES = 1000
SHAPE = (None, 224, 224, 3)
INPUT = "input"
OUTPUT = "resnet_v1_101/predictions/Softmax"

# Images (N, 224, 224, 3) in the current graph -> logits (N, CLASSES).
Network = Callable[[tf.Tensor], tf.Tensor]


def main() -> None:
    """Reads the command line and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="a stand-in for tests")
    default = Path(__file__).resolve().parent / "frozen_graph.pb"
    parser.add_argument("--output", type=Path, default=default, help="the file to write")
    arguments = parser.parse_args()
    write(arguments.output, tiny() if arguments.tiny else resnet_101())
    sys.stdout.write(f"{arguments.output}: {arguments.output.stat().st_size} bytes\n")


def tiny() -> Network:
    """Returns the small model."""
    weights = np.random.default_rng(SEED).normal(0, 0.1, (3, CLASSES)).astype(np.float32)
    return lambda images: tf.linalg.matmul(tf.reduce_mean(images, axis=(1, 2)), weights)


def resnet_101() -> Network:
    """Returns Keras's ResNet-101 with its variables as constants."""
    tf.keras.utils.set_random_seed(SEED)
    model = tf.keras.applications.ResNet101(
        weights=None, classes=CLASSES, classifier_activation=None
    )
    function = tf.function(lambda images: model(images, training=False))
    traced = function.get_concrete_function(tf.TensorSpec(SHAPE, tf.float32))
    frozen = convert_variables_to_constants_v2(traced)

    def network(images: tf.Tensor) -> tf.Tensor:
        (logits,) = tf.graph_util.import_graph_def(
            frozen.graph.as_graph_def(),
            input_map={frozen.inputs[0].name: images},
            return_elements=[frozen.outputs[0].name],
            name="resnet_v1_101",
        )
        return logits

    return network


def write(path: Path, network: Network) -> None:
    """Writes the frozen graph of ``network``, with the names that the unit's TOML uses."""
    with tf.Graph().as_default() as graph:
        images = tf.compat.v1.placeholder(tf.float32, SHAPE, INPUT)
        tf.nn.softmax(network(images), name=OUTPUT)
    # The placeholder of the imported function is not needed any more.
    kept = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), [OUTPUT])
    path.write_bytes(kept.SerializeToString())


if __name__ == "__main__":
    main()
