"""`python -m anydml.genai script.py …` runs a script that imports onnxruntime_genai, with this library in its place.

`-m module …` runs a module. Nothing of the script changes; see `anydml.genai.as_onnxruntime_genai`.
"""

from __future__ import annotations

from anydml.genai.process import as_onnxruntime_genai
from anydml.onnxruntime.__main__ import run_program

_USAGE = "usage: python -m anydml.genai (script.py | -m module) [arguments]"


if __name__ == "__main__":
    run_program(as_onnxruntime_genai, _USAGE)
