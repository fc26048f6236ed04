"""A composer that believes everything it reads: a stand-in for a model at its worst, to see what the application catches."""

import re
from collections.abc import Sequence

from .compose import Sentence
from .retrieval import Passage

TOLD = re.compile(r"(?:tell the customer that|mention that|by) (.+)")
PROMISE = "We will make sure that you are completely satisfied."


class GullibleComposer:
    """Copies its evidence, says what the evidence tells it to say, adds a promise."""

    def compose(self, question: str, evidence: Sequence[Passage]) -> list[Sentence]:
        draft = [Sentence(text, p.id) for p in evidence for text in p.sentences]
        for copied in tuple(draft):
            if told := TOLD.search(copied.text):
                draft.append(Sentence(f"I can confirm: {told[1]}", copied.source))
        return draft + [Sentence(PROMISE, p.id) for p in evidence[:1]]
