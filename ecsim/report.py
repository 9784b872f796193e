"""What a run tells its user: the plan before it, a progress line during it, a table of costs after it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

from tqdm import tqdm

from ecsim.memory import available
from ecsim.plan import Finding, Plan
from ecsim.problems import registry

PHASES = ("mover", "sort", "assembly", "moments", "solve", "fields", "output")
LOG_SECONDS = 10.0


def say(text: str, end: str = "\n") -> None:
    """Print for the user; where nobody reads any more, as behind ``| head``, the run goes on without a word."""
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def plan_text(plan: Plan) -> str:
    """The plan as text."""
    where = f"{plan.device}, of the rank that has most" if plan.topology else plan.device
    lines = [*_head(plan), "", *_particles(plan), "", f"memory on {where}"]
    lines += _bytes(plan.memory)
    limit = available(plan.device)
    if limit is not None and plan.bytes > limit:
        lines.append(f"! {'more than there is here':<40}{human(limit):>14}")
    lines += ["", "disk", *_bytes(plan.disk), "", "what the time step and the cells resolve"]
    return "\n".join(lines + _findings(plan.findings))


def _head(plan: Plan) -> list[str]:
    deck = plan.deck
    grid, clock = deck.grid, deck.time
    summary = (registry()[deck.problem.name].__doc__ or "").strip().partition("\n")[0]
    names = {"cic": "linear shape (cic)", "tsc": "quadratic shape (tsc)"}
    span = f"{clock.n_steps} steps of {clock.dt:g} to t = {clock.n_steps * clock.dt:g}"
    spacing = _each(f"{h:.4g}" for h in grid.spacing)
    table = {
        "deck": deck.source or "(not from a file)",
        "problem": f"{deck.problem.name}: {summary}",
        "grid": f"{_by(grid.cells)} = {grid.n_cells:,} cells, Δx = {spacing} d_i, {names[grid.shape]}",
        "time": f"{span} /ω_pi, θ = {clock.theta:g}",
        "assembly": f"{deck.assembly.method}, {deck.assembly.precision}",
        "device": deck.backend.device,
    }
    if plan.topology:
        table["ranks"] = plan.topology.describe()
    return [f"{name:<10}{text}" for name, text in table.items()]


def _particles(plan: Plan) -> list[str]:
    lines = [f"{'particles':<26}{'per cell':>10}{'in all':>18}"]
    for species in plan.deck.species:
        lines.append(f"  {species.name:<24}{species.per_cell:>10,}{plan.particles[species.name]:>18,}")
    return [*lines, f"  {'total':<24}{'':>10}{plan.n_particles:>18,}"]


def _bytes(table: dict[str, int]) -> list[str]:
    rows = {**table, "total": sum(table.values())}
    return [f"  {name:<40}{human(count):>14}" for name, count in rows.items()]


def _findings(found: Sequence[Finding]) -> list[str]:
    lines = []
    for item in found:
        values = _each(f"{value:.3g}" for value in item.values)
        mark = "!" if item.warning else " "
        lines.append(f"{mark} {item.name:<15}{item.of:<14}{values:>20}  {item.verdict}")
    return lines


def _by(values: Iterable[object]) -> str:
    return " × ".join(str(value) for value in values)


def _each(values: Iterable[str]) -> str:
    """A value for each dimension, or one where they are the same."""
    values = list(values)
    return values[0] if len(set(values)) == 1 else _by(values)


def human(count: int) -> str:
    """Bytes in the unit that reads best."""
    size, units = float(count), ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    index = 0
    while size >= 1024 and index < len(units) - 1:
        size, index = size / 1024, index + 1
    return f"{size:.0f} {units[index]}" if index == 0 else f"{size:.1f} {units[index]}"


def opening(plan: Plan, device: str, seconds: float, ranks: str = "") -> str:
    """What is about to run, where, and what the plan warns of."""
    deck = plan.deck
    lines = [
        f"{deck.problem.name}: {_by(deck.grid.cells)} cells, {plan.n_particles:,} particles, "
        f"{deck.time.n_steps} steps of {deck.time.dt:g}",
        f"{device}; {human(plan.bytes)} of memory{' a rank' if plan.topology else ''}; ready after {seconds:.1f} s",
        *([ranks] if ranks else []),
    ]
    return "\n".join(lines + _findings([item for item in plan.findings if item.warning]))


class Progress:
    """How far a run is: a bar on a terminal, else a plain line at the first step, the last, and now and then.

    The first step, which may have to compile, counts neither for the rate nor for the time left.

    Parameters
    ----------
    n_steps, n_particles : length of the run and macro-particles in it.
    terminal : whether to draw the bar; None asks whether stderr is a terminal.
    """

    def __init__(self, n_steps: int, n_particles: int, terminal: bool | None = None) -> None:
        self.n_steps, self.n_particles = n_steps, n_particles
        self._started = self._reported = time.monotonic()
        self._first: tuple[int, float] | None = None
        self._bar: tqdm | None = None
        if sys.stderr.isatty() if terminal is None else terminal:
            layout = "{percentage:3.0f} %|{bar}| step {n}/{total} [{elapsed}{postfix}]"
            self._bar = tqdm(total=n_steps, bar_format=layout, file=sys.stderr)

    def update(self, step: int, time_now: float, drift: float) -> None:
        """Report `step` finished cycles at run time `time_now`, with the relative energy drift."""
        now = time.monotonic()
        numbers = f"{self._speed(step, now)}, drift {drift:.1e}"
        if self._bar is not None:
            self._bar.set_postfix_str(numbers, refresh=False)
            self._bar.update(step - self._bar.n)
        elif self._first is None or step == self.n_steps or now - self._reported >= self._pause(now):
            say(f"step {step}/{self.n_steps}, t = {time_now:.6g}, {numbers}")
            self._reported = now
        if self._first is None:
            self._first = step, now

    def close(self) -> None:
        """Take the bar off the line."""
        if self._bar is not None:
            self._bar.close()

    def _speed(self, step: int, now: float) -> str:
        """Particle-steps per second and time left, from the steps after the first."""
        if self._first is None:
            return f"first step took {now - self._started:.1f} s"
        steps, seconds = step - self._first[0], max(now - self._first[1], 1e-9)
        left = duration((self.n_steps - step) * seconds / steps)
        if not self.n_particles:
            return f"{steps / seconds:.3g} steps/s, {left} left"
        return f"{1e-6 * steps * self.n_particles / seconds:.3g} M particle-steps/s, {left} left"

    def _pause(self, now: float) -> float:
        return max(LOG_SECONDS, 0.05 * (now - self._started))


def duration(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def cost_table(seconds: Mapping[str, float], wall: float, n_particles: int, iterations: Sequence[int]) -> str:
    """Seconds and share of each phase of a run of `wall` seconds, ns per particle-step, GMRES iterations."""
    named = [phase for phase in PHASES if phase in seconds] + sorted(set(seconds) - set(PHASES))
    rows = {phase: seconds[phase] for phase in named}
    rows["other"] = max(0.0, wall - sum(rows.values()))
    rows["total"] = wall
    particle_steps = n_particles * len(iterations)
    lines = [f"{'phase':<12}{'seconds':>10}{'share':>9}{'ns per particle-step':>24}"]
    for phase, spent in rows.items():
        each = f"{1e9 * spent / particle_steps:.1f}" if particle_steps else "-"
        lines.append(f"{phase:<12}{spent:>10.2f}{100 * spent / wall:>7.1f} %{each:>24}")
    if iterations:
        mean = sum(iterations) / len(iterations)
        lines.append(f"GMRES iterations a step      mean {mean:.1f}, most {max(iterations)}")
    return "\n".join(lines)
