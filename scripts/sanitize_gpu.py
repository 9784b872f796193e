"""compute-sanitizer over the small CUDA tests: memory errors and races of every kernel, on this GPU.

    python scripts/sanitize_gpu.py                       # memcheck and racecheck, some minutes
    python scripts/sanitize_gpu.py --tools racecheck -k "order or two_blocks"

The exit code is not 0 if a tool finds something, if a test fails, or if none was run. compute-sanitizer comes with the
CUDA toolkit.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from ecsim.backend import BackendError, select

TESTS = Path(__file__).resolve().parents[1] / "tests"
FILES = [f"test_cuda_{name}.py" for name in ("mass", "order", "particles", "migrate", "fields")]
SMALL = "not 1e5 and not crowd and not one_cell"     # the others would take the tools very long
FOUND = 99


def command(sanitizer: str, tool: str, selection: str) -> list[str]:
    """Pytest in one process under ``tool``; kernels of other libraries are looked at as well."""
    return [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "all", sys.executable,
            "-m", "pytest", "-m", "cuda", "-q", "-n", "0", "--timeout", "0", "-k", selection,
            *(str(TESTS / name) for name in FILES)]


def main() -> None:
    """Run the tools one after the other and tell what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", nargs="+", default=["memcheck", "racecheck"],
                        choices=["memcheck", "racecheck", "synccheck", "initcheck"])
    parser.add_argument("-k", dest="selection", default=SMALL, help="tests, as pytest selects them")
    options = parser.parse_args()
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if sanitizer is None:
        sys.exit("compute-sanitizer is not there: it comes with the CUDA toolkit")
    try:
        select("cuda")
    except BackendError as error:
        sys.exit(str(error))
    outcomes = {tool: subprocess.run(command(sanitizer, tool, options.selection)).returncode for tool in options.tools}
    for tool, code in outcomes.items():
        print(f"{tool}: {'clean' if code == 0 else 'it found something' if code == FOUND else f'exit code {code}'}")
    sys.exit(any(outcomes.values()))


if __name__ == "__main__":
    main()
