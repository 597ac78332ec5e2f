"""Ask whether a description is valid, at which feature level, and if not why: nothing is run and nothing is raised."""

from __future__ import annotations

import anydml as dml

desc = dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc("int64", (2, 3)), axis=1)
for level in ("2_1", "4_0", "5_0"):
    report = desc.check(level)
    print(f"{level}: {'valid' if report else 'not valid'}; the lowest level that has it is {report.lowest_level}")
    for fault in report.faults:
        print(f"    {fault}")

counts = dml.CumulativeSummation.infer(input_tensor=dml.TensorDesc("uint16", (1, 1, 2, 3)), axis=3)
for remark in counts.check("2_1").remarks:
    print(f"remark: {remark}")
