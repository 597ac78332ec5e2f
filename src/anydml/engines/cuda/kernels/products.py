"""Products of matrices: which tile of the result a program has, and where its elements lie."""

import triton
import triton.language as tl
