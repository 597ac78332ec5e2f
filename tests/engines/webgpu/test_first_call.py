"""What a first call takes besides the device: cffi parses the C types that are named all in one text."""

from __future__ import annotations

import subprocess
import sys

import pytest

from anydml.engines.webgpu import why_missing

MOST = 8
"""Texts that cffi may parse: by themselves the types would be some forty."""
CODE = """
import cffi
from cffi import cparser

texts = []
parse = cparser.Parser.parse_type
cparser.Parser.parse_type = lambda self, text: texts.append(text) or parse(self, text)
import numpy as np
import anydml as dml

assert dml.softmax(dml.to_device(np.zeros((2, 4), np.float32), "webgpu")).tolist() == [[0.25] * 4] * 2
print(len(texts))
"""


@pytest.mark.skipif(bool(why_missing()), reason=why_missing())
def test_types_of_c_are_parsed_at_once() -> None:
    """For each of them it would read the names of the whole header again, which takes 50 ms."""
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300, check=True)  # noqa: S603 - our own
    assert 0 < int(found.stdout) <= MOST
