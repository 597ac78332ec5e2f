"""Thousands of broken models: each ends with a clean exit, in bounded time and memory, and touches nothing else."""

from __future__ import annotations

import copy
import faulthandler
import json
import os
import random
import resource
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from anydml.dxdispatch.parser import parse
from anydml.dxdispatch.source import Items, Node
from counting import count_calls
from modelling import DISPATCH, EVERY, EXAMPLES, SUM, model, model_of, program, write

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

pytestmark = pytest.mark.sampled(2)

SHARDS, COUNT = (10, 200) if os.environ.get("CI") == "true" else (1, 150)
MOST_CALLS = 1_000_000  # of functions, for a model; 200 of them took at most 15,322
SECONDS_EACH = 600  # after which a model hangs, and the process ends where it is
MEBIBYTES_MORE = 300

# Reads files and writes some, with every kind of value and every way of binding; the last dispatch may meet an index
# that is out of range, when files are written already.
FILES = model(
    resources={
        "in": {"initialValues": {"sourcePath": "x.npy"}},
        "raw": {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "sub/x.dat"}, "sizeInBytes": 64},
        "out": {"initialValuesDataType": "FLOAT32", "initialValues": ["nan", 1.5, -1, 1e-3]},
        "indices": {"initialValuesDataType": "INT32", "initialValues": [3, -4]},
        "mixed": {"initialValues": [{"type": "UINT32", "value": 1}, {"type": "FLOAT16", "value": 2.5}]},
    },
    dispatchables={
        "sum": SUM,
        "gather": {
            "type": "GATHER_ND",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 4]},
                "IndicesTensor": {"DataType": "INT32", "Sizes": [2, 1]},
                "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 2]},
                "InputDimensionCount": 1,
                "IndicesDimensionCount": 2,
                "IndexMode": "raise",
            },
        },
    },
    commands=[
        {**DISPATCH, "bindings": {"InputTensor": ["in"], "OutputTensor": {"name": "out"}}},
        {"type": "print", "resource": "mixed", "verbose": True},
        {"type": "writeFile", "resource": "out", "targetPath": "sub/y.npy", "dimensions": [2, 2]},
        {"type": "writeFile", "resource": "raw", "targetPath": "y.dat"},
        {
            "type": "dispatch",
            "dispatchable": "gather",
            "bindings": {"InputTensor": "in", "IndicesTensor": "indices", "OutputTensor": "out"},
        },
    ],
)  # fmt: skip
TEXTS = [
    *(path.read_text() for path in sorted(EXAMPLES.glob("*.json"))),
    json.dumps(FILES, indent=2),
    *(json.dumps(model_of(desc), indent=2) for desc in EVERY),
]

ODD_VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 4, 5, 7, 8, 16, 255, 65535, 2**31, 2**32 - 1, 2**32, 2**48, 2**63, 2**64 - 1),
    *(2**70, 0.5, -0.0, 1e39, 1e308, "", "a", "nan", "inf", "NONE", "FLOAT16", "UINT8", "INT64", "UNKNOWN", "GEMM"),
    *("OWNED_BY_DML", "SLICE", "SLICE1", "GATHER_ND1", "CUMULATIVE_PRODUCT", "hlsl", "deferred", "clamp", "input"),
    *("output", "../x.dat", "/x", "x.npy", "model.json", "link/x.dat", ".hidden", "pipe", "sub", "\0", "\ud800"),
    *([], {}, [[]], [1], [1, 1, 4, 4], [0] * 9, [2**32] * 4, {"name": "input", "elementOffset": 4}),
    *({"valueCount": 2**32 - 1, "value": 0}, {"valueCount": 100, "valueStart": 0, "valueDelta": 1}),
    *("JOIN", "SPLIT", "CAST", "FILL_VALUE_CONSTANT", "InputTensor", {"Float32": "inf"}, {"UInt16": 1}, ["input"] * 3),
    *({"Scale": 2, "Bias": "nan"}, {"sourcePath": "x.npy"}, {"Desc": {"DataType": "INT8", "Sizes": [1]}}),
]
ODD_PATHS = [
    "../x.dat",
    "/x",
    "link/x.dat",
    "link/new.npy",
    "sub/../x.npy",
    ".hidden",
    "pipe",
    "sub",
    "model.json",
    "new/y.dat",
]
ODD_TEXT = [
    *("{", "}", "[", "]", ",", ":", '"', "\\", "/*", "//", "*/", "\n", "\0", "1e999", "-", "9" * 30, "\\ud800", "é"),
    *("[" * 3000, '{"a":' * 3000, '"' * 3, "null", "NaN", "\ufeff"),
]


def plain(node: Node) -> Any:
    if node.is_object:
        return {name: plain(child) for name, child in node.members()}
    return [plain(child) for child in node.elements()] if isinstance(node.raw, Items) else node.raw


TREES = [plain(parse("seed", text.encode())) for text in TEXTS]


def containers(value: Any) -> list[Any]:
    found, pending = [], [value]
    while pending:
        at = pending.pop()
        if isinstance(at, (dict, list)) and at:
            found.append(at)
            pending += at.values() if isinstance(at, dict) else at
    return found


