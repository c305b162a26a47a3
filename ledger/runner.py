"""Re-derive verdicts in parallel and compare them with the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ledger.ledger import Claim, Evidence, Testable, Verdict, claim, claims
from ledger.proving.records import Verifier
from ledger.proving.search.falsifier import QUICK, Effort, Finding, judged

__all__ = ["CRASHED", "Verification", "verify_all", "verify_claim"]

CRASHED = "error"
"""The method of the evidence of a verifier that raised."""

_HOLDING = frozenset({Verdict.PROVED, Verdict.VERIFIED, Verdict.NUMERIC})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A claim's recorded verdict and the one derived now."""

    id: str
    recorded: Verdict
    evidence: Evidence
    correction: Evidence | None
    """Evidence for the corrected statement; None when the claim has none."""
    finding: Finding | None = None
    """What the search for a counterexample of the statement came to; None where it is not searched."""
    correction_finding: Finding | None = None
    """The same for the correction."""
    seconds: float
    """Wall time of both verifiers and searches, seconds."""

    @property
    def agrees(self) -> bool:
        """The derived verdict is the recorded one, and the correction, if any, holds."""
        corrected = self.correction is None or self.correction.verdict in _HOLDING
        crashed = self.evidence.method == CRASHED
        return self.evidence.verdict is self.recorded and corrected and not crashed


def verify_claim(item: Claim, effort: Effort = QUICK) -> Verification:
    """Run both verifiers of a claim on its statements, and search for counterexamples of what they say holds.

    An exception inside counts as a failed derivation, with its text as the detail.
    """
    start = time.perf_counter()
    evidence, finding = judged(item.formula, _derived(item.verify, item.formula), item.id, effort)
    correction, correction_finding = None, None
    if item.correction_verify is not None:
        derived = _derived(item.correction_verify, item.correction_formula)
        correction, correction_finding = judged(item.correction_formula, derived, item.id, effort)
    return Verification(
        id=item.id,
        recorded=item.verdict,
        evidence=evidence,
        correction=correction,
        finding=finding,
        correction_finding=correction_finding,
        seconds=time.perf_counter() - start,
    )


def verify_all(
    ids: Iterable[str] | None = None,
    *,
    jobs: int = 2,
    effort: Effort = QUICK,
    progress: Callable[[Verification], None] | None = None,
) -> tuple[Verification, ...]:
    """Derive the verdicts of the named claims (default all), in ledger order.

    Parameters
    ----------
    ids : claim ids; None means the whole ledger.
    jobs : worker processes, >= 1; 1 runs in this process.
    effort : how long to search for counterexamples.
    progress : called once per finished claim, in the order of completion.

    Raises
    ------
    ParameterError : an unknown id.
    """
    wanted = [item.id for item in claims()] if ids is None else [claim(name).id for name in ids]
    done: dict[str, Verification] = {}
    for result in _results(wanted, jobs, effort):
        done[result.id] = result
        if progress is not None:
            progress(result)
    return tuple(done[name] for name in wanted)


def _results(ids: list[str], jobs: int, effort: Effort) -> Iterator[Verification]:
    """Verifications in the order of completion."""
    if jobs == 1:
        yield from (_verify_id(name, effort) for name in ids)
        return
    from joblib import Parallel, delayed

    # batch_size=1: claims differ by four orders of magnitude in cost, so no batch may hold back a dear one
    pool = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
    yield from pool(delayed(_verify_id)(name, effort) for name in ids)


def _verify_id(claim_id: str, effort: Effort) -> Verification:
    """Entry point of a worker: records hold closures, which do not travel; ids do."""
    return verify_claim(claim(claim_id), effort)


def _derived(verify: Callable[[], Evidence], statement: Testable | None) -> Evidence:
    """One crashing verifier must not hide the others; a crash never agrees with a record."""
    try:
        return verify.of(statement) if isinstance(verify, Verifier) else verify()
    except Exception as error:
        return Evidence(verdict=Verdict.OPEN, method=CRASHED, detail=f"{type(error).__name__}: {error}")
