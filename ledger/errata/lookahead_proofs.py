"""Full proofs of what holds beyond the two Lookahead papers; machine checks of the same results are in the ledger.

Formulas are plain text, with ``^`` for powers; paragraphs are separated by an empty line.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["PROOFS"]

PROOFS: Mapping[str, str] = {
    "LR-T4d": "Notation. Write f for f_async and S2(j) for its second case read at any depth j, and let "
    "A(j) = (1-alpha1) + c1 (alpha1 - alpha1^(j+1) - j (1-alpha1) alpha1^j) be its denominator, so that "
    "S2(j) = (1 - alpha1^j)/A(j). As A(j)/(1-alpha1) = 1 + c1 sum_{i=1..j} (alpha1^i - alpha1^j), A(j) is positive. "
    "From c1 < 1/3 it follows that ceil(1/c1) >= 4, so f(2) = S2(2) = (1+alpha1)/(1 + c1 alpha1 (1-alpha1)) > 1, which "
    "rises in alpha1 and falls in c1; and g(2) = (1+alpha2)/(1+c2) > 1. A hybrid is to beat both methods alone "
    "within min(ceil(1/c1), gamma1) gamma2 <= M.\n\n"
    "Token level alone, g(k). Let j = M/2 >= 8. If k <= j, the hybrid or step-level choice (2, k) is within the budget "
    "and f(2) g(k) > g(k); at k = 1 it is step level alone, which is beaten below. If j < k <= M, a pass over k tokens "
    "takes no less time than one over j, so g(k)/g(j) <= (1 - alpha2^M)/(1 - alpha2^j) = 1 + alpha2^j < 1 + 0.8^8 < "
    "1.168. For alpha1 > 0.4013 and c1 < 1/3, f(2) > 1.297. Hence h(2, j) = f(2) g(j) > g(k).\n\n"
    "Step level alone, f(k), ceil(1/c1) <= M/2. The hybrid (ceil(1/c1), 2) is within the budget and saturated: its "
    "speedup is S1 g(2) > S1 >= f(k).\n\n"
    "Step level alone, f(k), ceil(1/c1) > j = M/2. The hybrid (j, 2) is within the budget, and f(j) = S2(j). "
    "(i) Every f(k) in the budget is at most S2(M): by Lemma 2 it is at most f(M), which is S2(M) if M < ceil(1/c1); "
    "otherwise it is S1, and S1 <= S2(M) is equivalent to c1 M >= 1, which holds as M >= ceil(1/c1). "
    "(ii) With q = alpha1^j, S2(M)/S2(j) = (1+q) A(j)/A(2 j), and A(2 j) - A(j) = "
    "c1 (1-alpha1) (sum_{i=j+1..2 j} alpha1^i - 2 j q^2 + j q) >= c1 (1-alpha1) j q (1-q) > 0, because each alpha1^i "
    "is at least q^2. So f(k) <= S2(M) < (1+q) f(j) < (1 + 0.8^8) f(j). "
    "(iii) alpha2 > 1.2 (1 + 0.8^8) - 1 and c2 < 1/5 say exactly that g(2) > 1 + 0.8^8. Hence h(j, 2) > f(k).\n\n"
    "No further. Let M = 16, alpha1 = 0.8, c1 = 0, c2 = 1/5, alpha2 = 0.401326592. Then f(16) = 5 (1 - 0.8^16) equals "
    "f(8) g(2) = 5 (1 - 0.8^8)(1 + 0.8^8), and every other hybrid stays below 4.62, against 4.86. With a "
    "smaller alpha2 all hybrids are strictly slower than (16, 1). There are finitely many of them and h is continuous, "
    "so this stays true at points near this one that lie strictly within the conditions of the theorem.",
    "LR-T4e": "In the notation of the proof above (LR-T4d):\n\n"
    "M >= 14, even or odd. Let j = floor(M/2) >= 7, so that (2, j) and (j, 2) are within the budget and "
    "M <= 2 j + 1. Token level alone, g(k): if k <= j, (2, k) is faster (at k = 1 it is step level alone, beaten "
    "below); if j < k <= M, g(k)/g(j) <= (1 - alpha2^k)/(1 - alpha2^j) < 1/(1 - 0.8^7) < 1.26537, while "
    "f(2) > 1.52/1.0832 = 1.403. Hence h(2, j) > g(k). Step level alone: no f(k) exceeds S1 (Lemma 2). If "
    "ceil(1/c1) <= j, the hybrid (ceil(1/c1), 2) has S1 g(2) > S1. Otherwise f(j) = S2(j), and with q = alpha1^j, "
    "S1/S2(j) = (1/(1-q)) A(j)/((1-alpha1) + c1 alpha1) < 1/(1-q) < 1.26537, while g(2) > 1.52/1.2 = 1.26667. Hence "
    "h(j, 2) > S1.\n\n"
    "M = 12. The proof of LR-T4d with j = 6 needs f(2) > 1 + 0.8^6 and g(2) > 1 + 0.8^6 = 1.2621...: "
    "both hold, as f(2) > 1.403 and g(2) > 1.26667.\n\n"
    "M = 13, and 4 to 11. Let alpha1 = 0.799, c1 = 0.001, alpha2 = 0.521, c2 = 0.199. Step level alone, f(M), is "
    "4.692 for M = 13 and, for M from 11 down to 4, 4.541, 4.437, 4.305, 4.141, 3.934, 3.676, 3.352, 2.945. The best "
    "hybrid is (6, 2) with 4.663 for M = 13, (5, 2) with 4.252 for M = 11 and 10, (4, 2) with 3.736 for 9 and 8, "
    "(3, 2) with 3.091 for 7 and 6, and (2, 2) with 2.282 for 5 and 4.",
    "LD-S1-band": "Let L = ln(1/alpha) and p(x) = 1 - (1 - alpha^x)^b for real x >= 0. Equation 5 with unbounded gamma "
    "is E(b) = 1 + sum_{i>=1} p(i) = sum_{i>=0} p(i), as p(0) = 1. The function p falls strictly from 1 to 0. So its "
    "integral J from 0 to infinity lies strictly between the two sums: sum_{i>=1} p(i) < J < sum_{i>=0} p(i), that is "
    "E(b) - 1 < J < E(b).\n\n"
    "Substitute t = alpha^x: J is 1/L times the integral from 0 to 1 of (1 - (1-t)^b)/t. The integrand is "
    "sum_{k=0..b-1} (1-t)^k, whose integral is sum_{k=1..b} 1/k = H_b. Hence J = H_b/L, and "
    "H_b/L < E(b) < 1 + H_b/L.\n\n"
    "Consequence. As H_b = ln(b) + 0.577... + O(1/b), the compression S = (f - 1 + E)/f is ln(b)/(f L) up to a bounded "
    "term, while the number of steps per token, 1/S, falls like 1/ln(b).",
    "LD-S4": "For fixed gamma, 1 - (1 - alpha^i)^b rises to 1 as b grows, for each of the gamma terms. So E rises to "
    "gamma + 1 and stays below it. For fixed b, E with a finite gamma is a part of the sum E(b) for unbounded gamma "
    "that has positive terms only, so it is below E(b) < 1 + H_b/ln(1/alpha) by the result before.",
    "LD-S5": "By the two results before, E < 1 + H_b/ln(1/alpha) for every gamma, so H_b > ln(1/alpha) (E - 1). As "
    "H_b <= 1 + ln(b), it follows that b > exp(ln(1/alpha) (E - 1) - 1) = alpha^(1-E)/e.",
}
"""Claim -> its proof."""
