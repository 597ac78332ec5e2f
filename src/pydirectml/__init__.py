"""PyDirectML by anydml: `import pydirectml as dml`, on any machine. See `anydml.pydirectml`.

Where Microsoft's module is installed too, that one is imported, with a warning; with `ANYDML_PYDIRECTML=1` in the
environment it is anydml's.
"""

import importlib.machinery
import importlib.util
import os
import sys
import warnings
from pathlib import Path

_SUFFIXES = importlib.machinery.EXTENSION_SUFFIXES
_files = (Path(folder) / f"pydirectml{suffix}" for folder in sys.path for suffix in _SUFFIXES)
_microsofts = next((file for file in _files if file.is_file()), None)
if _microsofts is None or os.environ.get("ANYDML_PYDIRECTML") == "1":
    from anydml.pydirectml import *
    from anydml.pydirectml import __all__ as __all__
else:
    warnings.warn(
        f"pydirectml is Microsoft's module, {_microsofts}, which is installed beside anydml's;"
        " `import anydml.pydirectml as pydirectml`, or ANYDML_PYDIRECTML=1 in the environment, takes anydml's",
        stacklevel=2,
    )
    _spec = importlib.util.spec_from_file_location(__name__, _microsofts)
    assert _spec is not None and _spec.loader is not None  # noqa: S101, PT018 - for type checkers: it is an extension
    sys.modules[__name__] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[__name__])
