"""Token-level speculation in virtual time from a profile: the tokens that passes commit, and their cost.

The best source is a `TokenRecord` of the same method and settings: its passes are replayed, and the times of the sweep
over rows are scaled to its own timings. A record of a larger k2 serves a smaller one where the method drafts a single
line of tokens: a long pass is split where the smaller k2 would have ended it. From n-gram counts per position without
recorded passes, independent passes are drawn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Final

import numpy as np

from calibrate.costs.fit import CostFit, reread_tokens, resampled_answers, slowdown_of
from calibrate.costs.sweep import fit_passes
from calibrate.engines.token_vocabulary import imposed_on
from calibrate.record.engine_records import Use
from calibrate.record.profile import Profile
from calibrate.record.token_records import NGramRecord, TokenAnswer, TokenRecord, TokenRequest
from sim.answers.token_passes import DrawnPasses, PassSource, RecordedPasses
from sim.engines.costs import TableCost
from sim.engines.pass_costs import PassCost, PassSeconds, PassTable, RowsAsBatch
from sim.engines.protocol import Cost
from sim.roles import DRAFT, TARGET
from sim.serving.limits import JoinLaw

__all__ = ["NESTED", "AveragedCost", "TokenModel", "counts_of", "split_passes", "token_decoding"]

Settings = Mapping[str, int | float | str | bool | None]

NESTED: Final = frozenset({"prompt-lookup", "draft-model", "eagle"})
"""Methods that draft a single line of tokens, so that a smaller k2 drafts the beginning of the same line."""
_UNSAID: Final = {"least": 0.0}
"""Settings of records that do not name them; other settings that are not named may have any value."""
_MODELS: Final = frozenset({"draft-model", "eagle"})
"""Methods whose drafting takes a step of a model for each token."""
_ROW_COST: Final = 0.0012
"""Time that each further token of a sequence adds to a pass of a published target (32B on two H100), as a share of a
pass of one token: by `theory.hardware.passes` 0.0012 at 1 to 7 sequences of up to 9 tokens, 0.0015 at 16."""
_PADDING: Final = frozenset({"", "torch"})
"""Engines that pad the rows of a batch; also the name of unknown engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenModel:
    """Model of a token-level method at given settings: tokens and cost of a pass."""

    k2: int
    """Most tokens per target pass; 1 is plain decoding."""
    tokens_per_pass: float
    """Mean tokens that a pass commits, >= 1, the last one of a text uncut; for published profiles per time of a plain
    pass."""
    low: float
    """Lower end of ``tokens_per_pass`` by the model's assumption (equal to it where passes were recorded)."""
    high: float
    """Upper end."""
    note: str
    """Source of the numbers, for tables."""
    cut_tokens: float = 0.0
    """Published profiles: mean tokens beyond the end of a step that its last pass commits and that are discarded."""
    source: PassSource | None = None
    """Source of the tokens that each pass of a step commits; None: mean passes for the target and, as in LR's released
    code, the draft, including the first token of a step (published step times do not separate prefill and decoding)."""
    cost: PassCost | None = None
    """Cost of a pass, where there is a source."""
    settings: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    """The knobs that it was recorded with, but with the requested ``k2``."""
    join: JoinLaw | None = None
    """What its passes take that read prompts; None: as passes of plain decoding."""

    @property
    def most_rows(self) -> int:
        """Most rows of a sequence in a pass: positions of the target in flight."""
        return self.k2 if self.cost is None else max(self.k2, *self.cost.rows)

    def seconds_per_token(self, plain: Cost, batch: int) -> float:
        """Return the seconds per committed token of each of ``batch`` sequences, with empty contexts."""
        if self.cost is None:
            return self.averaged(plain).iteration(batch, 0.0)
        return self.cost.iteration(batch, 0.0) / self.tokens_per_pass

    def averaged(self, plain: Cost, *, cut: bool = False) -> AveragedCost:
        """Return the cost of an engine of which only the mean pass is known; ``cut``: with tokens lost at step ends."""
        return AveragedCost(
            plain,
            self.tokens_per_pass,
            rows_s=_ROW_COST * (self.k2 - 1) * plain.iteration(1, 0.0),
            cut_tokens=self.cut_tokens if cut else 0.0,
        )


