"""The schedule of Lookahead Reasoning with one draft per position: `sim.algorithms.lookahead_tree` on arrays.

With one draft the nodes of an answer are a chain from the root to the tail. What is to be done is appended to ``acts``.
"""

from __future__ import annotations

from typing import Any

from sim.serving.steps import records as r
from sim.serving.steps.records import Rules, State

__all__ = ["add_node", "ask", "free", "node_at", "on_done", "open_node", "step_at"]


def node_at(rules: Rules, place: int, position: int) -> int:
    """Return where a node is kept."""
    return place * rules.ring + position % rules.ring


def step_at(rules: Rules, place: int, position: int) -> int:
    """Return where a step is kept."""
    return place * rules.slab + position


def add_node(
    rules: Rules, s: State, place: int, position: int, context: int, length: int, by: int, is_cut: int
) -> None:
    """Append a node to an answer's chain."""
    node = node_at(rules, place, position)
    s.nodes[r.CONTEXT][node], s.nodes[r.LENGTH][node] = context, length
    s.nodes[r.BY][node], s.nodes[r.IS_CUT][node] = by, is_cut
    s.nodes[r.TARGET][node] = s.nodes[r.DRAFT][node] = s.nodes[r.VERIFY][node] = r.NONE
    s.nodes[r.CHILD][node] = s.nodes[r.NEXT][node] = s.nodes[r.DECIDED][node] = 0
    s.nodes[r.WINNER][node] = s.nodes[r.WAITS][node] = 0
    s.places[r.TAIL][place] = position


def ask(s: State, acts: Any, place: int, position: int, role: int) -> int:
    """Have a request begin; return it."""
    if not s.whole[r.FREE]:
        s.whole[r.NO_ROOM] = 1
        return 0
    s.whole[r.FREE] -= 1
    request = s.requests[r.STACK][s.whole[r.FREE]]
    s.whole[r.KEYS] += 1
    s.requests[r.KEY][request] = s.whole[r.KEYS]
    s.requests[r.OF][request] = s.places[r.ANSWER][place]
    s.requests[r.PLACE][request], s.requests[r.POSITION][request] = place, position
    s.requests[r.ROLE][request], s.requests[r.STATUS][request] = role, r.TRAVELLING
    s.requests[r.IS_CANCELLED][request] = 0
    acts.append((r.START, request, s.whole[r.KEYS]))
    return int(request)


def free(s: State, request: int) -> None:
    """Let a request be another one."""
    s.requests[r.KEY][request] = 0
    s.requests[r.STACK][s.whole[r.FREE]] = request
    s.whole[r.FREE] += 1


def on_done(rules: Rules, s: State, acts: Any, request: int) -> None:
    """Go on after a request has ended."""
    place, position, role = s.requests[r.PLACE][request], s.requests[r.POSITION][request], s.requests[r.ROLE][request]
    if role == r.JUDGES:
        on_verdict(rules, s, acts, place, position)
    elif role == r.DRAFTS:
        on_draft(rules, s, acts, place, position)
    else:
        on_target(rules, s, acts, place, position)
    if rules.late_in_order or s.nodes[r.DECIDED][node_at(rules, place, s.places[r.ROOT][place])]:
        advance(rules, s, acts, place)


def open_node(rules: Rules, s: State, acts: Any, place: int, position: int) -> None:
    """Start a node's target step and its draft, as far as the window allows."""
    node, room = node_at(rules, place, position), rules.window - position + s.places[r.ROOT][place]
    s.nodes[r.WAITS][node] = 1
    if room <= 0:
        return
    if s.nodes[r.TARGET][node] == r.NONE:
        s.nodes[r.TARGET][node] = ask(s, acts, place, position, r.WRITES)
    if s.nodes[r.DRAFT][node] == r.NONE:
        if room <= 1 and not rules.prefetches:
            return
        s.nodes[r.DRAFT][node] = ask(s, acts, place, position, r.DRAFTS)
    s.nodes[r.WAITS][node] = 0


