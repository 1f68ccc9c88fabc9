"""Checking what is asked of a cost model, before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt

from lanefold.arguments import shown
from lanefold.diagnostics import Cure, LanefoldError, Place, Rule
from lanefold.pto import names
from lanefold.pto.cost import fit, page, reference
from lanefold.pto.cost.case import Case, Columns, Ints
from lanefold.pto.cost.kernels.expand import PIECE
from lanefold.pto.cost.recipes import NAMES, RECIPES, Family, Recipe, dtypes
from lanefold.pto.isa import EXTENT_LIMIT

MODELS = ("calibrated", "stream", "reference", "page", "fit")
"""Names of the cost models, the default first."""
MODEL_ALIASES = {"seed": "reference"}
"""Other spellings of model names that are understood."""

_SOURCE = "PTO headers: A2/A3 cost models"


def _rule(code: str, text: str) -> Rule:
    return Rule(code, text, _SOURCE, usage=True)


GREATEST_MHZ = 1e9
"""Fastest clock that is taken; beyond it a number is surely not in MHz."""

OP = _rule("PTO-COST-OP", "A cost is asked for one of the 28 tile operations, a measured building block or a transfer.")
MODEL = _rule("PTO-COST-MODEL", "A cost model is asked for by its name.")
TARGET = _rule("PTO-COST-TARGET", "A model prices the targets it describes; the CPU simulator has no cycles.")
DTYPE = _rule("PTO-COST-DTYPE", "An operation is priced for the element types it takes on the target.")
EXTENT = _rule("PTO-COST-EXTENT", "Extents are whole numbers from 1 to 65535, valid extents at most the tile's.")
FLAG = _rule(
    "PTO-COST-FLAG", "Whether extents are static, scratch is given or the build reaches an op is true or false."
)
KEYWORD = _rule("PTO-COST-KEYWORD", "A cost is asked for with the arguments that it lists, the first four at least.")
LAYOUT = _rule("PTO-COST-LAYOUT", "Operands are priced in the layouts that the kernels take.")
FORM = _rule("PTO-COST-FORM", "An operation is priced in one of its call forms.")
INDEX = _rule("PTO-COST-INDEX", "Indices have 2 or 4 bytes.")
CLOCK = _rule("PTO-COST-CLOCK", "A clock is a positive frequency of at most 1e9 MHz.")
DOMAIN = _rule("PTO-COST-DOMAIN", "The fit model answers only at the column counts that have a line.")
SEQUENCE = _rule("PTO-COST-SEQUENCE", "A model prices the operations, forms and types it has a sequence for.")


def refuse(rule: Rule, field: str, got: object, allowed: Sequence[object], cure: object, message: str) -> LanefoldError:
    """The error of a keyword with a value that cannot be priced."""
    return rule.error(
        message,
        got=shown(got),
        allowed=", ".join(str(value) or "none" for value in allowed),
        cures=[Cure(f"use {field}={cure!r}", {field: cure})],
        place=Place(field=field),
    )


def model_name(name: object) -> str:
    """The model of this name.

    Raises:
        LanefoldError: PTO-COST-MODEL for an unknown name.
    """
    found = name.strip().lower() if isinstance(name, str) else ""
    found = MODEL_ALIASES.get(found, found)
    if found not in MODELS:
        raise refuse(MODEL, "model", name, MODELS, MODELS[0], f"cost model {shown(name)} is not known")
    return found


def recipe_of(op: object) -> Recipe:
    """The recipe of an operation, from any of its spellings.

    Raises:
        LanefoldError: PTO-COST-OP for an unknown name.
    """
    found = NAMES.get(op.strip().lower().removeprefix("pto.")) if isinstance(op, str) else None
    if found is None:
        near = get_close_matches(op.lower() if isinstance(op, str) else "", NAMES, n=1, cutoff=0.5)
        best = NAMES[near[0]] if near else "TROWSUM"
        raise refuse(OP, "op", op, tuple(RECIPES), best, f"there is no cost recipe for operation {shown(op)}")
    return RECIPES[found]


def target_of(name: object, model: str) -> str:
    """The target, checked against what the model describes.

    Raises:
        LanefoldError: PTO-TARGET-NAME for an unknown target, PTO-COST-TARGET for one the model cannot price.
    """
    found = names.target(name).name
    if found == "cpu":
        raise refuse(TARGET, "target", name, ("a2a3", "a5"), "a2a3", "the CPU simulator has no cycles to count")
    if found != "a2a3" and model != "calibrated":
        raise refuse(TARGET, "target", name, ("a2a3",), "a2a3", f"model {model} describes A2/A3, not {found}")
    return found


def dtype_of(name: object, recipe: Recipe, target: str) -> str:
    """The element type, checked against what the operation takes.

    Raises:
        LanefoldError: PTO-TYPE-NAME for an unknown type, PTO-COST-DTYPE for one the operation does not take.
    """
    found = names.element(name).name
    legal = dtypes(recipe, target)
    if found not in legal:
        raise refuse(DTYPE, "dtype", name, legal, legal[0], f"{recipe.op} takes no {found} on {target}")
    return found


def _word(rule: Rule, field: str, got: object, allowed: Sequence[str]) -> str:
    if not isinstance(got, str) or got not in allowed:
        raise refuse(rule, field, got, allowed, allowed[0], f"{field} {shown(got)} is not priced")
    return got


def form_of(recipe: Recipe, form: str, path: str) -> str:
    """The call form, or the path of a transfer; the first one where neither is given.

    Raises:
        LanefoldError: PTO-COST-FORM for a form the operation does not have.
    """
    for field, value in (("form", form), ("path", path)):
        if not isinstance(value, str):
            raise refuse(FORM, field, value, recipe.forms, recipe.forms[0], f"{field} {shown(value)} is not priced")
    if path and recipe.family is not Family.TRANSFER:
        raise refuse(FORM, "path", path, ("no path",), "", f"{recipe.op} has no path")
    given = form or path or recipe.forms[0]
    return _word(FORM, "path" if path else "form", given, recipe.forms)


class Layouts:
    """Layouts of the operands, checked."""

    def __init__(self, recipe: Recipe, layout: str, dst: str, src: str, src1: str | None) -> None:
        rows = recipe.family is Family.ROW_EXPAND_OP
        _word(LAYOUT, "layout", layout, ("ND",))
        self.dst = _word(LAYOUT, "dst_layout", dst, ("ND", "DN"))
        self.src = _word(LAYOUT, "src_layout", src, ("ND", "DN"))
        allowed = tuple(PIECE) if rows else ("ND",) if recipe.family is Family.COLUMN_EXPAND_OP else ("ND", *PIECE)
        self.src1 = _word(LAYOUT, "src1_layout", allowed[0] if src1 is None else src1, allowed)


def check_flags(**given: object) -> None:
    """Whether facts that change no number are at least true or false; None where they are not known.

    Raises:
        LanefoldError: PTO-COST-FLAG for anything else.
    """
    for field, value in given.items():
        if value is not None and not isinstance(value, bool | np.bool_):
            raise refuse(FLAG, field, value, (True, False), False, f"{field} {shown(value)} is neither true nor false")


def bad_call(positional: int, keywords: Sequence[str], names: Sequence[str]) -> LanefoldError:
    """The error of a call with arguments that the cost does not have, or without those it needs."""
    unknown = [name for name in keywords if name not in names]
    given = {*names[:positional], *keywords}
    absent = [name for name in names[:4] if name not in given]
    if unknown:
        near = get_close_matches(unknown[0], names, n=1, cutoff=0.6)
        message = f"a cost has no argument {shown(unknown[0])}"
        cures = [f"write {near[0]}" if near else f"leave {unknown[0]} out"]
    elif absent:
        message = f"a cost is asked for without {listed(absent)}"
        cures = [f"give {', '.join(f'{name}={_EXAMPLES[name]}' for name in absent)}"]
    else:
        message = "a cost is asked for with an argument given twice, or by place instead of by name"
        cures = [f"give {', '.join(names[6:])} by name, each once"]
    return KEYWORD.error(
        message,
        got=", ".join([*([f"{positional} by place"] if positional else []), *keywords]) or "no arguments",
        allowed=", ".join(names),
        cures=cures,
        place=Place(field=unknown[0] if unknown else absent[0] if absent else ""),
    )


def listed(words: Sequence[str]) -> str:
    """Words as a sentence has them: ``op, dtype and rows``."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


