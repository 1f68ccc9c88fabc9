"""Parameters of the calibrated model. Written by tools/fit_pto_cost.py; the data stand in lines.py and figures.py."""

from __future__ import annotations

from typing import NamedTuple

NAN = float("nan")


class Parameter(NamedTuple):
    """One fitted cost in cycles: of what, by which kind of term it is reported, and the data it was fitted on."""

    name: str
    cycles: float
    term: str
    fitted_on: str


class Accuracy(NamedTuple):
    """Relative errors of one operation against its data: as fitted, and with whole column counts left out."""

    points: int
    median: float
    worst: float
    left_out_median: float
    left_out_worst: float


PARAMETERS: tuple[Parameter, ...] = (
    Parameter("copy launch", 6.6, "launch", "copies"),
    Parameter("copy block", 0.998438, "copies", "copies"),
    Parameter("row launch", 33.4431, "launch", "row reductions"),
    Parameter("row launch, sum", 9.90856, "launch", "row reductions"),
    Parameter("row launch, half sum", 3.22603, "launch", "row reductions"),
    Parameter("row launch, half max", -1.18058, "launch", "row reductions"),
    Parameter("row lane mask", 12.4361, "masks", "row reductions"),
    Parameter("across repeat", 7.00232, "repeats", "row reductions"),
    Parameter("pass barrier", 13.8516, "barriers", "row reductions"),
    Parameter("pass repeat", 0.992687, "repeats", "row reductions"),
    Parameter("tail barrier", 31.9334, "barriers", "row reductions"),
    Parameter("tail repeat", 2.03848, "repeats", "row reductions"),
    Parameter("tail beyond 64 lanes", 21.5481, "masks", "row reductions"),
    Parameter("long row repeat", 1.18937, "repeats", "row reductions"),
    Parameter("column launch", 27.9109, "launch", "column reductions"),
    Parameter("column launch, half", 3.4468, "launch", "column reductions"),
    Parameter("step", -1.09014, "barriers", "column reductions"),
    Parameter("step repeat", 1.1467, "repeats", "column reductions"),
    Parameter("step block", 0.0805855, "repeats", "column reductions"),
    Parameter("expand launch", 36.223, "launch", "row expansion"),
    Parameter("scalar hand-over", 13.0153, "scalar hand-over", "row expansion"),
    Parameter("dup repeat", 0.998797, "repeats", "row expansion"),
    Parameter("burst", 2.07426, "copies", "loads"),
    Parameter("burst byte", 0.00779708, "copies", "loads"),
    Parameter("launch of TABS f16", 4, "launch", "TABS f16"),
    Parameter("launch of TADD f16", 28, "launch", "TADD f16"),
    Parameter("launch of TADD f32", 32, "launch", "TADD f32"),
    Parameter("launch of TADD i16", 23, "launch", "TADD i16"),
    Parameter("launch of TADDS f32", 24.3415, "launch", "TADDS f32"),
    Parameter("launch of TADDS i16", 10, "launch", "TADDS i16"),
    Parameter("launch of TADDS i32", 8, "launch", "TADDS i32"),
    Parameter("launch of TDIV f32", 32, "launch", "TDIV f32"),
    Parameter("launch of TMAX f32", 23, "launch", "TMAX f32"),
    Parameter("launch of TMAX i16", 23, "launch", "TMAX i16"),
    Parameter("launch of TMAX i32", 23, "launch", "TMAX i32"),
    Parameter("launch of TMIN f32", 23, "launch", "TMIN f32"),
    Parameter("launch of TMINS f16", 23, "launch", "TMINS f16"),
    Parameter("launch of TMINS f32", 23, "launch", "TMINS f32"),
    Parameter("launch of TMINS i16", 6, "launch", "TMINS i16"),
    Parameter("launch of TMUL f32", 40, "launch", "TMUL f32"),
    Parameter("launch of TMUL i16", 24, "launch", "TMUL i16"),
    Parameter("launch of TMUL i32", 24, "launch", "TMUL i32"),
    Parameter("launch of TMULS f32", 10, "launch", "TMULS f32"),
    Parameter("launch of TMULS i16", 10, "launch", "TMULS i16"),
    Parameter("launch of TMULS i32", 8, "launch", "TMULS i32"),
    Parameter("launch of TRSQRT f16", 26, "launch", "TRSQRT f16"),
    Parameter("launch of TSQRT f16", 32, "launch", "TSQRT f16"),
    Parameter("launch of TSQRT f32", 32, "launch", "TSQRT f32"),
    Parameter("launch of TSUB f16", 4, "launch", "TSUB f16"),
    Parameter("launch of TSUB i32", 4, "launch", "TSUB i32"),
    Parameter("launch of TABS", 4, "launch", "mean of its types"),
    Parameter("launch of TADD", 27.6667, "launch", "mean of its types"),
    Parameter("launch of TADDS", 14.1138, "launch", "mean of its types"),
    Parameter("launch of TDIV", 32, "launch", "mean of its types"),
    Parameter("launch of TMAX", 23, "launch", "mean of its types"),
    Parameter("launch of TMIN", 23, "launch", "mean of its types"),
    Parameter("launch of TMINS", 17.3333, "launch", "mean of its types"),
    Parameter("launch of TMUL", 29.3333, "launch", "mean of its types"),
    Parameter("launch of TMULS", 9.33333, "launch", "mean of its types"),
    Parameter("launch of TRSQRT", 26, "launch", "mean of its types"),
    Parameter("launch of TSQRT", 32, "launch", "mean of its types"),
    Parameter("launch of TSUB", 4, "launch", "mean of its types"),
)
"""Every fitted parameter."""

ACCURACY: dict[str, Accuracy] = {
    "TROWSUM": Accuracy(86, 0.0081, 0.0430, 0.0118, 0.0502),
    "TROWMAX": Accuracy(85, 0.0084, 0.0369, 0.0102, 0.0450),
    "TCOLSUM": Accuracy(88, 0.0057, 0.0243, 0.0064, 0.0290),
    "TCOLMAX": Accuracy(34, 0.0053, 0.0339, 0.0064, 0.0408),
    "TROWEXPAND": Accuracy(33, 0.0008, 0.0070, 0.0009, 0.0083),
    "TADD": Accuracy(3, 0.0000, 0.0000, NAN, NAN),
    "TSUB": Accuracy(2, 0.0000, 0.0000, NAN, NAN),
    "TMUL": Accuracy(3, 0.0000, 0.0000, NAN, NAN),
    "TDIV": Accuracy(1, 0.0000, 0.0000, NAN, NAN),
    "TMAX": Accuracy(3, 0.0000, 0.0000, NAN, NAN),
    "TMIN": Accuracy(1, 0.0000, 0.0000, NAN, NAN),
    "TADDS": Accuracy(4, 0.0058, 0.0539, NAN, NAN),
    "TMULS": Accuracy(3, 0.0000, 0.0000, NAN, NAN),
    "TMINS": Accuracy(3, 0.0000, 0.0000, NAN, NAN),
    "TABS": Accuracy(1, 0.0000, 0.0000, NAN, NAN),
    "TSQRT": Accuracy(2, 0.0000, 0.0000, NAN, NAN),
    "TRSQRT": Accuracy(1, 0.0000, 0.0000, NAN, NAN),
    "TLOAD": Accuracy(3, 0.0006, 0.0006, NAN, NAN),
    "TMOV": Accuracy(1, 0.0000, 0.0000, NAN, NAN),
}
"""Errors by operation; operations with single figures only have none left out (not a number)."""
