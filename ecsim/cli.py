"""The command line: run | check | decks | info | plot | watch | report.

Exit codes: 0 done, 2 bad input (deck, options, run directory, device), 3 the run failed, 4 it stopped before its end as
asked (time limit, SIGTERM) and can be continued, 130 interrupted by Ctrl-C.
Heavy imports wait until a command needs them, so that ``--help`` and ``check`` answer at once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ecsim.deck import Deck, DeckError, load_deck, shipped_decks
from ecsim.deck.faults import hint
from ecsim.deck.source import read_toml_text
from ecsim.exits import BAD_INPUT, INTERRUPTED, CommandError
from ecsim.parallel.launch import LaunchError, alone, fail, launched_rank, world


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are one message on stderr.

    Under mpiexec all ranks share in ``run`` and ``info``; other commands are rank 0's.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        world().same("commands", "\0".join(given))
    except LaunchError as error:
        if error.differ or not {"-h", "--help", "--version"} & set(given):      # these need no peers
            return fail(f"ecsim: {error}", BAD_INPUT)
    options = _parser().parse_args(arguments)
    if options.command in (run_command, info_command):
        return _run(options, fail)
    return alone(lambda: _run(options, _complain))


def _run(options: argparse.Namespace, end: Callable[[str, int], int]) -> int:
    """Run a command; ``end`` is given the message of one that fails, and its exit code, which it returns."""
    try:
        options.command(options)
    except (DeckError, LaunchError) as error:
        return end(f"ecsim: {error}", BAD_INPUT)
    except CommandError as error:
        return end(f"ecsim: {error}", error.code)
    except KeyboardInterrupt:
        return end("ecsim: interrupted", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _complain(message: str, code: int) -> int:
    print(message, file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ecsim", description="Energy-conserving semi-implicit particle-in-cell runs.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    run = commands.add_parser("run", help="run a deck", description="Run a deck and write its results.")
    _add_deck_options(run, optional=True)
    run.add_argument("-o", "--output", metavar="DIR", help="run directory (default: runs/<deck name>)")
    run.add_argument("--overwrite", action="store_true", help="replace an earlier run in the run directory")
    run.add_argument("--restart", metavar="DIR",
                     help="go on from a checkpoint, from the newest valid one of a run directory, "
                     "or from the `latest` of this run; without DECK the deck is the one of that run")
    run.add_argument("--max-minutes", metavar="M", type=_duration, help="stop with a checkpoint after M minutes")
    run.add_argument("--quiet", action="store_true", help="print nothing but errors")
    run.set_defaults(command=run_command, refuse=run.error)

    check = commands.add_parser("check", help="check a deck and print the plan of its run, without running it")
    _add_deck_options(check)
    check.set_defaults(command=check_command)

    decks = commands.add_parser("decks", help="list the shipped decks, or copy one to edit")
    decks.set_defaults(command=list_decks)
    actions = decks.add_subparsers(metavar="ACTION")
    actions.add_parser("list", help="list them (the default)").set_defaults(command=list_decks)
    copy = actions.add_parser("copy", help="copy one; never overwrites")
    copy.add_argument("name", metavar="NAME", help="name of a shipped deck")
    copy.add_argument("destination", metavar="DEST", nargs="?", default=".", help="file or directory (default: here)")
    copy.set_defaults(command=copy_deck)

    info = commands.add_parser("info", help="show versions, devices, threads and MPI")
    info.set_defaults(command=info_command)

    plot = commands.add_parser("plot", help="draw the figures of runs, finished or still going on")
    plot.add_argument("runs", metavar="RUN", nargs="+", help="run directory")
    plot.add_argument("--kind", action="append", metavar="KIND", help="energy, fields, growth, reconnection, "
                      "equilibrium, probe, spectrum, histogram, health or stages (default: all it can)")
    plot.add_argument("-o", "--output", metavar="DIR", help="where to put the figures (default: RUN/figures)")
    plot.add_argument("--format", default="png", metavar="FORMAT", help="png (default) or pdf")
    plot.add_argument("--movie", action="store_true", help="also make a film of the field snapshots (extra 'movie')")
    plot.add_argument("--compare", action="store_true", help="draw the energies of all runs into one figure instead")
    plot.add_argument("--every-snapshot", action="store_true", help="draw every field snapshot, not the last only")
    plot.set_defaults(command=plot_command)

    watch = commands.add_parser("watch", help="follow a run in the terminal: energies, rate, time left")
    watch.add_argument("run", metavar="RUN", help="run directory")
    watch.add_argument("--every", metavar="S", type=_duration, default=2.0, help="seconds between looks (default: 2)")
    watch.add_argument("--once", action="store_true", help="look once and exit")
    watch.set_defaults(command=watch_command)

    report = commands.add_parser("report", help="write one HTML page of a run: deck, machine, cost, ledger, pictures")
    report.add_argument("run", metavar="RUN", help="run directory")
    report.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: RUN/report.html)")
    report.set_defaults(command=report_command)
    return parser


def _add_deck_options(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    parser.add_argument("deck", metavar="DECK", nargs="?" if optional else None,
                        help="a TOML file, or the name of a shipped deck")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), help="where to compute")
    parser.add_argument("--threads", metavar="N", help="CPU threads (0: all cores)")
    parser.add_argument("--steps", metavar="N", help="number of steps, in place of the deck's steps or end_time")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], dest="changes",
        help="change a key of the deck: section.key=value, species.NAME.key=value (repeatable)",
    )  # fmt: skip


class _Parser(argparse.ArgumentParser):
    """Wrong usage and help are printed once for a job of many ranks."""

    def _print_message(self, message, file=None) -> None:
        if not launched_rank(os.environ):
            super()._print_message(message, file)


def _duration(text: str) -> float:
    """A finite time, not below 0; argparse makes its message of the ValueError."""
    number = float(text)
    if not 0 <= number < math.inf:
        raise ValueError
    return number


_duration.__name__ = "time"


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *ignored: object) -> None:
        from importlib.metadata import version

        parser._print_message(f"ecsim {version('ecsim')}\n", sys.stdout)
        parser.exit()


def _deck(options: argparse.Namespace, origin: str | os.PathLike[str] | dict | None = None) -> Deck:
    """The deck, or ``origin``, with the changes that the options ask for; --set first, so that named options win."""
    changes = list(options.changes)
    named = (
        ("backend.device", options.device and json.dumps(options.device)),
        ("backend.threads", options.threads),
        ("time.steps", options.steps),
        ("output.overwrite", getattr(options, "overwrite", False) and "true"),
    )
    changes += [f"{key}={value}" for key, value in named if value]
    return load_deck(options.deck if origin is None else origin, changes)


def run_command(options: argparse.Namespace) -> None:
    """``ecsim run``: everything that can be refused is refused before anything is allocated or written."""
    from ecsim.output.checkpoint import CheckpointError, origin_of
    from ecsim.output.rundir import RunDirectoryError, check_run_directory

    named = options.restart if options.restart != "latest" else None
    if options.deck is None and named is None:
        options.refuse("give a DECK, or --restart with the directory of a run")
    try:
        home, earlier = origin_of(named) if options.deck is None else (None, None)
        deck = _deck(options, None if earlier is None else read_toml_text(earlier, f"the deck of {named}"))
        directory = options.output or home or deck.output.directory or str(Path("runs") / Path(deck.source).stem)
        if options.restart is None:
            check_run_directory(directory, deck.output.overwrite)
    except (RunDirectoryError, CheckpointError) as error:
        raise CommandError(error) from None
    from ecsim.runner import run

    restart = directory if options.restart == "latest" else options.restart
    run(deck, str(directory), quiet=options.quiet, restart=restart, max_minutes=options.max_minutes)


def check_command(options: argparse.Namespace) -> None:
    """``ecsim check``: print the plan."""
    from ecsim.backend import expected
    from ecsim.plan import make_plan
    from ecsim.report import plan_text

    deck = _deck(options)
    print(plan_text(make_plan(deck, expected(deck.backend.device))))


def list_decks(options: argparse.Namespace) -> None:
    """``ecsim decks``: the shipped decks, each with the first line of its comment."""
    for name, path in shipped_decks().items():
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        print(f"{name:<22}{first.lstrip('# ')}")


def copy_deck(options: argparse.Namespace) -> None:
    """``ecsim decks copy NAME [DEST]``."""
    shipped = shipped_decks()
    name = options.name.removesuffix(".toml")
    if name not in shipped:
        raise CommandError(f"no shipped deck {options.name}{hint(name, shipped) or '; see `ecsim decks`'}")
    target = Path(options.destination)
    try:
        target = target / f"{name}.toml" if target.is_dir() else target
        with open(target, "x", encoding="utf-8") as copy:
            copy.write(shipped[name].read_text(encoding="utf-8"))
    except FileExistsError:
        raise CommandError(f"{target} exists and is left alone; give another name") from None
    except OSError as error:
        raise CommandError(f"cannot write {target}: {error.strerror}") from None
    print(f"copied to {target}")


def info_command(options: argparse.Namespace) -> None:
    """``ecsim info``: versions, devices, threads, MPI."""
    from ecsim.info import info_text

    text = info_text()
    if world().is_root:
        print(text)


def watch_command(options: argparse.Namespace) -> None:
    """``ecsim watch``: until the run is finished."""
    from ecsim.watch import watch

    try:
        watch(options.run, options.every, options.once)
    except OSError as error:
        raise CommandError(error) from None


def report_command(options: argparse.Namespace) -> None:
    """``ecsim report``: one page of a run."""
    from ecsim.plot import PlotError
    from ecsim.run_report import write_report

    try:
        print(write_report(options.run, options.output))
    except (PlotError, OSError) as error:
        raise CommandError(error) from None


def plot_command(options: argparse.Namespace) -> None:
    """``ecsim plot``: figures from the files of runs."""
    from ecsim.plot import PlotError, plot_comparison, plot_run

    if options.compare:
        try:
            print(plot_comparison(options.runs, options.output or ".", options.format))
        except (PlotError, OSError) as error:
            raise CommandError(error) from None
        return
    for run in options.runs:
        try:
            written = plot_run(
                run, options.kind, options.output, format=options.format, every_snapshot=options.every_snapshot,
                movie=options.movie,
            )
        except (PlotError, OSError) as error:
            raise CommandError(error) from None
        for path in written:
            print(path)
