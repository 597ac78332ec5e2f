"""JSON from strangers: what DxDispatch takes is taken; every other fault is told with its place, all in one check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import anydml as dml
from anydml.core.errors import ModelFileError
from anydml.dxdispatch import check_file
from anydml.dxdispatch.findings import MOST_FAULTS
from anydml.dxdispatch.parser import parse
from modelling import program

if TYPE_CHECKING:
    from pathlib import Path

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


RESOURCES = """
  "resources": {
    "in": {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 1 "valueCount": 4}},
    "out": {"initialValuesDataType": "FLOT32", "initialValues": {"value": 0, "valueCount": 4}}
  },"""
DISPATCHABLES = """
  "dispatchables": {
    "sums": {"type": "CUMULATIVE_SUMMATION", "desc": {
       "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1 2, 2]},
       "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]},
       "Axis": 7,
       "AxisDirection": "DECREASING,
       "HasExclusiveSum": False
    }}
  },"""
COMMANDS = """
  "commands": [
    {"type": "dispatch", "dispatchable": "sums", "bindings": {"InputTensor": "in", "OutputTensor": "out"}},
    {"type": "print", "resource": "outt"}
  ]"""
BROKEN = f"{{{RESOURCES}{DISPATCHABLES}{COMMANDS}\n}}"


def faults(text: str) -> list[str]:
    """Each fault without the file's name, and without the value that was found."""
    return [
        str(fault).removeprefix("m.json:").split("; got")[0]
        for fault in check_file("m.json", data=text.encode()).faults
    ]


def test_every_syntax_error_is_told_with_the_other_faults() -> None:
    assert [fault.split(": ", 2)[1:] for fault in faults(BROKEN)] == [
        ["$.resources.in.initialValues", 'there must be a "," or "}"'],
        ["$.resources.out.initialValuesDataType", faults(BROKEN)[1].split(": ", 2)[2]],
        ["$.dispatchables.sums.desc.InputTensor.Sizes", 'there must be a "," or "]"'],
        ["$.dispatchables.sums.desc.Axis", "CUMULATIVE_SUMMATION: Axis must be below InputTensor.DimensionCount, 4"],
        [
            "$.dispatchables.sums.desc.AxisDirection",
            "a string must end with a quote, in its line, and have control characters escaped",
        ],
        ["$.dispatchables.sums.desc.HasExclusiveSum", "there must be a JSON value"],
        ["$.commands[1].resource", "there is no resource 'outt'; did you mean out?"],
    ]
    assert check_file("m.json", data=BROKEN.encode()).status == 2


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("{a: 1, 'b': 2}", ["1:2: $", "1:8: $"]),
        ('{"a" 1, "b": }', ["1:6: $.a", "1:14: $.b"]),
        ('{"a": 1.5.3, "b": x}', ["1:10: $", "1:19: $.b"]),
        ("[1 2, {x}, [nan, 3], 1e999]", ["1:4: $", "1:8: $[2]", "1:13: $[3][0]", "1:22: $[4]"]),
        ('["\\q", {"a": [x, {"b": y}, "}"]}, z]', ["1:2: $[0]", "1:15: $[1].a[0]", "1:24: $[1].a[1].b", "1:35: $[2]"]),
        ("[x // , ]\n, /* ] */ y]", ["1:2: $[0]", "2:11: $[1]"]),
        ('{"a": x, "b": [1}, "c": y}', ["1:7: $.a", "1:17: $.b", "1:25: $.c"]),  # } stands for ]
        ('{"a": {"b": [1}, "c": y}', ["1:13: $.a.b", "1:23: $.c"]),  # ] is missing, and } is that of "a"
        ('{"a": [1}], "c": y}', ["1:9: $.a", "1:18: $.c"]),  # } is one too many
        ('{"a": [x}}}, "c": y}', ["1:8: $.a[0]", "1:9: $.a"]),  # nobody knows what belongs together
        ('{"a": [x, 1', ["1:7: $.a", "1:8: $.a[0]"]),
        ("[x {]}, y]", ["1:2: $[0]", "1:5: $[0]"]),
        ('{"a": x]', ["1:7: $.a", "1:8: $"]),
        ('[x, "y\n, z]', ["1:2: $[0]", "1:5: $[1]"]),  # where the string was to end is not known
        ('[x, "y,\n z]', ["1:2: $[0]", "1:5: $[1]", "2:2: $[2]"]),
    ],
)
def test_reading_goes_on_after_an_error(text: str, places: list[str]) -> None:
    with pytest.raises(ModelFileError) as caught:
        parse("m.json", text.encode())
    assert [str(fault.place).removeprefix("m.json:") for fault in caught.value.faults] == places


