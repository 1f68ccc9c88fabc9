"""Models and inputs that cannot be: one finding each, with place, value, rule and cure."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from fake_target import FakeTarget, one_node_model
from onnx import helper

from lanefold.diagnostics import RULES, Diagnostic, LanefoldError
from lanefold.frontends.onnx import compile_model, plan_model, random_inputs, read_model


def findings(model: object, **options: object) -> tuple[Diagnostic, ...]:
    with pytest.raises(LanefoldError) as caught:
        compile_model(model, FakeTarget(), **options)  # type: ignore[arg-type]
    for finding in caught.value.diagnostics:
        assert finding.cures
        assert "Traceback" not in finding.message
    assert caught.value.usage == finding.code.startswith("ONNX-")
    return caught.value.diagnostics


def test_missing_file_and_folder(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path / "none.onnx")
    assert (finding.code, finding.place.file) == ("ONNX-FILE", str(tmp_path / "none.onnx"))
    assert "does not exist" in finding.message
    (finding,) = findings(tmp_path)
    assert "is a folder" in finding.message


@pytest.mark.parametrize(
    "content", [b"", b"hello, this is no model", bytes(range(256)), b"\x0a\x05abc", b"\x08\x07" * 9]
)
def test_files_that_are_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    (finding,) = findings(path)
    assert finding.code == "ONNX-FILE"
    assert f"({len(content)} bytes) is not an ONNX model" in finding.message


def test_truncated_files(light_models: dict[str, Path], tmp_path: Path) -> None:
    whole = light_models["light_squeezenet"].read_bytes()
    path = tmp_path / "cut.onnx"
    for length in range(0, len(whole), 997):
        path.write_bytes(whole[:length])
        assert findings(path)[0].code in ("ONNX-FILE", "ONNX-CHECK", "ONNX-OPSET")


def test_an_attribute_that_does_not_exist() -> None:
    model = one_node_model("MaxPool", (1, 1, 4), kernel_shape=[2], kernel_size=[2], colour="red")
    first, second = findings(model)
    assert (first.code, first.got, first.place.node, first.place.field) == (
        "ONNX-ATTRIBUTE",
        "'colour'",
        "n",
        "colour",
    )
    assert second.got == "'kernel_size'"
    assert "kernel_shape" in first.allowed
    cured = one_node_model("MaxPool", (1, 1, 4), kernel_shape=[2])
    compile_model(cured, FakeTarget())


def test_an_operator_that_does_not_exist() -> None:
    (finding,) = findings(one_node_model("ReduceMiddle", (2, 3)))
    assert finding.code == "ONNX-OPERATOR"
    (finding,) = findings(one_node_model("GroupNormalization", (1, 2, 3), opset=11))
    assert "came with operator set" in finding.message


def test_operator_sets() -> None:
    model = one_node_model("MaxPool", (1, 1, 4), kernel_shape=[2])
    model.opset_import[0].version = 999
    assert findings(model)[0].code == "ONNX-OPSET"
    del model.opset_import[:]
    assert findings(model)[0].code == "ONNX-OPSET"


def test_a_missing_required_attribute_and_a_wrong_type() -> None:
    assert findings(one_node_model("MaxPool", (1, 1, 4)))[0].code == "ONNX-CHECK"
    assert findings(one_node_model("MaxPool", (1, 1, 4), kernel_shape=2))[0].code == "ONNX-CHECK"


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"kernel_shape": [2, 2]}, "OP-POOL-ATTRIBUTE"),
        ({"kernel_shape": [2], "strides": [0]}, "OP-POOL-ATTRIBUTE"),
        ({"kernel_shape": [2], "strides": [1, 1]}, "OP-POOL-ATTRIBUTE"),
        ({"kernel_shape": [0]}, "OP-POOL-ATTRIBUTE"),
        ({"kernel_shape": [2], "pads": [-1, 0]}, "OP-POOL-ATTRIBUTE"),
        ({"kernel_shape": [2], "pads": [1]}, "OP-POOL-ATTRIBUTE"),
        ({"kernel_shape": [2], "auto_pad": "SAME"}, "OP-POOL-AUTO-PAD"),
        ({"kernel_shape": [5]}, "OP-POOL-WINDOW-WIDE"),
        ({"kernel_shape": [2], "pads": [2, 0]}, "OP-POOL-WINDOW-EMPTY"),
    ],
)
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_window_attributes(attributes: dict[str, object], code: str, ceil_mode: int) -> None:
    size = (1, 1, 4)
    if code.endswith("WIDE"):
        attributes = attributes | {"kernel_shape": [9]}
    (finding,) = findings(one_node_model("MaxPool", size, ceil_mode=ceil_mode, **attributes))
    assert finding.code == code
    assert finding.place.node == "n"


@pytest.mark.parametrize("lacks", ["shape", "type"])
def test_outputs_without_shape_or_type_are_inferred(lacks: str) -> None:
    model = one_node_model("MaxPool", (1, 1, 8), kernel_shape=[3])
    output = model.graph.output[0]
    if lacks == "type":
        output.ClearField("type")
    else:
        output.type.tensor_type.ClearField("shape")
    (made,) = compile_model(model, FakeTarget()).outputs
    assert (made.dtype, made.shape) == ("float32", (1, 1, 6))


def test_weights_of_their_own_are_named_where_they_are_missing(tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="n")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])],
        [onnx.numpy_helper.from_array(np.ones(2, np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert compile_model(path, FakeTarget()).outputs[0].shape == (2,)
    (tmp_path / "weights.bin").unlink()
    (finding,) = findings(path)
    assert finding.code == "ONNX-FILE"
    assert "keeps tensors in weights.bin" in finding.message
    assert finding.cures[0].text == "put weights.bin beside m.onnx"


@pytest.mark.parametrize("exponent", [20, 31, 40, 62])
def test_what_is_too_large_is_refused_at_once(exponent: int) -> None:
    large = one_node_model("ReduceMax", (2**exponent, 2**exponent), opset=13, axes=[1])
    (finding,) = findings(large)
    assert finding.code == "OP-SIZE"
    assert f"{2 ** (2 * exponent)} elements" in finding.message
    with pytest.raises(LanefoldError, match=r"--input X\.npz"):
        random_inputs(one_node_model("Relu", (2**exponent, 2**exponent)))
    pads = [2**exponent] * 4
    pooled = one_node_model("AveragePool", (1, 1, 4, 4), kernel_shape=[2, 2], pads=pads, count_include_pad=1)
    (finding,) = findings(pooled)
    assert finding.code in ("OP-SIZE", "OP-POOL-ATTRIBUTE")
    assert finding.cures[0].text == "use pads [0, 0, 0, 0]"


def test_a_name_that_stands_twice_is_told() -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], name="pool", kernel_shape=[2]),
        helper.make_node("MaxPool", ["p"], ["y"], name="pool", kernel_shape=[2]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 1, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 1, 6])],
    )
    plan = plan_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), FakeTarget())
    (finding,) = plan.findings
    assert finding.code == "ONNX-NODE-NAME"
    assert finding.message == "node 1 (MaxPool) has the name 'pool' of an earlier node; it is called MaxPool_1 here"
    assert [row.node for row in plan.program.ledger] == ["pool", "MaxPool_1"]


def test_open_extents_and_their_cure() -> None:
    model = one_node_model("MaxPool", ("batch", 3, None), kernel_shape=[2])  # type: ignore[arg-type]
    (finding,) = findings(model)
    assert (finding.code, finding.got, finding.place.operand) == ("ONNX-SHAPE", "batch×3×?", "x")
    assert finding.cures[0].text == "give the extents you mean, for example --shape x=1,3,224 on the command line"
    assert finding.cures[1].text == "in Python, for example compile(model, shapes={'x': (1, 3, 224)})"
    assert compile_model(model, FakeTarget(), shapes={"x": (1, 3, 224)}).outputs[0].shape == (1, 3, 223)
    program = compile_model(model, FakeTarget(), shapes={"x": [2, 3, 8]})
    assert program.inputs[0].shape == (2, 3, 8)
    assert program.outputs[0].shape == (2, 3, 7)


def test_example_extents_are_legal() -> None:
    """A Gemm behind a Flatten leaves one height and width; dims of one name get one extent."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w"], ["y"]),
        helper.make_node("Add", ["t", "u"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3, "height", "width"]),
            helper.make_tensor_value_info("t", onnx.TensorProto.FLOAT, ["N", "sequence", 7]),
            helper.make_tensor_value_info("u", onnx.TensorProto.FLOAT, ["sequence", 7]),
        ],
        [
            helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None),
            helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None),
        ],
        [helper.make_tensor("w", onnx.TensorProto.FLOAT, [3 * 16 * 16, 2], np.zeros(3 * 16 * 16 * 2))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    found = findings(model)
    assert [finding.got for finding in found] == ["N×3×height×width", "N×sequence×7", "sequence×7"]
    shapes = {"x": (1, 3, 32, 32), "t": (1, 128, 7), "u": (128, 7)}
    assert found[0].cures[1].text == f"in Python, for example compile(model, shapes={shapes})"
    assert compile_model(model, FakeTarget(), shapes=shapes).outputs[0].shape == (1, 2)


@pytest.mark.parametrize("shapes", [{"z": [1]}, {"x": [1, 3]}, {"x": [1, 4, 2]}, {"x": [1, 3, -1]}])
def test_shapes_that_cannot_be_given(shapes: dict[str, list[int]]) -> None:
    model = one_node_model("MaxPool", ("batch", 3, None), kernel_shape=[2])  # type: ignore[arg-type]
    (finding,) = findings(model, shapes=shapes)
    assert finding.code == "ONNX-SHAPE-OPTION"
    line = finding.cures[0].text
    assert line.startswith("write --shape x=1,3,")
    typed = line.partition("--shape x=")[2].partition(", in Python")[0]
    (in_python,) = re.findall(r"shapes=(.*)$", line)
    assert ast.literal_eval(in_python) == {"x": tuple(map(int, typed.split(",")))}
    read_model(model, shapes=ast.literal_eval(in_python))


def test_the_shape_of_a_settled_input_is_left_out() -> None:
    model = one_node_model("MaxPool", (1, 3, 8), kernel_shape=[2])
    (finding,) = findings(model, shapes={"x": [1, 3, 9]})
    assert finding.allowed == "x=1,3,8, which the model states itself"
    assert finding.cures[0].text == "leave the shape out: x has the extents 1,3,8"
    assert compile_model(model, FakeTarget(), shapes={"x": [1, 3, 8]})


def test_findings_of_all_nodes_come_together() -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], name="first", kernel_shape=[9]),
        helper.make_node("MaxPool", ["x"], ["b"], name="second", kernel_shape=[2], pads=[3, 3]),
    ]
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info("x", 1, [1, 1, 4])],
        [helper.make_tensor_value_info(name, 1, [None] * 3) for name in "ab"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    assert [finding.place.node for finding in findings(model)] == ["first", "second"]


def test_storage_order_without_indices_is_reported() -> None:
    from lanefold.frontends.onnx import plan_model

    model = one_node_model("MaxPool", (1, 1, 4), kernel_shape=[2], storage_order=1)
    (finding,) = plan_model(model, FakeTarget()).findings
    assert finding.code == "ONNX-NO-EFFECT"


def test_feeds_are_all_listed() -> None:
    nodes = [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Add", ["c", "d"], ["y"])]
    values = [helper.make_tensor_value_info(name, 1, [2, 2]) for name in "abdy"]
    model = helper.make_model(
        helper.make_graph(nodes, "g", values[:3], values[3:]), opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )
    program = compile_model(model, FakeTarget())
    with pytest.raises(LanefoldError) as caught:
        program.run(
            {"a": np.zeros((2, 3), np.float64), "B": np.zeros((2, 2), np.float32), "d": np.zeros((2, 2), np.float32)}
        )
    operands = sorted(finding.place.operand for finding in caught.value.diagnostics)
    assert operands == ["B", "a", "a", "b"]


def test_random_inputs_fit_and_repeat(light_models: dict[str, Path]) -> None:
    model = read_model(light_models["light_squeezenet"])
    first, second, other = (random_inputs(model, seed) for seed in (1, 1, 2))
    (name,) = first
    assert first[name].shape == model.inputs[0].shape
    assert first[name].dtype == np.float32
    assert np.array_equal(first[name], second[name])
    assert not np.array_equal(first[name], other[name])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint8", "int64", "bool", "float64"])
def test_random_inputs_of_other_types(dtype: str) -> None:
    element = {"bfloat16": onnx.TensorProto.BFLOAT16}.get(dtype) or helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    value = helper.make_tensor_value_info("x", element, [3, 4])
    result = helper.make_tensor_value_info("y", element, [3, 4])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    assert random_inputs(model)["x"].dtype.name == dtype


def test_text_inputs_have_no_random_values() -> None:
    value = helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [3])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.STRING, [3])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with pytest.raises(LanefoldError, match="ONNX-RANDOM-TYPE"):
        random_inputs(model)