@dataclass(frozen=True, slots=True)
class AveragedCost:
    """Cost per committed token of an engine whose every pass commits the mean number of tokens."""

    inner: Cost
    tokens_per_pass: float
    rows_s: float = 0.0
    """Time that the drafts of each further sequence add to a pass, s; ``tokens_per_pass`` includes the first's."""
    cut_tokens: float = 0.0
    """Mean tokens that a request generates beyond its end."""

    @property
    def request_s(self) -> float:
        """Latency of a request outside the engine, and time of the tokens beyond its end, s."""
        beyond_s = self.cut_tokens * self.inner.iteration(1, 0.0)
        return (self.inner.request_s + beyond_s) / self.tokens_per_pass

    def iteration(self, batch: int, context: float) -> float:
        """Seconds per committed token of each sequence."""
        return (self.inner.iteration(batch, context) + self.rows_s * (batch - 1)) / self.tokens_per_pass

    def prefill(self, n_tokens: int) -> float:
        """Seconds until the first token."""
        return self.inner.prefill(n_tokens) / self.tokens_per_pass


def token_decoding(
    profile: Profile,
    method: str,
    settings: Settings,
    fits: Mapping[Use, Mapping[str, CostFit]],
    rng: np.random.Generator | None = None,
    *,
    use: Use = "plain",
    tables: Mapping[int, TableCost] | None = None,
) -> TokenModel | None:
    """Return a token-level method with the passes and costs of a profile; None without a record at these settings.

    Parameters
    ----------
    profile : a profile with engines.
    settings : its knobs, including ``k2`` for methods that draft a single line of tokens.
    fits : costs of plain decoding, by use and engine (`calibrate.replay.system.System.fits`).
    rng : if given, for a bootstrap resample (answers, timings), for the error of predictions.
    tables : `calibrate.costs.sweep.fit_passes` of the target's engine, if known; ``rng`` has then been used.
    """
    if tables is None:
        tables = fit_passes(profile.engines[profile.placement[TARGET]], rng, method=method)
    cost = partial(_pass_cost, profile, method, fits, use, tables)
    record = _record(profile.token, method, settings)
    if record is not None and record.answers:
        k2 = int(settings.get("k2") or record.k2)
        imposed = imposed_on(method, k2, str(profile.settings.get("speculative", "")))
        return _replayed(cost, rng, record, k2, imposed)
    k2 = int(settings.get("k2") or 1)
    counts = counts_of(profile, method, settings)
    if counts is None or not counts.passes:
        return None
    # The method's answers at its smallest recorded k2 scale the time of passes with the same rows.
    own = [record for record in profile.token if record.method == method and record.answers]
    return _counted(cost, rng, counts, k2, min(own, key=lambda record: record.k2).answers if own else ())


def counts_of(profile: Profile, method: str, settings: Settings) -> TokenRecord | NGramRecord | None:
    """Return the record of a token-level method at these settings, or at a larger k2 that includes them."""
    record = _record(profile.token, method, settings)
    if record is not None or method != "prompt-lookup":
        return record
    k2, longest = int(settings.get("k2") or 1), settings.get("max_ngram")
    deep = [r for r in profile.ngram if r.n_speculative >= k2 - 1 and r.passes and longest in (None, r.max_ngram)]
    return max(deep, key=lambda r: sum(r.accepted_at[: k2 - 1]) / r.passes, default=None)


def split_passes(passes: Sequence[tuple[int, int]], k2: int, recorded: int) -> list[tuple[int, int]]:
    """Return the passes (drafted, right) of a request at a smaller k2 than the recorded one.

    A pass with more right tokens than k2 allows becomes a full pass, and the next pass drafts the rest of the same
    line. After a full draft that was right to its end, the line is assumed to continue with the next recorded pass,
    and the target's own token between the two to be drafted.

    >>> split_passes([(7, 5), (7, 1), (0, 0)], 4, 8)
    [(3, 3), (3, 1), (3, 1), (0, 0)]
    >>> split_passes([(7, 7), (7, 2)], 6, 8)
    [(5, 5), (5, 4)]
    """
    if k2 >= recorded:
        return list(passes)
    split: list[tuple[int, int]] = []
    before = 0  # tokens of the line that a smaller pass has not committed yet
    for i, (drafted, right) in enumerate(passes, 1):
        goes_on = right == drafted == recorded - 1 and i < len(passes)
        line, known = before + right, before + drafted
        n_full = (line + goes_on) // k2
        split += [(k2 - 1, k2 - 1)] * n_full
        if goes_on:
            before = line + 1 - n_full * k2
        else:
            split.append((min(known - n_full * k2, k2 - 1), line - n_full * k2))
            before = 0
    return split


def _record(records: Sequence[TokenRecord], method: str, settings: Settings) -> TokenRecord | None:
    """The record with the same k2, or with the next larger one if it includes it; other common settings must agree."""
    k2 = settings.get("k2")

    def fits(record: TokenRecord) -> bool:
        named = {name: value for name, value in settings.items() if value is not None and name != "k2"}
        return all(record.settings.get(name, _UNSAID.get(name, value)) == value for name, value in named.items())

    own = [r for r in records if r.method == method and r.passes and fits(r)]
    if k2 is not None:
        deep = [r for r in own if r.k2 >= int(k2)] if method in NESTED else [r for r in own if r.k2 == k2]
        least = min((r.k2 for r in deep), default=0)
        own = [r for r in deep if r.k2 == least]
    return max(own, key=lambda r: (r.passes + sum(r.accepted_at)) / r.passes, default=None)


