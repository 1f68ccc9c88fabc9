"""lanefold as an ONNX backend, so that ONNX's own conformance tests can drive it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from lanefold import arguments
from lanefold.diagnostics import Rule
from lanefold.frontends.onnx import Plan, plan_model
from lanefold.frontends.onnx.load import check, check_text
from lanefold.targets import target

_DEVICE = Rule(
    "ONNX-DEVICE", "A device of the ONNX backend is one of its targets.", "ONNX backend interface", usage=True
)

DEVICES: dict[str, str] = {
    "TRN1": "trn1",
    "TRN2": "trn2",
    "TRN3": "trn3",
    "PTO_CPU": "cpu",
    "A2A3": "a2a3",
    "A5": "a5",
}
"""ONNX device names and the targets they stand for."""

_FIXED_INPUTS: dict[str, tuple[int, ...]] = {
    "ReduceSum": (1,),
    "ReduceMean": (1,),
    "ReduceMax": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceSumSquare": (1,),
    "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,),
    "TopK": (1,),
    "Range": (0, 1, 2),
    "Expand": (1,),
}
"""Inputs that decide shapes: a program is compiled for the values they have at the first run."""

Array = np.ndarray[Any, np.dtype[Any]]


class LanefoldRep(BackendRep):
    """A prepared model; it compiles at the first run, when inputs that decide shapes have their values.

    ``plan`` is what the last run used, ``None`` before the first.
    """

    def __init__(self, model: onnx.ModelProto, device: str, readings: Mapping[str, str]) -> None:
        self.model = model
        self.target = target(DEVICES[device], **readings)
        self.plan: Plan | None = None
        self._plans: dict[tuple[Any, ...], Plan] = {}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model on arrays in the order of its inputs, or by name.

        Raises:
            LanefoldError: if the model or an input cannot be used.
        """
        feeds = {
            name: arguments.array("run", f"inputs[{name!r}]", value) for name, value in self._named(inputs).items()
        }
        fixed = {name: feeds[name] for name in self._deciding() if name in feeds}
        shapes = tuple((name, np.shape(value)) for name, value in feeds.items())
        key = (shapes, *((name, np.asarray(value).tobytes()) for name, value in fixed.items()))
        if key not in self._plans:
            extents = {name: shape for name, shape in shapes if name not in fixed}
            self._plans[key] = plan_model(self.model, self.target, shapes=extents, fixed=fixed)
        self.plan = self._plans[key]
        program = self.plan.program
        outputs = program.run({name: value for name, value in feeds.items() if name not in fixed})
        names = [value.name for value in self.model.graph.output]
        return namedtupledict("Outputs", names)(*(outputs[name] for name in names))

    def _named(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            return dict(inputs)
        initialised = {tensor.name for tensor in self.model.graph.initializer}
        names = [value.name for value in self.model.graph.input if value.name not in initialised]
        listed = inputs if isinstance(inputs, list | tuple) else [inputs]
        if len(listed) > len(names):
            most = f"{len(names)} array{'s' * (len(names) != 1)}"
            wanted = f"at most {most}, for {', '.join(names) or 'a model without inputs'}"
            raise arguments.refused("run", "inputs", f"{len(listed)} arrays", wanted, f"give {most}")
        return dict(zip(names, listed, strict=False))

    def _deciding(self) -> list[str]:
        """Graph inputs that decide shapes."""
        return [
            node.input[place]
            for node in self.model.graph.node
            for place in _FIXED_INPUTS.get(node.op_type, ())
            if place < len(node.input) and node.input[place]
        ]


class LanefoldBackend(Backend):
    """The ONNX backend interface; devices are ``TRN1``, ``TRN2``, ``TRN3``, ``PTO_CPU``, ``A2A3`` and ``A5``."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "TRN1", **kwargs: Any) -> LanefoldRep:
        """A model made ready to run on a device; keywords are readings of the target.

        Raises:
            LanefoldError: if there is no such device, or the model is none.
        """
        if not cls.supports_device(device):
            raise _DEVICE.error(
                f"there is no device {arguments.shown(device)}",
                got=arguments.shown(device),
                allowed=", ".join(DEVICES),
                cures=["write TRN1"],
            )
        if not isinstance(model, onnx.ModelProto):
            raise arguments.refused("prepare", "model", model, "an onnx.ModelProto", "give onnx.load('model.onnx')")
        check_text(model, model.graph.name or "model")
        check(model, model.graph.name or "model")
        return LanefoldRep(model, device.upper(), {name: str(value) for name, value in kwargs.items()})

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "TRN1", **kwargs: Any) -> tuple[Any, ...]:
        """Prepares and runs a model at once; see `prepare` and `LanefoldRep.run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "TRN1",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs a single node on arrays in the order of its inputs.

        Raises:
            LanefoldError: if the node or an input cannot be used.
        """
        if not isinstance(node, onnx.NodeProto):
            raise arguments.refused("run_node", "node", node, "an onnx.NodeProto", "give onnx.helper.make_node(…)")
        names = [name for name in node.input if name]
        listed = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        if len(listed) != len(names):
            raise arguments.refused(
                "run_node", "inputs", f"{len(listed)} arrays", f"{len(names)} arrays", f"give {', '.join(names)}"
            )
        arrays = [arguments.array("run_node", f"inputs[{at}]", value) for at, value in enumerate(listed)]
        opsets = [onnx.helper.make_opsetid("", int(kwargs.pop("opset_version", onnx.defs.onnx_opset_version())))]
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [
                onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for name, a in zip(names, arrays, strict=True)
            ],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
        check_text(model, "node")
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        return cls.run_model(inferred, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device name stands for a target."""
        return isinstance(device, str) and device.upper() in DEVICES
