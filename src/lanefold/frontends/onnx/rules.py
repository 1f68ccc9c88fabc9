"""The rules of the ONNX front door."""

from __future__ import annotations

from lanefold.diagnostics import Rule, Severity

FILE = Rule(
    "ONNX-FILE",
    "The model is a readable file that holds one ONNX ModelProto.",
    "ONNX IR specification: serialized models",
    usage=True,
)
CHECK = Rule(
    "ONNX-CHECK",
    "The model passes the structural checks of the onnx package.",
    "ONNX IR specification: models, graphs and nodes",
    usage=True,
)
OPSET = Rule(
    "ONNX-OPSET",
    "The model imports the default operator set in a version the installed onnx package knows.",
    "ONNX versioning: operator sets",
    usage=True,
)
OPERATOR = Rule(
    "ONNX-OPERATOR",
    "Every node of the default domain names an operator of the imported operator set.",
    "ONNX operators: list of operators",
    usage=True,
)
ATTRIBUTE = Rule(
    "ONNX-ATTRIBUTE",
    "A node carries only attributes that its operator has in the imported operator set.",
    "ONNX operators: attributes of each operator",
    usage=True,
)
NODE_NAME = Rule(
    "ONNX-NODE-NAME",
    "No two nodes of a graph have the same name; the ledger needs a name for each.",
    "ONNX IR specification: names within a graph",
    severity=Severity.WARNING,
)
SHAPE = Rule(
    "ONNX-SHAPE",
    "Every extent of every input is known before anything runs.",
    "ONNX IR specification: static tensor shapes",
    usage=True,
)
SHAPE_OPTION = Rule(
    "ONNX-SHAPE-OPTION",
    "A shape given from outside names an input of the model and agrees with the rank and the extents written there.",
    "ONNX IR specification: static tensor shapes",
    usage=True,
)
FIXED = Rule(
    "ONNX-FIXED",
    "A value fixed before compilation names an input of the model and has the input's type and extents.",
    "ONNX IR specification: graph inputs and initializers",
    usage=True,
)
SHAPE_DECLARED = Rule(
    "ONNX-SHAPE-DECLARED",
    "A shape written into the model agrees with the shape that the operator's own rule gives.",
    "ONNX operators: MaxPool and AveragePool, output shape",
    severity=Severity.WARNING,
)
AUTO_PAD = Rule(
    "ONNX-AUTO-PAD",
    "SAME pads follow from the dilated window and are never negative; other pads than these are a runtime's own.",
    "ONNX operators: MaxPool, attribute auto_pad",
    severity=Severity.WARNING,
)
PAD_ZERO_MAX = Rule(
    "ONNX-PAD-ZERO-MAX",
    "A tensor that is padded before a maximum is padded with the identity of the maximum, not with 0.",
    "ONNX operators: MaxPool, attribute pads",
    severity=Severity.WARNING,
)
MASK_ZERO_MAX = Rule(
    "ONNX-MASK-ZERO-MAX",
    "Elements that are hidden before a maximum are set to the identity of the maximum, not to 0.",
    "ONNX operators: Where, ReduceMax, MaxPool and Softmax",
    severity=Severity.WARNING,
)
MASKED_ROW = Rule(
    "ONNX-MASKED-ROW",
    "A row of a softmax keeps at least one number; a row of −inf alone has no maximum to subtract and gives NaN.",
    "ONNX operators: Softmax, definition by exponentials",
    severity=Severity.WARNING,
)
NO_EFFECT = Rule(
    "ONNX-NO-EFFECT",
    "An attribute that changes nothing in its node is reported.",
    "ONNX operators: MaxPool, attribute storage_order",
    severity=Severity.WARNING,
)
STRICT = Rule(
    "ONNX-STRICT",
    "A strict compilation leaves to the host no node that pools, reduces, searches, normalises, repeats or inverts.",
    "lanefold: option strict",
)
TYPE = Rule(
    "ONNX-TYPE",
    "The type of every tensor that passes between the host and the leg is known.",
    "ONNX IR specification: graph value types",
    usage=True,
)
RANDOM = Rule(
    "ONNX-RANDOM-TYPE",
    "Random inputs are made for integers, floats and bool, of at most 2^28 elements.",
    "ONNX IR specification: tensor element types",
    usage=True,
)
