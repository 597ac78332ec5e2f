"""What pictures say of maps, fills, reverses, joins, splits and gathers along an axis, and what they leave out."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.explain import Limits, explain, uses
from anydml.explain.picture import spoken
from anydml.explain.text import as_ascii
from anydml.explain.uses import Work
from anydml.explain.values import write_value
from anydml.ir.expressions import FUNCTIONS
from anydml.operators import OPERATORS
from anydml.operators.fused import FusedActivation
from anydml.operators.schema.fields import dml_name
from tests.explain.test_explain import EVERYTHING

T = dml.TensorDesc
X = T("float32", (3, 4))


def told(desc: dml.OperatorDesc, *inputs: Any) -> tuple[str, ...]:
    picture = explain(desc, *inputs)
    assert picture.error is None
    return (picture.summary, *picture.sentences)


def test_a_gather_along_an_axis_tells_what_each_index_picks() -> None:
    indices = np.array([[3, -1]], "int32")
    desc = dml.Gather.infer(input_tensor=X, indices_tensor=T.of(indices), axis=1, index_dimensions=1)
    assert told(desc, None, indices) == (
        "2 indices along dimension 1 pick 2 columns of 3",
        "indices[0] = 3 picks column input[:,3], which lands in output[:,0]",
        "indices[1] = -1 counts from the end: 3, and picks column input[:,3], which lands in output[:,1]",
    )
    desc = dml.Gather.infer(input_tensor=X, indices_tensor=T("uint32", (1, 1)), axis=0, index_dimensions=0)
    assert told(desc, None, np.array([[7]], "uint32")) == (
        "1 index along dimension 0 picks 1 row of 4",
        "indices = 7 is outside dimension 0 of size 3: nothing is written",
    )
    deep = T("float32", (2, 3, 2))
    desc = dml.Gather.infer(input_tensor=deep, indices_tensor=T("uint32", (1, 1, 2)), axis=1, index_dimensions=1)
    assert told(desc)[:2] == (
        "2 indices along dimension 1 pick 2 blocks of 2,2",
        "indices[0] = 2 picks block input[:,2,:], which lands in output[:,0,:]",
    )


def test_a_gather_of_elements_names_the_axis_in_what_is_wrong() -> None:
    indices = np.array([[2, 0, 0, 0], [0, 3, 0, 0]], "uint32")
    desc = dml.GatherElements.infer(input_tensor=X, indices_tensor=T.of(indices), axis=0)
    picture = explain(desc, None, indices)
    assert picture.sentences[0] == "indices[0,0] = 2 picks element input[2,0] = 9, which lands in output[0,0]"
    assert picture.sentences[5] == "indices[1,1] = 3 is outside dimension 0 of size 3: nothing is written"
    assert "A dispatch raises an IndexRangeError and writes nothing: indices[1, 1] = 3 is outside" in picture.notes[-1]


def test_numbers_that_change_are_told_first() -> None:
    x = np.array([1, 2, 300, -1, np.nan, 1.5], "float32")
    desc = dml.Cast(input_tensor=T.of(x), output_tensor=T("uint8", (6,)))
    assert told(desc, x) == (
        "converts 6 elements from FLOAT32 to UINT8",
        "output[2] = input[2] = 300, outside, the nearest end of the range: 255",
        "output[3] = input[3] = -1, outside, the nearest end of the range: 0",
        "output[4] = input[4] = nan, being no number: 0",
        "output[0] = input[0] = 1",
        "output[1] = input[1] = 2",
        "output[5] = input[5] = 1.5, without its fraction: 1",
    )
    wide = np.array([2**24 + 1, 300], "int32")
    as_float = dml.Cast(input_tensor=T.of(wide), output_tensor=T("float32", (2,)))
    assert told(as_float, wide)[1] == "output[0] = input[0] = 16777217, rounded to FLOAT32: 16777216"
    as_bytes = dml.Cast(input_tensor=T.of(wide), output_tensor=T("uint8", (2,)))
    assert told(as_bytes, wide)[2] == "output[1] = input[1] = 300, wrapped to 8 bits: 44"


def test_a_scale_is_told_with_its_numbers() -> None:
    x = np.array([3, -4], "int32")
    desc = dml.ElementWiseIdentity.infer(input_tensor=T.of(x), scale_bias=(0.5, -1))
    picture = explain(desc, x)
    assert picture.fields == (("ScaleBias", "{0.5,-1}"),)
    assert told(desc, x) == (
        "multiplies 2 elements by 0.5, and adds -1",
        "output[0] = input[0] * 0.5 - 1 = 3 * 0.5 - 1 = 0.5, without its fraction: 0",
        "output[1] = input[1] * 0.5 - 1 = -4 * 0.5 - 1 = -3",
    )
    plain = explain(dml.ElementWiseIdentity.infer(input_tensor=X))
    assert plain.fields == ()
    assert (plain.summary, plain.sentences[1]) == (
        "copies every one of 12 elements to its own place",
        "output[0,1] = input[0,1] = 2",
    )


def test_parts_are_told_whole_and_their_elements_numbered_on() -> None:
    two, one = T("float32", (2, 2)), T("float32", (2, 1))
    joined = dml.Join.infer(input_tensors=[two, one], axis=1)
    assert told(joined) == (
        "puts 2 tensors one after the other along dimension 1: 2 + 1 = 3",
        "inputs[0][:,:] lands in output[:,0:2]",
        "inputs[1][:,:] lands in output[:,2:3]",
    )
    picture = explain(joined)
    assert [cell.value for cell in picture.grids[-1].cells()] == ["1", "2", "5", "3", "4", "6"]
    last = list(picture.grids[-1].cells())[-1]
    assert last.says == "output[1,2] = inputs[1][1, 2 - 2] = inputs[1][1,0] = 6"
    split = dml.Split(input_tensor=T("float32", (2, 3)), output_tensors=[two, one], axis=1)
    assert told(split) == (
        "takes a tensor apart along dimension 1 into 2: 3 = 2 + 1",
        "input[:,0:2] lands in outputs[0][:,:]",
        "input[:,2:3] lands in outputs[1][:,:]",
    )
    assert [grid.tensor for grid in explain(split).grids] == ["InputTensor", "OutputTensors[0]", "OutputTensors[1]"]
    alone = dml.Join.infer(input_tensors=[one], axis=0)
    assert told(alone)[1] == "output[0,0] = inputs[0][0,0] = 1"


def test_a_long_join_shows_its_seams() -> None:
    picture = explain(dml.Join.infer(input_tensors=[T("uint8", (40,)), T("uint8", (50,))], axis=0))
    assert picture.grids[-1].columns == (0, 1, None, 39, 40, 41, None, 89)
    deep = T("uint8", (9, 2, 2))
    picture = explain(dml.Join.infer(input_tensors=[deep, deep], axis=0), limits=Limits(planes=8))
    assert [plane.leading for plane in picture.grids[-1].planes] == [(0,), (8,), (9,), (17,)]


def test_a_fill_has_an_output_alone() -> None:
    desc = dml.FillValueSequence(
        output_tensor=T("uint8", (2, 2)), value_data_type="uint8", value_start=3, value_delta=-2
    )
    assert told(desc) == (
        "counts 4 elements in their order, from 3 on, in steps of -2",
        "output[0,0] = 3 - 0*2 = 3",
        "output[0,1] = 3 - 1*2 = 1",
        "output[1,0] = 3 - 2*2 = 255, wrapped to 8 bits",
        "output[1,1] = 3 - 3*2 = 253, wrapped to 8 bits",
    )
    picture = explain(desc)
    assert [grid.role for grid in picture.grids] == ["output"]
    assert "→" not in picture.text()
    assert 'class="arrow"' not in picture.html()
    assert '<path class="a"' not in picture.svg()
    constant = dml.FillValueConstant(output_tensor=X, value_data_type="float32", value=-0.5)
    assert told(constant) == ("writes -0.5 into 12 elements", "every element is -0.5")
    with pytest.raises(dml.BindingError, match=r"its inputs: none; got 1 arrays"):
        explain(constant, np.zeros(3))


def test_lines_are_told_by_their_lengths() -> None:
    lengths = np.array([[0], [3], [9]], "uint32")
    desc = dml.ReverseSubsequences.infer(input_tensor=X, sequence_lengths_tensor=T.of(lengths), axis=1)
    assert told(desc, None, lengths) == (
        "turns round the beginning of 3 lines along dimension 1",
        "sequence_lengths[0,0] = 0: input[0,:] lands in output[0,:] as it is",
        "sequence_lengths[1,0] = 3: input[1,0:3] lands in output[1,0:3] backwards, and input[1,3:] as it is",
        "sequence_lengths[2,0] = 9, more than the 4 there are: input[2,:] lands in output[2,:] backwards",
    )
    made_up = explain(desc)
    assert [cell.value for cell in made_up.grids[1].cells()] == ["3", "2", "1"]
    assert made_up.notes[-1] == "No lengths were given: these grow shorter from line to line."


def test_made_up_lengths_are_the_same_where_lines_share_them() -> None:
    shared = T("uint32", (3, 1), strides=(0, 1))
    picture = explain(dml.ReverseSubsequences.infer(input_tensor=X, sequence_lengths_tensor=shared, axis=1))
    assert {cell.value for cell in picture.grids[1].cells()} == {"3"}


# What is left out, and what is wrong


def enormous() -> list[dml.OperatorDesc]:
    most = 2**32 - 1
    line, wide, row = T("float16", (most,)), T("uint8", (2**16 - 1, 2**16)), T("uint8", (2**14, 2**14))
    return [
        dml.Gather.infer(input_tensor=wide, indices_tensor=T("uint32", (1, 2**15)), axis=1, index_dimensions=1),
        dml.GatherElements.infer(input_tensor=wide, indices_tensor=T("int64", (2**15, 2**16)), axis=0),
        dml.ElementWiseIdentity.infer(input_tensor=line, scale_bias=(2, 1)),
        dml.Cast(input_tensor=line, output_tensor=T("uint8", (most,))),
        dml.Join.infer(input_tensors=[row] * 15, axis=0),
        dml.Split(input_tensor=T("uint8", (15 * 2**14, 2**14)), output_tensors=[row] * 15, axis=0),
        dml.FillValueConstant(output_tensor=line, value_data_type="float16", value=1e9),
        dml.FillValueSequence(output_tensor=line, value_data_type="float16", value_start=1, value_delta=2),
        dml.ReverseSubsequences.infer(input_tensor=wide, sequence_lengths_tensor=T("uint32", (2**16 - 1, 1)), axis=1),
    ]


@pytest.mark.parametrize("desc", enormous(), ids=lambda desc: desc.type.name)
def test_an_enormous_tensor_has_a_small_picture(desc: dml.OperatorDesc) -> None:
    picture, limits = explain(desc), Limits()
    for drawing in (picture.text(), picture.svg(), picture.html()):
        assert len(drawing) < 150_000
        assert "left out" in drawing
    assert len(picture.grids) <= limits.tensors + 1
    for grid in picture.grids:
        assert len(grid.planes) <= limits.planes
        assert sum(row is not None for row in grid.rows) <= limits.rows
        assert sum(column is not None for column in grid.columns) <= limits.columns


def test_of_many_tensors_those_are_drawn_that_the_rest_of_the_picture_speaks_of() -> None:
    picture = explain(dml.Join.infer(input_tensors=[T("uint8", (3,))] * 40, axis=0))
    shown = [grid.tensor for grid in picture.grids]
    assert shown == ["InputTensors[0]", "InputTensors[1]", "InputTensors[2]", "InputTensors[39]", "OutputTensor"]
    assert "InputTensors: 36 of 40 tensors left out." in picture.notes
    assert picture.summary.endswith("3 + 3 + 3 + 3 + 3 + … = 120")
    assert picture.sentences[-1] == "… and 34 more tensors"
    split = dml.Split(input_tensor=T("uint8", (120,)), output_tensors=[T("uint8", (3,))] * 40, axis=0)
    outputs = [grid.tensor for grid in explain(split).grids[1:]]
    assert outputs == ["OutputTensors[0]", "OutputTensors[1]", "OutputTensors[2]", "OutputTensors[39]"]
    assert len(explain(split, limits=EVERYTHING).grids) == 5
    indices = T("uint32", (3, 4))
    gather = dml.GatherElements.infer(input_tensor=X, indices_tensor=indices, axis=0)
    assert len(explain(gather, limits=Limits(tensors=1)).grids) == 3  # each has a field of its own
    with pytest.raises(dml.DescriptionError, match="Limits: tensors must be at least 1"):
        Limits(tensors=0)


FAULTY = [
    (dml.Join(input_tensors=[X, T("float32", (3, 5, 1))], output_tensor=X, axis=0), "InputTensors[1].DimensionCount"),
    (dml.Split(input_tensor=X, output_tensors=[X, X], axis=0), "must add up to InputTensor.Sizes[0], 3"),
    (dml.Cast(input_tensor=X, output_tensor=T("int8", (3,))), "OutputTensor.DimensionCount must be"),
    (
        dml.FillValueConstant(output_tensor=X, value_data_type="int8", value=300),
        "Value must lie in -128 .. 127 for INT8",
    ),
    (
        dml.ReverseSubsequences(input_tensor=X, sequence_lengths_tensor=X, output_tensor=X, axis=1),
        "SequenceLengthsTensor.Sizes must be (3, 1)",
    ),
]


@pytest.mark.parametrize(("desc", "message"), FAULTY, ids=lambda one: one.type.name if not isinstance(one, str) else "")
def test_a_description_at_fault_is_shown_by_its_faults(desc: dml.OperatorDesc, message: str) -> None:
    picture = explain(desc)
    assert picture.grids == ()
    for drawing in (picture.text(), picture.svg(), picture.html(), desc._repr_html_()):
        assert message in drawing


def test_grids_that_do_not_fit_in_one_row_fill_several() -> None:
    picture = explain(dml.Join.infer(input_tensors=[T("float32", (1, 2))] * 4, axis=1))
    captions = [line.split() for line in picture.text().splitlines() if "Tensor" in line and "{" in line]
    assert [[word for word in line if "Tensor" in word] for line in captions] == [
        ["InputTensors[0]", "InputTensors[1]"],
        ["InputTensors[2]", "InputTensors[3]"],
        ["OutputTensor"],
    ]
    assert max(map(len, picture.text().splitlines())) <= 100


def test_formulas_past_reading_give_way_to_what_the_operator_says_of_itself() -> None:
    indices = T("uint32", (3, 4))
    summary, *sentences = told(dml.Scatter.infer(input_tensor=X, indices_tensor=indices, updates_tensor=X, axis=0))
    assert summary.startswith("computes 12 elements: a copy of the input with updates along an axis: Output[")
    assert sentences[0] == "output[0,0] = input[0,0] = -3"
    for cls in OPERATORS.values():
        assert as_ascii((cls.__doc__ or "").partition("\n")[0]).isascii(), cls  # for a terminal of ASCII alone


def test_made_up_variances_are_positive() -> None:
    tensors = dict.fromkeys([f"{name}_tensor" for name in ("input", "mean", "variance", "scale", "bias")], X)
    assert "nan" not in " ".join(told(dml.BatchNormalization.infer(**tensors, epsilon=0.0)))


def test_sums_are_written_out() -> None:
    assert explain(dml.Convolution).sentences[0].endswith("= 1·1 + 2·0 + 5·(-2) + 6·3 = 9")
    assert explain(dml.AveragePooling).sentences[0].endswith("/ 4 = (1 + 2 + 4 + 5) / 4 = 12 / 4 = 3")
    assert explain(dml.MaxPooling1).sentences[2:4] == (
        "output[0,0,0,1] = max(input[0,0,0:2,1:3]) = max(7, 3, 5, 7) = 7",
        "output_indices[0,0,0,1] = first(1, 5) = 1",  # of the places of the largest
    )
    assert explain(dml.Argmax).sentences[0] == "output[0,0] = argmax(input[0,:]) = argmax(3, 9, 4, 9) = 1"
    long = T("float32", (17,))
    assert told(dml.Reduce.infer(input_tensor=long, function="SUM", axes=(0,)))[1] == "output[0] = sum(input[:]) = 0"
    assert as_ascii("1·2 + 5·(-2)") == "1*2 + 5*(-2)"


def test_what_an_element_is_used_for_is_said_by_its_kind() -> None:
    cells = {str(cell.element): cell.says for grid in explain(dml.TopK).grids for cell in grid.cells()}
    assert cells["input[1]"] == (
        "input[1] = 9 goes into output_value[0]; decides output_value[1], output_index[1];"
        " is compared for output_index[0]"
    )
    assert cells["input[0]"].startswith("input[0] = 3 is compared for output_value[0], output_index[0]")
    cells = {str(cell.element): cell.says for grid in explain(dml.Scatter).grids for cell in grid.cells()}
    assert cells["updates[0,0]"] == "updates[0,0] = 10 is not used"  # written over by the next tuple
    assert cells["indices[1,0]"].startswith("indices[1,0] = 2 decides output[2,0]; is compared for output[0,0]")
    assert cells["input[2,0]"] == "input[2,0] = 7 is not used"


def test_what_indices_place_has_their_numbers() -> None:
    grids = {grid.tensor: grid for grid in explain(dml.Scatter).grids}
    badges = {name: [cell.badge for cell in grid.cells()] for name, grid in grids.items()}
    assert badges["UpdatesTensor"] == ["", "2", "", "4", "5", "6"]
    assert badges["OutputTensor"] == ["", "2", "", "", "5", "6", "4", "", ""]
    assert explain(dml.Scatter).legend == (("marked", "placed by indices, with the number of the index"),)


FUNCTION_NAMES = {*FUNCTIONS, "is_nan", "bit_count", "round_half_away", "first", "last"}


@pytest.mark.parametrize("cls", OPERATORS.values(), ids=lambda cls: cls.type.name)
def test_every_operator_has_a_mark_and_no_word_that_its_reader_cannot_look_up(cls: type[dml.OperatorDesc]) -> None:
    picture = explain(cls)
    cells = [cell for grid in picture.grids for cell in grid.cells()]
    assert any(cell.hue for grid in picture.grids if grid.role == "output" for cell in grid.cells())
    assert any(kind == "marked" for kind, _ in picture.legend)
    told = {element for cell in cells for element in (*cell.sources, *cell.chosen_by)}
    assert not told or any(cell.hue for cell in cells if cell.element in told), "nothing of the inputs is marked"
    fields = {spoken(dml_name(name)) for name in (*cls.input_names(), *cls.output_names())}
    known = {*fields, *FUNCTION_NAMES, *re.findall(r"\w+", cls.own_words()), "index", "scores", "weights"}
    for text in (picture.summary, *picture.sentences, *picture.notes, *(cell.says for cell in cells)):
        words = re.findall(r"[A-Za-z]\w*(?=[\[(])|\b[a-z]\w*_\w*", text)
        assert all(word in known or hasattr(np, word) for word in words), (text, set(words) - known)
        assert "…" not in text.partition(" = ")[2] or text == picture.summary, text


def first_line(name: str, start: str) -> str:
    return next(text for text in explain(name).sentences if text.startswith(f"{start} = "))


def test_what_several_steps_compute_is_told_from_the_inputs_on() -> None:
    assert first_line("lstm", "output_sequence[0,0,0,0]").startswith(
        "output_sequence[0,0,0,0] = sigmoid(input[0,0,0,0] * weight[0,0,1,0]) * tanh(sigmoid(input[0,0,0,0] * "
        "weight[0,0,0,0]) * tanh(input[0,0,0,0] * weight[0,0,3,0])) = sigmoid(1 * 1) * tanh(sigmoid(1 * 2) * "
        "tanh(1 * -1)) = "
    )
    # What is copied into an output has that one's name.
    assert first_line("rnn", "output_sequence[1,0,0,0]").startswith(
        "output_sequence[1,0,0,0] = max(output_sequence[0,0,0,0] * recurrence[0,0,0,0] + "
        "input[0,1,0,0] * weight[0,0,0,0], 0) = max(1 * 0.5 + 2 * 1, 0) = "
    )
    assert first_line("mean_variance_normalization", "output[0,0,0,0]").startswith(
        "output[0,0,0,0] = (input[0,0,0,0] - sum(input[0,0,:,:]) / 4) * (1 / sqrt(max(sum((input[0,0,:,:] - "
        "sum(input[0,0,:,:]) / 4) ** 2) / 4, 0) + 1e-05)) = "
    )


def test_a_weighted_sum_is_told_with_its_weights() -> None:
    assert first_line("roi_align", "output[0,0,0,1]") == (
        "output[0,0,0,1] = input[1,0,1,2] * 0.25 + input[1,0,1,1] * 0.25 + input[1,0,0,2] * 0.25 + "
        "input[1,0,0,1] * 0.25 = 2.5·0.25 + 2·0.25 + 1·0.25 + 0.5·0.25 = 1.5"
    )
    assert first_line("average_pooling_grad", "output_gradient[0,0,0,1]") == (
        "output_gradient[0,0,0,1] = input_gradient[0,0,0,0] / 4 + input_gradient[0,0,0,1] / 4 = 4 / 4 + 8 / 4 = 3"
    )


def test_a_choice_is_told_with_its_numbers() -> None:
    assert explain("one_hot").summary.endswith("output = values[0,1] if indices == index[1] else values[0,0]")
    assert first_line("one_hot", "output[0,1]") == (
        "output[0,1] = (values[0,1] if indices[0,0] == 1 else values[0,0]) = (5 if 1 == 1 else 0) = 5"
    )


def test_coordinates_that_are_not_0_are_told_by_their_elements() -> None:
    picture = explain("nonzero_coordinates")
    assert picture.sentences[:2] == (
        "output_count[0,0] = 3: not 0 are input[0,1], input[1,0], input[1,2]",
        "output_coordinates[0,0] = 0, the place along dimension 0 of input[0,1] = 7",
    )
    assert [cell.badge for cell in picture.grids[0].cells()] == ["", "1", "", "2", "", "3"]


def test_random_bits_are_told_by_their_block() -> None:
    state = np.array([2**32 - 1, 5, 0, 0, 7, 8], "uint32")
    desc = dml.RandomGenerator(
        input_state_tensor=T.of(state), output_tensor=T("uint32", (6,)), output_state_tensor=T("uint32", (6,)),
        type_="philox_4x32_10",
    )  # fmt: skip
    found = {str(cell.element): cell.says for grid in explain(desc, state).grids for cell in grid.cells()}
    assert found["output[1]"].startswith(
        "output[1] = word 1 of Philox 4x32-10 of the counter {4294967295,5,0,0} and the key {7,8} = "
    )
    assert found["output[5]"].startswith(
        "output[5] = word 1 of Philox 4x32-10 of the counter {0,6,0,0} (input_state's + 1) and the key {7,8} = "
    )
    assert found["output_state[4]"] == "output_state[4] = 7, the key, as it was"


@pytest.mark.parametrize("direction", ["forward", "backward", "bidirectional"])
def test_a_long_recurrence_is_cut_before_it_is_computed(direction: str) -> None:
    ways = 2 if direction == "bidirectional" else 1
    x, w, r = T("float32", (1, 90, 1, 1)), T("float32", (1, ways, 1, 1)), T("float32", (1, ways, 1, 1))
    desc = dml.Rnn(
        input_tensor=x, weight_tensor=w, recurrence_tensor=r, output_sequence_tensor=T("float32", (90, ways, 1, 1)),
        output_single_tensor=T("float32", (1, ways, 1, 1)), direction=direction,
        activation_descs=[FusedActivation("ACTIVATION_TANH")] * ways,
    )  # fmt: skip
    arrays = [np.linspace(-1, 1, math.prod(one.sizes), dtype="float32").reshape(one.sizes) for one in (x, w, r)]
    computed = 0

    def count(*args: Any) -> Any:
        nonlocal computed
        computed += 1
        return result(*args)

    result = Work.nodes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uses, "MOST_COMPUTED", 40)
        patch.setattr(Work, "nodes", count)
        picture = explain(desc, *arrays)
    assert computed < 1500  # 90 steps of 3 rows each, read again and again, were 7000
    expected = dict(zip(desc.outputs(), dml.Device("reference").compile(desc)(*arrays), strict=True))
    for grid in picture.grids[3:]:
        for cell in grid.cells():
            assert cell.value == write_value(expected[grid.tensor][cell.element.coordinate])
