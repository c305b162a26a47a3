"""The words of Lookahead Reasoning and Lookahead Decoding that claims not true as printed go back to.

A quotation is as printed but for line breaks, fonts and omissions (``[...]``); formulas stand between dollars.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["LOOKAHEAD_DECODING_WORDS", "LOOKAHEAD_REASONING_WORDS"]

LOOKAHEAD_REASONING_WORDS: Mapping[str, str] = {
    "LR-P8": "Across GSM8K, AIME, and other benchmarks, LOOKAHEAD REASONING improves the speedup of SD from 1.4x to "
    "2.1x while preserving answer quality",
    "LR-S9": "we prove that the peak speedup given limited compute shall be achieved only by combining both levels of "
    "speculation",
    "LR-S1": r"Let $\gamma_1$ be the maximum number of draft steps generated sequentially, and $k_1 = \gamma_1$ be the "
    "number of target steps that generate in parallel.",
    "LR-S2": "$k_2$ is the number of additional tokens speculated by the draft model within each step generation",
    "LR-S3": "It's easy to see that if we set $k_1 = 1$, then we are using purely token-level speculative decoding",
    "LR-S4": r"$k_1 \ge \lfloor 1/c_1 \rfloor$: [...] The depth limit $k_1$ is effectively inactive. The speedup "
    r"converges to: $S_1 = \frac{1 + E[X_i]}{1 + c_1 E[X_i]} = \frac{1}{c_1 + (1 - c_1)(1 - \alpha_1)}$",
    "LR-S5": r"$k_1 \ge \lfloor 1/c_1 \rfloor$: The draft model is relatively slow, and generating $k_1$ drafts takes "
    "longer than one target step.",
    "LR-T2c": r"If $\gamma \geq \lfloor \frac{1}{c_1} \rfloor$, the draft tree never saturates. [...] If "
    r"$\gamma < \lceil \frac{1}{c_1} \rceil$, the draft tree is depth-limited.",
    "LR-T2d": r"The parallel dimension of the target model is $\lfloor \frac{1}{c_1} \rfloor$",
    "LR-L2c": r"when $1 \leq \gamma < \lceil \frac{1}{c_1} \rceil$, the speedup function is strictly increasing [...] "
    r"$1 - \alpha_1 > 0, \quad 1 - c_1 \gamma > 0$",
    "LR-L2d": r"Then we prove that $S_1 \ge S_2$ We only need to prove that when $\gamma = \frac{1}{c_1}$, we have "
    "$S_2 = S_1$",
    "LR-T4h": r"$M \leq \lfloor \frac{1}{c_1} \rfloor$ This case, according to Lemma 1 [...] "
    r"$M \ge 2 \lceil \frac{1}{c_1} \rceil$ This case, we will have",
    "LR-S6": r"$\frac{1 - \alpha_1^{k_1}}{(1 - \alpha_1) + c_1[\alpha_1 - \alpha_1^{k+1} - k_1(1 - "
    r"\alpha_1)\alpha_1^{k_1}]}$",
    "LR-S10": r"their speedups multiply, yielding a combined speedup $h(k_1, k_2) = f(k_1) \times g(k_2)$",
    "LR-P2": "Since these mechanisms operate at different granularities (inter-step vs. intra-step), their speedups "
    "multiply",
    "LR-T4b": r"the overall speedup $h(\gamma_1, \gamma_2)$ is maximized if and only if both step-level and "
    "token-level parallelism are employed",
    "LR-P1": r"acceptance rates $(\alpha_1, \alpha_2)$ in the 0.52-0.8 range are common in speculative decoding [10] "
    "and our experiments",
    "LR-P4": "maintaining high step acceptance rates, often above 50% and reaching up to 63%",
    "LR-P13": "This pattern was mirrored on AIME.",
    "LR-T3b": "if both (7) and (8) hold simultaneously, then combining both speculative techniques strictly "
    "outperforms using either one alone",
    "LR-T3h": r"we know that $D_2(M)$ is strictly decreasing, so $D_2(M) \le D_2(\gamma_2^*) < 1.157 < "
    r"\frac{1+\alpha_1}{1+c_1}$ So 7 is always hold.",
    "LR-T3i": r"From Lemma3, we can know that $a_2(\gamma_2^*) = \frac{\alpha_2^{\gamma_2^*}(-\ln "
    r"\alpha_2^{\gamma_2^*})}{1 - \alpha_2^{\gamma^*}} = \frac{c_2\gamma_2^*}{1 - c_2 + c_2\gamma_2^*}$",
    "LR-L1c": r"We can easily found that this function is monotonically decreasing with respect to $c_1$, $\alpha_2$ M",
    "LR-L4d": r"$x\left(-\ln\alpha\right) \ \ge \ -\ln\alpha \ > \ 1-\alpha \ \ge \ 1-\alpha^x$",
    "LR-L5b": r"Therefore $w'(\gamma)$ is strictly decreasing on [1, M]",
    "LR-L6c": r"$N(y) = y(1+y) + 2\ln(1-y),$ so that $F''(y) = N(y)/y^3$. [...] $N'(y) = [...] = "
    r"-\frac{2y^2 - y + 1}{1-y} < 0$",
    "LR-L6e": r"As $y \to 0^+$, $\ln(1-y) \sim -y$, so $F'(y) \sim (-y)(1-y^{-2}) - \frac{1}{y} = +O(y) > 0.$",
    "LR-L6f": r"As $y \to 1^-$, $\ln(1-y) \to -\infty$ while $(1-1/y^2) \to 1$, so $F'(y) \to -\infty$.",
    "LR-T4f": r"we only need to prove that $\frac{1+\alpha_1}{1+c_1} \ge 1.157$ is hold, and it's easy to prove.",
    "LR-T4g": r"according to Lemma 1, we can see that $h(1,\gamma_2) < h(2,\frac{\gamma_2}{2})$ is always hold",
    "LR-L1d": r"$w(2)/w(1) > \frac{1+0.52}{(1+0.8^8)(1+0.52\times 1/3\times 0.48)} > 1$",
    "LR-L3a": r"where $\alpha_2 > c_2$ Then g increases on $[1, \hat{\gamma})$ and decreases on "
    r"$(\hat{\gamma}, \infty)$ for a unique $\hat{\gamma} \in \mathbb{R}^+$.",
    "LR-L5c": r"assume $M \ge 4$. [...] If both (7) and (8) hold, then $w(\gamma)$ is unimodal on [1, M] and attains "
    r"its maximum at some $\gamma^* \in [2, \frac{M}{2}]$.",
    "LR-L3c": r"$F(\gamma) = \alpha_2^{\gamma} [(-\ln \alpha) (1 - c_2 + c_2 \gamma) + c] - c_2 (1 - "
    r"\alpha_2^{\gamma}) \longrightarrow -c < 0.$",
    "LR-L4f": r"$a(\alpha, x) < a(0.8, 10) = -\ln(0.8) \frac{10 \cdot 0.8^{10}}{1 - 0.8^{10}} \approx 0.26$",
    "LR-L4g": r"$a(0.8, 6) = -\ln(0.8) \ \frac{10 \cdot 0.8^6}{1 - 0.8^6} \approx 0.48$",
}

LOOKAHEAD_DECODING_WORDS: Mapping[str, str] = {
    "LD-N11": "can speed up autoregressive decoding by up to 1.8x on MT-bench",
    "LD-E2-progress": "otherwise, we stop checking and drop subsequent tokens. Finally, we update y with all accepted "
    "tokens.",
    "LD-A1-index": r"$w_j^i \leftarrow \operatorname{argmax} P_M(w_j^i | \mathbf{w}_j^{i+2-N:i-1}, "
    r"\mathbf{w}_{2:j}^{i+1-N}, \mathbf{o}_{1:i}, \mathbf{x}^0)$",
    "LD-A1-ngram": r"$\mathbf{w}_{2:j}^{i+1-N} \text{ is empty if } j=1$",
    "LD-A34-nonempty": r"$size(\mathbf{D}) > 0$ is guaranteed",
    "LD-A4-indifferent": "the verification is indifferent to how draft tokens were sampled",
    "LD-A4-generator": r"sample $r \sim U(0,1)$",
    "LD-TA-proof": r"$\mathcal{P}_{g+1}(v) = \frac{\mathcal{P}_g(v)}{r_g}$",
    "LD-E4-mean": r"We represent the probability of each token in the sequence passing the verification of the LLM by "
    r"$\beta$ (acceptance rate) and notate its expectation $E(\beta) = \alpha$.",
    "LD-E5-mean": r"We assume that b sequences, each of $\gamma$ tokens, are sampled as each token will have the same "
    r"acceptance rate of $\beta$.",
    "LD-E5-dependence": r"each token will have the same acceptance rate of $\beta$. Under this setting, the "
    "expectation of the number of accepted tokens is denoted as follows",
    "LD-A4-mean": "LOOKAHEAD DECODING speculates b sequences every time as in Eq. 5.",
    "LD-S1": r"we can linearly reduce the number of decoding steps according to per-step $\log(b)$ given a large "
    r"enough $\gamma$",
    "LD-S2": r"linearly reduce decoding steps according to per-step $\log(\text{FLOPs})$ given a large enough N",
    "LD-N1": "the 7B, 13B, and 34B models require 120x, 80x, and 56x extra FLOPs per step, respectively",
    "LD-N7": "Generation Quality with Greedy Search is not changed. [...] Besides, Tab. 2 also strengthens the "
    "statements for greedy search.",
    "LD-N5": "our selection (i.e., Tinyllama 1b (Zhang et al., 2024) and Vicuna 7b (Zheng et al., 2024)) only shows a "
    "slowdown",
}