_EXAMPLES = {"op": "'TROWSUM'", "dtype": "'f32'", "rows": "64", "cols": "64"}


def index_bytes(value: object) -> int:
    """Bytes per index.

    Raises:
        LanefoldError: PTO-COST-INDEX for another size.
    """
    if not isinstance(value, int | np.integer) or value not in (2, 4):
        raise refuse(INDEX, "idx_bytes", value, (2, 4), 4, f"an index of {shown(value)} bytes does not exist")
    return 2 if value == 2 else 4


def clock(value: float) -> float:
    """The clock in MHz.

    Raises:
        LanefoldError: PTO-COST-CLOCK for a frequency that is not positive and finite.
    """
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (number and 0 < value < math.inf and value <= GREATEST_MHZ):
        raise refuse(
            CLOCK, "frequency_mhz", value, ("a positive number",), 1850.0, f"{shown(value)} is no clock frequency"
        )
    return float(value)


def extents(field: str, value: object, limit: Ints | int, name: str) -> Ints:
    """Extents as an array of whole numbers within 1 and ``limit``.

    Raises:
        LanefoldError: PTO-COST-EXTENT for anything else.
    """
    try:
        found = np.atleast_1d(np.asarray(value))
    except (TypeError, ValueError, OverflowError, RuntimeError, AttributeError):
        found = np.empty(0)
    if found.ndim != 1 or not found.size or found.dtype.kind not in "iu":
        raise refuse(
            EXTENT,
            field,
            value,
            (f"whole numbers from 1 to {EXTENT_LIMIT}",),
            1,
            f"{field} {shown(value)} is no extent",
        )
    whole: Ints = found.astype(np.int64)
    bad = (whole < 1) | (whole > limit)
    if bad.any():
        first = int(np.argmax(bad))
        top = int(np.broadcast_to(limit, bad.shape)[first])
        got = int(np.broadcast_to(whole, bad.shape)[first])
        message = f"{field} is {got}, outside 1 to {top} ({name})"
        raise refuse(EXTENT, field, got, (f"1 to {top}",), min(max(got, 1), top), message)
    return whole


