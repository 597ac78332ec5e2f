"""Code generation: expression trees as Triton functions, and arithmetic that compiles and interprets alike."""
