"""Tests of text_vectorize against Keras, scikit-learn and Hugging Face, and in a graph."""

import json
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from flowunits import text_vectorize
from modelflow import ConfigError, Flow
from modelflow.errors import MissingDependencyError
from modelflow.graph.read import read_graph
from modelflow.testing import run_unit

WORDS = ["the", "soup", "was", "don't", "dont", "Soup", "äpfel", "Äpfel", "été", "a-b", "x", "日本"]
TEXTS = [
    "",
    " \t\n",
    "The soup, was -- not; GOOD!",
    "don't DON'T Äpfel äpfel ÉTÉ été",
    "soup\u00a0was\u2003the\x1fx\x85x\x0bx\x0cthe\r\nsoup",
    "a-b a_b \\ ` ~ {the} [x] <x> x|the (soup) 'x' \"x\" the.",
    "日本 日本語 x" * 20,
]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "vocabulary.txt"
    path.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def keras():
    return pytest.importorskip("keras")


def vectorize(*texts, **options):
    found = run_unit(text_vectorize.SPEC, {"in_data": list(texts)}, **options)
    return found["out_data"], found["mask"]


def ids_of(text, **options):
    (ids,), (mask,) = vectorize(text, **options)
    assert not ids.has_error(), ids.get_error_msg()
    return ids.data, mask.data


def error_of(data, **options):
    (ids,), (mask,) = vectorize(data, **options)
    assert ids.has_error()
    assert mask.get_error_msg() == ids.get_error_msg()
    return ids.get_error_msg()


@pytest.fixture(scope="module")
def layers(keras, vocabulary):
    """Returns TextVectorization layers with and without lower case, of 6 or all tokens."""
    found = {}
    for is_lower in (True, False):
        for length in (6, None):
            how = "lower_and_strip_punctuation" if is_lower else "strip_punctuation"
            layer = keras.layers.TextVectorization(
                standardize=how, output_sequence_length=length, vocabulary=str(vocabulary)
            )
            found[is_lower, length] = layer
    return found


@given(st.lists(st.one_of(st.sampled_from([*WORDS, "The", "?"]), st.text(max_size=5))))
@example(TEXTS)
def test_ids_are_those_of_keras(vocabulary, layers, parts):
    text = " ".join(parts)
    for (is_lower, length), layer in layers.items():
        expected = layer([text]).numpy()[0]
        found, mask = ids_of(text, path=str(vocabulary), lower=is_lower, max_length=length)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(mask, expected != 0)


@pytest.mark.parametrize("text", TEXTS)
def test_ids_of_awkward_texts_are_those_of_keras(vocabulary, layers, text):
    for (is_lower, length), layer in layers.items():
        found, _ = ids_of(text, path=str(vocabulary), lower=is_lower, max_length=length)
        np.testing.assert_array_equal(found, layer([text]).numpy()[0])


def test_a_file_of_get_vocabulary_is_read_as_one_of_its_words(keras, vocabulary, tmp_path):
    layer = keras.layers.TextVectorization()
    layer.adapt(["the soup was hot", "the soup was cold", "the x"])
    path = tmp_path / "all.txt"
    path.write_text("\n".join(layer.get_vocabulary()))
    assert path.read_text().startswith("\n[UNK]\n")
    text = "the cold soup was bad"
    np.testing.assert_array_equal(ids_of(text, path=str(path))[0], layer([text]).numpy()[0])


@pytest.mark.parametrize("pattern", [r"(?u)\b\w\w+\b", r"[^\W_]+(?:'[^\W_]+)?", r"<(\w+)>"])
def test_tokens_of_a_pattern_are_those_of_scikit_learn(vocabulary, pattern):
    for is_lower in (True, False):
        cut = CountVectorizer(token_pattern=pattern, lowercase=is_lower).build_analyzer()
        for text in TEXTS:
            tokens = cut(text)
            expected = [WORDS.index(t) + 2 if t in WORDS else 1 for t in tokens]
            options = {"path": str(vocabulary), "token_pattern": pattern, "lower": is_lower}
            assert ids_of(text, **options)[0].tolist() == expected
            cut_off = ids_of(text, **options, max_length=4)[0].tolist()
            assert cut_off == (expected + [0] * 4)[:4]


