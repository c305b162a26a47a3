"""Turn the journals of a target, a draft and a judge into a profile, and print what it says.

``python -m benchmarks.gpu.make_profile --runs DIR --target qwen3-32b --draft qwen3-1.7b --judge qwen2.5-7b
--name h200-qwen3-32b -o calibrate/profiles/h200-qwen3-32b.json``
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu.assemble import ROLES, latency_profile
from benchmarks.gpu.measure_torch import journal_path
from benchmarks.gpu.report import report
from benchmarks.gpu.shapes import SHAPES
from specplan.output import check_output
from theory.errors import SpecplanError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the profile, print the report, return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    args = _parser().parse_args(arguments)
    try:
        check_output(args.output, force=args.force)
        prefix = "vllm-" if args.vllm else ""
        sharing = journal_path(args.runs, args.target, args.draft)
        profile = latency_profile(
            args.name,
            {role: journal_path(args.runs, prefix + getattr(args, role)) for role in ROLES},
            sharing=sharing if sharing.exists() and not args.vllm else None,
            one_gpu=args.one_gpu,
            request_s=None if args.request_ms is None else args.request_ms / 1e3,
            command=shlex.join(["python", "-m", "benchmarks.gpu.make_profile", *arguments]),
        )
    except SpecplanError as error:
        print(f"make_profile: error: {error}", file=sys.stderr)
        return 2
    if args.output is not None:
        profile.write(args.output)
    print(report(profile))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make_profile", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True, help="folder of the journals")
    for role in ROLES:
        parser.add_argument(f"--{role}", required=True, choices=sorted(SHAPES))
    parser.add_argument("--name", required=True, help="name of the profile")
    parser.add_argument("--vllm", action="store_true", help="take what was measured through vLLM")
    parser.add_argument("--one-gpu", action="store_true", help="the engines share one GPU; default one for each")
    parser.add_argument("--request-ms", type=float, help="fixed cost of a request to assume, ms; default none")
    parser.add_argument("-o", "--output", type=Path, help="file of the profile")
    parser.add_argument("--force", action="store_true", help="overwrite it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