def on_draft(rules: Rules, s: State, acts: Any, place: int, position: int) -> None:
    """Open the node after a draft, and have it judged if the target's step is there."""
    node, step = node_at(rules, place, position), step_at(rules, place, position)
    s.nodes[r.DRAFT][node] = r.DONE
    if position != s.places[r.LAST][place]:
        s.nodes[r.CHILD][node] = r.FROM_DRAFT
        tokens, is_cut = s.steps[r.DRAFT_TOKENS][step], s.steps[r.DRAFT_CUT][step]
        add_node(rules, s, place, position + 1, s.nodes[r.CONTEXT][node] + tokens, tokens, r.DRAFTS, is_cut)
        open_node(rules, s, acts, place, position + 1)
    if s.nodes[r.TARGET][node] == r.DONE:
        judge(rules, s, acts, place, position)


def on_target(rules: Rules, s: State, acts: Any, place: int, position: int) -> None:
    """Have the draft judged if it is there."""
    node = node_at(rules, place, position)
    s.nodes[r.TARGET][node] = r.DONE
    if s.nodes[r.DRAFT][node] == r.DONE:
        judge(rules, s, acts, place, position)
    elif s.nodes[r.DRAFT][node] >= 0 and gives_up(rules, s, place, position):
        give_up(rules, s, acts, place, position)
    if not rules.late_in_order:
        close(rules, s, acts, place, position)


def gives_up(rules: Rules, s: State, place: int, position: int) -> bool:
    """Whether a draft counts as refused that is not there when the target's step is."""
    return not rules.late_in_order and (rules.cancels_late or refuses(rules, s, place, position))


def close(rules: Rules, s: State, acts: Any, place: int, position: int) -> None:
    """Handle the end of the target's step: a draft that has not started by then is never started."""
    node = node_at(rules, place, position)
    s.nodes[r.WAITS][node] = 0
    if s.nodes[r.DRAFT][node] == r.NONE:
        refuse(rules, s, acts, place, position)


def give_up(rules: Rules, s: State, acts: Any, place: int, position: int) -> None:
    """Cancel a late draft; it counts as refused."""
    node = node_at(rules, place, position)
    cancel_in(s, acts, r.DRAFT, node)
    refuse(rules, s, acts, place, position)


def refuses(rules: Rules, s: State, place: int, position: int) -> bool:
    """Whether a node's draft is refused unjudged."""
    is_cut = s.nodes[r.IS_CUT][node_at(rules, place, position)] != 0
    return (rules.reject_first and position == 0) or (rules.reject_after_cut and is_cut)


def judge(rules: Rules, s: State, acts: Any, place: int, position: int) -> None:
    """Submit a draft to the verifier; both texts exist."""
    if refuses(rules, s, place, position):
        refuse(rules, s, acts, place, position)
    else:
        s.nodes[r.VERIFY][node_at(rules, place, position)] = ask(s, acts, place, position, r.JUDGES)


def on_verdict(rules: Rules, s: State, acts: Any, place: int, position: int) -> None:
    """Decide about a node."""
    node = node_at(rules, place, position)
    s.nodes[r.VERIFY][node] = r.DONE
    if not s.steps[r.IS_GOOD][step_at(rules, place, position)]:
        refuse(rules, s, acts, place, position)
        return
    s.nodes[r.DECIDED][node] = s.nodes[r.WINNER][node] = 1
    if not rules.in_order:
        follow(s, node)


def refuse(rules: Rules, s: State, acts: Any, place: int, position: int) -> None:
    """Decide against a draft, or where there is none."""
    node = node_at(rules, place, position)
    if not rules.in_order:
        prune(rules, s, acts, place, position)
    if s.nodes[r.DECIDED][node]:
        return
    s.nodes[r.DECIDED][node] = 1
    if not rules.in_order:
        take_effect(rules, s, acts, place, position)


