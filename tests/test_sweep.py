"""Sweeps against single prices, single checks and a scalar count, and bad sweeps against their findings."""

from __future__ import annotations

import csv
import itertools
import random
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import lanefold as lf
from lanefold.cli import app
from lanefold.diagnostics import LanefoldError, errors
from lanefold.pto import TileType, check
from lanefold.pto.cost import cost
from lanefold.pto.isa import OPERATIONS
from lanefold.sweeps import read_spec, resolve
from lanefold.sweeps.pto_calls import call_of
from lanefold.sweeps.space import Space
from lanefold.sweeps.tpb import instruction
from lanefold.tpb import Access, Instruction
from lanefold.tpb.cost import price

PLAIN = {"ops": ["TROWSUM"], "dtypes": ["f32"], "targets": ["a2a3"], "shapes": {"rows": [16, 32], "cols": [64, 128]}}
TOML = """\
ops = ["TROWSUM", "TCOLMAX"]
dtypes = ["f32", "f16"]
targets = ["a2a3"]
models = ["calibrated", "stream"]

[shapes]
rows = { from = 16, to = 64, step = 16 }
cols = { from = 8, to = 256, factor = 2 }
valid_rows = [16, 17]

[layouts]
dst = ["ND", "DN"]
"""


def spec(**more: object) -> dict[str, object]:
    return {**PLAIN, **more}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    return path


def finding(source: object):
    with pytest.raises(LanefoldError) as caught:
        lf.sweep(source)
    assert caught.value.usage
    return caught.value.diagnostics[0]


def test_every_combination_has_one_row_in_order(tmp_path: Path) -> None:
    table = lf.sweep(written(tmp_path, TOML))
    rows = [16, 32, 48, 64]
    cols = [8, 16, 32, 64, 128, 256]
    groups = [
        (op, dtype, layout, model)
        for op in ("TROWSUM", "TCOLMAX")
        for dtype in ("f32", "f16")
        for layout in (("ND", "DN") if op == "TROWSUM" else ("",))
        for model in ("calibrated", "stream")
    ]
    wanted = [(*group, r, c, v, c) for group in groups for r, c, v in itertools.product(rows, cols, [16, 17])]
    names = ("op", "dtype", "dst_layout", "model", "rows", "cols", "valid_rows", "valid_cols")
    assert [tuple(row[name] for name in names) for row in table.rows()] == wanted
    assert len(table) == len(wanted)


def priced(*shape: object, **arguments: object):
    try:
        return cost(*shape, **arguments), ""
    except LanefoldError as error:
        return None, error.diagnostics[0].code


@pytest.mark.parametrize("model", ["calibrated", "stream", "reference", "page", "fit"])
def test_rows_are_single_costs(model: str) -> None:
    table = lf.sweep(
        spec(
            ops=["TROWSUM", "TCOLSUM", "TROWEXPANDSUB", "TROWEXPAND", "TROWARGMAX", "TADD"],
            dtypes=["f32", "f16"],
            models=[model],
            shapes={"rows": [1, 16, 128, 300], "cols": [8, 64, 100, 128], "valid_cols": [5, 64]},
            options={"form": ["sequential", "binary", "index", "value_index"]},
            keep_unknown=True,
        )
    )
    seen = 0
    for row in table.rows():
        arguments = {
            name: row[name]
            for name in ("dst_layout", "src_layout", "src1_layout", "form", "idx_bytes")
            if row[name] not in ("", None)
        }
        if row["valid_rows"] > row["rows"] or row["valid_cols"] > row["cols"]:
            assert (row["cycles"], row["validity"]) == (None, "unknown")
            assert row["rule"] in ("PTO-TILE-CAPACITY", "PTO-COST-SEQUENCE")
            continue
        shape = [row[name] for name in ("rows", "cols", "valid_rows", "valid_cols")]
        single, refused = priced(row["op"], row["dtype"], *shape, target="a2a3", model=model, **arguments)
        if single is None:
            assert (row["cycles"], row["validity"]) == (None, "unknown")
            assert row["rule"] == refused or refused == "PTO-COST-DOMAIN"
            continue
        assert row["cycles"] == single.cycles
        assert row["validity"] == single.validity
        assert row["version"] == single.version
        assert row["ns"] == pytest.approx(single.us * 1000)
        assert row["cycles_per_element"] == single.cycles / (shape[2] * shape[3])
        if single.error is not None:
            assert (row["cycles_low"], row["cycles_high"]) == single.bounds
        else:
            assert row["cycles_low"] is None
        seen += 1
    assert seen > 10


