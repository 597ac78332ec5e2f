"""From a primitive to a kernel and its words: the shape of the work is chosen here, once."""

from anydml.engines.cpu.programs.attend import plan_attend, takes_attend
from anydml.engines.cpu.programs.check import CheckedProgram
from anydml.engines.cpu.programs.contract import plan_contract, plan_panels
from anydml.engines.cpu.programs.copy import CopyProgram, plan_copy
from anydml.engines.cpu.programs.fill import plan_fill
from anydml.engines.cpu.programs.gather import GatherProgram, plan_gather
from anydml.engines.cpu.programs.map import MapProgram, plan_map
from anydml.engines.cpu.programs.placed import plan_placed
from anydml.engines.cpu.programs.reduce import plan_reduce
from anydml.engines.cpu.programs.repeat import LoopProgram
from anydml.engines.cpu.programs.reverse import plan_reverse
from anydml.engines.cpu.programs.scale import plan_scaled
from anydml.engines.cpu.programs.scan import ScanProgram
from anydml.engines.cpu.programs.scatter import ScatterProgram
from anydml.engines.cpu.programs.taps import plan_framed, plan_taps
from anydml.engines.cpu.programs.top import TopProgram
from anydml.engines.cpu.programs.unpacked import plan_unpacked, plan_unpacked_ahead
from anydml.engines.cpu.programs.weights import plan_weights, plan_weights_ahead

__all__ = [
    "CheckedProgram",
    "CopyProgram",
    "GatherProgram",
    "LoopProgram",
    "MapProgram",
    "ScanProgram",
    "ScatterProgram",
    "TopProgram",
    "plan_attend",
    "plan_contract",
    "plan_copy",
    "plan_fill",
    "plan_framed",
    "plan_gather",
    "plan_map",
    "plan_panels",
    "plan_placed",
    "plan_reduce",
    "plan_reverse",
    "plan_scaled",
    "plan_taps",
    "plan_unpacked",
    "plan_unpacked_ahead",
    "plan_weights",
    "plan_weights_ahead",
    "takes_attend",
]
