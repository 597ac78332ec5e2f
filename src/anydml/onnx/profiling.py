"""A model's runs, watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.alone import import_alone
from anydml.errors import DescriptionError, Fault
from anydml.parse import read_int

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.onnx.model import Model
    from anydml.runtime.profile import Profile

_MOST_RUNS = 1_000_000


def profile_model(make: Callable[[], Model], inputs: Mapping[str, Any], runs: int) -> Profile:
    """Run a model of one's own so often, after a first run that does not count, and tell what the runs took."""
    import_alone("anydml.runtime.profile", "anydml.runtime.profiler_hook")
    from anydml.runtime.profile import Profile  # which nothing needs that only runs
    from anydml.runtime.profiler_hook import Recorder, watching

    faults: list[Fault] = []
    read_int(runs, "runs", faults, 1, _MOST_RUNS)
    if faults:
        raise DescriptionError("profile", faults)
    model = make()
    recorder = Recorder(model.device.engine.memory)
    with watching(recorder):
        model.run(inputs)
        for _ in range(runs):
            with recorder.run():
                model.run(inputs)
    return Profile.of(recorder, model.device)