@pytest.mark.parametrize(
    ("right", "wrong", "place"),
    [
        (
            '{"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]},\n',
            '{"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2],\n',
            "4:23",
        ),
        ("    }}\n  },", "    }\n  },", "3:13"),
        ("\n}\n", "\n", "1:1"),
    ],
)
def test_a_text_that_ends_too_early_is_told_at_the_bracket_that_was_not_closed(
    right: str, wrong: str, place: str
) -> None:
    """Its own end is there, and was taken for another's: indentation tells."""
    text = (
        f"{{{DISPATCHABLES}{COMMANDS}\n}}\n".replace("1 2", "1, 2").replace("False", "false").replace("ING,", 'ING",')
    )
    assert all("Axis" in fault or "must" in fault or "there is no" in fault for fault in faults(text))
    assert faults(text.replace(right, wrong, 1)) == [f'{place}: $: this bracket must be closed by a "}}"']


def test_a_bracket_of_the_wrong_kind_hides_no_other_fault() -> None:
    text = BROKEN.replace("2, 2]},", "2, 2}},", 1)
    told = 'there must be a "," or "]"'
    assert [fault for fault in faults(text) if told not in fault] == [
        fault for fault in faults(BROKEN) if told not in fault
    ]
    assert len(faults(text)) == len(faults(BROKEN)) + 1


def test_a_bracket_too_many_is_remarked_on() -> None:
    report = check_file("m.json", data=b'{"resources": {}, "dispatchables": {}}, "commands": []}')
    assert "got ', \"commands\": []}'; a bracket above may be one too many" in str(report.findings[-1].fault)


def test_a_comma_too_many_loses_nothing() -> None:
    model = '{"resources": {},, "dispatchables": {"a": {"type": "SLCE1"}}, "commands": []}'
    assert [fault.split(": ", 2)[1] for fault in faults(model)] == ["$", "$.dispatchables.a.type"]


def test_too_many_errors_end_it() -> None:
    with pytest.raises(ModelFileError) as caught:
        parse("m.json", b"[" + b"x, " * 5000 + b"]")
    assert len(caught.value.faults) == MOST_FAULTS + 1
    assert caught.value.faults[-1].rule.startswith("only the first 1000 faults are reported")


@pytest.mark.parametrize("broken", ['"in": x', 'in: {"initialValuesDataType": "FLOAT32"}', '"in" {}'])
def test_names_of_what_cannot_be_read_are_not_judged(broken: str) -> None:
    """The resource is there, though nobody can say what it is."""
    text = f'{{"resources": {{{broken}}}, "commands": [{{"type": "print", "resource": "in"}}], "dispatchables": {{}}}}'
    assert len(faults(text)) == 1


def test_a_syntax_error_does_not_keep_other_files_from_a_check(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(BROKEN)
    (tmp_path / "b.json").write_text(BROKEN.replace("FLOT32", "FLOAT32").replace("}}\n", "}\n", 1))
    result = program("check", "--concise", tmp_path)
    assert result.exit_code == 2
    assert [str(tmp_path / name) in result.output for name in ("a.json:3:", "b.json:3:")] == [True, True]
