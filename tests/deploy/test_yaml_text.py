"""Tests of YAML, and of the values that a chart adds later."""

import pytest
import yaml

from modelflow.deploy.values import ABSENT, Place, yaml_text


def test_keys_keep_their_order_and_what_is_absent_is_not_there():
    text = yaml_text({"b": 1, "a": [{"c": ABSENT, "d": "x"}]}, note="One.\nTwo.")
    assert text == "# One.\n# Two.\nb: 1\na:\n- d: x\n"


def test_the_same_value_at_two_places_is_written_twice():
    shared = {"app": "x"}
    assert "&" not in yaml_text({"a": shared, "b": shared})


def test_texts_that_look_like_something_else_stay_texts():
    values = {"a": "true", "b": "1", "c": "null", "d": "on", "e": "1e3", "f": "", "g": "{{ x }}"}
    assert yaml.safe_load(yaml_text(values)) == values


@pytest.mark.parametrize(
    "text", ["y", "Y", "n", "N", "1e3", "08", "1_0e3", "12E+03", "+.5e1", "0o17", "1.e2", "-1e-2"]
)
def test_texts_that_other_readers_take_for_something_else_are_quoted(text):
    assert yaml_text({"a": text, text: 1}) == f"a: '{text}'\n'{text}': 1\n"


def test_places_are_where_a_template_puts_values_in():
    place = Place("{{ .Values.x }}")
    assert (
        yaml_text({"a": [place, {"b": place}]}) == "a:\n- {{ .Values.x }}\n- b: {{ .Values.x }}\n"
    )


def test_a_key_with_a_condition_and_a_text_with_one_stand_between_if_and_end():
    text = yaml_text({"a": {"b": Place("{{ 1 }}", "x"), "c": 2}}, condition="y")
    wanted = "{{- if y }}\na:\n{{- if x }}\n  b: {{ 1 }}\n{{- end }}\n  c: 2\n{{- end }}\n"
    assert text == wanted


def test_a_value_that_looks_like_a_token_stays_as_it_is():
    values = {"a": "PLACE_0_HERE", "b": "PLACE_7_HERE"}
    text = yaml_text({**values, "c": Place("{{ 1 }}")})
    assert text == "a: PLACE_0_HERE\nb: PLACE_7_HERE\nc: {{ 1 }}\n"