def check_model(model: str, recipe: Recipe, dtype: str, form: str) -> None:
    """Whether a public model has anything for this operation, form and type.

    Raises:
        LanefoldError: PTO-COST-SEQUENCE where it has nothing.
    """
    known: dict[str, Sequence[str]] = {"reference": reference.OPS, "page": page.OPS, "fit": fit.OPS}
    if model == "stream":
        known["stream"] = [op for op, row in RECIPES.items() if row.family is not Family.COLUMN_ARG]
    if model in known and recipe.op not in known[model]:
        raise _nothing(model, f"no sequence of {recipe.op}", recipe.op, known[model])
    if model in ("reference", "page") and recipe.op == "TCOLSUM" and form == "no_tmp":
        raise _nothing(model, "no sequence of TCOLSUM without a scratch tile", form, ("sequential", "binary"))
    integers = recipe.family is Family.ROW_REDUCE and dtype not in ("f32", "f16")
    if model == "reference" and integers:
        raise _nothing(
            model, "no end for row reductions of integers: its builder never advances", dtype, ("f32", "f16")
        )
    if model == "page" and dtype not in page.COMPLETION:
        raise _nothing(model, f"no completion time for {dtype}", dtype, tuple(page.COMPLETION))


def _nothing(model: str, what: str, got: str, allowed: Sequence[str]) -> LanefoldError:
    return SEQUENCE.error(
        f"model {model} has {what}",
        got=got,
        allowed=", ".join(allowed),
        cures=[Cure("use model='calibrated'", {"model": "calibrated"})],
        place=Place(field="model"),
    )