def test_every_form_of_a_text_and_both_types(vocabulary):
    raw = "the äpfel".encode()
    for data in ("the äpfel", raw, bytearray(raw), memoryview(raw), np.frombuffer(raw, np.uint8)):
        for dtype in ("int32", "int64"):
            ids, mask = ids_of(data, path=str(vocabulary), dtype=dtype, max_length=3)
            assert (ids.tolist(), mask.tolist()) == ([2, 8, 0], [1, 1, 0])
            assert ids.dtype == mask.dtype == dtype


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\xff", "in_data: got 2 bytes that are no text ('utf-8' codec can't decode byte 0xff"),
        ("\ud800", "surrogates not allowed"),
        (5, "in_data: got int; expected text, or UTF-8 as bytes"),
        (np.zeros(2), "in_data: got ndarray; expected text"),
        (b"a" * ((16 << 20) + 1), "got 16777217 bytes of text; expected at most 16777216"),
    ],
)
def test_what_is_no_text_fails_alone(vocabulary, data, expected):
    assert expected in error_of(data, path=str(vocabulary))
    ids, _ = vectorize("the", data, "soup", path=str(vocabulary))
    assert [buffer.has_error() for buffer in ids] == [False, True, False]
    assert ids[2].data.tolist() == [3]


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (b"a\nb\na\n", r"v.txt:3: got 'a' as in line 1; expected another token a line"),
        (b"a\n\nb\n", r"v.txt:2: got an empty line"),
        (b"\n[UNK]\na\n\n", r"v.txt:4: got an empty line"),
        (b"", r"v.txt:1: got an empty line"),
        (b"a\n\xff", "got no UTF-8 text"),
    ],
)
def test_a_vocabulary_has_a_token_a_line(tmp_path, contents, expected):
    path = tmp_path / "v.txt"
    path.write_bytes(contents)
    with pytest.raises(ValueError, match=expected):
        vectorize("a", path=str(path))


def test_a_vocabulary_may_have_other_line_ends_and_none_at_its_end(tmp_path):
    path = tmp_path / "v.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb")
    assert ids_of("b a c", path=str(path))[0].tolist() == [3, 2, 1]
    with pytest.raises(FileNotFoundError):
        vectorize("a", path=str(tmp_path / "none.txt"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"path": "v.txt", "token_pattern": "("}, "expected a regular expression"),
        ({"path": "v.txt", "token_pattern": "(a)(b)"}, "got 2 groups; expected one at most"),
        ({"path": "t.JSON", "token_pattern": "a"}, "for a tokenizer.json, which has rules of its"),
        ({"path": "v.txt", "max_length": 0}, "from 1 to 1000000"),
        ({"path": "v.txt", "max_length": 1_000_001}, "from 1 to 1000000"),
        ({"path": "v.txt", "dtype": "float32"}, "'int32', 'int64'"),
    ],
)
def test_options_are_checked_before_anything_runs(options, expected):
    with pytest.raises(ConfigError, match=expected):
        text_vectorize.SPEC.configure(options)


@pytest.fixture(scope="module")
def tokenizer():
    """Returns a tokenizer like BERT's, just trained: word pieces between [CLS] and [SEP]."""
    tokenizers = pytest.importorskip("tokenizers")
    found = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    found.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    found.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=80, special_tokens=special, show_progress=False
    )
    found.train_from_iterator([*TEXTS, "the soup was very tasty, the waiter friendly"], trainer)
    found.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return found