SETTINGS = {
    "TROWSUM": {"layouts": {"dst": ["ND", "DN"]}},
    "TROWPROD": {"layouts": {"dst": ["ND", "DN"]}},
    "TROWARGMAX": {
        "layouts": {"dst": ["ND", "DN"]},
        "options": {"form": ["index", "value_index"], "idx_bytes": [2, 4]},
    },
    "TCOLARGMIN": {"options": {"form": ["index", "value_index"], "idx_bytes": [2, 4]}},
    "TCOLSUM": {"options": {"form": ["sequential", "binary", "no_tmp"]}},
    "TROWEXPAND": {"layouts": {"src": ["ND", "DN"]}},
    "TROWEXPANDADD": {"layouts": {"src1": ["DN", "ND32B"]}},
    "TCOLEXPANDEXPDIF": {"options": {"static_shape": [True, False]}},
    "TCOLEXPAND": {},
    "TCOLMAX": {},
}


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("op", SETTINGS)
def test_legality_is_that_of_single_checks(op: str, target: str) -> None:
    draw = random.Random(f"{op} {target}")
    shapes = []
    for _ in range(60):
        rows, cols = draw.choice([1, 7, 8, 64, 100, 255, 256, 300, 2049]), draw.choice([4, 8, 12, 16, 64, 96, 128, 512])
        shapes.append([rows, cols, draw.randint(1, rows), draw.randint(1, cols)])
        shapes.append([rows, cols, rows, cols])
    table = lf.sweep(
        spec(ops=[op], dtypes=["f32", "f16", "u16", "i16"], targets=[target], shapes={"list": shapes}, **SETTINGS[op])
    )
    legal = 0
    for group in table.space.groups:
        if group.refused is not None:
            continue
        rows = [r for part in table.of_group(table.space.groups.index(group)) for r in zip(*part.shape, strict=True)]
        rules = [str(r) for part in table.of_group(table.space.groups.index(group)) for r in part.column("rule")]
        for shape, rule in zip(rows, rules, strict=True):
            try:
                call = call_of(group.op, group.dtype, target, group.settings, tuple(int(v) for v in shape))
                codes = {f.code for f in errors(lf.pto.rules.check_call(call))}
            except LanefoldError as error:
                codes = {f.code for f in error.diagnostics}
            assert bool(rule) == bool(codes), (group.label, shape, rule, codes)
            assert not rule or rule in codes or rule == group.illegal
            legal += not rule
    assert legal > 20 or op.startswith("TCOLARG")


def test_legality_of_hand_made_tiles() -> None:
    shapes = [[64, 64], [64, 100], [512, 64], [700, 64], [768, 64], [64, 512], [90, 512]]
    table = lf.sweep(spec(shapes={"list": shapes}))
    for row, (rows, cols) in zip(table.rows(), shapes, strict=True):
        try:
            source, result = TileType("f32", rows, cols, rows, cols), TileType("f32", rows, 8, rows, 1)
            found = errors(check("TROWSUM", result, source, TileType("f32", rows, 64, rows, 64), target="a2a3"))
        except LanefoldError as error:
            found = list(error.diagnostics)
        if cols <= 64 and found:  # short rows read no scratch
            found = errors(check("TROWSUM", result, source, target="a2a3")) if cols % 8 == 0 else found
        assert row["legal"] == (not found), (rows, cols, found)


