"""DxDispatch's JSON models: read, checked and run on any machine.

>>> from anydml.models import load_model
>>> model = load_model("examples/models/slice.json")
>>> model.check("2_1").status
0
>>> model.run().resources["output"]
array([ 7.,  8., 11., 12., 15., 16.], dtype=float32)
"""

from anydml.models.check import CheckedDispatchable, ModelReport, as_sarif, check_file
from anydml.models.events import (
    Commanded,
    Dispatched,
    Event,
    Initialised,
    Printed,
    Progress,
    Started,
    Written,
)
from anydml.models.findings import Finding, Kind
from anydml.models.loading import load_model
from anydml.models.model import Binding, Dispatch, Dispatchable, Model, Print, Resource, WriteFile
from anydml.models.run import RunResult
from anydml.models.timing import Figures, Samples, Timing

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
