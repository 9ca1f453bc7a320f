"""Councils with a mistake put in, each where a rule of theirs stands (node_mutants.py says how).

``seen_in`` is the walk (its seed) of test_council.py that goes wrong; or, for what no walk has
shown, the test of tests/client/test_council.py that plays the schedule.  Of those some are unsafe,
but need an exact order of losses: a lower ballot's value after an accepted one, an answer to a
former ballot, a promise lost in a crash, a quorum around vouched ones.  The others only cost time
or cannot happen among honest nodes: something else asks again, answers, or refuses later.
"""

from __future__ import annotations

from tests.sim.node_mutants import Mutant

MUTANTS = (
    # ---- who promises what
    Mutant(
        "an older ballot is promised", "council:Council._prepare",
        "if message.ballot < self.promised:", "if False:", "walk 63",
    ),
    Mutant(
        "an older ballot's value is accepted", "council:Council._accept",
        "if message.ballot < self.promised:", "if False:", "walk 217",
    ),
    Mutant(
        "accepting does not promise", "council:Council._accept",
        "self.promised = message.ballot", "pass",
        "rule test_accepting_a_ballot_promises_it_though_nobody_asked_before",
    ),
    Mutant(
        "what was accepted is not told", "council:Council._promise",
        "self.accepted_in, self.accepted,", "(0, 0), None,", "walk 27",
    ),
    Mutant(
        "the value of the lowest ballot is taken", "council:Council._choose",
        "max(accepted, key=_ballot)", "min(accepted, key=_ballot)", "walk 312",
    ),
    Mutant(
        "an own value goes before an accepted one", "council:Council._choose",
        "if accepted:", "if accepted and not proposal.suspects:", "walk 41",
    ),
    Mutant(
        "ballots are used twice", "council:Council.tick",
        "self._round = max(self._round, self.promised[0]) + 1", "self._round = 1", "walk 12",
    ),
    Mutant(
        "answers to another ballot count", "council:Council._answered",
        "elif message.ballot != proposal.ballot:", "elif False:",
        "rule test_answers_to_an_earlier_ballot_do_not_count",
    ),
    Mutant(
        "a refusal is not heard", "council:Council._answered",
        "proposal.is_refused = True", "pass", "walk 63",
    ),
    Mutant(
        "a refusal does not tell the round", "council:Council._answered",
        "self._round = max(self._round, message.ballot[0])", "pass",
        "rule test_the_ballot_after_a_refusal_is_above_the_one_it_names",
    ),
    Mutant(
        "a node does not hear its own refusal", "council:Council._refuse",
        "elif self.proposal is not None:", "elif False:",
        "rule test_a_proposal_that_its_own_node_refuses_is_made_again_with_a_later_ballot",
    ),
    Mutant(
        "acceptances of a minority install", "council:Council._answered",
        "self.view.is_enough(proposal.accepted_by, self.vouched)", "True", "walk 256",
    ),
    Mutant(
        "promises of a minority choose", "council:Council._choose",
        "if not self.view.is_enough(promises, self.vouched):", "if False:", "walk 39",
    ),
    Mutant(
        "any half is a quorum", "wire.membership:View.is_enough",
        "and members[0] in there", "", "walk 49",
    ),
    Mutant(
        "half is no quorum", "wire.membership:View.is_enough",
        "twice == len(members) > 0", "False", "walk 10",
    ),
    Mutant(
        "most of those who are not vouched to be dead are a quorum",
        "wire.membership:View.is_enough",
        "rest <= there", "2 * len(rest & there) > len(rest)",
        "rule test_without_those_that_are_vouched_to_be_dead_all_others_are_needed",
    ),
    # ---- the flush
    Mutant(
        "the limit outlives its ballot", "council:Council._prepare",
        "self.limit = {}", "pass", "walk 251",
    ),
    Mutant(
        "the limit outlives the ballot that accepted", "council:Council._accept",
        "self.limit = {}", "pass",
        "rule test_nothing_of_an_earlier_ballots_cut_is_taken_under_a_later_one",
    ),
    Mutant(
        "a new ballot lifts the freezes of the one before", "council:Council._prepare",
        "self.limit = {}",
        "self.limit = {}\n        self.frozen.clear()\n        self._plane.frozen.clear()",
        "walk 27",
    ),
    Mutant(
        "nothing is frozen", "council:Council._prepare",
        "self.frozen.update(each for each in message.suspects if each != self.slot)", "pass",
        "walk 0",
    ),
    Mutant(
        "what is held back of the frozen is kept", "sim.council_site:Site.freeze",
        "self.held.pop(slot, None)", "pass", "walk 489",
    ),
    Mutant(
        "a node that is told to freezes itself", "council:Council._prepare",
        "if each != self.slot", "",
        "rule test_nobody_freezes_itself",
    ),
    Mutant(
        "a quorum's frontiers make the cut", "council:Council._choose",
        "if not rest <= promises.keys():\n"
        "            return  # a cut that somebody lacks would be no cut\n"
        "        there = {slot: dict(promises[slot].reached) for slot in sorted(rest)}",
        "there = {slot: dict(promises[slot].reached) for slot in sorted(rest & promises.keys())}",
        "walk 325",
    ),
    Mutant(
        "the cut is the least that somebody has", "council:Council._choose",
        "holder = max(there, key=", "holder = min(there, key=", "walk 142",
    ),
    Mutant(
        "a cut is proposed before all have it", "council:Council._choose",
        "if any([each != target for each in there.values()]):", "if False:", "walk 10",
    ),
    Mutant(
        "others' freezes do not matter", "council:Council._choose",
        "[proposal.suspects.issuperset(promises[s].frozen) for s in rest & promises.keys()]",
        "[True]", "walk 12",
    ),
    Mutant(
        "the cut is that of the coordinator", "council:Council._choose",
        "target[suspect] = there[holder].get(suspect, 0)",
        "target[suspect] = there[self.slot].get(suspect, 0)", "walk 112",
    ),
    Mutant(
        "nobody asks for what is missing", "council:Council._prepare",
        "self._pull(dict(message.holders))", "pass", "walk 142",
    ),
    Mutant(
        "reaching the limit is not told", "council:Council.advanced",
        "self._promise()", "pass",
        "rule test_a_cut_is_the_most_that_somebody_has_and_waits_until_all_have_it",
    ),
    Mutant(
        "a promise is told again only when asked for the first time", "council:Council._prepare",
        "self._promise()\n", "if not self.limit: self._promise()\n",
        "rule test_reaching_the_cut_is_told_at_once_and_only_once",
    ),
    # ---- the coordinator
    Mutant(
        "nobody unfreezes", "council:Council._is_stuck",
        "bool(self.frozen) or any(self._stuck.values())", "False", "walk 27",
    ),
    Mutant(
        "nobody hears that others are stuck", "council:Council._is_stuck",
        " or any(self._stuck.values())", "", "walk 27",
    ),
    Mutant(
        "a proposal goes on when somebody else is suspected", "council:Council.tick",
        "or (proposal.value is None and proposal.suspects != suspects)", "", "walk 94",
    ),
    Mutant(
        "a value is given up when somebody else is suspected", "council:Council.tick",
        "proposal.value is None and proposal.suspects != suspects",
        "proposal.suspects != suspects",
        "rule test_a_value_that_is_fixed_goes_on_when_somebody_else_is_suspected",
    ),
    Mutant(
        "nothing is asked again", "council:Council.tick",
        "elif now >= proposal.sent_at + RESEND_S:", "elif False:", "walk 12",
    ),
    Mutant(
        "only those who have answered are asked again", "council:Council._spread",
        "if slot not in skipped:\n            self.out",
        "if slot in skipped:\n            self.out",
        "walk 0",
    ),
    Mutant(
        "those who lack the cut are not asked again", "council:Council._ask",
        "if proposal.target is None or dict(promise.reached) == proposal.target", "", "walk 142",
    ),
    Mutant(
        "everybody coordinates", "council:Council.tick",
        "or self.coordinator != self.slot ", "", "walk 11",
    ),
    Mutant(
        "a minority works on", "council:Council.tick",
        " or self.is_minority", "",
        "rule test_a_minority_proposes_nothing",
    ),
    Mutant(
        "a proposal outlives the turn to coordinate", "council:Council.tick",
        "self.proposal = None\n        return\n    suspects", "return\n    suspects",
        "rule test_a_node_that_does_not_coordinate_any_more_gives_its_proposal_up",
    ),
    Mutant(
        "leaves alone are nothing to do", "council:Council.tick",
        "or self._may_leave() ", "", "walk 11",
    ),
    Mutant(
        "a leave that must wait makes views", "council:Council._may_leave",
        "(not left or bool(left & self.up))", "True", "walk 22",
    ),
    # ---- the next view
    Mutant(
        "all leave though nobody who stays has the state", "council:Council._next_view",
        "if left & self.up:", "if left:",
        "walk 177",
    ),
    Mutant(
        "the last one does not leave", "council:Council._next_view",
        "if not left and not wanted:", "if False:", "walk 100",
    ),
    Mutant(
        "everybody leaves newcomers alone", "council:Council._next_view",
        "if not left and not wanted:", "if not left:",
        "rule test_the_last_do_not_leave_while_somebody_wants_to_join",
    ),
    Mutant(
        "a leaver that is evicted leaves", "council:Council._next_view",
        " if slot not in removed", "", "walk 1926",
    ),
    Mutant(
        "the last of its name comes back as itself", "council:Council._is_known",
        "each.ticket == request.ticket", "False",
        "rule test_a_former_member_comes_back_only_with_another_ticket",
    ),
    # ---- what is installed
    Mutant(
        "an older view is installed", "council:Council.receive",
        "if message.value.num > self.view.num:", "if message.value.num != self.view.num:",
        "walk 138",
    ),
    Mutant(
        "an older view is installed when it is chosen", "council:Council.install",
        "if value.num <= old.num:", "if value == old:",
        "rule test_only_the_next_view_is_accepted_and_only_a_later_one_installed",
    ),
    Mutant(
        "one with an older view is not told", "council:Council.receive",
        "elif message.value.num < self.view.num:", "elif False:", "walk 138",
    ),
    Mutant(
        "something of another view is not answered", "council:Council.receive",
        "if slot != self.slot:", "if False:", "walk 4",
    ),
    Mutant(
        "something of another view counts", "council:Council.receive",
        "number != self.view.num or ", "", "walk 41",
    ),
    Mutant(
        "somebody who is no member counts", "council:Council.receive",
        " or self.view.member(slot) is None", "",
        "rule test_something_of_another_view_is_answered_with_the_view_here",
    ),
    Mutant(
        "a value for another view is accepted", "council:Council._accept",
        "if message.value.num != self.view.num + 1:", "if False:",
        "rule test_only_the_next_view_is_accepted_and_only_a_later_one_installed",
    ),
    Mutant(
        "promises outlive the view", "council:Council._reset",
        "self.promised: Ballot = NO_BALLOT", "self.promised = getattr(self, 'promised', NO_BALLOT)",
        "rule test_a_view_ends_freezes_promises_and_proposals",
    ),
    Mutant(
        "what was accepted outlives the view", "council:Council._reset",
        "self.accepted: View | None = None", "self.accepted = getattr(self, 'accepted', None)",
        "walk 3",
    ),
    Mutant(
        "a proposal outlives the view", "council:Council._reset",
        "self.proposal: Proposal | None = None", "self.proposal = getattr(self, 'proposal', None)",
        "walk 0",
    ),
    Mutant(
        "leaves outlive the member", "council:Council.install",
        "self.leaves = {slot: seq for slot, seq in self.leaves.items() if slot in slots}", "pass",
        "walk 3",
    ),
    Mutant(
        "the removed are not told", "council:Council.install",
        "told = {*old.members, *value.members}", "told = {*value.members}",
        "rule test_everybody_old_and_new_is_told_of_a_view",
    ),
    Mutant(
        "nobody is told of a view", "council:Council.install",
        "if is_mine:", "if False:",
        "rule test_everybody_old_and_new_is_told_of_a_view",
    ),
    # ---- what is heard and remembered
    Mutant(
        "joins are not passed on", "council:Council._heard",
        "self.want(request, now, is_here=False)", "pass", "walk 3",
    ),
    Mutant(
        "leaves are not passed on", "council:Council._heard",
        "self.leaves[leaver] = seq", "pass", "walk 3",
    ),
    Mutant(
        "nobody hears who has the state", "council:Council._heard",
        "self.up.add(slot)", "pass", "walk 3",
    ),
    Mutant(
        "a promise is forgotten in a crash", "council:Council.resume",
        "self.promised = state.promised", "pass",
        "rule test_what_was_promised_survives_a_crash",
    ),
    Mutant(
        "what was accepted is forgotten in a crash", "council:Council.resume",
        "self.accepted_in, self.accepted = state.accepted_in, state.accepted", "pass", "walk 263",
    ),
    Mutant(
        "freezes are forgotten in a crash", "council:Council.resume",
        "self.frozen, self.limit = set(state.frozen), dict(state.limit)",
        "self._plane.frozen.clear()",
        "rule test_what_was_promised_survives_a_crash",
    ),
    Mutant(
        "the limit is forgotten in a crash", "council:Council.resume",
        "set(state.frozen), dict(state.limit)", "set(state.frozen), {}",
        "rule test_what_was_promised_survives_a_crash",
    ),
)  # fmt: skip
