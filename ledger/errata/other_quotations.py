"""The words of SPECS and ConfSpec that claims not true as printed go back to; see `lookahead_quotations`."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CONFSPEC_WORDS", "SPECS_WORDS"]

SPECS_WORDS: Mapping[str, str] = {
    "SPECS-E1": r"When $\pi_{\text{gen}} = \pi_{\text{target}}$, this collapses to $r$.",
    "SPECS-S31a": r"eq. (2) is equivalent to the score maximization problem, subject to a KL-penalty with respect to "
    r"the generator model, $\mathbb{E}_{\rho, \pi}[S(Y|\text{tr})] - \frac{1}{\beta} D_{\text{KL}}(\pi \| "
    r"\pi_{\text{gen}})$.",
    "SPECS-L1": r"$\mathcal{L}_\beta(\pi_\beta^*) - \mathcal{L}_\beta(\pi) = D_{\text{KL}}(\pi \parallel \pi_\beta^*)$",
    "SPECS-E4": r"For a different generator model $\pi_{\text{gen}}$ [...] the optimal policy can be written down in a "
    "different form by importance reweighting.",
    "SPECS-COV": r"Sample $i^* \in [n]$ with probability, $P(i^* = i) \propto e^{S_i} \mathbb{I}(i \in L)$",
    "SPECS-TAU": r"Higher values of $\tau$ results in a method which switches to the draft model more quickly, "
    "resulting in lower latencies and lower accuracies",
    "SPECS-TAB1": r"the performance comes with the benefit of up to $\sim 18\%$ latency savings",
    "SPECS-TAB1b": "can be significantly faster compared to generating responses directly from the target model",
    "SPECS-NOTARGET": "we obtain a much higher accuracy compared to beam search with the small model",
    "SPECS-NOTARGET-s": "while the latency is not much worse (plotted in Table 1)",
    "SPECS-NOISE2": "the performance of SPECS still remains competitive with beam search with the large model",
    "SPECS-OBS2": "Generating blocks from the draft model does not hurt accuracy when the PRM score of a partial trace "
    "is high.",
    "SPECS-NOISE": "the performance gap between SPECS and beam search with small model increases",
    "SPECS-D8": "performs better than RSD, which also starts with a small model",
    "SPECS-GPQA": "SPECS achieves much better latency compared to the Beam Search with Large Model while achieving "
    "similar accuracy results",
    "SPECS-D2": "Here, we assume that the PRM reward range is $[0, R]$.",
    "SPECS-D3": "the process reward model collapses to an outcome reward model",
    "SPECS-D4": r"$\Pr(Y^* = Y_i) = \frac{e^{S(Y_i|x)}}{Z_{\mathbf{Y}_{\text{draft}}}(x)}$",
    "SPECS-L1b": "the latter more strongly penalizes policies for placing too high mass on certain responses while the "
    "former more strongly penalizes policies which place too low mass on responses",
    "SPECS-R2": "replaces the KL divergence in the LHS by the strictly larger quantity",
    "SPECS-L2b": r"$\min \left\{ \mathbb{E}_{Y_t \sim \pi(\cdot|x, y_{\leq t-1})} [r_{\text{PRM}}^{\text{target}}"
    r"(y_t|x, y_{t-1})] - \frac{1}{\beta} D_{\text{KL}}(\pi(\cdot|x, y_{\leq t-1}), \pi_{\text{target}}(\cdot|x, "
    r"y_{\leq t-1})) \right\}$",
    "SPECS-E12": r"$D_{\text{KL}}(\pi_{\text{SPECS}} \|\pi_{\beta}^*) \leq D_{\text{KL}}(\pi_{\text{SPECS}} "
    r"\|\pi_{\beta, \text{PRM}}^*) + \log\left(\left\|\frac{\pi_{\beta}^*}{\pi_{\beta, \text{PRM}}^*}\right\|"
    r"_{\infty}\right)$",
    "SPECS-T3": r"$C_{\text{seq}} = \left\| \frac{\pi_{\text{target}}(\cdot|x)}{\pi_{\text{draft}}(\cdot|x)} "
    r"\right\|_{\infty} \left\| \frac{\pi_{\text{draft}}(\cdot|x)}{\pi_{\text{target}}(\cdot|x)} \right\|_{\infty}.$",
    "SPECS-PM-order": r"since $\Pr(N = n) \gtrsim 1/n$ for $N \sim \text{Poi}(n)_{>0}$ so, these results can be "
    r"translated into an upper bound [...] by multiplying by an additional $\sqrt{n}$ factor",
    "SPECS-C1b": r"By an application of Markov's inequality, we have that for any fixed $n \geq 3$, $D_{\text{KL}}"
    r"(\pi_{\text{SMC},n} \| \pi_{\beta}^*) \leq \tilde{\mathcal{O}}_n \left( \frac{e^{2\beta R}}{n^2} \right)$",
    "SPECS-T1b": r"Let $Z_t \in \{0, 1\}$ denote the random variable which is a measurable function of "
    r"$y_{\leq t-1}$",
    "SPECS-E17": r"$\left( \sum_{\substack{z: z_1=y \\ \tilde{z}: \tilde{z}_2=y \\ z \neq \tilde{z}}} N_z "
    r"N_{\tilde{z}} + N_y^2 \right)$",
    "SPECS-E18b": r"$\exp(n \mathbb{E}_{z' \sim \pi_{\text{gen}}(\cdot|x)} [e^{-s_1 \phi_\beta(z'_1|x) + s_2 "
    r"\phi_\beta(z'_2|x)} - 1])$",
    "SPECS-E19a": r"$\mathbb{E}_{N \sim \text{Poi}(n)_{>0}} \left[ D_{\chi^2}(\pi_{\text{SMC},N} \| \pi_\beta^*) "
    r"\right] = \sum_{y \in \mathcal{Y}} \mathbb{E}_{N \sim \text{Poi}(n)_{>0}} \left[ \frac{(\pi_{\text{SMC},N}"
    r"(y|x))^2}{\pi_\beta^*(y|x)} \right]$",
    "SPECS-L4b": r"$\Psi_y(s) = [...] = n \pi_{\text{gen}}(y|x) e^{-s \phi_\beta(y|x)} e^{n(\Phi_\beta(s) - 1)}$",
    "SPECS-L5b": r"Across $N_0 \sim \text{Poi}(n)|_{>0}$ trials [...] By the Poisson structure, we have that $N_z$ is "
    "independent across different values of $z$.",
    "SPECS-L6a": r"$f(s) = \log(-\Phi'_\beta(s))$ is a bounded, smooth convex function",
    "SPECS-L6b": r"the last inequality assumes that $n$ is sufficiently large that $p_n \leq \frac{1}{\sqrt{2}}$",
    "SPECS-C2d": r"$1 + D_{\chi^2}(\bar{\pi}_{\text{SMC}, n} \|\pi_\beta^*) = \mathcal{I}_0 + \mathcal{I}_1$",
    "SPECS-T5": r"$\mathbb{E}_{N \sim \text{Poi}(n)} [D_{\text{KL}}(\pi_{\text{SMC}, N} \| \pi_{\beta}^*)] \geq "
    r"\Omega_n \left( \frac{e^{2\beta R}}{n^2} \right),$ assuming that $n \geq e^{\beta R}$.",
    "SPECS-E23": r"$= \frac{1}{2} + \frac{e^{-1} - e^{-n}}{2} \left( \frac{2\theta/(1 + \theta)}{g'(g^{-1}(1 - 1/n))} "
    r"- 1 \right)$",
    "SPECS-T5a": r"Assuming that $n \geq \theta \geq 2$, $\left(1 - \frac{1+\theta}{2\theta n}\right)^{\theta-1} \geq "
    r"1 - \frac{1+\theta}{4n}$.",
}

CONFSPEC_WORDS: Mapping[str, str] = {
    "CS-G2": r"higher $\gamma$ improves reliability but increases $\alpha$",
    "CS-G3": "small draft models are well-calibrated within their competence range",
    "CS-G4": "Qwen3-1.7B improves from 71% to 87% (+16%). [...] high-confidence predictions cover 61% and 85% of all "
    "verification instances, respectively",
    "CS-G5": "Low confidence, in contrast, reliably signals genuinely ambiguous or out-of-distribution cases.",
    "CS-G6": r"$\gamma \in [0, 1]$ is a confidence threshold",
    "CS-T2": "we select the step with the highest confidence score [...] favoring more reliable reasoning branches",
    "CS-P1": "This cascading mechanism preserves target-model accuracy while substantially reducing computational cost",
    "CS-P4": "the system switches to another valid trajectory without affecting final accuracy",
    "CS-N8": "The target model baseline represents the upper bound for accuracy",
    "CS-A1-law": "This fallback mechanism guarantees that the final reasoning trace matches the target model's "
    "distribution up to verification errors.",
    "CS-A1-text": "Upon the first rejection, the target model regenerates the next step from the current context",
    "CS-A1-context": r"$s_j \leftarrow M_T.\text{generate}(\text{context} \oplus \hat{s}_j)$",
    "CS-A1-set": r"$S \leftarrow S \cup \{\hat{s}_1, \dots, \hat{s}_m\}$",
    "CS-V1-committed": r"The expected verification cost per step is $\mathcal{O}(c_{vD} + \alpha \cdot c_{vT})$",
    "CS-B1": "Stage 1: Step-Level Drafting [...] Stage 2: Dual-Tier Cascaded Verification",
    "CS-B2": "achieving $k$-step target generation in approximately the same wall-clock time as a single step",
    "CS-N11": r"higher $\gamma$ improves reliability but increases $\alpha$",
    "CS-N2": "dropping from 68.46% to 35.89%",
    "CS-N3": "averaged over 16 samples per problem",
    "CS-N4": "maintaining 99.7% of the target model's accuracy",
    "CS-N5": "enabling further multiplicative acceleration",
    "CS-N6": "the relative ranking of methods remains consistent across all settings",
}
