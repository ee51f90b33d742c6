from modelflow.table import html_table, text_table, time_text

ROWS = [{"node": "decode", "rows": "7"}, {"node": "<b>", "rows": "1000"}]


def test_a_table_of_text_is_aligned():
    assert text_table(ROWS) == "node    rows\ndecode  7\n<b>     1000"
    assert text_table([]) == ""


def test_a_table_of_html_escapes_what_it_holds():
    table = html_table(ROWS, "a & b")
    assert table.startswith("<table><caption>a &amp; b</caption><thead><tr><th>node</th>")
    assert "<td>&lt;b&gt;</td><td>1000</td>" in table
    assert "<b>" not in table


def test_times_have_three_digits_and_a_unit():
    assert [time_text(s) for s in (2.0, 0.0123, 4e-6, 0.0)] == ["2 s", "12.3 ms", "4 us", "0 us"]
