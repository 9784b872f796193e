"""The manual agrees with the code: commands parse, examples run, equation numbers match, links lead on."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from ecsim.cli import _parser, main
from ecsim.deck import shipped_decks

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EQUATIONS = "push velocity alpha rho J-hat mass-matrix current field E-new B-new energy pair-product".split()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", text_of(page))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def with_python(page: Path) -> bool:
    return bool(blocks(page, "python"))


@pytest.mark.parametrize("page", list(filter(with_python, PAGES)), ids=name)
def test_python_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    exec(compile("\n".join(blocks(page, "python")), name(page), "exec"), {})
    assert not list(tmp_path.iterdir()), "an example left files behind"


def documented_commands():
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.splitlines():
                for part in line.split("&&"):
                    if part.split()[:1] == ["ecsim"]:
                        yield pytest.param(part, id=f"{name(page)}: {part.strip()}")


@pytest.mark.parametrize("command", list(documented_commands()))
def test_commands_parse(command):
    words = shlex.split(command, comments=True)[1:]
    options = _parser().parse_args(words)
    deck = getattr(options, "deck", "DECK")
    assert deck in shipped_decks() or deck in ("DECK", "mine.toml") or (deck is None and options.restart)


def shown_outputs():
    """Blocks of output that follow a block of commands, with the last of these commands."""
    for page in PAGES:
        fences = re.findall(r"(?ms)^```(\w+)\n(.*?)^```$", text_of(page))
        for (language, commands), (following, output) in itertools.pairwise(fences):
            if (language, following) == ("sh", "text"):
                command = commands.splitlines()[-1]
                yield pytest.param(command, output, id=f"{name(page)}: {command}")


@pytest.mark.parametrize("command, output", list(shown_outputs()))
def test_shown_output_is_what_the_command_prints(command, output, capsys):
    main(shlex.split(command)[1:])
    printed = "".join(capsys.readouterr()).replace(f"{ROOT / 'decks'}/", "").splitlines()
    missing = {line.strip() for line in output.splitlines()} - {line.strip() for line in printed} - {"…"}
    assert output.strip() and not missing


def test_readme_opens_with_a_picture_and_has_two_set_up_lines():
    text = text_of(ROOT / "README.md")
    picture = re.match(r"# ecsim\n\n!\[[^\]]+\]\(([^)]+)\)", text)
    assert picture and (ROOT / picture[1]).stat().st_size > 10_000
    setups = [line for line in text.splitlines() if "-m venv" in line]
    assert len(setups) == 2
    assert setups[0].endswith("&& ecsim run double_harris_2d")
    assert setups[1].endswith("&& pytest")


def test_ci_runs_the_command_of_the_readme():
    ci = ROOT / ".ci" / "run"
    said = subprocess.run(["bash", ci, "--print-test-command"], capture_output=True, text=True, check=True)
    (line,) = (x for x in text_of(ROOT / "README.md").splitlines() if x.endswith("&& pytest"))
    assert said.stdout.strip() == line
    assert '\nbash -c "$readme_test"\n' in text_of(ci)


def test_equation_numbers_of_the_cycle_are_those_of_the_theory():
    labels = re.findall(r":label: eq-(\S+)", text_of(ROOT / "docs" / "theory.md"))
    assert labels == EQUATIONS
    cited = {}
    for line in text_of(ROOT / "ecsim" / "cycle.py").splitlines():
        found = re.search(r"#(.*)\(([\d–, ]+)\)$", line)
        if found:
            cited[found[2]] = line
    assert set(cited) == {"1", "2, 1", "4–6", "8", "9", "10"}
    assert "push" in cited["1"] and "curl_to_nodes" in cited["8"]
    assert "p.E[p.owned] =" in cited["9"] and "p.B[p.owned] -=" in cited["10"]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_local_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(page)):
        assert "://" in target or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_files_exist(page):
    folders = "ecsim|kernels|scripts|tests|decks|docs"
    for path in re.findall(rf"`((?:{folders})/[\w./]+)`", text_of(page)):
        assert (ROOT / path).exists(), path
