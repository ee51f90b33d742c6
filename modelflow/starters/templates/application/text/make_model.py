"""Trains the network of ``graph.toml`` in a few seconds; writes model, words and sample texts.

Replace the model by your own, together with its words.
"""

import sys
from pathlib import Path

import keras
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "units" / "words"))
WORDS = {
    "weather": "rain sun wind cloud snow storm cold warm fog thunder sky umbrella",
    "food": "soup bread cheese tomato salt pepper cook dinner apple sweet oven spoon",
}
TEXTS = {topic: words.split() for topic, words in WORDS.items()}
BOTH = ["the", "a", "today", "was", "with", "some", "and", "it", "we", "had"]


def main() -> None:
    """Makes texts, trains the network and writes the files."""
    keras.utils.set_random_seed(1)
    numbers = np.random.default_rng(1)
    known = sorted({*BOTH, *(word for words in TEXTS.values() for word in words)})
    (HERE / "units" / "words" / "words.txt").write_text("\n".join(known) + "\n")
    (HERE / "units" / "topics" / "labels.txt").write_text("\n".join(TEXTS) + "\n")
    from words import counts, read_words  # the unit's own way of reading a text

    places = read_words()
    topics = numbers.integers(0, len(TEXTS), 1000)
    own = list(TEXTS.values())
    texts = [
        " ".join([*numbers.choice(own[topic], 3), *numbers.choice(BOTH, 4)]) for topic in topics
    ]
    rows = np.stack([counts(text, places) for text in texts])
    row = keras.Input((len(known),), name="counts")
    scores = keras.layers.Dense(len(TEXTS), activation="softmax", name="scores")(row)
    network = keras.Model(row, scores)
    loss = "sparse_categorical_crossentropy"
    network.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"])
    network.fit(rows, topics, epochs=5, verbose=0)
    accuracy = network.evaluate(rows, topics, verbose=0)[1]
    network.save(HERE / "units" / "topics" / "topics.keras")
    (HERE / "texts").mkdir(exist_ok=True)
    for number, text in enumerate(texts[:20]):
        (HERE / "texts" / f"{number}.txt").write_text(text + "\n")
    print(f"units/topics/topics.keras: accuracy {accuracy:.1%}; 20 texts in texts/")


if __name__ == "__main__":
    main()
