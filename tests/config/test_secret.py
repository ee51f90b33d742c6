"""Tests of settings as shown to users."""

import pytest

from modelflow.config.variables import format_setting, mask_value


@pytest.mark.parametrize(
    "name",
    ["MODELFLOW_ARG__password", "db_passwd", "PASSPHRASE", "db_pass", "pwd", "api-key", "my_token"],
)
def test_a_secret_is_told_by_its_name_alone(name):
    assert format_setting(name, "hush") == f"{name}=***"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("amqp://me:hush@host/q?a=b@c", "amqp://me:***@host/q?a=b@c"),
        ("redis://:h:u@sh@host", "redis://:***@host"),
        ("a http://u:p@h b http://v:q@i/", "a http://u:***@h b http://v:***@i/"),
        ("http://host:80/a@b", "http://host:80/a@b"),
        ("me@host", "me@host"),
        ("bypass", "bypass"),
    ],
)
def test_the_password_of_a_url_is_not_told(value, expected):
    assert mask_value("url", value) == expected


def test_a_setting_is_one_line_of_bounded_length():
    assert format_setting("a", "1\nerror: x\x1b[31m ö") == "a=1\\nerror: x\\x1b[31m ö"
    assert format_setting("a", "x" * 500) == f"a={'x' * 200}... (500 letters)"
