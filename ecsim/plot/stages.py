"""Where the time of a run went, stage by stage."""

from __future__ import annotations

from ecsim.plot.source import Run
from ecsim.plot.style import BLACK, COLOURS, GREY

HEIGHT = 2.2
LIGHT = COLOURS[4:7]
ORDER = ("mover", "sort", "migration", "assembly", "moments", "exchange", "solve", "reduce", "fields", "output")


def draw(run: Run, drawing) -> None:
    """One bar for each stretch between start or restart and end."""
    sessions = run.timings
    panel = drawing.subplots()
    names = [name for name in ORDER if any(name in s["seconds"] for s in sessions)]
    names += sorted({name for s in sessions for name in s["seconds"]} - set(names))
    colours = dict(zip([*names, "other"], [*(COLOURS * 2)[: len(names)], GREY], strict=True))
    for row, session in enumerate(sessions):
        steps = max(1, session["to_step"] - session["from_step"])
        parts = {name: session["seconds"].get(name, 0.0) for name in names}
        parts["other"] = max(0.0, session["wall_seconds"] - sum(parts.values()))
        left = 0.0
        for name, seconds in parts.items():
            width = 1e3 * seconds / steps
            panel.barh(row, width, left=left, color=colours[name], height=0.6, label=name if row == 0 else None)
            if width > 0.07 * 1e3 * session["wall_seconds"] / steps:
                panel.text(left + width / 2, row, f"{width:.3g}", ha="center", va="center", fontsize=8,
                           color=BLACK if colours[name] in LIGHT else "white")
            left += width
    labels = [f"steps {s['from_step']}–{s['to_step']}" for s in sessions]
    panel.set(yticks=range(len(sessions)), yticklabels=labels, xlabel="ms per step")
    panel.invert_yaxis()
    last = sessions[-1]
    if last["particles"]:
        rate = (last["to_step"] - last["from_step"]) * last["particles"] / last["wall_seconds"]
        device = last["device"].partition(" (")[0]
        panel.set_title(f"{device}, {1e-6 * rate:.3g} M particle-steps/s", fontsize=8)
    drawing.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=6)
