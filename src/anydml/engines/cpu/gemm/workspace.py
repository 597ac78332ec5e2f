"""The workspace layout of GEMMs and convolutions: cache blocking of K and N, and where packed operands, sums and
results lie in a thread's scratch.
"""

from __future__ import annotations

from anydml.engines.cpu.features import IS_ARM

BLOCK = 512 if IS_ARM else 256
"""The most steps of the folded dimension that are packed at once: a panel of rows lies in the first cache, which has
64 KiB on an Arm of today, and 32 or 48 on others."""
COLUMNS = 1024 if IS_ARM else 512
"""The most columns of a unit: rows are packed once for all of them. 768 x 768 x 768 takes 24.1 ms so, and 24.5 with 512
(one thread of a Neoverse-N1)."""
AHEAD = 1024 if IS_ARM else 256
"""The same where columns are laid out ahead: the second cache has room for a block and for the next one, which is
fetched meanwhile. 128 x 3072 x 768 takes 5.6 ms so, 5.9 with 512 and 6.2 where nothing is fetched (one thread, 16
lanes)."""
PANEL = 64
"""The most rows or columns of a tile."""
RIGHT_BYTES = (768 if IS_ARM else 512) * 1024
"""The most bytes of a unit's block of the right factor: it lies in the second cache, which has 1 MiB on a Neoverse."""
RESULT = 512 * 1024
"""The most bytes of results that a unit of other kernels has before they are finished."""
SUM_BYTES = 2048 * 1024
"""The most bytes of a contraction's sums that do not lie in the target until results are computed from them: units of
few rows pack the right factor again and again. 1024 x 1024 x 1024 with a matrix added takes 17.4 ms so, and 19.2 with a
fourth of it (one thread, 16 lanes)."""
LONG = 4288
"""The most columns of a unit of a few rows: 4096, in panels of any width up to 192. Rows that are read whole come at 15
GB/s on one thread, halves of them at 13 (Arm Neoverse-N1). It is also the sums that strips have at once, a quarter of
the first cache: 4 x 4096 x 4096 takes 7.2 ms with 1024 columns at once, and 10.5 with all."""

# Bytes of a scratch: its lock, the right block, the left panel, a factor's rows, the results; sums of a contraction.
RIGHT_AT = 64
LEFT_AT = RIGHT_AT + RIGHT_BYTES + 4 * BLOCK * PANEL
STAGE_AT = LEFT_AT + 4 * BLOCK * PANEL
RESULT_AT = STAGE_AT + 4 * PANEL * (max(COLUMNS, BLOCK) + PANEL)
TOTALS_AT = RESULT_AT + RESULT
SUMS_AT = TOTALS_AT + 4 * 4 * (LONG + 2 * PANEL) + 4096
"""Bytes of a scratch that are not a contraction's alone."""
SCRATCH = SUMS_AT + SUM_BYTES
"""Bytes of a scratch."""
