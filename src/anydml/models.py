"""The old name of `anydml.dxdispatch`, for one release."""

import sys
import warnings

from anydml import dxdispatch
from anydml.dxdispatch import *  # noqa: F403 - for type checkers

warnings.warn("anydml.models is anydml.dxdispatch now", FutureWarning, stacklevel=2)
sys.modules[__name__] = dxdispatch
