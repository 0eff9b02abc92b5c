"""Damaged values that can be decoded are copied neither to a verified copy nor to a repaired file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import orcidx
from orcidx.cli import main
from orcidx.inspection.check import check_file
from orcidx.inspection.repair import write_whole
from orcidx.storage import describe_source


def damaged(path: Path, **options: Any) -> Path:
    """Writes a file with two stripes of three row groups, and changes one value in the second row group of the second
    stripe."""
    doubles = [float(number) for number in range(6000)]
    with orcidx.OrcWriter(
        path, pa.schema([("x", pa.float64())]), compression="uncompressed", row_index_stride=1000, **options
    ) as writer:
        writer.write(pa.table({"x": doubles[:3000]}))
        writer.end_stripe()
        writer.write(pa.table({"x": doubles[3000:]}))
    data = bytearray(path.read_bytes())
    where = data.index(pa.array([4500.0]).buffers()[1].to_pybytes()[:8])
    data[where : where + 8] = pa.array([9e9]).buffers()[1].to_pybytes()[:8]
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("how", [{}, {"merge": True}, {"compression": "zstd"}, {"bloom_filters": ["x"]}])
def test_a_copy_that_is_verified_is_of_sound_values(tmp_path: Path, how: dict[str, Any]) -> None:
    source = damaged(tmp_path / "a.orc")
    sources = [source]
    if how.get("merge"):
        sources = [tmp_path / "b.orc", source]
        orcidx.write_table(pa.table({"x": [1.0]}), sources[0], compression="uncompressed", row_index_stride=1000)
    target = tmp_path / "out.orc"
    given = sources if how.get("merge") else source
    stripe = r"stripe 1, row group 1, column x\): the maximum is 4999.0, but the values include 9000000000.0"
    # If bloom filters are added, the stripes are decoded and get new statistics.
    if how.get("bloom_filters"):
        stripe = "statistics"
    with pytest.raises(orcidx.CorruptFile, match=rf"{stripe}.*no file was published.*a\.orc") as caught:
        orcidx.rewrite(given, target, **how)
    assert caught.value.file == str(source)
    assert not target.exists()
    orcidx.rewrite(given, target, verify=False, **how)
    assert orcidx.read_table(target)["x"][-1500].as_py() == 9e9


@pytest.mark.parametrize("how", [{"sort_by": "x"}, {"cluster_by": ["x"]}, {"merge": True, "sort_by": "x"}])
def test_rows_that_are_encoded_anew_are_of_sound_values(tmp_path: Path, how: dict[str, Any]) -> None:
    """Before rows are encoded again, their values are compared with the statistics of the source. Without this check,
    the statistics of the new file would include the wrong value, so the damage could no longer be found."""
    sources = [tmp_path / "b.orc", damaged(tmp_path / "a.orc")] if how.get("merge") else damaged(tmp_path / "a.orc")
    if isinstance(sources, list):
        orcidx.write_table(pa.table({"x": [1.0]}), sources[0])
    target = tmp_path / "out.orc"
    problem = r"stripe 1, row group 1, column x\): the maximum is 4999.0, but the values include 9000000000.0"
    with pytest.raises(orcidx.CorruptFile, match=problem) as caught:
        orcidx.rewrite(sources, target, **how)
    assert caught.value.file == str(tmp_path / "a.orc")
    assert not target.exists()
    orcidx.rewrite(sources, target, verify=False, **how)
    assert orcidx.read_table(target)["x"].to_pylist()[-1] == 9e9


def test_a_repair_leaves_out_what_statistics_disprove(tmp_path: Path, capsys: Any) -> None:
    source = damaged(tmp_path / "a.orc")
    found = check_file(describe_source(source))
    assert found.disproved == {(1, 1)}
    assert not found.broken
    assert write_whole(found, describe_source(source), tmp_path / "whole.orc").rows == 5000
    with pytest.raises(SystemExit, match="1"):
        main(["check", str(source), "--repair", str(tmp_path / "out.orc")])
    assert "5,000 rows written" in capsys.readouterr().out
    values = orcidx.read_table(tmp_path / "out.orc")["x"].to_pylist()
    assert values == [float(number) for number in range(6000) if not 4000 <= number < 5000]
    assert check_file(describe_source(tmp_path / "out.orc")).ok


def test_without_a_row_index_the_stripe_is_left_out(tmp_path: Path) -> None:
    source = tmp_path / "a.orc"
    with orcidx.OrcWriter(
        source, pa.schema([("x", pa.float64())]), compression="uncompressed", row_index_stride=0
    ) as writer:
        writer.write(pa.table({"x": [1.0, 2.0]}))
        writer.end_stripe()
        writer.write(pa.table({"x": [3.0, 4.5]}))
    data = source.read_bytes()
    sound, wrong = (pa.array([value]).buffers()[1].to_pybytes()[:8] for value in (4.5, 9e9))
    where = data.index(sound)
    source.write_bytes(data[:where] + wrong + data[where + 8 :])
    written = write_whole(check_file(describe_source(source)), describe_source(source), tmp_path / "out.orc")
    assert written.rows == 2
