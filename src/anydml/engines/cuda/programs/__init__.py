"""From a primitive to kernels and their arguments: the shape of the work is chosen here, once."""

from anydml.engines.cuda.programs.copy import CopyProgram
from anydml.engines.cuda.programs.fill import FillProgram
from anydml.engines.cuda.programs.gather import GatherProgram
from anydml.engines.cuda.programs.reverse import ReverseProgram
from anydml.engines.cuda.programs.scale import ScaleProgram
from anydml.engines.cuda.programs.scan import ScanProgram

__all__ = ["CopyProgram", "FillProgram", "GatherProgram", "ReverseProgram", "ScaleProgram", "ScanProgram"]