def take_effect(rules: Rules, s: State, acts: Any, place: int, position: int) -> None:
    """Follow the draft if it has won, else the target's step; discard what follows the other."""
    node = node_at(rules, place, position)
    if s.nodes[r.WINNER][node]:
        follow(s, node)
        return
    if rules.in_order:
        prune(rules, s, acts, place, position)
    s.nodes[r.NEXT][node] = r.WRITTEN
    if position != s.places[r.LAST][place]:
        s.nodes[r.CHILD][node] = r.FOLLOWS
        step = step_at(rules, place, position)
        tokens, is_cut = s.steps[r.OWN_TOKENS][step], s.steps[r.OWN_CUT][step]
        add_node(rules, s, place, position + 1, s.nodes[r.CONTEXT][node] + tokens, tokens, r.WRITES, is_cut)
        open_node(rules, s, acts, place, position + 1)


def follow(s: State, node: int) -> None:
    """Follow a draft; the target's step has served to verify it."""
    s.nodes[r.NEXT][node] = r.DRAFTED
    if s.nodes[r.CHILD][node] == r.FROM_DRAFT:
        s.nodes[r.CHILD][node] = r.FOLLOWS


def prune(rules: Rules, s: State, acts: Any, place: int, position: int) -> None:
    """Discard what comes after a draft."""
    node = node_at(rules, place, position)
    if s.nodes[r.CHILD][node] != r.FROM_DRAFT:
        return
    for later in range(position + 1, s.places[r.TAIL][place] + 1):
        other = node_at(rules, place, later)
        cancel_in(s, acts, r.TARGET, other)
        cancel_in(s, acts, r.DRAFT, other)
        cancel_in(s, acts, r.VERIFY, other)
    s.nodes[r.CHILD][node] = 0
    s.places[r.TAIL][place] = position


def cancel_in(s: State, acts: Any, row: int, node: int) -> None:
    """Have a node's request cancelled if it has not been delivered."""
    request = s.nodes[row][node]
    if request >= 0:
        acts.append((r.CANCEL, request, s.requests[r.KEY][request]))
        s.nodes[row][node] = r.GONE


def advance(rules: Rules, s: State, acts: Any, place: int) -> None:
    """Commit the steps that are decided, in order; then start the requests that the moved window allows."""
    first = position = s.places[r.ROOT][place]
    while is_known(rules, s, acts, place, position):
        row = r.DRAFT_TOKENS if s.nodes[r.NEXT][node_at(rules, place, position)] == r.DRAFTED else r.OWN_TOKENS
        acts.append((r.COMMIT, place, s.steps[row][step_at(rules, place, position)]))
        if position == s.places[r.LAST][place]:
            end(rules, acts, place)
            return
        position += 1
        s.places[r.ROOT][place] = position
    tail = s.places[r.TAIL][place]
    if position != first and s.nodes[r.WAITS][node_at(rules, place, tail)]:
        open_node(rules, s, acts, place, tail)


def is_known(rules: Rules, s: State, acts: Any, place: int, position: int) -> bool:
    """Whether the step after the root is known; under in-order rules the decision is made here."""
    node = node_at(rules, place, position)
    is_open = rules.late_in_order and not s.nodes[r.DECIDED][node]
    if is_open and s.nodes[r.TARGET][node] == r.DONE and s.nodes[r.VERIFY][node] < 0:
        if s.nodes[r.DRAFT][node] >= 0:
            give_up(rules, s, acts, place, position)
        close(rules, s, acts, place, position)
    if s.nodes[r.DECIDED][node] and not s.nodes[r.NEXT][node]:
        take_effect(rules, s, acts, place, position)
    return bool(s.nodes[r.NEXT][node] != 0)


def end(rules: Rules, acts: Any, place: int) -> None:
    """End the answer: requests in flight are cancelled, or let run on."""
    if not rules.cancels_at_end:
        kept = 0
        for i in range(len(acts)):
            if acts[i][0] != r.CANCEL:
                acts[kept] = acts[i]
                kept += 1
        while len(acts) > kept:
            acts.pop()
    acts.append((r.END, place, 0))
