"""Tests of the cases in which ``modelflow check`` advises ``scaled_decode``."""

import pytest

from modelflow import read_graph
from modelflow.graph.advice import advice

GRAPH = """digraph {{
    input [type=input]
    decode [flowunit=image_decoder{decode}]
    small [flowunit=resize, image_width=224, image_height=100{small}]
    output [type=output]
    input -> decode -> small -> output
    {more}
}}"""


def advised(decode="", small="", more=""):
    return advice(read_graph(GRAPH.format(decode=decode, small=small, more=more)))


def test_a_decoder_whose_pictures_are_only_made_smaller_is_advised_to_decode_at_scale():
    (line,) = advised()
    assert line.startswith("<text>:3: node 'decode': only resize reads its pictures ('small', ")
    assert "Write scaled_decode=true, min_width=224, min_height=100." in line
    assert "at least twice as large" in line


def test_what_is_advised_can_be_written_and_is_not_advised_again():
    assert advised(", scaled_decode=true, min_width=224, min_height=100") == []


def test_the_largest_of_several_sizes_and_of_the_decoder_itself_is_the_least():
    larger = "large [flowunit=resize, image_width=90, image_height=300] decode -> large -> also"
    (line,) = advised(", min_height=320", more=larger + " also [type=output]")
    assert "('small', 'large', at most 224 x 300)" in line
    assert "min_width=224, min_height=320." in line


@pytest.mark.parametrize(
    ("decode", "small", "more"),
    [
        (", scaled_decode=false", "", ""),
        ("", ", keep_ratio=true", ""),
        ("", "", "full [type=output] decode -> full"),
        ("", "", "gray [flowunit=color_convert, out_pix_fmt=gray] decode -> gray -> o2"),
    ],
    ids=["it is declined", "the size is not fixed", "the graph gives it", "another unit reads it"],
)
def test_scaled_decode_is_not_advised_where(decode, small, more):
    more = f"{more} o2 [type=output]" if "o2" in more else more
    assert advised(decode, small, more) == []


def test_pictures_that_nobody_reads_are_no_case_for_advice():
    graph = "digraph { input [type=input] decode [flowunit=image_decoder] input -> decode }"
    assert advice(read_graph(graph)) == []


def test_a_decoder_on_a_gpu_is_not_advised():
    text = GRAPH.format(decode=", device=cuda", small="", more="")
    assert advice(read_graph(text, check_devices=False)) == []