def check_line(case: Case) -> tuple[float, float]:
    """Slope and intercept of the line that the fit model has for a configuration.

    Raises:
        LanefoldError: PTO-COST-DOMAIN where it has none.
    """
    found = fit.line(case.recipe.op, case.dtype, case.valid_cols)
    if found is None:
        counts = fit.column_counts(case.recipe.op, case.dtype)
        allowed = f"valid_cols in {', '.join(map(str, counts))}" if counts else "f32 or f16 with a published line"
        raise DOMAIN.error(
            f"there is no line for {case.recipe.op} {case.dtype} at {case.valid_cols} columns",
            got=f"{case.recipe.op} {case.dtype}, {case.valid_cols} columns",
            allowed=allowed,
            cures=[Cure("use model='calibrated'", {"model": "calibrated"})],
            place=Place(field="valid_cols"),
        )
    return found


def single(c: Columns, at: int = 0) -> Case:
    """One configuration of many, as a `Case`."""
    return Case(
        recipe=c.recipe,
        dtype=c.dtype,
        rows=int(c.rows[at]),
        cols=int(c.cols[at]),
        valid_rows=int(c.valid_rows[at]),
        valid_cols=int(c.valid_cols[at]),
        dst_layout=c.dst_layout,
        src_layout=c.src_layout,
        src1_layout=c.src1_layout,
        static_shape=bool(c.static_shape[at]),
        form=c.form,
        idx_bytes=c.idx_bytes,
    )


def check_single(sizes: Sequence[object], c: Columns) -> None:
    """Whether the request is for one configuration only.

    Raises:
        LanefoldError: PTO-COST-EXTENT for arrays of extents.
    """
    if len(c.rows) != 1 or any(np.ndim(np.asarray(value)) for value in sizes):
        raise refuse(
            EXTENT, "rows", len(c.rows), ("one configuration",), int(c.rows[0]), "cost takes one shape, not many"
        )


def flags(value: object) -> npt.NDArray[np.bool_]:
    """Whether shapes are static, as an array."""
    try:
        found = np.atleast_1d(np.asarray(value))
    except (TypeError, ValueError, OverflowError, RuntimeError, AttributeError):
        found = np.empty(0)
    if found.dtype.kind != "b" or found.ndim != 1 or not found.size:
        raise refuse(
            FLAG, "static_shape", value, (True, False), True, f"static_shape {shown(value)} is neither true nor false"
        )
    whole: npt.NDArray[np.bool_] = found
    return whole


def columns(
    recipe: Recipe,
    dtype: str,
    layouts: Layouts,
    form: str,
    idx_bytes: int,
    sizes: tuple[object, object, object, object],
    static_shape: object,
) -> Columns:
    """The configurations with all extents checked and brought to one length.

    Raises:
        LanefoldError: PTO-COST-EXTENT for extents outside the tile or lengths that do not match.
    """
    rows = extents("rows", sizes[0], EXTENT_LIMIT, "extent limit")
    cols = extents("cols", sizes[1], EXTENT_LIMIT, "extent limit")
    static = flags(static_shape)
    given = [rows, cols]
    for field, value, most in (("valid_rows", sizes[2], rows), ("valid_cols", sizes[3], cols)):
        if value is None:
            given.append(most)
            continue
        found = extents(field, value, EXTENT_LIMIT, "extent limit")
        _same_length([found, most])
        given.append(extents(field, found, most, "tile extent"))
    _same_length([*given, static])
    length = max(array.size for array in (*given, static))
    whole = [np.broadcast_to(array, length) for array in given]
    return Columns(
        recipe=recipe,
        dtype=dtype,
        rows=whole[0],
        cols=whole[1],
        valid_rows=whole[2],
        valid_cols=whole[3],
        dst_layout=layouts.dst,
        src_layout=layouts.src,
        src1_layout=layouts.src1,
        static_shape=np.broadcast_to(static, length),
        form=form,
        idx_bytes=idx_bytes,
    )


def _same_length(arrays: Sequence[npt.NDArray[np.generic]]) -> None:
    lengths = {array.size for array in arrays} - {1}
    if len(lengths) > 1:
        raise refuse(EXTENT, "rows", sorted(lengths), ("one length for all columns",), 1, "columns differ in length")
