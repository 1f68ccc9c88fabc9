"""Tools for the pooling, reduction and expansion instructions of AI accelerators."""

__version__ = "0.1.0"