def mutate_tree(chance: random.Random) -> bytes:
    """Change values, drop, rename, move and repeat them; the result is JSON, but for a name given twice."""
    tree = copy.deepcopy(chance.choice(TREES))
    if chance.random() < 0.2:
        return json.dumps(mutate_files(chance)).encode()
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        places = containers(tree)
        if not places:
            break
        at: Any = chance.choice(places)
        key: Any = chance.choice(list(at) if isinstance(at, dict) else range(len(at)))
        match chance.randrange(6):
            case 0 | 1:
                at[key] = copy.deepcopy(chance.choice(ODD_VALUES))
            case 2:
                del at[key]
            case 3:
                other: Any = chance.choice(places)
                at[key] = copy.deepcopy(other)
            case 4 if isinstance(at, dict):
                at[chance.choice(["", "desc", "Desc", "type", "Type", key.lower(), key + " "])] = at.pop(key)
            case 4:
                at.extend(at[:] * chance.choice((1, 3)))
            case 5 if type(at[key]) in (int, float):
                at[key] = at[key] * chance.choice((-1, 2, 0.5, 1000)) + chance.choice((-1, 0, 1))
    text = json.dumps(tree, indent=chance.choice((None, 1)))
    if chance.random() < 0.05:
        text = text.replace('"', '"type": 1, "', 1)
    return text.encode("utf-8", "surrogatepass")


def mutate_files(chance: random.Random) -> Any:
    """Change one thing alone of a model that uses files: a path, a count or an index."""
    tree = copy.deepcopy(FILES)
    match chance.randrange(4):
        case 0:
            tree["commands"][chance.choice((2, 3))]["targetPath"] = chance.choice(ODD_PATHS)
        case 1:
            tree["resources"]["raw"]["initialValues"]["sourcePath"] = chance.choice(ODD_PATHS)
        case 2:
            tree["resources"]["indices"]["initialValues"][0] = chance.choice((0, 4, -5, 2**31 - 1))
        case 3:
            many = {"valueCount": chance.choice((10, 10**6, 2**28)), "value": 0}
            tree["resources"]["raw"] = {"initialValuesDataType": "FLOAT64", "initialValues": many}
    return tree


def mutate_bytes(chance: random.Random) -> bytes:
    """Flip, cut, insert and splice bytes, as a damaged file or a hostile one has them."""
    data = bytearray(chance.choice(TEXTS).encode())
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.choice((1, 2, 10, 200)))
        match chance.randrange(6):
            case 0:
                data[at:end] = bytes(chance.randrange(256) for _ in range(end - at))
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = chance.choice(ODD_TEXT).encode()
            case 3:
                data[at:at] = data[at:end]
            case 4:
                other = chance.choice(TEXTS).encode()
                cut = chance.randrange(len(other))
                data[at:end] = other[cut : cut + 200]
            case 5 if chance.random() < 0.3:
                del data[at:]
    return bytes(data)


def mutate_npy(chance: random.Random, good: bytes) -> bytes:
    data = bytearray(good)
    for _ in range(chance.choice((0, 1, 3))):
        at = chance.randrange(len(data))
        data[at] = chance.randrange(256)
    return bytes(data[: len(data) if chance.random() < 0.8 else chance.randrange(len(data))])


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        found[str(path.relative_to(folder))] = (status.st_mtime_ns, status.st_size)
    return found


@pytest.mark.parametrize("shard", range(SHARDS))
def test_broken_models_end_cleanly(shard: int, tmp_path: Path) -> None:
    chance = random.Random(20_000 + shard)  # noqa: S311 - it is to be the same each time
    other, own = tmp_path / "other", tmp_path / "own"
    for folder in (other, own, own / "sub"):
        folder.mkdir()
    np.save(own / "x.npy", np.arange(4, dtype=np.float32))
    good = (own / "x.npy").read_bytes()
    for path in (own / "sub" / "x.dat", other / "x.dat"):
        path.write_bytes(bytes(64))
    (own / "link").symlink_to(other)
    os.mkfifo(own / "pipe")
    outside, memory = listing(other), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    statuses: dict[int, int] = {}
    for i in range(COUNT):
        data = mutate_bytes(chance) if i % 2 else mutate_tree(chance)
        path = write(own, data)
        (own / "x.npy").write_bytes(mutate_npy(chance, good))
        before = listing(own)
        options = ["check", path] if i % 4 > 1 else ["run", path, "--engine", "reference", "--max-memory", "1M"]
        results: list[Result] = []
        faulthandler.dump_traceback_later(SECONDS_EACH, exit=True)
        try:
            calls = count_calls(lambda: results.append(program(*options)))  # noqa: B023 - called at once
        except BaseException:
            (tmp_path / "failed.json").write_bytes(data)
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()
        (result,) = results
        assert calls < MOST_CALLS, data
        assert result.exit_code in (0, 1, 2, 3), data
        assert result.exit_code == 0 or result.output.strip(), data
        assert "Traceback" not in result.output
        after = listing(own)
        new = {name for name in after if after[name] != before.get(name)} - {"sub"}
        assert not any(name.endswith(".tmp") or name.startswith(".") for name in new), (data, new)
        assert not new or (options[0] == "run" and result.exit_code == 0), (data, new)
        assert "model.json" not in new
        statuses[result.exit_code] = statuses.get(result.exit_code, 0) + 1
        for name in sorted(after.keys() - before.keys(), reverse=True):
            (own / name).rmdir() if (own / name).is_dir() else (own / name).unlink()
    assert listing(other) == outside
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "own"]
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    assert more < MEBIBYTES_MORE
    assert {0, 1, 2} <= set(statuses)  # the mutations reach every kind of end; 3 is rarer
