"""From a primitive to a kernel and its words: the shape of the work is chosen here, once."""

from anydml.engines.cpu.programs.copy import CopyProgram
from anydml.engines.cpu.programs.gather import GatherProgram
from anydml.engines.cpu.programs.scan import ScanProgram

__all__ = ["CopyProgram", "GatherProgram", "ScanProgram"]
