"""From a primitive to a kernel and its words: the shape of the work is chosen here, once."""

from anydml.engines.cpu.programs.copy import CopyProgram
from anydml.engines.cpu.programs.fill import plan_fill
from anydml.engines.cpu.programs.gather import GatherProgram
from anydml.engines.cpu.programs.reverse import plan_reverse
from anydml.engines.cpu.programs.scale import plan_scaled
from anydml.engines.cpu.programs.scan import ScanProgram

__all__ = ["CopyProgram", "GatherProgram", "ScanProgram", "plan_fill", "plan_reverse", "plan_scaled"]