def _replayed(
    cost_of: Callable[..., PassCost],
    rng: np.random.Generator | None,
    record: TokenRecord,
    k2: int,
    imposed: tuple[float, ...] | None,
) -> TokenModel:
    """Recorded passes; where engines impose acceptance, passes by these chances, which are no estimates."""
    answers = record.answers
    if rng is not None:
        answers = [answers[i] for i in resampled_answers(len(answers), rng)]
    requests = [(r, split_passes(r.passes, k2, record.k2)) for answer in answers for r in answer.requests]
    passes = [one for _, drafts in requests for one in drafts]
    nested = f", from passes of up to {record.k2} tokens split" if k2 < record.k2 else ""
    source: PassSource
    if imposed is None:
        source = RecordedPasses(requests=tuple(chain.from_iterable(_texts(r, drafts) for r, drafts in requests)))
        tokens = sum(a + 1 for _, a in passes) / len(passes)
        note = f"{tokens:.2f} tokens per pass, replayed from {len(record.answers)} answers by {record.method}{nested}"
    else:
        source = DrawnPasses(pmf=tuple((-np.diff([1.0, *imposed, 0.0])).tolist()))
        tokens = 1.0 + sum(imposed)
        note = f"{tokens:.2f} tokens per pass, imposed on the engine; times from {len(record.answers)} answers{nested}"
    cost = cost_of(_rows(answers, passes, record, k2), answers, (k2 - 1) / max(record.k2 - 1, 1))
    return TokenModel(
        k2=k2,
        tokens_per_pass=tokens,
        low=tokens,
        high=tokens,
        source=source,
        cost=cost,
        settings={**record.settings, "k2": k2},
        note=f"{note}; {_said(cost)}",
    )


