"""The case table: the documents' examples as data. It feeds every engine and every door."""

from __future__ import annotations

import os

import anydml as dml
from case_oracles import element_wise_case, fixed_case, folding_case
from documents import COPIES, MOVING, RESAMPLED, SELECTING
from families.elementwise import ELEMENT_WISE
from families.folding import SMALL
from families.products import PRODUCTS

# `cuda` needs a process of its own: on a GPU, or with TRITON_INTERPRET=1 before Triton is first imported.
ENGINES = os.environ.get("ANYDML_TEST_ENGINES", "reference cpu").split()
DOCUMENTS = [*COPIES, *MOVING, *RESAMPLED, *SELECTING]
CASES = [
    *DOCUMENTS,
    *(element_wise_case(cls) for cls in ELEMENT_WISE if cls not in (dml.Cast, dml.ElementWiseIdentity)),
    *(folding_case(*example) for example in SMALL),
    *map(fixed_case, PRODUCTS),
]
