"""DxDispatch's JSON models: read, checked and run on any machine.

>>> from anydml.dxdispatch import load_model
>>> model = load_model("examples/models/slice.json")
>>> model.check("2_1").status
0
>>> model.run().resources["output"]
array([ 7.,  8., 11., 12., 15., 16.], dtype=float32)
"""

from anydml.dxdispatch.check import CheckedDispatchable, ModelReport, as_sarif, check_file
from anydml.dxdispatch.events import (
    Commanded,
    Dispatched,
    Event,
    Initialised,
    Printed,
    Progress,
    Started,
    Written,
)
from anydml.dxdispatch.findings import Finding, Kind
from anydml.dxdispatch.loading import load_model
from anydml.dxdispatch.model import Binding, Dispatch, Dispatchable, Model, Print, Resource, WriteFile
from anydml.dxdispatch.run import RunResult
from anydml.dxdispatch.timing import Figures, Samples, Timing

__all__ = [
    "Binding",
    "CheckedDispatchable",
    "Commanded",
    "Dispatch",
    "Dispatchable",
    "Dispatched",
    "Event",
    "Figures",
    "Finding",
    "Initialised",
    "Kind",
    "Model",
    "ModelReport",
    "Print",
    "Printed",
    "Progress",
    "Resource",
    "RunResult",
    "Samples",
    "Started",
    "Timing",
    "WriteFile",
    "Written",
    "as_sarif",
    "check_file",
    "load_model",
]
