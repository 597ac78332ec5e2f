"""Code generation: functions in LLVM IR as text, expression trees, and the Python subset that is translated to it."""
