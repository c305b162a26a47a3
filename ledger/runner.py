"""Re-derive verdicts in parallel and compare them with the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ledger.ledger import Claim, Evidence, Testable, Verdict, claim, claims
from ledger.proving.cases import Predicate
from ledger.proving.formulas import Formula

__all__ = ["CRASHED", "Verification", "verify_all", "verify_claim"]

POINTS = {Formula: 400, Predicate: 150}
"""Random and extreme points that a claim is tried at; a predicate may enumerate at each."""
CRASHED = "error"
"""The method of the evidence of a verifier that raised."""

_GOOD_CORRECTIONS = frozenset({Verdict.PROVED, Verdict.VERIFIED, Verdict.NUMERIC})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A claim's recorded verdict beside the one derived now."""

    id: str
    recorded: Verdict
    evidence: Evidence
    correction: Evidence | None
    """Evidence for the corrected statement; None when the claim has none."""
    seconds: float
    """Wall time of both verifiers, seconds."""

    @property
    def agrees(self) -> bool:
        """The derived verdict is the recorded one, and the correction, if any, holds."""
        corrected = self.correction is None or self.correction.verdict in _GOOD_CORRECTIONS
        crashed = self.evidence.method == CRASHED
        return self.evidence.verdict is self.recorded and corrected and not crashed


def verify_claim(item: Claim) -> Verification:
    """Run both verifiers of a claim; an exception inside counts as a failed derivation, with its text as the detail."""
    start = time.perf_counter()
    evidence = _tried(item.formula, item.id, _guarded(item.verify))
    correction = item.correction_verify and _tried(item.correction_formula, item.id, _guarded(item.correction_verify))
    seconds = time.perf_counter() - start
    return Verification(id=item.id, recorded=item.verdict, evidence=evidence, correction=correction, seconds=seconds)


def verify_all(
    ids: Iterable[str] | None = None, *, jobs: int = 2, progress: Callable[[Verification], None] | None = None
) -> tuple[Verification, ...]:
    """Derive the verdicts of the named claims (default all), in ledger order.

    Parameters
    ----------
    ids : claim ids; None means the whole ledger.
    jobs : worker processes, >= 1; 1 runs in this process.
    progress : called once per finished claim, in the order of completion.

    Raises
    ------
    ParameterError : an unknown id.
    """
    wanted = [item.id for item in claims()] if ids is None else [claim(name).id for name in ids]
    done: dict[str, Verification] = {}
    for result in _results(wanted, jobs):
        done[result.id] = result
        if progress is not None:
            progress(result)
    return tuple(done[name] for name in wanted)


def _results(ids: list[str], jobs: int) -> Iterator[Verification]:
    """Verifications in the order of completion."""
    if jobs == 1:
        yield from map(_verify_id, ids)
        return
    from joblib import Parallel, delayed

    # batch_size=1: claims differ by four orders of magnitude in cost, so no batch may hold back a dear one
    pool = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
    yield from pool(delayed(_verify_id)(name) for name in ids)


def _verify_id(claim_id: str) -> Verification:
    """Entry point of a worker: records hold closures, which do not travel; ids do."""
    return verify_claim(claim(claim_id))


def _tried(formula: Testable | None, seed: str, evidence: Evidence) -> Evidence:
    """A statement that is proved, and whose formula fails at a point, is false whatever its proof says.

    The cases of a claim are walked by its verifier.
    """
    if not isinstance(formula, (Formula, Predicate)) or evidence.verdict not in {Verdict.PROVED, Verdict.VERIFIED}:
        return evidence
    failing = formula.fails_at(POINTS[type(formula)], seed)
    if failing is None:
        return evidence
    at = {name: str(value) for name, value in failing.items()}
    return Evidence(
        verdict=Verdict.FALSE,
        method="exact counterexample",
        detail=f"the proof passes ({evidence.detail}), and the formula fails",
        counterexample=at,
    )


def _guarded(verify: Callable[[], Evidence]) -> Evidence:
    """One crashing verifier must not hide the others; a crash never agrees with a record."""
    try:
        return verify()
    except Exception as error:
        return Evidence(verdict=Verdict.OPEN, method=CRASHED, detail=f"{type(error).__name__}: {error}")
