"""Kernels compiled for other CPUs than this one."""

from __future__ import annotations

import llvmlite.binding as llvm


def assembly(text: str, triple: str, cpu: str) -> str:
    """What LLVM makes of a kernel's text."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3)
    module = llvm.parse_assembly(text)
    module.verify()
    written: str = machine.emit_assembly(module)
    return written