@pytest.fixture
def tokenizer_file(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.mark.parametrize("text", TEXTS)
def test_ids_of_a_tokenizer_are_those_of_hugging_face(tokenizer, tokenizer_file, text):
    encoded = tokenizer.encode(text)
    ids, mask = ids_of(text, path=str(tokenizer_file))
    assert (ids.tolist(), mask.tolist()) == (encoded.ids, encoded.attention_mask)
    ids, mask = ids_of(text, path=str(tokenizer_file), max_length=8, dtype="int64")
    kept = encoded.ids[1:-1][:6]
    assert ids.tolist() == ([2, *kept, 3] + [0] * 8)[:8]
    assert mask.tolist() == ([1] * (len(kept) + 2) + [0] * 8)[:8]
    assert ids.dtype == mask.dtype == np.int64


def test_a_tokenizer_file_says_how_its_texts_are_cut_and_filled_up(tokenizer, tmp_path):
    own = type(tokenizer).from_str(tokenizer.to_str())
    own.enable_truncation(7, direction="left", stride=3)
    own.enable_padding(length=7, direction="left", pad_id=1, pad_token="[UNK]")
    path = tmp_path / "own.json"
    own.save(str(path))
    for text in TEXTS:
        ids, mask = ids_of(text, path=str(path))
        assert (ids.tolist(), mask.tolist()) == (
            own.encode(text).ids,
            own.encode(text).attention_mask,
        )
    # Another length keeps the sides and the padding token.
    own.enable_truncation(4, direction="left")
    own.enable_padding(length=4, direction="left", pad_id=1, pad_token="[UNK]")
    for text in TEXTS:
        assert ids_of(text, path=str(path), max_length=4)[0].tolist() == own.encode(text).ids


def test_lower_comes_before_a_tokenizer_that_keeps_case(tokenizer, tmp_path):
    own = json.loads(tokenizer.to_str())
    own["normalizer"] = None
    path = tmp_path / "cased.json"
    path.write_text(json.dumps(own))
    assert ids_of("THE", path=str(path))[0].tolist() == [2, 1, 3]
    lower = ids_of("THE", path=str(path), lower=True)[0].tolist()
    assert lower == ids_of("the", path=str(path))[0].tolist() != [2, 1, 3]


def test_a_tokenizer_without_a_token_to_fill_up_fills_up_with_zeros(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"a": 5, "b": 6}, unk_token="a")
    path = tmp_path / "plain.json"
    tokenizers.Tokenizer(model).save(str(path))
    ids, mask = ids_of("b", path=str(path), max_length=3)
    assert (ids.tolist(), mask.tolist()) == ([6, 0, 0], [1, 0, 0])


def test_a_tokenizer_that_cannot_be_used_is_told(tokenizer_file, tmp_path):
    with pytest.raises(ValueError, match=r"got 2; expected more than the 2 special tokens"):
        vectorize("a", path=str(tokenizer_file), max_length=2)
    assert ids_of("the", path=str(tokenizer_file), max_length=3)[0].tolist()[::2] == [2, 3]
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(ValueError, match=r"no.json: got 2 bytes; expected a tokenizer.json"):
        vectorize("a", path=str(tmp_path / "no.json"))
    assert "surrogates not allowed" in error_of("\ud800", path=str(tokenizer_file))


def test_a_tokenizer_asks_for_its_package(monkeypatch, tmp_path):
    (tmp_path / "t.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    monkeypatch.delitem(sys.modules, "flowunits.text_vectorize.tokenizer", raising=False)
    with pytest.raises(MissingDependencyError, match=r"tokenizers.*modelflow-graph\[text\]"):
        vectorize("a", path=str(tmp_path / "t.json"))


GRAPH = """digraph {{
    text [type=input]
    words [flowunit=text_vectorize, path="{path}", max_length=3]
    ids [type=output]
    {more}
    text -> words -> ids
}}"""


def test_in_a_graph_the_mask_need_not_be_connected(vocabulary):
    graph = GRAPH.format(path=vocabulary, more="")
    assert read_graph(graph, format="dot").notes == ()
    with Flow(graph) as flow:
        assert flow.infer("the soup").data.tolist() == [2, 3, 0]


def test_in_a_graph_the_mask_may_be_connected(vocabulary):
    graph = GRAPH.format(path=vocabulary, more="mask [type=output] words:mask -> mask")
    with Flow(graph) as flow:
        found = flow.infer("the soup")
        assert found["ids"].data.tolist() == [2, 3, 0]
        assert found["mask"].data.tolist() == [1, 1, 0]
