"""Run the league: ``python -m benchmarks.league FOLDER [--markdown FILE]``.

FOLDER holds public tables in it or in folders directly in it, known by their columns (docs/scoreboard.md names them).
Every row is predicted by specplan, with measured operators, by aiconfigurator-core (both where it is installed), by
data sheets and, of speedups, by the acceptance length. Rows that cannot be read are named and skipped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.fit_coverage import coverages
from benchmarks.league.standings import counted, played
from benchmarks.league.tables import as_markdown, as_text
from calibrate.record.files import replacing
from specplan.output import progress
from theory.errors import SpecplanError


def main() -> int:
    """Read, predict, print; 1 where the folder has nothing to read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.league", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page for the documentation as well")
    arguments = parser.parse_args()
    try:
        with ExitStack() as stack:

            def start(total: int) -> Callable[[], None]:
                return stack.enter_context(progress("predicting rows", total))

            entries, boards = played(arguments.folder, start)
    except SpecplanError as error:
        print(f"league: error: {error}", file=sys.stderr)
        return 1
    covered = list(coverages(counted(arguments.folder, entries)))
    print(as_text(entries, boards, covered))
    if arguments.markdown is not None:
        with replacing(arguments.markdown) as temporary:
            temporary.write_text(as_markdown(entries, boards, covered), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
