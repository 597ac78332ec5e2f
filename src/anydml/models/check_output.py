"""Commands that show a resource or write it: whether it has what they ask for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.errors import show
from anydml.models.findings import COMMAND, NAME
from anydml.models.images import FLOATS, MODES
from anydml.models.model import WriteFile
from anydml.models.npy import MOST_DIMENSIONS
from anydml.models.output import is_array, is_image
from anydml.spelling import suggest

if TYPE_CHECKING:
    from anydml.models.findings import Findings
    from anydml.models.model import Model, Print, Resource


def check_output(command: Print | WriteFile, model: Model, findings: Findings, written: set[str]) -> None:
    """Check a command that shows a resource or writes it to a file."""
    resource = model.resources.get(command.resource)
    node = command.node.get("resource") or command.node
    if resource is None:
        rule = f"there must be a resource {show(command.resource, 60)}"
        findings.add(NAME, node, rule, found="", way_out=suggest(command.resource, model.resources))
    elif resource.is_deferred and command.resource not in written:
        findings.add(COMMAND, node, "a deferred resource must be given by a dispatch before", found="")
    elif isinstance(command, WriteFile) and is_array(command) and resource.values is not None:
        _check_npy(command, resource, findings)
    elif isinstance(command, WriteFile) and is_image(command) and resource.values is not None:
        _check_image(command, resource, findings)


def _check_npy(command: WriteFile, resource: Resource, findings: Findings) -> None:
    if resource.data_type is None:
        rule = "a resource must have values of one type to be written as .npy"
        findings.add(COMMAND, command.node.get("resource") or command.node, rule, found="")
        return
    node = command.node.get("dimensions") or command.node
    if len(command.dimensions) > MOST_DIMENSIONS:
        rule = f"dimensions must be at most {MOST_DIMENSIONS} sizes, which is what NumPy reads"
        findings.add(COMMAND, node, rule, found=str(len(command.dimensions)))
        return
    _check_elements(command, resource, findings)


def _check_elements(command: WriteFile, resource: Resource, findings: Findings) -> None:
    assert resource.data_type  # noqa: S101 - for type checkers: the callers looked
    node = command.node.get("dimensions") or command.node
    most = (resource.size_in_bytes or 0) // resource.data_type.size_in_bytes
    count = math.prod(command.dimensions)
    if command.dimensions and count > most:
        rule = f"dimensions must multiply to at most {most}, the elements of the resource"
        findings.add(COMMAND, node, rule, found=str(count) if count < 10**20 else "more than 10^20")


def _check_image(command: WriteFile, resource: Resource, findings: Findings) -> None:
    if resource.data_type not in FLOATS:
        rule = f"a resource must be of {' or '.join(kind.name for kind in FLOATS)} to be written as an image"
        findings.add(COMMAND, command.node.get("resource") or command.node, rule, found="")
        return
    sizes, node = command.dimensions, command.node.get("dimensions") or command.node
    if len(sizes) != 4 or sizes[0] != 1 or sizes[1] not in MODES:
        rule = "dimensions must be [1, channels, height, width] with 1, 3 or 4 channels, for an image"
        findings.add(COMMAND, node, rule, found=str(list(sizes[:8])))
    else:
        _check_elements(command, resource, findings)