def test_tpb_rows_are_single_prices() -> None:
    table = lf.sweep(
        {
            "ops": ["TensorReduce", "Max"],
            "dtypes": ["f32", "bf16"],
            "targets": ["trn1", "trn2"],
            "models": ["documented", "detailed"],
            "shapes": {"rows": [64, 129], "cols": [4, 512, 20000, 65535]},
            "options": {"axis": ["X", "C"], "operator": ["add", "max"], "step": [1, 4]},
        }
    )
    generations = {"trn1": "v2", "trn2": "v3"}
    for row in table.rows():
        step, count = row["step"], row["cols"]
        data = Access("SB", 0, 0, row["dtype"], ((step * count, 128), (step, count)))
        one = Access("SB", 0, 0, row["dtype"], ((1, 128), (1, 1)))
        attributes = {"op": row["operator"], "axis": row["axis"]} if row["op"] == "TensorReduce" else {}
        engine = "Pool" if row["axis"] == "C" else "DVE"
        made = Instruction(row["op"], (data,), (one,), attributes, engine)
        single = price(made, generations[row["target"]], row["model"])
        assert (row["cycles_low"], row["cycles"], row["cycles_high"]) == (single.low, single.high, single.high)
        assert row["ns"] == pytest.approx(single.ns[1])
        assert (row["validity"], row["bound"]) == (single.validity, single.bound)
        if row["rows"] > 128:
            assert row["rule"] in ("TPB-CHANNELS", "TPB-SEARCH-COUNT") or count > 16384
        if row["op"] == "Max":
            assert row["legal"] == (8 <= count <= 16384 and row["rows"] <= 128 and (step == 1 or count < 16384))


def test_both_instruction_sets_in_one_sweep() -> None:
    table = lf.sweep(
        {
            "ops": ["TROWSUM", "TensorReduce"],
            "dtypes": ["float32"],
            "targets": ["a2a3", "trn3"],
            "shapes": {"rows": [64], "cols": [512]},
        }
    )
    found = [(row["op"], row["dtype"], row["target"], row["model"], row["clock_ghz"]) for row in table.rows()]
    assert found == [
        ("TROWSUM", "f32", "a2a3", "calibrated", 1.85),
        ("TensorReduce", "float32", "trn3", "documented", 1.2),
    ]
    assert [row["dst_layout"] for row in table.rows()] == ["ND", ""]


def test_unknown_is_never_a_number() -> None:
    table = lf.sweep(spec(targets=["a2a3", "a5"]))
    for row in table.rows():
        numbers = [row[name] for name in ("cycles", "cycles_low", "cycles_high", "ns", "cycles_per_element")]
        assert (row["validity"] == "unknown") == (numbers == [None] * 5) == (row["target"] == "a5")
        assert row["model"] == "calibrated"
        assert row["version"]
    assert table.counts["unknown"] == 4


def test_unknown_rows_are_skipped_and_counted() -> None:
    table = lf.sweep(spec(ops=["TROWSUM", "TROWPROD"], targets=["a2a3", "a5"], models=["stream"], skip_unknown=True))
    assert table.counts == {"configurations": 16, "rows": 4, "skipped": 12, "unknown": 12, "not_legal": 8}
    assert set(table.column("op")) == {"TROWSUM"}
    assert len(list(table.rows())) == len(table) == 4


def test_numbers_of_unmeasured_models_are_kept_on_request() -> None:
    kept = lf.sweep(spec(ops=["TROWPROD"], models=["stream"], keep_unknown=True))
    plain = lf.sweep(spec(ops=["TROWPROD"], models=["stream"]))
    assert np.isfinite(kept.column("cycles")).all()
    assert np.isnan(kept.column("cycles_high")).all()
    assert np.isnan(plain.column("cycles")).all()
    assert (kept.column("validity") == "unknown").all()


def test_refusals_are_told() -> None:
    table = lf.sweep(spec(ops=["TROWSUM", "TROWPROD"], models=["reference"]))
    refusal = table.refusals[0]
    assert refusal["finding"]["code"] == "PTO-COST-SEQUENCE"
    assert refusal["configurations"] == 4
    assert set(table.column("rule")) == {"", "PTO-COST-SEQUENCE"}


