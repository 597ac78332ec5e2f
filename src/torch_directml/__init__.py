"""torch-directml by anydml: `import torch_directml`, on any machine with PyTorch 2.13. See `anydml.torch.directml`."""

from anydml.torch.directml import *
from anydml.torch.directml import __all__ as __all__
