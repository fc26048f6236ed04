"""A composer that believes everything it reads: a stand-in for a model at its worst, to see what the application catches."""

import re
from collections.abc import Sequence

from .compose import Sentence
from .retrieval import Passage


class GullibleComposer:
    """Copies every sentence of its evidence, says in its own words whatever the evidence tells it to say, and adds a promise."""

    def compose(self, question: str, evidence: Sequence[Passage]) -> list[Sentence]:
        draft = [Sentence(text, p.id) for p in evidence for text in p.sentences]
        obeyed = [re.search(r"(?:tell the customer that|mention that|by) (.+)", s.text) for s in draft]
        draft += [Sentence(f"I can confirm: {said[1]}", s.source) for said, s in zip(obeyed, draft) if said]
        return draft + [Sentence("We will make sure that you are completely satisfied.", p.id) for p in evidence[:1]]
