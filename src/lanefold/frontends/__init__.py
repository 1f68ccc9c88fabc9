"""What goes in: ONNX models, NumPy calls."""
