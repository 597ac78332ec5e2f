"""Everything at once, for as long as you like: `python -m stress --seconds 120`.

`work` says what an item is and how its answer is judged; `large`, `doors`, `odd` and `models` make items from a seed and
a number; `worker` does them from many threads under the `pressures`, `watch` looks for leaks; `conditions` has the
children that start anew under limits and with a spoiled cache; `parent` starts them all, and `report` tells.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
if str(ROOT / "tests" / "support") not in sys.path:
    sys.path.append(str(ROOT / "tests" / "support"))  # the tests' random cases, graphs and doors serve here as well
