"""The plan of a run: sizes against what is really allocated, numbers against the formulas, verdicts in words."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from cuda_devices import HostCudaBackend, simulate_on
from test_cuda_simulation import SMALL
from test_deck_load import GOOD

from ecsim.backend import expected
from ecsim.backend.cpu import CpuBackend
from ecsim.backend.cuda.assembly import cell_size
from ecsim.deck import load_deck
from ecsim.grid import Grid
from ecsim.massmatrix import MassMatrix
from ecsim.memory import available, faces
from ecsim.parallel.halo import Halo
from ecsim.parallel.topology import Topology
from ecsim.parallel.transport import Alone
from ecsim.plan import Finding, beam, findings, make_plan
from ecsim.report import Progress, cost_table, duration, human, plan_text
from ecsim.simulation import Simulation

UNIFORM = {
    "grid": {"cells": [16, 12, 8], "size": [3.2, 2.4, 1.6]},
    "time": {"dt": 0.1, "steps": 5},
    "problem": {"name": "thermal", "magnetic_field": [0.0, 0.0, 0.05]},
    "species": [
        {"name": "ions", "charge_to_mass": 1.0, "particles_per_cell": 24, "thermal_velocity": 0.01},
        {"name": "electrons", "charge_to_mass": -25.0, "particles_per_cell": 40, "thermal_velocity": 0.1,
         "drift": [0.0, 0.0, 0.3]},
    ],
}  # fmt: skip


PLANE = {"grid.cells": [60, 32], "grid.size": [12.0, 6.4]}


def numbers(deck) -> dict[tuple[str, str], Finding]:
    return {(finding.name, finding.of): finding for finding in findings(deck)}


def test_counts():
    plan = make_plan(load_deck(UNIFORM))
    assert plan.particles == {"ions": 24 * 1536, "electrons": 40 * 1536} and plan.n_particles == 64 * 1536
    assert plan.bytes == sum(plan.memory.values())


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"particles.position": "float32", "particles.ids": True, **PLANE},
        {"particles.sort_every": 3, "solver.guess": "last", "solver.restart": 10},
        {"species.ions.particles_per_cell": 40, "grid.shape": "tsc", **PLANE},
    ],
)
def test_memory_is_that_of_a_run(overrides):
    deck = load_deck(UNIFORM, {"backend.device": "cpu", "backend.threads": 1, **overrides})
    Simulation.from_deck(deck).step(1)
    tracemalloc.start()
    simulation = Simulation.from_deck(deck)
    tracemalloc.reset_peak()
    simulation.step(4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert make_plan(deck).bytes == pytest.approx(peak, rel=0.05)


@pytest.mark.parametrize("shape", ["cic", "tsc"])
def test_memory_on_a_gpu_is_that_of_a_run(shape, monkeypatch):
    """Its kernels on the host: the large arrays by their names in the plan."""
    simulate_on("host", monkeypatch)
    monkeypatch.setattr("ecsim.memory.RESIDENT", HostCudaBackend().resident_blocks("", "", 0, 0))
    deck = load_deck("double_harris", {**SMALL, "backend.device": "cuda", "grid.shape": shape})
    simulation = Simulation.from_deck(deck)
    simulation.step(2)
    planned, backend, block = make_plan(deck, "cuda").memory, simulation.plasma.backend, simulation.plasma.block
    for species in simulation.species:
        assert planned[f"particles: {species.name}"] == pytest.approx(sum(species.store.nbytes.values()), rel=1e-3)
    sums_of_moves = 5 * 8 * block.n_cells
    assert planned["outbox of the mover"] == pytest.approx(backend.outbox.nbytes + sums_of_moves, rel=0.05)
    assert planned["mass matrix"] == simulation.plasma.mass_matrix.values.nbytes
    assert planned["buffer for a new layout"] == 8 * max(species.store.slots for species in simulation.species)
    exact = 8 * cell_size(backend, block) * block.n_cells
    assert planned["sums of the assembly"] == pytest.approx(exact, rel=0.05)


def test_methods_with_atomics_have_no_sums_of_cells():
    for method, shape, there in (("mma", "cic", False), ("flat", "tsc", False), ("conventional", "cic", True)):
        deck = load_deck("double_harris", {"backend.device": "cuda", "assembly.method": method, "grid.shape": shape})
        assert ("sums of the assembly" in make_plan(deck, "cuda").memory) == there


class Counting(Alone):
    """A transport to nobody that notes the most bytes of an exchange, sent and received."""

    most = 0

    def exchange(self, neighbours, *arrays):
        self.most = max(self.most, sum(a.nbytes for a in arrays))
        for came in arrays[2:]:
            came[...] = 0.0

    start, finish = exchange, lambda *ignored: None


@pytest.mark.parametrize("ranks", [(2, 1, 1), (1, 2, 1), (2, 2, 2)])
@pytest.mark.parametrize("order", [1, 2])
def test_ghosts_of_the_matrix_that_travel_fit_the_plan(order, ranks):
    block = Topology(Grid((24, 20, 16), (1.0, 1.0, 1.0), order), ranks).block(0)
    transport = Counting()
    halo = Halo(block, [(0, 0) if n > 1 else None for n in ranks], transport)
    matrix = MassMatrix(block, halo, CpuBackend(1))
    matrix.complete(np.zeros((4, *block.padded)))
    planned = faces(block, matrix.values.nbytes)
    assert 0.5 * planned <= transport.most <= 1.1 * planned      # half: CIC along the first dimension


def test_a_plan_is_for_the_gpu_where_there_is_one(monkeypatch):
    assert [expected(name) for name in ("cpu", "cuda")] == ["cpu", "cuda"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for cupy, file, visible, device in ((True, __file__, "0,1", "cuda"), (True, __file__, "", "cpu"),
                                        (False, __file__, "0,1", "cpu"), (True, "/nowhere", "0,1", "cpu")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        monkeypatch.setattr("ecsim.backend.GPU_FILES", ("/nowhere", file))
        monkeypatch.setattr("importlib.util.find_spec", lambda name, there=cupy: there or None)
        assert expected("auto") == device


@pytest.mark.parametrize("overrides", [{}, {"particles.position": "float32"}, {"particles.velocity": "float32"},
                                       {"particles.ids": True}])
def test_particle_bytes_are_those_of_the_stores(overrides):
    deck = load_deck(UNIFORM, {"backend.device": "cpu", "backend.threads": 1, **overrides})
    for species in Simulation.from_deck(deck).species:
        assert make_plan(deck).memory[f"particles: {species.name}"] == sum(species.store.nbytes.values())


def test_species_of_varying_density_have_weights():
    deck = load_deck("double_harris")
    uniform = make_plan(load_deck(UNIFORM)).memory["particles: ions"] / (24 * 1536)
    harris = make_plan(deck).memory["particles: ions"] / (768 * 1024000)
    assert harris == pytest.approx(3 * 4 + 24 + 8, rel=1e-3) and uniform == pytest.approx(48 + 8 / 24, rel=1e-3)


def test_disk_use_is_what_is_written(tmp_path):
    changes = {"backend.device": "cpu", "output.fields_every": 2, "time.steps": 4, "checkpoint.every": 2}
    some = [{"kind": "fields", "name": "part", "every": 1, "records": ["B", "moments"], "stride": 2},
            {"kind": "particles", "every": 2}, {"kind": "health", "every": 1}]
    deck = load_deck({**UNIFORM, "diagnostic": some}, changes)
    run = tmp_path / "run"
    Simulation.from_deck(deck, output=run).run()
    plan = make_plan(deck)
    files = {"energies.h5": [run / "energies.h5"], "fields/: 3 snapshots": list((run / "fields").glob("*.h5")),
             "diagnostics/part/: 5 files": list((run / "diagnostics" / "part").glob("*.h5")),
             "diagnostics/particles/: 3 files": list((run / "diagnostics" / "particles").glob("*.h5")),
             "checkpoints/: 2 kept": list((run / "checkpoints").glob("*/*"))}
    assert plan.disk.keys() == files.keys()
    for name, written in files.items():
        assert plan.disk[name] == pytest.approx(sum(file.stat().st_size for file in written), rel=0.3)


def test_time_step_numbers():
    found = numbers(load_deck(UNIFORM))
    assert found["ω_p Δt", "ions"].values == pytest.approx([0.1])
    assert found["ω_p Δt", "electrons"].values == pytest.approx([0.5])
    assert found["Ω Δt", "electrons"].values == pytest.approx([25 * 0.05 * 0.1])
    assert found["v_th Δt/Δx", "electrons"].values == pytest.approx([0.05] * 3)
    assert found["Δx/λ_D", "electrons"].values == pytest.approx([0.2 * 5 / 0.1] * 3)
    assert found["c Δt/Δx", ""].values == pytest.approx([0.5] * 3)
    assert found["drift/(ω_p Δx)", "electrons"].values == pytest.approx([0, 0, 0.3 / (5 * 0.2)])
    assert ("drift/(ω_p Δx)", "ions") not in found


def test_a_drift_along_a_missing_dimension_does_not_count():
    deck = load_deck(UNIFORM, {"grid.cells": [8, 8], "grid.size": [1.0, 1.0]})
    assert ("drift/(ω_p Δx)", "electrons") not in numbers(deck)


@pytest.mark.parametrize(
    ("dt", "word", "slow"),
    [(0.02, "resolved", 0.0), (0.2, "stable, 7 % slow", 7.3), (1.0, "not resolved (52 % slow)", 52.4)],
)
def test_verdict_on_the_plasma_frequency(dt, word, slow):
    finding = numbers(load_deck(UNIFORM, {"time.dt": dt}))["ω_p Δt", "electrons"]
    assert finding.verdict.endswith(word)
    exact = 100 * (1 - 2 * math.atan(5 * dt / 2) / (5 * dt))
    assert exact == pytest.approx(slow, abs=0.4)


@pytest.mark.parametrize(("speed", "warning"), [(0.1, False), (1.0, False), (3.0, True)])
def test_verdict_on_thermal_travel(speed, warning):
    deck = load_deck(UNIFORM, {"species.electrons.thermal_velocity": speed})
    assert numbers(deck)["v_th Δt/Δx", "electrons"].warning is warning


def test_verdict_on_a_drift_that_crosses_cells():
    deck = load_deck(UNIFORM, {"species.electrons.drift": [0.0, 5.0, 0.0]})
    finding = numbers(deck)["v_th Δt/Δx", "electrons"]
    assert "crosses 2.5 cells a step" in finding.verdict and not finding.warning


def test_cold_species_have_no_debye_length():
    finding = numbers(load_deck(UNIFORM, {"species.electrons.thermal_velocity": 0.0}))["Δx/λ_D", "electrons"]
    assert math.isinf(finding.values[0]) and finding.verdict.startswith("cold")


def aliasing_growth(u: float, aliases: int = 15) -> float:
    """Largest growth rate in ω_p of a cold beam at u = v/(ω_p Δx), from 1 = ω_p² Σ_p S_p²/(ω − k_p v)²."""
    largest = 0.0
    for k in np.linspace(0.1, np.pi, 12):
        waves = k + 2 * np.pi * np.arange(-aliases, aliases + 1)
        coupling, count = np.sinc(waves / (2 * np.pi)) ** 2, 2 * aliases + 1
        matrix = np.kron(np.eye(2), np.diag(waves * u))
        matrix[:count, count:] = np.eye(count)
        matrix[count:, :count] = np.outer(coupling, coupling)
        largest = max(largest, float(np.linalg.eigvals(matrix).imag.max()))
    return largest


@pytest.mark.parametrize(("u", "unstable"), [(0.02, True), (0.1, True), (0.16, True), (0.2, False), (0.5, False)])
def test_verdict_on_cold_beams_follows_the_dispersion_relation(u, unstable):
    species = load_deck(UNIFORM).species[0]
    finding = beam(species, 1.0, [0.0], [u], [1.0], 1000.0)
    assert finding.warning is unstable
    assert (aliasing_growth(u) > 0.01) is unstable
    assert not beam(species, 1.0, [u], [u], [1.0], 1000.0).warning


def test_cold_beam_growth_is_bounded_by_the_stated_rate():
    for u in (0.01, 0.05, 0.1, 0.15):
        assert 0.6 * min(3 * u, 0.2) < aliasing_growth(u) < 1.1 * min(3 * u, 0.2)


def test_a_beam_too_slow_to_matter_is_no_warning():
    finding = beam(load_deck(UNIFORM).species[0], 1.0, [0.0], [1e-5], [1.0], 100.0)
    assert not finding.warning and "e-folds" in finding.verdict


def test_plan_text_tells_all():
    text = plan_text(make_plan(load_deck(UNIFORM, {"output.fields_every": 2})))
    for part in ("thermal: A uniform", "16 × 12 × 8 = 1,536 cells", "5 steps of 0.1", "electrons", "61,440",
                 "mass matrix", "Krylov", "KiB", "energies.h5", "snapshots", "ω_p Δt", "Ω Δt", "v_th Δt/Δx", "Δx/λ_D",
                 "c Δt/Δx", "drift/(ω_p Δx)", "0 × 0 × 0.3"):  # fmt: skip
        assert part in text


def test_plan_warns_of_too_little_memory():
    text = plan_text(make_plan(load_deck(GOOD, {"grid.cells": [10**6, 10**6]})))
    assert "! more than there is here" in text and "PiB" in text


def test_available_memory_is_that_of_the_machine_at_most():
    assert 2**27 < available("cpu") < 2**50
    assert available("cuda") is None


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (48 * 2**30, "48.0 GiB"), (2**70, "1048576.0 PiB")],
)
def test_human_bytes(count, text):
    assert human(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00:00"), (59.6, "0:01:00"), (3725, "1:02:05"), (360000, "100:00:00")]
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_cost_table_adds_up():
    text = cost_table({"solve": 2.0, "mover": 1.0, "special": 0.5}, 4.0, 1_000_000, [3, 5])
    rows = {line.split()[0]: line.split() for line in text.splitlines()}
    assert list(rows) == ["phase", "mover", "solve", "special", "other", "total", "GMRES"]
    assert rows["solve"] == ["solve", "2.00", "50.0", "%", "1000.0"]
    assert rows["other"] == ["other", "0.50", "12.5", "%", "250.0"]
    assert rows["total"] == ["total", "4.00", "100.0", "%", "2000.0"]
    assert "mean 4.0, most 5" in text


def test_cost_table_of_a_vacuum():
    assert cost_table({"solve": 1.0}, 1.0, 0, [1]).splitlines()[1].split() == ["solve", "1.00", "100.0", "%", "-"]


def test_progress_in_a_log_is_a_line_at_the_first_and_last_step(capsys):
    progress = Progress(100, 1000, terminal=False)
    for step in range(1, 101):
        progress.update(step, 0.1 * step, 1e-15)
    progress.close()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("step 1/100, t = 0.1, first step took") and lines[1].startswith("step 100/100, t = 10,")
    assert "particle-steps/s, 0:00:00 left" in lines[1] and "drift 1.0e-15" in lines[1]


def test_progress_in_a_log_comes_now_and_then(capsys, monkeypatch):
    clock = iter(range(0, 10_000, 4))
    monkeypatch.setattr("ecsim.report.time.monotonic", lambda: float(next(clock)))
    progress = Progress(100, 1000, terminal=False)
    for step in range(1, 31):
        progress.update(step, 0.1 * step, 0.0)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("/")[0] for line in lines] == [f"step {step}" for step in (1, 4, 7, 10, 13, 16, 19, 22, 25, 28)]
    assert "0.00025 M particle-steps/s, 0:06:24 left" in lines[1]


def test_progress_on_a_terminal_is_one_bar(capsys):
    progress = Progress(3, 10, terminal=True)
    for step in (1, 2, 3):
        progress.update(step, 0.1 * step, 2e-16)
    progress.close()
    captured = capsys.readouterr()
    assert captured.out == "" and "step 3/3" in captured.err and "particle-steps/s" in captured.err