def test_damaged_files_raise_nothing_but_findings(light_models: dict[str, Path], tmp_path: Path) -> None:
    whole = [
        light_models["light_squeezenet"].read_bytes(),
        one_node_model(
            "AveragePool", (1, 2, 6, 7), kernel_shape=[2, 3], strides=[2, 1], ceil_mode=1
        ).SerializeToString(),
        one_node_model("LpPool", (1, 2, 6, 7), kernel_shape=[2, 3], auto_pad="SAME_UPPER").SerializeToString(),
        one_node_model("ReduceLogSumExp", (2, 3), opset=13, axes=[1], keepdims=0, out_rank=1).SerializeToString(),
    ]
    rng = np.random.default_rng(0)
    path = tmp_path / "damaged.onnx"
    refused = 0
    for _ in range(400):
        content = bytearray(whole[rng.integers(len(whole))])
        for place in rng.integers(0, len(content), rng.integers(1, 4)):
            content[place] = rng.integers(256)
        path.write_bytes(content)
        try:
            compile_model(path, FakeTarget())
        except LanefoldError:
            refused += 1
    assert 200 < refused < 400


def test_inputs_that_are_no_tensors() -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2]))
    graph = helper.make_graph(
        [helper.make_node("SequenceAt", ["s", "i"], ["y"])],
        "g",
        [helper.make_value_info("s", kind)],
        [helper.make_tensor_value_info("y", 1, [2])],
        [helper.make_tensor("i", 7, [], [0])],
    )
    (finding,) = findings(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    assert (finding.code, finding.got, finding.place.operand) == ("ONNX-TYPE", "sequence_type", "s")


def test_types_that_contradict_each_other() -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [2])],
        [helper.make_tensor_value_info("y", 7, [2])],
        [helper.make_tensor("w", 1, [2], [1.0, 2.0])],
    )
    (finding,) = findings(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    assert finding.code == "ONNX-CHECK"


def test_every_rule_of_the_front_door_is_tested() -> None:
    folder = Path(__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("test_*.py"))
    assert [code for code in RULES if code.startswith("ONNX-") and f"{code}" not in text] == []
