"""The operators by family: a family is some of the files in which operators are described."""

from __future__ import annotations

from anydml.operators import OPERATORS, OperatorDesc

Operator = type[OperatorDesc]

FAMILIES = {
    "Slices, padding, gathers and scatters": "slice gather",
    "Copies, conversions, layouts, fills and random numbers": "elementwise manipulation fill",
    "Arithmetic, exponentials and trigonometry": "arithmetic",
    "Comparisons, logic and bits": "logic",
    "Activations": "activations",
    "Reductions, running sums and selections": "reductions select",
    "Normalization": "normalization",
    "Products of matrices and convolutions": "products convolution",
    "Pooling": "pooling",
    "Resampling and regions of images": "resampling regions",
    "Quantization": "quantization",
    "Attention and recurrent networks": "attention recurrent",
    "Training": "optimizer",
}
"""The modules of `anydml.operators` that a family is described in."""


def families() -> dict[str, list[Operator]]:
    """The operators of each family, by name."""
    by_module: dict[str, list[Operator]] = {}
    for cls in OPERATORS.values():
        by_module.setdefault(cls.__module__.rpartition(".")[2], []).append(cls)
    found = {title: [cls for name in names.split() for cls in by_module.pop(name)] for title, names in FAMILIES.items()}
    if by_module:
        message = f"no family has the operators of {', '.join(by_module)}"
        raise LookupError(message)
    return {title: sorted(classes, key=lambda cls: cls.type.name) for title, classes in found.items()}


def page_of(cls: Operator) -> str:
    """The file of an operator's page, in the folder of operators."""
    return f"{cls.type.name.lower()}.md"