def _texts(request: TokenRequest, drafts: Sequence[tuple[int, int]]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Tokens after the first, and tokens of each pass: of a request, and of each of its steps as if it were one.

    A step has the passes that begin in it; tokens of the pass before beyond the step's beginning are left out.
    """
    committed = tuple(right + 1 for _, right in drafts)
    if not committed:
        return
    yield request.tokens - 1, committed
    begins = list(accumulate(committed, initial=1))[:-1]  # the first token is the prefill's
    for begin, end in pairwise([0, *request.steps]):
        first, last = bisect_left(begins, begin + 1), bisect_left(begins, end)
        own = committed[first:last]
        if request.steps[1:] and own:
            yield min(sum(own), end - begins[first]), own


def _counted(
    cost_of: Callable[..., PassCost],
    rng: np.random.Generator | None,
    record: NGramRecord | TokenRecord,
    k2: int,
    answers: Sequence[TokenAnswer],
) -> TokenModel:
    """Independent passes with the counted probabilities, as the correlation between passes was not recorded.

    Their times are scaled to the method's answers at other settings, if there are any.
    """
    reached = np.array([record.passes, *record.accepted_at[: k2 - 1], 0], dtype=np.float64)
    pmf = (reached[:-1] - reached[1:]) / record.passes
    if rng is not None:
        pmf = rng.multinomial(record.passes, pmf / pmf.sum()) / record.passes
    drafted = np.array([record.passes, *record.drafted_at[: k2 - 1], 0], dtype=np.float64)
    rows = {i + 1: float(s) for i, s in enumerate((drafted[:-1] - drafted[1:]) / record.passes) if s > 0.0}
    tokens = float(pmf @ np.arange(1, pmf.size + 1))
    known = {"max_ngram": record.max_ngram} if isinstance(record, NGramRecord) else record.settings
    longest = f" (n-grams up to {known['max_ngram']})" if "max_ngram" in known else ""
    cost = cost_of(rows, answers)
    return TokenModel(
        k2=k2,
        tokens_per_pass=tokens,
        low=tokens,
        high=tokens,
        source=DrawnPasses(pmf=tuple(pmf.tolist())),
        cost=cost,
        settings={**known, "k2": k2},
        note=f"{tokens:.2f} tokens per pass counted per position{longest}, passes independent; {_said(cost)}",
    )


def _said(cost: PassCost) -> str:
    """Description of the cost of a pass, for tables."""
    if isinstance(cost.wide, RowsAsBatch):
        return "a pass over several tokens costed as a batch of as many"
    most = max(cost.wide.by_rows) if isinstance(cost.wide, PassTable) else 0
    return f"passes timed up to {most} rows" + (", and in use" if cost.factor != 1.0 else "")


def _rows(
    answers: Sequence[TokenAnswer], passes: Sequence[tuple[int, int]], record: TokenRecord, k2: int
) -> dict[int, float]:
    """Shares of passes by rows per sequence: as the engine computed them, or the drafted tokens + 1."""
    passes_by_rows: Counter[int] = Counter()
    for batch, rows, n, *_ in (one for answer in answers for one in answer.decode if k2 == record.k2):
        passes_by_rows[rows] += n if batch == 1 else 0
    if not passes_by_rows:
        passes_by_rows = Counter(drafted + 1 for drafted, _ in passes)
    total = sum(passes_by_rows.values())
    return {rows: n / total for rows, n in sorted(passes_by_rows.items()) if n}


def _pass_cost(
    profile: Profile,
    method: str,
    fits: Mapping[Use, Mapping[str, CostFit]],
    use: Use,
    tables: Mapping[int, TableCost],
    rows: Mapping[int, float],
    answers: Sequence[TokenAnswer],
    share: float = 1.0,
) -> PassCost:
    """Cost of passes by rows, scaled to the method's own passes; ``share`` of its drafting time is included.

    Methods are recorded at concurrency 1. The ratio of their passes to plain ones is taken from there, for the same
    answers, since a machine has fast and slow phases; the time of a plain pass is taken from the fit for ``use``.
    """
    target, draft = profile.placement[TARGET], profile.placement.get(DRAFT, profile.placement[TARGET])
    engine, by_model = profile.engines[target], method in _MODELS
    recorded, used = fits["plain"][target], fits[use][target]
    paired = len(engine.plain_in_use) == len(profile.answers)
    plain = {a.problem: one for a, one in zip(profile.answers, engine.plain_in_use, strict=True)} if paired else {}
    same = [plain[answer.problem] for answer in answers if answer.problem in plain]
    then = slowdown_of((recorded, one) for one in same) or 1.0
    sums = np.array([one for answer in answers for one in answer.decode], dtype=np.float64).reshape(-1, 6)
    if any(sample.by == method for sample in engine.decode):  # the sweep includes drafting, in batches too
        sums[:, 5] = 0.0
    wide, single = _wide(tables, recorded), sums[sums[:, 0] == 1]
    modelled = sum(n * wide.seconds(int(r), int(b), c / n) for b, r, n, c, *_ in sums if n)
    n_single, n_requests = float(single[:, 2].sum()), sum(answer.request.n for answer in answers)
    drafting_s = float(single[:, 5].sum()) / n_single if n_single else 0.0
    drafting_s *= used.factors.decode / recorded.factors.decode / then
    outside_s = recorded.cost.request_s
    if n_requests:
        outside_s = sum(answer.request.seconds for answer in answers) / n_requests
    return PassCost(
        inner=used.cost,
        wide=_wide(tables, used),
        rows=rows,
        factor=(float((sums[:, 4] - sums[:, 5]).sum()) / modelled if modelled > 0.0 else 1.0) / then,
        padded=profile.provenance.engine in _PADDING,
        draft_s=drafting_s * (share if by_model else 1.0),
        drafter=fits[use][draft].cost if by_model and draft != target else None,
        prefill_factor=_prefill_factor(profile, recorded.cost, answers) / then,
        request_s=max(used.cost.request_s + outside_s - recorded.cost.request_s, 0.0),
    )


def _prefill_factor(profile: Profile, cost: TableCost, answers: Sequence[TokenAnswer]) -> float:
    """Measured / modelled seconds of prefills, ratio of totals; 1 without any.

    The model counts new tokens only, and those that requests for single steps read again.
    """
    prompts = {answer.problem: answer.prompt_tokens for answer in profile.answers}
    n = sum(answer.prefill[0] for answer in answers)
    tokens = sum(prompts.get(answer.problem, answer.prefill[1]) for answer in answers)
    again = reread_tokens(profile) if any(len(answer.requests) > 1 for answer in answers) else 0.0
    modelled = n * (cost.prefill(tokens / n) + again * cost.prefill_token_s) if n else 0.0
    return sum(answer.prefill[2] for answer in answers) / modelled if modelled > 0.0 else 1.0


def _wide(tables: Mapping[int, TableCost], fit: CostFit) -> PassSeconds:
    if len(tables) < 2:
        return RowsAsBatch(fit.cost)
    factor, scaled = fit.factors.decode, {}
    for rows, table in tables.items():
        seconds = tuple(factor * s for s in table.seconds)
        scaled[rows] = replace(table, seconds=seconds, context_s=factor * table.context_s)
    return PassTable(scaled)
