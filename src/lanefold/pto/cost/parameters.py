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
    Parameter("launch with scalar, one instruction", 23.7989, "launch", "operations with a scalar"),
    Parameter("launch with scalar, several", 9.1364, "launch", "operations with a scalar"),
    Parameter("launch of TABS float", 4, "launch", "TABS float"),
    Parameter("launch of TADD float", 28.9939, "launch", "TADD float"),
    Parameter("launch of TADD integer", 23, "launch", "TADD integer"),
    Parameter("launch of TDIV float", 32, "launch", "TDIV float"),
    Parameter("launch of TMAX float", 23, "launch", "TMAX float"),
    Parameter("launch of TMAX integer", 23, "launch", "TMAX integer"),
    Parameter("launch of TMIN float", 23, "launch", "TMIN float"),
    Parameter("launch of TMUL float", 40, "launch", "TMUL float"),
    Parameter("launch of TMUL integer", 24, "launch", "TMUL integer"),
    Parameter("launch of TRSQRT float", 26, "launch", "TRSQRT float"),
    Parameter("launch of TSQRT float", 32, "launch", "TSQRT float"),
    Parameter("launch of TSUB float", 4, "launch", "TSUB float"),
    Parameter("launch of TSUB integer", 4, "launch", "TSUB integer"),
)
"""Every fitted parameter."""

ACCURACY: dict[str, Accuracy] = {
    "TROWSUM": Accuracy(86, 0.0081, 0.0430, 0.0118, 0.0502),
    "TROWMAX": Accuracy(85, 0.0084, 0.0369, 0.0102, 0.0450),
    "TCOLSUM": Accuracy(88, 0.0057, 0.0243, 0.0064, 0.0290),
    "TCOLMAX": Accuracy(34, 0.0053, 0.0339, 0.0064, 0.0408),
    "TROWEXPAND": Accuracy(33, 0.0008, 0.0070, 0.0009, 0.0083),
    "TADD": Accuracy(3, 0.0108, 0.0188, NAN, NAN),
    "TSUB": Accuracy(2, 0.0000, 0.0000, NAN, NAN),
    "TMUL": Accuracy(3, 0.0000, 0.0000, NAN, NAN),
    "TDIV": Accuracy(1, 0.0000, 0.0000, NAN, NAN),
    "TMAX": Accuracy(3, 0.0000, 0.0000, NAN, NAN),
    "TMIN": Accuracy(1, 0.0000, 0.0000, NAN, NAN),
    "TADDS": Accuracy(4, 0.0187, 0.0216, NAN, NAN),
    "TMULS": Accuracy(3, 0.0162, 0.0216, NAN, NAN),
    "TMINS": Accuracy(3, 0.0145, 0.0448, NAN, NAN),
    "TABS": Accuracy(1, 0.0000, 0.0000, NAN, NAN),
    "TSQRT": Accuracy(2, 0.0000, 0.0000, NAN, NAN),
    "TRSQRT": Accuracy(1, 0.0000, 0.0000, NAN, NAN),
    "TLOAD": Accuracy(3, 0.0006, 0.0006, NAN, NAN),
    "TMOV": Accuracy(1, 0.0000, 0.0000, NAN, NAN),
}
"""Errors by operation; operations with single figures only have none left out (not a number)."""
