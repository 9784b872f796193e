"""Every kernel compiles for every architecture that is supported, without a GPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import pytest

from ecsim.backend.cuda import compile as nvrtc

ARCHITECTURES = (80, 90, 100)
FILES = sorted(path.name for path in nvrtc.kernel_directory().glob("*.cu"))


@pytest.fixture(scope="module", autouse=True)
def library():
    try:
        nvrtc._nvrtc()
    except nvrtc.CompileError as error:
        pytest.skip(str(error))


def pairs(macros: dict) -> set:
    return set(combinations(sorted(macros.items()), 2)) or set(macros.items())


def pairwise(variants: list[dict]) -> list[dict]:
    """As few of the variants as a greedy choice finds in which all values that occur together in any still do."""
    missing, chosen = set().union(*map(pairs, variants)), []
    while missing:
        chosen.append(max(variants, key=lambda macros: len(pairs(macros) & missing)))
        missing -= pairs(chosen[-1])
    return chosen


def compile_all(file: str, architecture: int, variants: list[dict]) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(lambda macros: nvrtc.compile_offline(file, macros, architecture), variants))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("file", FILES)
def test_kernels_compile_without_a_word(file, architecture):
    compile_all(file, architecture, pairwise(nvrtc.variants(file)))


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("file", FILES)
def test_all_variants_compile_without_a_word(file, architecture):
    compile_all(file, architecture, nvrtc.variants(file))


def test_pairs_of_values_are_all_compiled():
    variants = nvrtc.variants("mass_pair.cu")
    chosen = pairwise(variants)
    every, kept = (set().union(*map(pairs, some)) for some in (variants, chosen))
    assert every == kept and len(chosen) < len(variants) / 10


def test_tensor_core_instructions_are_those_of_the_architecture():
    macros = {"DIM": 3, "ORDER": 1, "POS": "float", "GATHER": "double", "REAL": "double", "COLUMNS": 0}
    for architecture, instruction in ((80, "m8n8k4"), (90, "m16n8k8")):
        assert f"mma.sync.aligned.{instruction}.row.col.f64" in nvrtc.compile_offline(
            "mass_pair.cu", macros, architecture, what="PTX").decode()


def test_an_error_shows_the_log(tmp_path, monkeypatch):
    (tmp_path / "formulas.cuh").write_text("")
    (tmp_path / "wrong.cu").write_text("extern \"C\" __global__ void wrong() { int x = undefined_name; }\n")
    monkeypatch.setattr(nvrtc, "kernel_directory", lambda: tmp_path)
    with pytest.raises(nvrtc.CompileError, match="undefined_name"):
        nvrtc.compile_offline("wrong.cu", {"DIM": 1}, 90)
    (tmp_path / "silent.cu").write_text("extern \"C\" __global__ void silent() {}\n")
    with pytest.raises(ValueError, match="variants"):
        nvrtc.variants("silent.cu")


def test_the_hash_sees_included_headers(tmp_path, monkeypatch):
    monkeypatch.setattr(nvrtc, "kernel_directory", lambda: tmp_path)
    hashes = []
    for text in ("", "// other"):
        (tmp_path / "formulas.cuh").write_text(text)
        nvrtc.source_hash.cache_clear()
        hashes.append(nvrtc.source_hash())
    nvrtc.source_hash.cache_clear()
    assert hashes[0] != hashes[1]
