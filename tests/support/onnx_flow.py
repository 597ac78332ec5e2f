"""ONNX models with control flow, sequences and optionals, as text: each with the inputs of a few runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_models import onnx

X = np.linspace(-1, 2, 6, dtype="float32").reshape(2, 3)
YES, NO = np.array(True), np.array(False)


def number(n: int) -> Any:
    return np.array(n, "int64")


MODELS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    # A branch by what is computed, which reads names of the graph around it, by another branch within.
    "branches": (
        """
        main (float[N, 3] x, int64 n) => (float[A, B] y, float z) {
            zero = Constant<value = float {0}>()
            sum = ReduceSum<keepdims = 0>(x)
            cond = Greater(sum, zero)
            twice = Add(x, x)
            y, z = If(cond) <
                then_branch = t () => (float[A, B] a, float b) {
                    three = Constant<value = int64 {3}>()
                    large = Greater(n, three)
                    a = If(large) <
                        then_branch = tt () => (float[A, B] p) { p = Mul(twice, sum) },
                        else_branch = te () => (float[A, B] p) { p = Transpose(x) }>
                    b = Sqrt(sum)
                },
                else_branch = e () => (float[A, B] a, float b) <float[1, 3] w = {1, 2, 3}> {
                    a = Sub(twice, w)
                    b = Neg(sum)
                }>
        }""",
        [{"x": X, "n": number(2)}, {"x": X, "n": number(5)}, {"x": -X, "n": number(5)}, {"x": X[:0], "n": number(1)}],
    ),
    # A number of times, while a condition holds, or both; what each step gives, and none.
    "loop": (
        """
        main (int64 m, bool go, float[N, 3] x, float most) => (
            float[N, 3] y, int64 last, float[S, N, 3] each, int64[S] i
        ) {
            zero = Constant<value = int64 {0}>()
            y, last, each, i = Loop(m, go, x, zero) <
                body = b (int64 k, bool c, float[N, 3] v, int64 was) => (
                    bool more, float[N, 3] w, int64 now, float[N, 3] shown, int64 index
                ) <float[1] half = {0.5}> {
                    w = Add(v, half)
                    top = ReduceMax<keepdims = 0>(w)
                    more = Less(top, most)
                    shown = Mul(w, x)
                    now = Add(was, k)
                    index = Identity(k)
                }>
        }""",
        [
            {"m": number(m), "go": go, "x": X, "most": np.array(most, "float32")}
            for m, go, most in ((4, YES, 99), (99, YES, 5), (0, YES, 9), (5, NO, 9), (1, YES, -9))
        ],
    ),
    # Branches in a loop, one of them within another and one late; they give constants, and names of all around them.
    "choosing": (
        """
        main (int64 m, float[3] x) => (float[3] y, float[S, 3] each, float[S] f) {
            yes = Constant<value = bool {1}>()
            y, each, f = Loop(m, yes, x) <
                body = b (int64 k, bool c, float[3] v) => (bool d, float[3] w, float[3] e, float f) {
                    nine = Constant<value = int64 {9}>()
                    two = Constant<value = int64 {2}>()
                    late = Greater(k, nine)
                    rest = Mod(k, two)
                    odd = Cast<to = 9>(rest)
                    w, f = If(late) <
                        then_branch = t () => (float[3] p, float q) {
                            p = Sub(v, x)
                            q = Constant<value = float {7}>()
                        },
                        else_branch = e () => (float[3] p, float q) {
                            p = If(odd) <then_branch = tt () => (float[3] r) { r = Add(v, x) },
                                         else_branch = te () => (float[3] r) { r = Identity(x) }>
                            q = ReduceSum<keepdims = 0>(v)
                        }>
                    e = Neg(w)
                    d = Identity(c)
                }>
        }""",
        [{"m": number(m), "x": X[0]} for m in (0, 3, 9, 40)],
    ),
    # No number of times; a value that is longer in each step; loops within loops that read names of all around them.
    "growing": (
        """
        main (float[N] x, float[1] f) => (float[M] y, float[R, Q] all) {
            yes = Constant<value = bool {1}>()
            end = Constant<value = int64 {20}>()
            y = Loop(, yes, x) <body = b (int64 k, bool c, float[P] v) => (bool more, float[Q] w) {
                w = Concat<axis = 0>(v, x, f)
                size = Size(w)
                more = Less(size, end)
            }>
            three = Constant<value = int64 {3}>()
            none, all = Loop(three, , f) <body = o (int64 k, bool c, float[1] v) => (bool d, float[1] w, float[Q] row) {
                inner, row2 = Loop(three, , v) <body = p (int64 j, bool e, float[1] u) => (
                    bool g, float[1] s, float[1] t
                ) {
                    kj = Mul(k, j)
                    real = Cast<to = 1>(kj)
                    s = Add(u, real)
                    t = Mul(s, f)
                    g = Identity(e)
                }>
                d = Identity(c)
                w = Identity(inner)
                flat = Constant<value = int64[1] {-1}>()
                row = Reshape(row2, flat)
            }>
        }""",
        [{"x": X[0], "f": X[1, :1]}, {"x": X[0, :1], "f": X[1, :1]}],
    ),
    # Slices of one size at places that the step gives: within the data, and clamped at either end of it.
    "windows": (
        """
        main (int64 m, float[N, 8] x, int64[1] back) => (float[1, 1] y, float[S, 1, 1] each) {
            zero = Constant<value = float[1, 1] {0}>()
            y, each = Loop(m, , zero) <body = b (int64 k, bool c, float[1, 1] v) => (
                bool d, float[1, 1] w, float[1, 1] one
            ) <int64[1] first = {0}, int64[1] two = {2}, int64[1] three = {3}, int64[2] axes = {0, 1},
               int64[2] steps = {2, 1}> {
                d = Identity(c)
                at = Unsqueeze(k, first)
                twice = Mul(two, at)
                start = Sub(twice, back)
                end = Add(start, three)
                starts = Concat<axis = 0>(start, at)
                next = Add(at, two)
                ends = Concat<axis = 0>(end, next)
                some = Slice(x, start, end, first)
                sum = ReduceSum(some, axes)
                few = Slice(x, starts, ends, axes, steps)
                few_sum = ReduceSum(few, axes)
                one = Sum(sum, few_sum)
                w = Add(v, one)
            }>
        }""",
        [
            {"m": number(m), "x": np.arange(8 * n, dtype="float32").reshape(n, 8), "back": np.array([back])}
            for m, n, back in ((9, 30, 0), (9, 16, 0), (20, 40, 5), (3, 4, -99))
        ],
    ),
    # Slices from several arrays, along other axes, backwards; results along another axis, backwards.
    "scan": (
        """
        main (float[3] s, float[3, T] a, float[T, 2, 3] b) => (float[3] e, float[3, T] y, float[T, 2, 3] z) {
            e, y, z = Scan<
                num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [1, 0],
                scan_output_axes = [1, 0], scan_output_directions = [0, 1],
                body = p (float[3] u, float[3] v, float[2, 3] w) => (float[3] n, float[3] o, float[2, 3] q) {
                    n = Add(u, v)
                    o = Mul(n, v)
                    q = Sub(w, n)
                }>(s, a, b)
        }""",
        [{"s": X[0], "a": np.outer(X[1], np.arange(n)).astype("float32"),
          "b": np.arange(6 * n, dtype="float32").reshape(n, 2, 3)} for n in (4, 1)],
    ),
    # Lists that grow in a loop, and what is read of them.
    "lists": (
        """
        main (float[N, 3] x, int64 m) => (float[A, 3] y, int64 n, seq(float[B, C]) s, float[D, E] at) {
            none = SequenceEmpty<dtype = 1>()
            grown = Loop(m, , none) <body = b (int64 k, bool c, seq(float[F, 3]) v) => (bool d, seq(float[F, 3]) w) {
                d = Identity(c)
                real = Cast<to = 1>(k)
                more = Add(x, real)
                w = SequenceInsert(v, more)
            }>
            one = Constant<value = int64 {-1}>()
            s = SequenceErase(grown, one)
            n = SequenceLength(s)
            zero = Constant<value = int64 {0}>()
            at = SequenceAt(s, zero)
            y = ConcatFromSequence<axis = 0>(grown)
        }""",
        [{"x": X, "m": number(3)}, {"x": X[:1], "m": number(2)}],
    ),
    # A function that has a loop, the body of which calls another: names of callers and callees are the same.
    "functions": (
        """
        main (float[N] x, int64 m, float[N] v) => (float[N] y, float[N] z) {
            y = own.power<start = 2.0>(x, m)
            z = own.power<start = 3.0>(y, m)
        }
        <domain: "own", opset_import: ["": 17, "own": 1]>
        power <start: float>(v, x) => (y) {
            first = Constant<value_float: float = @start>()
            shape = Shape(v)
            begin = Expand(first, shape)
            y = Loop(x, , begin) <body = b (int64 m, bool c, float[N] z) => (bool d, float[N] w) {
                d = Identity(c)
                w = own.times(z, v)
            }>
        }
        <domain: "own", opset_import: ["": 17, "own": 1]>
        times (x, m) => (v) {
            rank = Size(x)
            one = Constant<value = int64 {1}>()
            is = Greater(rank, one)
            v = If(is) <then_branch = t () => (float[N] a) { a = Mul(x, m) },
                        else_branch = e () => (float[N] a) { a = Add(x, m) }>
        }""",
        [{"x": X[0], "m": number(3), "v": X[1]}, {"x": X[0, :1], "m": number(2), "v": X[1, :1]}],
    ),
}  # fmt: skip


def flow_model(name: str, opset: int = 17) -> Any:
    """One of them, parsed."""
    text = MODELS[name][0].replace('"": 17', f'"": {opset}')
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "own": 1]>{text}')


ENDLESS = """
main (float[3] x, bool go) => (float[3] y) {
    y = Loop(, go, x) <body = b (int64 k, bool c, float[3] v) => (bool d, float[3] w) { d = Identity(c) w = Neg(v) }>
}"""


def parsed(text: str, opset: int = 17) -> Any:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "own": 1]>{text}')
