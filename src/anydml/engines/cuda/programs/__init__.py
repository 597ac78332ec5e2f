"""From a primitive to kernels and their arguments: the shape of the work is chosen here, once."""

from anydml.engines.cuda.programs.copy import CopyProgram
from anydml.engines.cuda.programs.gather import GatherProgram
from anydml.engines.cuda.programs.scan import ScanProgram

__all__ = ["CopyProgram", "GatherProgram", "ScanProgram"]
