"""Tables of single operators: which operator, GPU and format a row is of, and what is left out."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from public_tables import public_tables

from specplan.check.scoreboard.operators import operator_errors
from theory.errors import ParameterError, SchemaError
from theory.hardware.formats import FORMATS
from theory.hardware.gpus import gpu_named
from theory.hardware.operators import product_seconds

MOE = "moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,distribution,latency\n"


def test_products_by_hand(tmp_path: Path) -> None:
    expected = 1e3 * product_seconds(gpu_named("H100"), 64, 4096, 4096, FORMATS["fp8"])
    text = f"m,n,k,latency\n64,4096,4096,{expected}\n64,4096,4096,{expected / 2}\n"
    (tmp_path / "aic_gemm_fp8_h100_sxm.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")
    done = []
    (found,) = operator_errors(tmp_path, lambda: done.append(1))
    assert (found.operator, found.gpu, found.weights, found.n) == ("products", "H100 SXM", "fp8", 2)
    assert found.mean == pytest.approx(0.5)
    assert found.signed == pytest.approx(0.5)
    assert len(done) == 2


def test_sums_count_by_the_fastest_kernel_and_evenly_routed_experts_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "sums.csv").write_text(
        "system,fw,kernel_source,num_gpus,message_size,latency\n"
        "h100_sxm,0,a,2,1024,0.010\nh100_sxm,0,b,2,1024,0.005\nb300_sxm,0,a,4,1024,0.010\n"
    )
    (tmp_path / "moe_l40s.csv").write_text(
        MOE + "bfloat16,16,2048,768,8,128,1,balanced,0.1\nbfloat16,16,2048,768,8,128,1,power_law_1.2,0.1\n"
    )
    found = operator_errors(tmp_path)
    assert [(one.operator, one.gpu, one.n) for one in found] == [
        ("experts", "L40S", 1), ("sums", "B300 SXM", 1), ("sums", "H100 SXM", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("gemm_h100_sxm.csv", "m,n,k,latency\n1,2,x,0.1\n", "gemm_h100_sxm.csv:2: could not convert"),
        ("gemm_abacus.csv", "m,n,k,latency\n1,2,3,0.1\n", "ends with no GPU that is known"),
        ("moe_h100.csv", MOE + "fp3,16,2048,768,8,128,1,power_law_1.2,0.1\n", "moe_h100.csv:2: 'fp3'"),
    ],
)
def test_a_defect_is_told_in_one_line(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(ParameterError, match="holds no table of operators"):
        operator_errors(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(SchemaError, match=says):
        operator_errors(tmp_path)


def test_public_operators(tmp_path: Path) -> None:
    """What bf16 servers rest on stays within what docs/scoreboard.md says; every tenth row."""
    for file in (public_tables() / "hardware").glob("aic_*.csv.gz"):
        with gzip.open(file, "rt") as table:
            rows = [line for i, line in enumerate(table) if i % 10 == 0]
        (tmp_path / file.stem).write_text("".join(rows))
    found = {(one.operator, one.gpu, one.weights): one.median for one in operator_errors(tmp_path)}
    for gpu in ("H100 SXM", "H200 SXM", "B200 SXM"):
        assert found["products", gpu, "bf16"] < 0.10
        assert found["experts", gpu, "bf16"] < 0.15
        assert found["attention", gpu, "one token"] < 0.15
    assert found["experts", "B200 SXM", "mxfp4"] < 0.12 < found["experts", "B200 SXM", "mxfp4, K3"]  # by Marlin
    for gpu in ("A100 SXM", "L40S"):
        assert found["attention", gpu, "one token"] < 0.08
        assert found["attention", gpu, "prompts"] < 0.10


def test_what_was_timed_again_and_again_is_read_from_the_second_level_cache(tmp_path: Path) -> None:
    """2 MiB of a product's weights on L40S, and 192 MiB, which six times over and alone do not fit into 96 MB."""
    gpu, bf16 = gpu_named("L40S"), FORMATS["bf16"]
    near = {of: replace(one, bandwidth=3.0 * one.bandwidth) for of, one in gpu.products.items()}
    small = product_seconds(replace(gpu, products=near), 1.0, 1024.0, 1024.0, bf16)
    large = product_seconds(gpu, 1.0, 12288.0, 8192.0, bf16)
    (tmp_path / "gemm_l40s.csv").write_text(f"m,n,k,latency\n1,1024,1024,{1e3 * small}\n1,12288,8192,{1e3 * large}\n")
    (found,) = operator_errors(tmp_path)
    assert found.n == 2
    assert found.mean == pytest.approx(0.0, abs=1e-12)
