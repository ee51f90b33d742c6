"""``text_vectorize``: converts texts to token ids."""

import re
from dataclasses import dataclass
from typing import Literal

from modelflow import FlowUnitSpec, Port, option


@dataclass(frozen=True)
class TextVectorizeOptions:
    """The options of ``text_vectorize``."""

    path: str = option(
        help="A tokenizer.json of Hugging Face (needs modelflow-graph[text]), or a text file with "
        "one token a line. In the text file the first token has id 2. Id 0 is padding and id 1 any "
        "other token, as in Keras's TextVectorization.",
        is_path=True,
    )
    max_length: int | None = option(
        None,
        help="The length of the output. Longer texts are cut, shorter texts padded. By default the "
        "length follows from the tokenizer.json, or else from the text.",
        minimum=1,
        maximum=1_000_000,
    )
    lower: bool | None = option(
        None,
        help="Convert texts to lower case first. By default only a token file does so. A "
        "tokenizer.json has its own rules.",
    )
    token_pattern: str | None = option(
        None,
        help="A regular expression whose matches are the tokens, as in scikit-learn's "
        "CountVectorizer, for a token file. By default ASCII punctuation is removed, and white "
        "space separates tokens.",
    )
    dtype: Literal["int32", "int64"] = option("int32", help="The element type of ids and mask.")

    def __post_init__(self) -> None:
        """Checks the regular expression.

        Raises:
            ValueError: the expression is invalid, has several groups, or belongs to a
                tokenizer.json.
        """
        if self.token_pattern is None:
            return
        if self.is_tokenizer:
            raise ValueError(
                f"option 'token_pattern': got {self.token_pattern!r} for a tokenizer.json, which "
                "has rules of its own; expected none"
            )
        try:
            groups = re.compile(self.token_pattern).groups
        except re.error as error:
            raise ValueError(
                f"option 'token_pattern': got {self.token_pattern!r}; expected a regular "
                f"expression ({error})"
            ) from error
        if groups > 1:
            raise ValueError(f"option 'token_pattern': got {groups} groups; expected one at most")

    @property
    def is_tokenizer(self) -> bool:
        """Whether the file is a tokenizer.json and not a text file of tokens."""
        return self.path.lower().endswith(".json")


def _required_modules(options: TextVectorizeOptions) -> dict[str, str]:
    return {"tokenizers": "text"} if options.is_tokenizer else {}


SPEC = FlowUnitSpec(
    name="text_vectorize",
    devices={"cpu": "flowunits.text_vectorize.cpu:TextVectorize"},
    inputs=(
        Port("in_data", "text of at most 16 MiB: str, or UTF-8 as bytes or a uint8 array (N,)"),
    ),
    outputs=(
        Port("out_data", "token ids, (max_length,), int32 or int64"),
        Port(
            "mask",
            "1 for each token, 0 for padding: the attention mask, of the same type and shape",
            is_optional=True,
        ),
    ),
    options=TextVectorizeOptions,
    description="Converts each text to a row of token ids.",
    group="Text",
    is_compute_bound=True,
    hands_over_arrays=True,
    is_one_by_one=True,
    refuses_with=ValueError,
    requires=_required_modules,
)
