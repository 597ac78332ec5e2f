"""JSON from strangers: what DxDispatch takes is taken, and everything else is refused with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import anydml as dml
from anydml.dxdispatch.parser import parse

if TYPE_CHECKING:
    from anydml.dxdispatch.source import Node


def read(text: str | bytes) -> Node:
    return parse("m.json", text.encode() if isinstance(text, str) else text)


def refusal(text: str | bytes) -> str:
    with pytest.raises(dml.ModelFileError) as caught:
        read(text)
    return str(caught.value)


def test_values_and_their_places() -> None:
    root = read('{\n  "a": [1, 2.5, -3e2],\r\n  "b": {"c d": null, "e": true}\n}')
    a, b = root.get("a"), root.get("b")
    assert a is not None
    assert b is not None
    assert a.plain() == [1, 2.5, -300.0]
    assert [str(node.place) for node in a.elements()] == [
        "m.json:2:9: $.a[0]",
        "m.json:2:12: $.a[1]",
        "m.json:2:17: $.a[2]",
    ]
    assert [str(node.place) for _, node in b.members()] == ["m.json:3:16: $.b['c d']", "m.json:3:27: $.b.e"]
    assert [node.word() for _, node in b.members()] == ["null", "true"]
    assert (a.word(), b.word()) == ("a list of 3 elements", "an object of 2 members")


def test_comments_trailing_commas_and_what_follows_are_taken_as_dxdispatch_takes_them() -> None:
    root = read('// one\n{ /* two * */ "a": [1, 2, /**/], // three\n }\nrubbish {')
    assert [(name, node.plain()) for name, node in root.members()] == [("a", [1, 2])]
    assert root.source.text[root.source.end :] == "rubbish {"


def test_lines_end_as_they_do_anywhere() -> None:
    root = read("[1,\r2,\r\n3,\n4]")
    assert [(node.place.line, node.place.column) for node in root.elements()] == [(1, 2), (2, 1), (3, 1), (4, 1)]


def test_a_byte_order_mark_is_skipped() -> None:
    assert read(b"\xef\xbb\xbf[1]").plain() == [1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a\"\\\/\b\f\n\r\tb"', 'a"\\/\b\f\n\r\tb'),
        (r'"\u00e9\ud83d\ude00"', "é😀"),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("-0", 0),
        ("18446744073709551616", 2.0**64),  # as RapidJSON: past 64 bits a double
        ("1e308", 1e308),
        ("1e-999", 0.0),
    ],
)
def test_scalars(text: str, value: object) -> None:
    found = read(text).plain()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "m.json:1:1: $: there must be a JSON value; got the end of the file"),
        ('{"a": [1, 2', 'm.json:1:7: $.a: this bracket must be closed by a "]"; got the end of the file'),
        (
            '{"a": {"b": "x',
            (
                "m.json:1:13: $.a.b: a string must end with a quote, in its line, and have control"
                " characters escaped; got '\"x'"
            ),
        ),
        ('{"a"}', "m.json:1:5: $.a: there must be a \":\" after the name; got '}'"),
        ("{a: 1}", "m.json:1:2: $: there must be a name in quotes, or \"}\"; got 'a: 1}'"),
        ("[1 2]", 'm.json:1:4: $: there must be a "," or "]"; got \'2]\''),
        ("[01]", 'm.json:1:3: $: there must be a "," or "]"; got \'1]\''),
        ("[,]", "m.json:1:2: $[0]: there must be a JSON value; got ',]'"),
        ("[NaN]", 'm.json:1:2: $[0]: there must be a JSON value; got \'NaN]\'; write "nan", "inf" or "-inf" in quotes'),
        (
            "[-Infinity]",
            (
                "m.json:1:2: $[0]: there must be a JSON value; got '-Infinity]';"
                ' write "nan", "inf" or "-inf" in quotes'
            ),
        ),
        ("[True]", "m.json:1:2: $[0]: there must be a JSON value; got 'True]'"),
        ("\n\n /* [1]", "m.json:3:2: $: a comment must end with */"),
        ("[1e999]", "m.json:1:2: $[0]: a number must fit 64 bits of floating point; got '1e999'"),
        (f"[{'1' * 1001}]", "m.json:1:2: $[0]: a number must have at most 1000 characters; got 1001"),
        (
            r'["\x41"]',
            ("m.json:1:2: $[0]: an escape must be one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX; got '\\\\x'"),
        ),
        (r'["\ud800"]', "m.json:1:2: $[0]: \\uD800 .. \\uDFFF must come in pairs; got '\"\\\\ud800\"]'"),
        (
            '["a\nb"]',
            (
                "m.json:1:2: $[0]: a string must end with a quote, in its line, and have control characters"
                " escaped; got '\"a\\nb\"]'"
            ),
        ),
        ('{"a": 1, "a": 2}', "m.json:1:10: $.a: 'a' must not be given twice"),
        (b'["\xff"]', "m.json:1:3: the file must be UTF-8 text; got the byte 0xff"),
        (b'[\n"ok\xc3', "m.json:2:4: the file must be UTF-8 text; got the byte 0xc3"),
        ("[" * 100, "m.json:1:65: " + "$" + "[0]" * 64 + ": values must be nested at most 64 deep"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str | bytes, message: str) -> None:
    assert refusal(text) == message


def test_every_name_given_twice_is_told() -> None:
    assert refusal('{"a": {"b": 1,\n"b": 2}, "a": 3}').splitlines() == [
        "m.json: 2 faults",
        "  m.json:2:1: $.a.b: 'b' must not be given twice",
        "  m.json:2:10: $.a: 'a' must not be given twice",
    ]


def test_nesting_of_64_is_taken() -> None:
    read("[" * 64 + "]" * 64)
    assert "64 deep" in refusal("[" * 65 + "]" * 65)


@pytest.mark.parametrize("unit", ['"\\\\', "/*", "//", '"', "[", '{"":', "-", "0.", "1,", '"a" '])
def test_hostile_repetition_takes_time_in_proportion(unit: str) -> None:
    """A pattern that backtracks would take minutes for this."""
    with pytest.raises(dml.ModelFileError):
        read("[" + unit * 200_000)
