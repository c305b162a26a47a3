"""Names of GPUs, as people, drivers and clouds write them."""

import pytest

from theory.errors import ParameterError
from theory.hardware.formats import FORMATS
from theory.hardware.gpus import GPUS, gpu_named
from theory.hardware.operators import product_seconds


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("H100", "NVIDIA H100 SXM"),
        ("H100 80GB", "NVIDIA H100 SXM"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM"),
        ("H100-PCIe", "NVIDIA H100 PCIe"),
        ("A100 40GB", "NVIDIA A100 SXM 40GB"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 SXM 40GB"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe"),
        ("h200-141gb", "NVIDIA H200 SXM"),
        ("B200 180 GB", "NVIDIA B200 SXM"),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA A100 PCIe 40GB"),
        ("A100 40GB PCIe", "NVIDIA A100 PCIe 40GB"),
        ("A10G", "NVIDIA A10G"),
        ("V100", "NVIDIA V100"),
        ("Tesla V100-SXM2-16GB", "NVIDIA V100 16GB"),
        ("GH200 144GB HBM3e", "NVIDIA GH200 144GB"),
        ("RTX 4090D", "NVIDIA RTX 4090 D"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "NVIDIA RTX PRO 6000 Max-Q"),
        ("Jetson AGX Thor", "NVIDIA Jetson Thor"),
        ("Tesla T4 16GB", "NVIDIA T4"),
        ("L20", "NVIDIA L20"),
        ("RTX 4090 24GB", "NVIDIA RTX 4090"),
        ("GeForce RTX 3090", "NVIDIA RTX 3090"),
        ("RTX6000 Ada", "NVIDIA RTX 6000 Ada"),
        ("NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX 6000 Ada"),
        ("RTX PRO 6000 Blackwell Server Edition", "NVIDIA RTX PRO 6000"),
        ("rtx6000pro", "NVIDIA RTX PRO 6000"),
        ("a6000", "NVIDIA RTX A6000"),
        ("DGX Spark", "NVIDIA GB10"),
        ("AMD Instinct MI350X", "AMD MI350X"),
        ("Radeon 8060S", "AMD Strix Halo"),
        ("AMD Radeon RX 7900 XTX", "AMD Radeon RX 7900 XTX"),
        ("R9700", "AMD Radeon AI PRO R9700"),
    ],
)
def test_names_that_people_type(said: str, name: str) -> None:
    assert gpu_named(said).name == name


def test_arithmetic_is_scaled_by_what_large_products_reach() -> None:
    """GeForce cards reach all of their data sheet, the fitted L40S 74 % of its own."""
    known, like = GPUS["NVIDIA RTX 4090"], GPUS["NVIDIA L40S"]
    reached = known.products["bf16"].rate / like.products["bf16"].rate
    assert reached == pytest.approx(164.0 / 269.0)
    assert reached > 1.3 * known.sheet.bf16 / like.sheet.bf16
    fp8 = known.products["fp8"].rate / like.products["fp8"].rate
    assert fp8 == pytest.approx(reached * (330.0 / 165.0) / (733.0 / 362.0))


@pytest.mark.parametrize(
    ("name", "kin", "share"),
    [
        ("RTX 5080", "NVIDIA RTX PRO 6000", 1.06 / 0.828), ("RTX PRO 6000 Max-Q", "NVIDIA RTX PRO 6000", 1.0),
        ("RTX 6000 Ada", "NVIDIA L40S", 1.0), ("L4", "NVIDIA L40S", 1.0),
    ],
)  # fmt: skip
def test_gpus_that_were_not_measured_reach_what_their_kin_do(name: str, kin: str, share: float) -> None:
    gpu, like = gpu_named(name), GPUS[kin]
    scaled = like.products["bf16"].rate * gpu.sheet.bf16 / like.sheet.bf16
    assert gpu.products["bf16"].rate / scaled == pytest.approx(share, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "has"), [("RTX 3090", False), ("A10G", False), ("A100", False), ("RTX 4090", True), ("L4", True)]
)
def test_cards_without_units_for_fp8_widen_such_weights(name: str, has: bool) -> None:
    """They are read in half the time, and multiplied as bf16 in products as in experts, neither in tiles of fp8."""
    gpu = gpu_named(name)
    assert ("fp8" in gpu.products, "fp8" in gpu.experts) == (has, has)
    bf16, fp8 = (product_seconds(gpu, 4096.0, 8192.0, 8192.0, FORMATS[of]) for of in ("bf16", "fp8"))
    assert (fp8 < 0.8 * bf16) == has
    bf16, fp8 = (product_seconds(gpu, 1.0, 65536.0, 8192.0, FORMATS[of]) for of in ("bf16", "fp8"))
    assert fp8 == pytest.approx(bf16 / 2.0, rel=0.2)


def test_every_gpu_is_found_by_its_own_name() -> None:
    assert [gpu_named(name).name for name in GPUS] == list(GPUS)


@pytest.mark.parametrize(
    ("said", "near"), [("L40S 24GB", "NVIDIA L40S' (48 GB)"), ("H100 40GB", "NVIDIA A100 SXM 40GB' (43 GB)")]
)
def test_another_memory_is_another_gpu(said: str, near: str) -> None:
    with pytest.raises(ParameterError, match="is not known; did you mean") as caught:
        gpu_named(said)
    assert near in str(caught.value)
