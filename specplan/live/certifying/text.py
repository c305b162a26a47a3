"""A certificate as text on one screen, and as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from specplan.live.certifying.certificate import Acceptance, Certificate, Examined
from specplan.output import screen, table

__all__ = ["certificate_as_json", "certificate_as_text"]


def certificate_as_text(certificate: Certificate, notes: Sequence[str] = ()) -> str:
    """Return the certificate in 80 columns; ``notes`` say how it was measured."""
    level = f"{100.0 * (1.0 - certificate.false_alarm):g} %"
    ranked = sorted(certificate.examined, key=lambda one: -one.log_evidence)
    head = ["defect", "evidence", f"affected at most ({level})", "changed at most"]
    rows = [[one.defect.name, _money(one.log_evidence), _limit(one), f"{100.0 * one.changed:.2g} %"] for one in ranked]
    if certificate.named:  # limits compare with a lossless server, which this is not
        head, rows = head[:2], [row[:2] for row in rows]
    return screen(_verdict(certificate, level), table(head, rows), [*_remarks(certificate), *notes])


def certificate_as_json(certificate: Certificate, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the certificate as plain data."""
    named, acceptance = certificate.named, certificate.acceptance
    return {
        "schema": "specplan.certificate",
        "schema_version": 1,
        "named": [defect.name for defect in named],
        "tokens": certificate.n_tokens,
        "alarm_at": certificate.alarm_at,
        "false_alarm": certificate.false_alarm,
        "log_evidence": certificate.log_evidence,
        "changed_at_most": certificate.changed,
        "noise": certificate.noise,
        "acceptance": None if acceptance is None else {**asdict(acceptance), "contradicts": acceptance.contradicts},
        "defects": [
            {
                "name": one.defect.name,
                "says": one.defect.says,
                "log_evidence": one.log_evidence,
                "affected_at_most": one.limit,
                "changed_at_most": one.changed,
            }
            for one in certificate.examined
        ],
        "notes": list(notes),
    }


def _verdict(certificate: Certificate, level: str) -> str:
    named, alarm = certificate.named, 1.0 / certificate.false_alarm
    drawn = f"{certificate.n_tokens:,} tokens"
    if not named:
        return (
            f"No defect detected in {drawn}. With {level} confidence no defect of the list changes more than "
            f"{100.0 * certificate.changed:.2g} % of the tokens."
        )
    evidence = max(one.log_evidence for one in certificate.examined)
    return (
        f"Not lossless: {' or '.join(defect.name for defect in named)}. It seems that {named[0].says}. "
        f"Evidence after {drawn}: "
        f"{_money(evidence)} to 1 for this defect; the alarm, at {alarm:.3g} to 1 for all of them together, came after "
        f"{certificate.alarm_at:,} tokens."
    )


def _remarks(certificate: Certificate) -> Iterator[str]:
    yield (
        f"- The probability of naming any defect of a lossless server is at most {100 * certificate.false_alarm:g} %, "
        "however long one looks."
    )
    yield (
        f"- The target's probabilities differ between batches by up to {100 * certificate.noise:.2g} %: servers whose "
        "laws are that near to them count as lossless."
    )
    if (acceptance := certificate.acceptance) is not None:
        yield f"- {_accepted(acceptance)}"


def _accepted(acceptance: Acceptance) -> str:
    sampled, greedy = (f"{sum(ends) / 2.0:.2f}" for ends in (acceptance.sampled, acceptance.greedy))
    text = f"Accepted: {acceptance.seen:.2f} of {acceptance.n:,} judged drafts; by this draft {sampled} if it samples, "
    text += f"{greedy} if it drafts greedily."
    if not acceptance.contradicts:
        return text
    return f"{text} The server drafts with another model or accepts by another rule: bets with this draft see less."


def _money(log_evidence: float) -> str:
    """The money as a number.

    >>> _money(0.0), _money(8.0), _money(1000.0)
    ('1', '3e+03', '1e+434')
    """
    if log_evidence > 700.0:
        return f"1e+{log_evidence / math.log(10.0):.0f}"
    return f"{math.exp(log_evidence):{'.2g' if log_evidence < math.log(99.0) else '.0e'}}"


def _limit(one: Examined) -> str:
    return "all (not excluded)" if one.limit >= 1.0 else f"{100.0 * one.limit:.2g} %"
