"""SessionOptions and RunOptions: ONNX Runtime's fields, each checked when it is set."""

from __future__ import annotations

import copy
import operator
from enum import Enum
from typing import TYPE_CHECKING, Any

from anydml.core.enum_parsing import suggest
from anydml.core.errors import Fault, UnsupportedError, show
from anydml.engines.common.threads import MOST_THREADS
from anydml.onnxruntime.ort_errors import UnknownField, refuse, refuse_type, renamed
from anydml.onnxruntime.ort_value import OrtValue
from anydml.onnxruntime.providers import read_pair

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class _Choice(Enum):
    def __int__(self) -> int:
        return int(self.value)


class GraphOptimizationLevel(_Choice):
    """How much a model is rewritten when it is compiled; all but ORT_DISABLE_ALL are one here."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Choice):
    """Whether independent nodes run at once. A node's work is shared among threads here, whatever this says."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Choice):
    """Which of the nodes that could run runs next. Memory is planned for the model's order here."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Options:
    """Fields with values of their own: a class attribute each, whose type is the field's."""

    configuration: dict[str, str]

    def __init__(self) -> None:
        vars(self)["configuration"] = {}

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, self._read(name, value))

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which have lists and tables of their own."""
        return {name: copy.copy(own) if isinstance(own, (dict, list)) else own for name, own in vars(self).items()}

    @classmethod
    def fields(cls) -> dict[str, Any]:
        """The fields, and what they are where nobody sets them."""
        return {n: v for n, v in vars(cls).items() if not n.startswith("_") and isinstance(v, (bool, int, str, Enum))}

    @classmethod
    def _read(cls, name: str, value: Any) -> object:
        known = cls.fields()
        if name not in known:
            way_out = suggest(name, known) or f"there are {', '.join(known)}"
            fault = Fault(field=name, rule=f"there is no field {show(name)}", value=value, way_out=way_out)
            raise UnknownField(cls.__name__, fault)
        kind = type(known[name])
        if kind is bool and isinstance(value, int):
            return bool(value)
        if kind is int and not isinstance(value, (float, str)):
            return cls._read_number(name, value)
        if not isinstance(value, kind):
            wanted = f"of type {kind.__name__}"
            way_out = f"such as {known[name]}" if issubclass(kind, Enum) else ""
            raise refuse_type(cls.__name__, name, wanted, value, way_out)
        return value

    @classmethod
    def _read_number(cls, name: str, value: Any) -> int:
        try:
            found = operator.index(value)
        except Exception:  # noqa: BLE001 - a hostile __index__ may raise anything
            raise refuse_type(cls.__name__, name, "of type int", value) from None
        if name.endswith("num_threads") and not 0 <= found <= MOST_THREADS:
            raise refuse(
                cls.__name__, name, f"{name} must be 0, for as many as there are cores, to {MOST_THREADS}", str(found)
            )
        return found

    def _add_entry(self, key: object, value: object) -> None:
        for what, text in (("key", key), ("value", value)):
            if not isinstance(text, str):
                raise refuse_type(type(self).__name__, what, "a string", text)
        if not key:
            raise refuse(type(self).__name__, "key", "key must not be empty")
        self.configuration[str(key)] = str(value)

    def _get_entry(self, key: str) -> str:
        if not isinstance(key, str) or key not in self.configuration:
            raise refuse(type(self).__name__, "key", f"there is no configuration of key {show(key)}")
        return self.configuration[key]

    def __repr__(self) -> str:
        set_ = {name: getattr(self, name) for name, own in self.fields().items() if getattr(self, name) != own}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in set_.items())})"


class SessionOptions(_Options):
    """How a session is made. A field that ONNX Runtime does not have is an error.

    These do what they say: intra_op_num_threads (for the runs of this session alone), graph_optimization_level,
    enable_profiling and profile_file_prefix, optimized_model_filepath, the overrides of free dimensions, initializers,
    and the entry session.disable_cpu_ep_fallback, which refuses nodes that DirectML has no operator for. The rest is
    accepted, as programs for DirectML must set enable_mem_pattern and execution_mode: memory is always planned ahead,
    answers are always the same, and nothing is logged.
    """

    enable_cpu_mem_arena = True
    enable_mem_pattern = True
    enable_mem_reuse = True
    enable_profiling = False
    execution_mode = ExecutionMode.ORT_SEQUENTIAL
    execution_order = ExecutionOrder.DEFAULT
    graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads = 0
    intra_op_num_threads = 0
    log_severity_level = -1
    log_verbosity_level = 0
    logid = ""
    optimized_model_filepath = ""
    profile_file_prefix = "onnxruntime_profile_"
    use_deterministic_compute = False
    use_per_session_threads = True

    size_names: dict[str, int]
    denotations: dict[str, int]
    initializers: dict[str, OrtValue]
    providers: list[tuple[str, dict[str, str]]]

    def __init__(self) -> None:
        super().__init__()
        vars(self).update(size_names={}, denotations={}, initializers={}, providers=[])

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set a configuration entry, such as session.disable_cpu_ep_fallback."""
        self._add_entry(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """The value of a configuration entry that was set."""
        return self._get_entry(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Bind an open size by its name; one that the model does not have is passed over."""
        self._override(self.size_names, name, size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Bind the open sizes of a denotation, such as DATA_BATCH."""
        self._override(self.denotations, denotation, size)

    def _override(self, sizes: dict[str, int], name: object, size: object) -> None:
        if not isinstance(name, str) or not name:
            raise refuse_type("SessionOptions", "name", "the name of a size, or a denotation", name)
        if (found := self._read_number("size", size)) < 0:
            raise refuse("SessionOptions", "size", "size must be 0 or more", str(found))
        sizes[name] = found

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """Give an initializer of the model's another value, of the same type and shape."""
        if not isinstance(name, str):
            raise refuse_type("SessionOptions", "name", "the name of an initializer", name)
        if not isinstance(value, OrtValue):
            raise refuse_type("SessionOptions", "value", "an OrtValue", value, "see OrtValue.ortvalue_from_numpy")
        if name in self.initializers:
            raise refuse("SessionOptions", "name", f"initializer {show(name)} was added already")
        self.initializers[name] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """Give initializers that lie beside the model their values."""
        for field, several in (("names", names), ("values", values)):
            if not isinstance(several, (list, tuple)):
                raise refuse_type("SessionOptions", field, "a list", several)
        if len(names) != len(values):
            rule = "names and values must be as many as one another"
            raise refuse("SessionOptions", "values", rule, f"{len(names)} and {len(values)}")
        for name, value in zip(names, values, strict=True):
            self.add_initializer(name, value)

    def add_provider(self, name: str, options: Mapping[str, str] | None = None) -> None:
        """Add an execution provider, for a session that is given none."""
        self.providers.append(read_pair((name, {} if options is None else options)))

    def has_providers(self) -> bool:
        """Whether an execution provider was added."""
        return bool(self.providers)

    def register_custom_ops_library(self, path: str) -> None:
        """Refused: code that is written for ONNX Runtime runs in ONNX Runtime alone."""
        rule = f"custom operators of ONNX Runtime ({show(path)}) cannot run here"
        raise renamed(UnsupportedError("SessionOptions", Fault(field="path", rule=rule)))


class RunOptions(_Options):
    """How a run is made. `terminate` set before it begins, or while it lasts, ends it with an error."""

    log_severity_level = -1
    log_verbosity_level = 0
    logid = ""
    only_execute_path_to_fetches = False
    terminate = False

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Set a configuration entry."""
        self._add_entry(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """The value of a configuration entry that was set."""
        return self._get_entry(key)


def read_options(given: object, cls: type[Any], field: str) -> Any:
    """Options that were given; those that nobody changed for None."""
    if given is None or (isinstance(given, dict) and not given):
        return cls()
    if not isinstance(given, cls):
        raise refuse_type("InferenceSession", field, f"a {cls.__name__}", given)
    return given
