"""Counterexamples of the two Lookahead papers told for their readers, where the verifier's own words are terse.

Each sentence names every value of the counterexample that its verifier derives: a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["READINGS"]

READINGS: Mapping[str, str] = {
    "LR-P8": "On AIME24 with the DeepSeek pair the speedup rises from 1.53 (token level) to 1.82 (both).",
    "LR-S4": "At c1 = 2/5, gamma = 2 and with 2 accepted drafts, the stage takes 2 T, and the formula gives 9/5 T.",
    "LR-L2c": "At alpha1 = 1/16, c1 = 9/10, gamma = 3/2: 1 - c1 gamma = -7/20, and S2 falls from 1.01159 there to "
    "1.01061 at 7/4.",
    "LR-T4h": "At c1 = 2/31, M = 16: floor(1/c1) = 15 and ceil(1/c1) = 16, so this M lies above the first case and "
    "below the second.",
    "LR-S6": "At alpha1 = 1/2, c1 = 1/4, k1 = 2 and, say, k = 1: the print gives 3/2, the stage model 24/17.",
    "LR-P2": "AIME24 with the DeepSeek pair (acceptance rate 0.47): 1.36 times 1.53 is 2.08, and 1.82 was measured.",
    "LR-S10": "At alpha1 = 1/2, c1 = 1/4, k1 = 2, with target steps made faster by the factor 2 and draft steps by 1 "
    "(not at all): the speedup is 2, the product is 12/5.",
    "LR-P1": "Only 3 of the 14 acceptance rates lie between 0.52 and 0.8.",
    "LR-P4": "Only 3 of the 14 acceptance rates exceed 0.50.",
    "LR-P13": "On AIME the threshold 0.95 loses 4.1 points and the threshold 0.85 loses 6.8.",
    "LR-T3b": "At alpha1 = 0.64, c1 = 1/5, alpha2 = 4/5, c2 = 1/9, M = 4 condition (8) holds, and (7) with equality: "
    "(1+alpha1)/(1+c1) = D2(M) = 41/30. Token level only gives 2.214, step level only 1.464, the best hybrid 2.214.",
    "LR-Z2": "At alpha1 = 0.64, c1 = 1/5, alpha2 = 4/5, c2 = 1/9, M = 4 condition (8) holds, and (7) with equality: "
    "(1+alpha1)/(1+c1) = D2(M) = 41/30. Token level only gives 2.214, and the best hybrid 2.214 too.",
    "LR-T3h": "At alpha1 = 0.45, c1 = 1/4, alpha2 = 1/2, c2 = 1/26, M = 4: gamma2* = 4 and (1+alpha1)/(1+c1) = 1.16, "
    "as (6) asks, but D2(M) = 135/116 = 1.1638, so (7) fails.",
    "LR-T3i": "At alpha2 = 1/2, c2 = 1/26: gamma2* = 4, the left side is 0.185 and the right side 4/29 = 0.138.",
    "LR-T4g": "At alpha1 = 0.53, c1 = 0.33, alpha2 = 0.79, c2 = 0.005, M = 16 (gamma2* is 17) and gamma2 = 2: "
    "h(1, 2) = 1.781 and h(2, 1) = 1.414.",
    "LR-L5b": "At alpha1 = alpha2 = 1/2, c1 = c2 = 1/5, M = 12: w(4) = 1.4648, w(6) = 1.2305, w(12) = 0.6248. The "
    "mean slope is -0.117 from 4 to 6 and -0.101 from 6 to 12.",
    "LR-L6c": "At y = 1/2 the print gives F'' = -5.090; the second derivative of F is -1.090.",
    "LR-L6e": "At y = 0 the limit is 1/2.",
    "LR-L6f": "At y = 1 the limit is -1.",
    "LR-L1d": "At alpha1 = 0.501, alpha2 = 0.799, c1 = 0.33, c2 = 0.001, M = 16: w(2)/w(1) = 1.1985, below the bound "
    "1.2016.",
    "LR-L3a": "At alpha2 = 1/2, c2 = 0: g(k+1) - g(k) = alpha2^k > 0 for every k, so g never decreases.",
    "LR-L5c": "At alpha1 = alpha2 = 1/4, c1 = c2 = 1/10, M = 5: (7) and (8) hold, but the only divisors of 5 are 1 "
    "and 5.",
    "LR-L3c": "At alpha = 1/2, c = 1/4, gamma = 1 the display is 0.347; F is 0.222.",
    "LR-L4f": "At alpha = 4/5, x = 10 the value, with its factor 10, is 0.2684, which does not round to 0.26.",
    "LR-L4g": "At alpha = 4/5, x = 6 the expression with the factor 10 is 0.793, not 0.48.",
    "LD-N11": "Row 9 of Table 3 has the speedup 1.88.",
    "LD-E2-progress": "Let the target's next token be 0 and the draft be 1: no token matches and none is added; if the "
    "next draft is the same token, decoding never ends.",
    "LD-A1-index": "At i = 1 the list o holds only o_0.",
    "LD-A4-indifferent": "Let P = (1/2, 1/2), and let the guess look at the acceptance draw r: then token 0 can "
    "be made to appear with probability 0.",
    "LD-TA-proof": "If the guess has probability P(s) = 1, then r = 1 - P(s) = 0, by which the proof divides.",
    "LD-E4-mean": "Let beta be 0 or 1 with probability 1/2 each, so that alpha = 1/2, and gamma = 2: the mean is 2 "
    "tokens, and Equation 4 gives 7/4.",
    "LD-E5-mean": "Let beta be 0 or 1 with probability 1/2 each, so that alpha = 1/2, gamma = 1 and b = 2: the mean is "
    "3/2 tokens, and Equation 5 gives 7/4.",
    "LD-E5-dependence": "At alpha = 1/2, gamma = 1, b = 2 with two equal sequences: the mean is 3/2 tokens, and "
    "Equation 5 gives 7/4.",
    "LD-A4-mean": "Let b = 2 different guesses of one token have probability 1/2 each: one of them always passes, so "
    "it yields 2 tokens, and Equation 5 gives 7/4.",
    "LD-S1": "At alpha = 1/2, gamma = 16: raising b by the factor 16 saves 0.314 steps per token from 1 to 16, and "
    "0.079 from 16 to 256.",
    "LD-S2": "At alpha = 1/2, gamma = 4: doubling b adds 0.605 tokens per step at b = 1, and 0.016 at b = 64.",
    "LD-N1": "The 7B model (W = G = 15, N = 5) is fed 120 tokens per step, of which 119 are on top of the current one.",
    "LD-N7": "On XSum at temperature 0 a Rouge score is 19.38 without Lookahead Decoding and 19.39 with it.",
    "LD-N5": "Vicuna-13B with the 1B draft model on HumanEval has the speedup 1.0.",
}
"""Claim -> where it fails, in a sentence or two."""
