"""How well does a sentence answer a question? Shares of its words, and, where a model is at hand, nearness of meaning."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from .language import stem, words
from .retrieval import Index, Passage
from .router import ASKS, BETWEEN_PARTS

# What kind of thing is asked for, and how a sentence that holds such a thing looks: (in the question, in the sentence).
KINDS = {
    "a time": (r"(?:^\W*|\b(?:and|by|since|until|till) )when\b|\bwhen(?:'s| is| are| do| does| will| can| was| did| should| must| come| arrive)\b|"
               r"\b(?:how (?:long|soon|quickly|fast|often)|(?:how many|how much) (?:days?|weeks?|months?|years?|hours?|minutes?)|hours?|weeks?|time|"
               r"period|until when|deadline|(?:which|what) (?:week)?days)\b",
               r"\b(?:minute|hour|day|week|month|year)s?\b|\d{4}-\d\d-\d\d|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\bnoon\b|\btwice\b|\bcm\b"),
    "an amount": (r"\b(?:how much (?:is|are|will|for|euros?)|amount|sum|price|costs?|charge for|expensive|pay for|set me back|"
                  r"pocket|how much money)\b", r"\beuros?\b|\bfree\b"),
    "a place": (r"\bwhere\b|\bin (?:which|what) (?:town|city|place|country|street)\b", r"\b(?:in|from) [A-Z]\w+"),
}  # fmt: skip
KIND_WEIGHT = 3.0  # what is asked for as a time or a price is as good as a word
MOST_WEIGHT = 4.2  # of a word that no document has
DENIED_SHARE = 0.6
TITLE_SHARE = 0.6  # what a policy's title counts for a sentence that does not repeat its words
CONTEXT_SHARE = 0.3  # what a word counts that stands beside the question and not in it
BESIDE_SHARE = 0.85  # what an answer to all that was said counts, against one to what was asked
BESIDE_PRODUCT = 0.9  # a general text, where a product was named
NAMED_BONUS = 0.06  # the catalogue, where a product was named: the field is small already
ENOUGH = 0.5  # the share that makes an answer, chosen on the development cases
ENOUGH_WITH_MODEL = 0.54  # the same for a score in which a model has a part; what is enough for words is enough here
LENIENCY = 0.6  # see Scorer.leniency
SECOND_CHECK = 1.1  # more is needed where 'Do the bars contain palm oil?' has a word that no text has: see Scorer.leniency
BOUND_BONUS = 0.3  # for a sentence that sets a bound in a unit in which the customer names a figure ('for 80 euros', 'above 75 euros')
UNITS = r"(euros?|kg|kilos?|g|grams?|cm|mm|metres?|litres?|degrees?|days?|weeks?|months?|hours?)\b"
FIGURE = re.compile(rf"(?<![\w.,])\d+\s*{UNITS}", re.IGNORECASE)  # whole: 6.90 is a price, and asks for no bound
BOUND = re.compile(rf"\b(?:above|below|within|up to|down to|(?:from )?\d+ to|only for|at (?:least|most))\s(?:(?:plus|minus) )?"
                   rf"\d+(?:\.\d+)?\s*{UNITS}", re.IGNORECASE)
LEAFLET_PENALTY = 0.1  # a reviewed text outranks a supplier's
OF_EVERY_PRODUCT = frozenset(("price", "stock"))
TIMES = frozenset(stem(word) for word in "hour week month year minute".split())
NUMBERS = frozenset("one two three four five".split())
SILENT_BONUS = 0.2  # 'which … not …?': the products that affirm it are gone already
NEGATION = r"(?:\b(?:not|cannot|never|no|nowhere|without|neither|excluded|unable|except)\b|n't\b)"
ASKS_FOR_WHAT_IS_NOT = re.compile(
    rf"^\W*(?:(?:and|but|so|hi|hello|ok|please)[\s,]+)*(?:(?:to|in|with|for|of|on|at|by|from) )?"
    rf"(?:which|wich|what|where|who|(?:is|are) there (?:any\w*|a|some\w*)|how (?:can|may) (?:i|we|one)(?= not))\b"
    rf"(?! (?:if|happens|to do|(?:should|must)(?! (?:i|we|you|one) (?:not|never)\b)|do i do|about)\b)(?:'s|s)?.*?{NEGATION}", re.IGNORECASE)
DENIES_NOTHING = re.compile(r"(?<!should )(?<!must )\b(?:i|we|it|they|he|she) (?:(?:did|have|has|had|do|does|was|were|am|are)(?: not|n't)|never)\b|"
                            r"(?:\bnot|n't)\b(?= (?:\w+ ){0,2}(?:closed|shut)\b)", re.IGNORECASE)  # 'not closed' is open
SOLD_OUT = re.compile(r"\b(?:sold out|out of stock|unavailable)\b", re.IGNORECASE)
IN_STOCK = re.compile(r"\b(?:in stock|available|availability|left)\b|\byou (?:do(?:n't| not) |not )?have\b", re.IGNORECASE)
CIRCUMSTANCE = re.compile(r"because\b|(?:if|so that|when(?= (?:he|she|they))) (?:i|it|we|you|they|he|she)\b", re.IGNORECASE)
BEFORE_A_CIRCUMSTANCE = re.compile(rf",?\s+(?={CIRCUMSTANCE.pattern})", re.IGNORECASE)
NUMBER_OF_PRODUCTS = re.compile(r"\bof (?:the|your) (two|three|four|five)\b", re.IGNORECASE)
WHICH = re.compile(r"\b(?:which|what)\b", re.IGNORECASE)
WHETHER = re.compile(r"^\W*(?:and |but |hi |hello |please )?(?:do|does|am|is|are|has|have|can|could|may|will|would)\b", re.IGNORECASE)
WHETHER_IT_HAS = re.compile(r"\b(?:does|do|has|have|is|are)\b.*\b(?:have|has|had|contain|include|come with|there)\b", re.IGNORECASE)
SIZE = re.compile(r"\b(small|little|smaller|smallest)\b|\b(?:big|bigger|biggest|large|larger|largest)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """A question, read: the words that an answer must hold, without those that only say which product."""

    question: str  # all of it
    text: str  # the last thing that it asks for
    words: frozenset[str]
    context: frozenset[str]
    kinds: frozenset[str]
    products: frozenset[str]  # topics of the catalogue that it names
    named: frozenset[str]  # the words that name them
    negated: bool  # 'which can not …?': sentences that affirm are no answers

    @property
    def empty(self) -> bool:
        """Nothing is asked but 'what about it?'."""
        return not (self.words or self.kinds or self.negated or self.context and not self.named)


def units(pattern: re.Pattern, text: str) -> frozenset[str]:
    """The units of the figures or bounds that the pattern finds."""
    short = {"kilo": "kg", "gram": "g"}
    singular = (unit.lower().removesuffix("s") for unit in pattern.findall(text))
    return frozenset(short.get(unit, unit) for unit in singular)


@lru_cache(maxsize=8192)  # the sentences come back with every question
def holds(text: str) -> frozenset[str]:
    """The words of a sentence, and the kinds of thing that stand in it."""
    kinds = {kind for kind, (_, pattern) in KINDS.items() if re.search(pattern, text if kind == "a place" else text.lower())}
    return frozenset(words(text)) | kinds


class Scorer:
    """Scores sentences of an index's passages for a question."""

    def __init__(self, index: Index):
        self.index = index
        self.titles = {p.topic: words(p.title.split("(")[0]) for p in index.passages if p.kind == "catalogue"}
        self._bags = {p.topic: frozenset(words(p.text)) for p in index.passages if p.kind == "catalogue"}
        self._nouns = frozenset(title[-1] for title in self.titles.values())
        self.vocabulary = frozenset(w for p in index.passages for w in words(f"{p.title} {p.text}"))

    def products(self, found: frozenset[str], text: str, whole_kind: bool = False) -> frozenset[str]:
        """The products that a text names: by their own names, or else those of the kind that it names ('the down bag'; `whole_kind`: all)."""
        own = [t for t, title in self.titles.items() if title[0] in found]
        chosen = own or [t for t, title in self.titles.items() if title[-1] in found]
        if whole_kind and not own:
            return frozenset(chosen)
        figures = {w for w in found if w.isdigit()}
        with_figure = [t for t in chosen if figures & set(self.titles[t])]
        chosen = with_figure or chosen
        if not own and len(chosen) > 1:
            described = {t: len(found & set(self.titles[t][1:-1])) for t in chosen}
            chosen = [t for t in chosen if described[t] == max(described.values())]
        kinds = {self.titles[t][-1] for t in chosen}
        if len(chosen) == 2 and len(kinds) == 1 and not with_figure:
            if size := SIZE.search(text):
                chosen = sorted(chosen)[:1] if size[1] else sorted(chosen)[-1:]
            elif not own:
                held = {t: len(found & self._bags[t]) for t in chosen}
                chosen = [t for t in chosen if held[t] == max(held.values())]
        return frozenset(chosen)

    def read(self, question: str) -> Asked:
        """The last thing that a text asks for; what stands before it, or in brackets behind it, is context."""
        about = re.search(r"\(about the ([^()]*)\)$", question)
        plain = question[: about.start()].strip() if about else question
        clauses = [c.strip() for part in BETWEEN_PARTS.split(plain) if part for c in BEFORE_A_CIRCUMSTANCE.split(part) if c.strip()] or [plain]
        asks = [bool(c.endswith("?") or ASKS.search(c)) and not CIRCUMSTANCE.match(c) for c in clauses]
        at = max((i for i, yes in enumerate(asks) if yes), default=len(clauses) - 1)
        text = clauses[at]
        found, others = frozenset(words(text)), [w for i, c in enumerate(clauses) if i != at for w in words(c)]
        beside = frozenset(w for w in others if not w.isdigit() or w in self.vocabulary)
        negated = bool(ASKS_FOR_WHAT_IS_NOT.search(DENIES_NOTHING.sub("", text)))
        products = self.products(found, text, negated) or (self.products(frozenset(words(about[1])), about[1]) if about else frozenset())
        if not products and beside:
            products = self.products(beside, question)
        named = {w for t in products for w in self.titles[t] if w in found}
        if negated and len(products) > 1:
            named = {self.titles[t][-1] for t in products} | {self.titles[t][0] for t in products}
        asked = {w for w in found - named if not (w.isdigit() and w not in self.vocabulary)}
        if "ship_to" in found:  # a place that no document names is still a place to ship to
            asked &= self.vocabulary
        if len(products) == 1 and SIZE.search(text) and [title[-1] for title in self.titles.values()].count(self.titles[min(products)][-1]) > 1:
            asked -= {"size"}  # 'the small tent' says which
        kinds = {kind for kind, (pattern, _) in KINDS.items() if re.search(pattern, text.lower())}
        if "a time" in kinds:
            asked -= TIMES
        context = beside & self.vocabulary - found - {w for t in products for w in self.titles[t]}
        if not asked and not kinds and not negated:  # 'It falls off the table every day. Can the Glow take that?'
            asked, context = context, frozenset()
            if not asked and {self.titles[t][0] for t in products} & named:  # 'Is the Heron goose or duck?': its name says which, so 'down' is asked for
                asked = {w for t in products for w in self.titles[t][1:-1] if w in named}
        return Asked(question, text, frozenset(asked), context, frozenset(kinds), products, frozenset(named), negated)

    def weight(self, word: str) -> float:
        return KIND_WEIGHT if word in KINDS else min(MOST_WEIGHT, 2.0 + 0.5 * self.index.weight(word))

    def share(self, asked: Asked, passage: Passage, text: str) -> float:
        """The weight of the asked words that the sentence holds, as a share of all; a title counts less, context a little."""
        if asked.negated and not asked.words:  # 'What is not included?' asks for whatever is denied, of the product if one is named
            return DENIED_SHARE if not asked.products or passage.topic in asked.products else 0.0
        plain = self._share(asked.words | asked.kinds, asked, passage, text)
        if not asked.context:
            return plain
        return max(plain, BESIDE_SHARE * self._share(asked.words | asked.kinds | asked.context, asked, passage, text))

    def _share(self, wanted: frozenset[str], asked: Asked, passage: Passage, text: str) -> float:
        held = holds(text)
        title = set(words(passage.title))
        total = sum(self.weight(w) for w in sorted(wanted))
        met = (wanted - KINDS.keys()) & (held | title)
        if not asked.products and met <= OF_EVERY_PRODUCT and (passage.kind == "catalogue" or asked.words <= OF_EVERY_PRODUCT and not asked.context):
            return 0.0  # 'How much is it?', and nothing was spoken of
        if all(w.isdigit() or w in NUMBERS for w in met) and not (passage.topic in asked.products and wanted & held):
            return 0.0
        inside = sum(self.weight(w) for w in sorted(wanted & held))
        if passage.kind != "policy":
            return inside / total + (NAMED_BONUS if asked.products and inside else 0.0)
        above = sum(self.weight(w) * (TITLE_SHARE if w not in held else 0.1) for w in sorted(wanted & title))
        beside = sum(self.weight(w) for w in sorted((asked.context | asked.named) & held - wanted))
        score = (inside + above + CONTEXT_SHARE * min(beside, total)) / total
        return BESIDE_PRODUCT * min(score, 1.0) if asked.products else score

    def rank(self, asked: Asked, sentences: Iterable[tuple[Passage, str]], cosines: dict[tuple[str, str], float]) -> list[tuple[float, Passage, str]]:
        """The sentences that could answer, best first."""
        kinds = {self.titles[t][-1] for t in asked.products}
        others = self._nouns - kinds if kinds else frozenset()
        pairs = [(p, s) for p, s in sentences
                 if (p.topic in asked.products or not asked.products if p.kind != "policy" else not others & set(words(s)) or kinds & set(words(s)))]
        sold_out, in_stock = SOLD_OUT.search(asked.text), IN_STOCK.search(asked.text)
        which = WHICH.search(asked.text) and not asked.words - {"stock", "product", "item", "articl"} - NUMBERS
        if which and (sold_out or in_stock or asked.negated and len(asked.products) > 1):
            return [(1.0, p, s) for p, s in self._by_stock(pairs, sold_out=bool(sold_out) != asked.negated)]
        if asked.negated:
            pairs = self._negative(asked, pairs)
        figures, scored = units(FIGURE, asked.question), []
        for place, (p, s) in enumerate(pairs):
            share = self.share(asked, p, s)
            score = self.combine(share, cosines.get((p.id, s))) + (SILENT_BONUS if asked.negated and p.kind == "catalogue" else 0.0)
            if figures & units(BOUND, s) and (share > 0 or p.topic in asked.products):
                score += BOUND_BONUS
            scored.append((score - (LEAFLET_PENALTY if p.kind == "leaflet" else 0.0), place, p, s))
        return [(score, p, s) for score, _, p, s in sorted(scored, key=lambda row: (-row[0], row[1])) if score > 0]

    def leniency(self, asked: Asked, ranked: Sequence[tuple[float, Passage, str]]) -> float:
        """Less is enough where one product is named and one of its few sentences alone has anything of what is asked; more in a second check."""
        score, best, text = ranked[0]
        met = (asked.words | asked.context) & holds(text) - OF_EVERY_PRODUCT
        alone = not met or WHETHER.search(asked.text) and (self.index.embeddings is not None or not asked.products and len(met) < 2)
        if alone and not asked.words <= self.vocabulary:
            return SECOND_CHECK
        if len(asked.products) != 1 or best.topic not in asked.products or asked.negated or not met:
            return 1.0
        runner_up = next((s for s, p, other in ranked if other != text and p.topic == best.topic), 0.0)
        if WHETHER_IT_HAS.search(asked.text) and not asked.words <= self.vocabulary:
            return 1.0  # 'Does the stove come with a fuel gauge?': what else it comes with is no answer
        return LENIENCY if runner_up <= 0.6 * score else 1.0

    @staticmethod
    def combine(share: float, cosine: float | None) -> float:
        """Without a model the share alone; with one, what it finds near counts beside it."""
        if cosine is None:
            return share
        near = 0.4 * min(share, 1.2) + 1.2 * max(0.0, cosine - 0.2)
        return max(near, (ENOUGH_WITH_MODEL / ENOUGH if share >= ENOUGH else 0.55) * share)

    @staticmethod
    def _by_stock(pairs: Sequence[tuple[Passage, str]], sold_out: bool) -> list[tuple[Passage, str]]:
        return [(p, s) for p, s in pairs if p.kind == "catalogue" and ("out of stock" in s if sold_out else "are in stock" in s)]

    def _negative(self, asked: Asked, pairs: Sequence[tuple[Passage, str]]) -> list[tuple[Passage, str]]:
        """For 'which … not …': sentences that deny, and, among several products, those of products that nothing affirms."""
        denying = [(p, s) for p, s in pairs if self._denies(asked, s)]
        if len(asked.products) < 2:
            return denying
        theirs = [(p, s) for p, s in self.index.sentences if p.topic in asked.products and p.kind == "catalogue"]
        told = asked.words & {w for _, s in theirs for w in words(s)} - set(NUMBER_OF_PRODUCTS.findall(asked.text))  # what their texts speak of at all
        affirmed = {p.topic for p, s in theirs if told and told <= set(words(s)) and not re.search(NEGATION, s)}
        silent = [(p, s) for p, s in pairs if p.topic in asked.products - affirmed and (asked.words | asked.context) & set(words(s)) and (p, s) not in denying]
        return denying + silent

    @staticmethod
    def _denies(asked: Asked, sentence: str) -> bool:
        """Does what is asked stand behind the sentence's 'not'? ('… washed without softener' says nothing against washing.)"""
        if re.search(r"\bonly (?:when|if|for|to)\b", sentence):  # not otherwise
            return not asked.words or bool(asked.words & set(words(sentence)))
        found = re.search(NEGATION, sentence)
        denied = set(words(sentence[found.end() :])) if found else set()
        return bool(found) and (not denied or not asked.words or bool(denied & (asked.words | asked.named)))
