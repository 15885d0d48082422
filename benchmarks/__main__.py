"""Run all benchmarks, one after the other, each in a fresh interpreter, and keep what they measure.

    python -m benchmarks [--quick] [--json FILE] [NAME ...]

One that fails keeps nobody from going on; it is named at the end. The results of the others, and those that a file
already has of benchmarks that were not run, are written all the same: as long as machine and versions are still those
of the file. `python -m benchmarks.report` brings the results into the documentation.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.harness import Suite, load, results, save, tell

RESULTS = Path(__file__).parent / "results.json"

ORDER = (
    "pipeline",
    "loopback",
    "operators",
    "scaling",
    "snapshots",
    "memory",
    "startup",
    "fan_out",
    "partial",
    "repair",
    "resume",
)
"""The modules, in the order of the documentation."""

NAMES = tuple(name for name in ORDER if find_spec(f"benchmarks.{name}"))
"""Those that are there."""


def run(name: str, quick: bool, file: Path) -> Suite | None:
    """Run a benchmark in a fresh interpreter; None if it fails.

    Args:
        name: Its name.
        quick: Whether a quick look is enough.
        file: Where it writes.
    """
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(file), *(["--quick"] if quick else [])]
    began = time.monotonic()
    code = subprocess.run(command, cwd=RESULTS.parent.parent, check=False).returncode
    tell(f"{name}: {time.monotonic() - began:.0f} s{f', failed with {code}' if code else ''}\n")
    return None if code else load(file).suites[name]


def keep(suites: dict[str, Suite], file: Path) -> None:
    """Write what was measured, beside what the file already has of the same machine and versions."""
    measured = results(suites)
    if file.exists():
        before = load(file)
        if (before.machine, before.cores, before.versions) == (measured.machine, measured.cores, measured.versions):
            suites = {**before.suites, **suites}
        else:
            tell(f"{file.name} was of another machine or of other versions, and is replaced")
    save(file, results({name: suites[name] for name in ORDER if name in suites}))


def main() -> int:
    """Run them; the exit code says whether one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(NAMES)} (all)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller workloads: to have a look")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where to write the results")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in NAMES]:
        parser.error(f"expected names out of {', '.join(NAMES)}, got {', '.join(unknown)}")
    if options.json.exists():
        try:
            load(options.json)
        except ValueError:
            parser.error(f"expected {options.json} to hold results of benchmarks, got another file")
    suites: dict[str, Suite] = {}
    failed: list[str] = []
    with TemporaryDirectory() as folder:
        for name in options.names or NAMES:
            tell(f"== {name}")
            suite = run(name, options.quick, Path(folder) / f"{name}.json")
            if suite is None:
                failed.append(name)
            else:
                suites[name] = suite
                keep(suites, options.json)  # at once, so that nothing is lost when somebody loses patience
    tell(f"failed: {', '.join(failed)}" if failed else f"all of it is in {options.json}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