@pytest.mark.parametrize("objective", ["cycles", "ns", "cycles_per_element"])
@pytest.mark.parametrize("op", ["TROWSUM", "TCOLSUM", "TROWEXPANDMUL"])
def test_best_is_the_cheapest_legal_shape(op: str, objective: str) -> None:
    shapes = {"rows": [1, 8, 64, 200, 512, 1024], "cols": [8, 12, 64, 128, 1024]}
    table = lf.sweep(spec(ops=[op], models=["calibrated", "stream"], shapes=shapes, objective=objective))
    for best in table.best():
        rows = [row for row in table.rows() if row["legal"] and row["model"] == best.model]
        known = [row[objective] for row in rows if row["validity"] != "unknown"]
        if not known:
            assert best.row is None
            continue
        assert best.value == min(known)
        assert best.row is not None
        assert best.row[objective] == best.value
        assert best.row in rows
        ties = [row["valid_rows"] * row["valid_cols"] for row in rows if row[objective] == best.value]
        assert best.row["valid_rows"] * best.row["valid_cols"] == max(ties)


def test_best_is_what_brute_force_finds() -> None:
    """Every shape priced and checked one by one, tiles written out by hand."""
    shapes = {"rows": [1, 8, 32, 64, 128], "cols": [8, 12, 64, 128, 512]}
    (best,) = lf.sweep(spec(shapes=shapes, layouts={"dst": ["DN"]}, objective="cycles_per_element")).best()
    found = {}
    for rows, cols in itertools.product(shapes["rows"], shapes["cols"]):
        if cols % 8:
            continue  # a row of a tile is a multiple of 32 bytes
        source = TileType("f32", rows, cols, rows, cols)
        operands = (TileType("f32", -(-rows // 8) * 8, 1, rows, 1, "DN"), source, source)
        if not errors(check("TROWSUM", *operands, target="a2a3")):
            found[rows, cols] = cost("TROWSUM", "f32", rows, cols, dst_layout="DN").cycles / (rows * cols)
    assert best.row is not None
    assert (best.row["rows"], best.row["cols"]) == min(found, key=found.get)
    assert best.value == min(found.values())


def test_there_may_be_no_best() -> None:
    best = lf.sweep(spec(targets=["a5"])).best("cycles")[0]
    assert (best.value, best.row, best.unknown) == (None, None, 4)
    best = lf.sweep(spec(shapes={"rows": [4096], "cols": [4096]})).best("cycles")[0]
    assert (best.value, best.illegal) == (None, 1)


def test_chunks_do_not_show() -> None:
    shapes = {"rows": {"from": 1, "to": 40}, "cols": [8, 64, 72], "valid_rows": [1, 3]}
    whole = lf.sweep(spec(ops=["TROWSUM", "TCOLSUM"], shapes=shapes))
    cut = lf.sweep(spec(ops=["TROWSUM", "TCOLSUM"], shapes=shapes, chunk=7))
    assert list(whole.rows()) == list(cut.rows())


def test_csv_holds_every_digit(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    table = lf.sweep(spec(ops=["TROWSUM", "TROWARGMAX"], targets=["a2a3", "a5"]), path)
    with path.open(newline="") as file:
        read = list(csv.DictReader(file))
    for row, text in zip(table.rows(), read, strict=True):
        for name, value in row.items():
            if isinstance(value, bool):
                assert text[name] == str(value).lower()
            elif isinstance(value, float):
                assert float(text[name]) == value
            else:
                assert text[name] == ("" if value is None else str(value))
    assert list(tmp_path.iterdir()) == [path]


def test_parquet_holds_the_same_table(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    path = tmp_path / "out.parquet"
    table = lf.sweep(spec(targets=["a2a3", "a5"], chunk=3), path)
    read = parquet.read_table(path).to_pylist()
    for row, got in zip(table.rows(), read, strict=True):
        for name, value in row.items():
            wanted = "true" if value is True and name == "static_shape" else value
            assert got[name] == wanted
            assert type(got[name]) is type(wanted)


def test_an_interrupted_sweep_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    path, asked = tmp_path / "out.csv", spec(shapes={"rows": {"from": 1, "to": 50}, "cols": [64]}, chunk=10)
    real, done = Space.evaluate, []

    def stopping(self, chunk):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(chunk.number)
        return real(self, chunk)

    monkeypatch.setattr(Space, "evaluate", stopping)
    with pytest.raises(KeyboardInterrupt):
        lf.sweep(asked, path)
    assert not path.exists()
    parts = sorted(next((tmp_path / "out.csv.parts").iterdir()).iterdir())
    assert len(parts) == 3
    parts[1].write_bytes(parts[1].read_bytes()[:-20])  # a damaged part is made again

    made = []
    monkeypatch.setattr(Space, "evaluate", lambda self, chunk: made.append(chunk.number) or real(self, chunk))
    table = lf.sweep(asked, path)
    assert made == [1, 3, 4]
    assert table.resumed == 2
    assert list(table.rows()) == list(lf.sweep(asked).rows())
    assert list(tmp_path.iterdir()) == [path]


def test_a_changed_sweep_does_not_mix_with_an_interrupted_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.csv"
    real = Space.evaluate

    def stopping(self: Space, chunk: object) -> object:
        if chunk.number == 2:
            raise KeyboardInterrupt
        return real(self, chunk)

    monkeypatch.setattr(Space, "evaluate", stopping)
    with pytest.raises(KeyboardInterrupt):
        lf.sweep(spec(chunk=1), path)
    monkeypatch.setattr(Space, "evaluate", real)
    with pytest.raises(LanefoldError) as caught:
        lf.sweep(spec(chunk=1, dtypes=["f16"]), path)
    (finding,) = caught.value.diagnostics
    assert finding.code == "SWEEP-RESUME"
    assert "2 finished chunks" in finding.message
    assert str(tmp_path / "out.csv.parts") in finding.cures[0].text
    assert len(lf.sweep(spec(chunk=1, dtypes=["f16"]), tmp_path / "other.csv")) == 4
    assert lf.sweep(spec(chunk=1), path).resumed == 2
    assert len(lf.sweep(spec(chunk=1, dtypes=["f16"]), path)) == 4


def test_an_interrupted_command_says_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopping(self: Space, chunk: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(Space, "evaluate", stopping)
    result = CliRunner().invoke(app, ["sweep", str(written(tmp_path, TOML)), "-o", str(tmp_path / "out.csv")])
    assert result.exit_code == 130
    assert "the same command goes on from them" in result.output


def test_names_of_the_other_instruction_set_are_told() -> None:
    for change, says in (({"ops": ["Pool"]}, "trn1"), ({"models": ["documented"]}, "trn1")):
        found = finding(spec(**change))
        assert found.code == "SWEEP-NAME"
        assert says in found.cures[0].text
    found = finding(spec(targets=["trn1"], ops=["TROWSUM"]))
    assert "a2a3" in found.cures[0].text


def test_parts_of_another_sweep_are_not_used() -> None:
    digests = {
        resolve(read_spec(changed)).digest
        for changed in (
            spec(),
            spec(chunk=5),
            spec(dtypes=["f16"]),
            spec(frequency_mhz=1000.0),
            spec(shapes={"rows": [16], "cols": [64, 128]}),
            spec(shapes={"rows": [16, 32], "cols": [64, 128], "valid_rows": [16]}),
            spec(shapes={"list": [[16, 64], [16, 128], [32, 64], [32, 128]]}),
        )
    }
    assert len(digests) == 7
    assert resolve(read_spec(spec(skip_unknown=True))).digest in digests


@pytest.mark.parametrize(
    ("text", "code", "line", "says"),
    [
        ("ops = [", "SWEEP-READ", 1, "correct this line"),
        ("dtypes = 3\nops = = 2", "SWEEP-READ", 2, "correct this line"),
        (TOML.replace("models", "modles"), "SWEEP-KEY", 4, "write models"),
        (TOML.replace("valid_rows", "valid_row"), "SWEEP-KEY", 9, "write valid_rows"),
        (TOML.replace("dst =", "dest ="), "SWEEP-KEY", 12, "write dst"),
        (TOML.replace('ops = ["TROWSUM", "TCOLMAX"]\n', ""), "SWEEP-MISSING", None, 'add ops = ["TROWSUM"]'),
        (TOML.replace("TROWSUM", "TROWSUN"), "SWEEP-NAME", 1, "write TROWSUM"),
        (TOML.replace('"f16"', '"f61"'), "SWEEP-NAME", 2, "write f16"),
        (TOML.replace("a2a3", "a2a4"), "SWEEP-NAME", 3, "write a2a3"),
        (TOML.replace('"stream"', '"steam"'), "SWEEP-NAME", 4, "write stream"),
        (TOML.replace("from = 16", "from = 65"), "SWEEP-VALUE", 7, "from = 64, to = 65"),
        (TOML.replace("from = 16", "from = 0"), "SWEEP-VALUE", 7, "write"),
        (TOML.replace("factor = 2", "factor = 1"), "SWEEP-VALUE", 8, "factor = 2"),
        (TOML.replace("[16, 17]", "[]"), "SWEEP-VALUE", 9, "write"),
        (TOML.replace("[16, 17]", "[16, 65536]"), "SWEEP-VALUE", 9, "write"),
        (TOML.replace('"DN"', '"NZ"'), "SWEEP-VALUE", 12, "write"),
        (TOML.replace("[layouts]\ndst", "[layouts]\nsrc1"), "SWEEP-SETTING", 12, "leave layouts.src1 out"),
        (TOML + '[options]\nform = ["paired"]\n', "SWEEP-SETTING", 14, "leave options.form out"),
        (TOML.replace("TCOLMAX", "TCOLSUM") + '[options]\nform = ["paired"]\n', "SWEEP-SETTING", 14, "'sequential'"),
        ("limit = 10\n" + TOML, "SWEEP-SIZE", 1, "set limit ="),
        (TOML.replace("step = 16", "step = 16, factor = 2"), "SWEEP-VALUE", 7, "write"),
        ('objective = "time"\n' + TOML, "SWEEP-VALUE", 1, "cycles_per_element"),
        ("frequency_mhz = -1\n" + TOML, "SWEEP-VALUE", 1, "1850"),
        ('skip_unknown = "yes"\n' + TOML, "SWEEP-VALUE", 1, "true"),
        (TOML.replace('targets = ["a2a3"]', 'targets = ["a2a3", "trn1"]'), "SWEEP-NAME", 1, "leave trn1 out"),
    ],
)
def test_bad_sweeps(tmp_path: Path, text: str, code: str, line: int | None, says: str) -> None:
    found = finding(written(tmp_path, text))
    assert (found.code, found.place.line) == (code, line), found.to_text()
    assert str(tmp_path) in found.place.file
    assert any(says in cure.text for cure in found.cures), found.to_text()


def test_a_huge_product_is_refused_before_it_is_made() -> None:
    every = {"from": 1, "to": 65535}
    started = time.perf_counter()
    found = finding(spec(shapes=dict.fromkeys(("rows", "cols", "valid_rows", "valid_cols"), every)))
    assert found.code == "SWEEP-SIZE"
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"shapes": {"rows": [1]}}, "SWEEP-VALUE"),
        ({"shapes": {"list": [[1, 2, 3]]}}, "SWEEP-VALUE"),
        ({"shapes": {"list": [[1, 8]], "rows": [1]}}, "SWEEP-VALUE"),
        ({"shapes": [1]}, "SWEEP-VALUE"),
        ({"shapes": {"rows": [True], "cols": [8]}}, "SWEEP-VALUE"),
        ({"ops": []}, "SWEEP-VALUE"),
        ({"ops": 3}, "SWEEP-VALUE"),
        ({"chunk": 0}, "SWEEP-VALUE"),
        ({"options": {"idx_bytes": ["4"]}}, "SWEEP-VALUE"),
        ({"options": {"static_shape": 1}}, "SWEEP-VALUE"),
        ({"ops": ["TROWARGMAX"], "options": {"idx_bytes": [8]}}, "SWEEP-SETTING"),
    ],
)
def test_bad_mappings(changes: dict[str, object], code: str) -> None:
    assert finding(spec(**changes)).code == code


def test_a_sweep_without_any_price_is_refused() -> None:
    with pytest.raises(LanefoldError) as caught:
        lf.sweep(spec(targets=["cpu"]))
    assert [found.code for found in caught.value.diagnostics] == ["SWEEP-NOTHING", "PTO-COST-TARGET"]


def test_bad_outputs(tmp_path: Path) -> None:
    with pytest.raises(LanefoldError, match="SWEEP-OUTPUT"):
        lf.sweep(spec(), tmp_path / "out.txt")
    (tmp_path / "file").write_text("")
    with pytest.raises(LanefoldError, match="SWEEP-OUTPUT"):
        lf.sweep(spec(), tmp_path / "file" / "out.csv")
    with pytest.raises(LanefoldError, match="SWEEP-READ"):
        lf.sweep(tmp_path / "none.toml")
    table = lf.sweep(spec())
    with pytest.raises(LanefoldError, match="SWEEP-COLUMN"):
        table.column("cycle")
    with pytest.raises(LanefoldError, match="SWEEP-OBJECTIVE"):
        table.best()


def test_every_operation_has_a_legal_row() -> None:
    asked = spec(ops=sorted(OPERATIONS), dtypes=["f32", "f16"], targets=["a2a3", "a5"], shapes={"list": [[16, 64]]})
    legal = {(row["op"], row["target"]) for row in lf.sweep(asked).rows() if row["legal"]}
    assert legal == set(itertools.product(OPERATIONS, ("a2a3", "a5")))


@pytest.mark.parametrize("model", ["calibrated", "stream"])
def test_speed_of_two_million(model: str) -> None:
    asked = spec(models=[model], shapes={"rows": {"from": 1, "to": 1000}, "cols": {"from": 8, "to": 16000, "step": 8}})
    best = 0.0
    for _ in range(2):
        started = time.perf_counter()
        table = lf.sweep(asked)
        best = max(best, len(table) / (time.perf_counter() - started))
    assert len(table) == 2_000_000
    assert best > 1_000_000


def test_columns_of_several_kinds_stay_what_they_are() -> None:
    table = lf.sweep(spec(ops=["TROWARGMAX", "TROWSUM"], targets=["a2a3", "A2A3"], options={"idx_bytes": [2, 4]}))
    assert table.column("idx_bytes").tolist() == [2] * 4 + [4] * 4 + [""] * 4
    assert set(table.column("static_shape").tolist()) == {True}


@pytest.mark.parametrize(
    "op", ["TensorReduce", "Pool", "Max", "MaxIndex", "MatchReplace", "Reciprocal", "Iota", "Gather"]
)
def test_tpb_legality_is_that_of_single_checks(op: str) -> None:
    draw = random.Random(op)
    rows = [1, 31, 32, 127, 128, 129, 300]
    cols = [1, 7, 8, 64, 511, 16384, 16385, 30000, 49152, 65535]
    shapes = [[draw.choice(rows), draw.choice(cols)] for _ in range(40)]
    options = {"axis": ["X", "C"], "operator": ["max", "divide"], "step": [1, 2]} if op == "TensorReduce" else {}
    asked = spec(ops=[op], dtypes=["f32", "bf16", "int32"], targets=["trn1", "trn3"], shapes={"list": shapes})
    table = lf.sweep({**asked, "options": options})
    generations = {"trn1": "v2", "trn3": "v4"}
    legal = 0
    for at, group in enumerate(table.space.groups):
        for part in table.of_group(at):
            for place, rule in enumerate(part.column("rule").tolist()):
                extents = (int(part.shape[0][place]), int(part.shape[1][place]))
                made = instruction(op, group.dtype, group.target, group.settings, *extents)
                codes = {found.code for found in errors(lf.tpb.check(made, generations[group.target]))}
                assert bool(rule) == bool(codes), (group.label, extents, codes)
                assert not rule or rule in codes or rule == group.illegal
                legal += not rule
    assert legal > 40


def test_numbers_without_bounds_are_none_in_plain_data() -> None:
    best = lf.sweep(spec(models=["fit"], shapes={"rows": [8], "cols": [64]})).best("ns")[0]
    assert best.row is not None
    assert best.row["cycles"] > 0
    assert best.row["cycles_low"] is None
