"""The application: it reads the question, chooses the tools, checks access, and believes no composer."""

import logging
import re
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from .compose import Composer, ExtractiveComposer, Sentence, as_prompt, supported
from .days import period
from .desk import Desk, DeskUnavailable
from .embeddings import Embeddings
from .language import words
from .orders import Session, authenticate, find_orders, order_status
from .relevance import ENOUGH as LEAST_SHARE
from .relevance import ENOUGH_WITH_MODEL as LEAST_WITH_MODEL
from .relevance import NEGATION, Scorer
from .retrieval import Index, Passage, load_passages
from .router import ALL_ORDERS, COMPLAINT, SOMEBODY_ELSE, STATUS_OF_IT, Part, order_ids, read_question, split_parts
from .shop import TODAY, ShopUnavailable, check_shop, open_shop, unavailable

log = logging.getLogger(__name__)

GENERAL = (r"^(?!\W*(?:who|where|when|why)\b).*"
           r"\b(?:about|info|information|details?|describe|description|have|sell|any|offer|(?:i|to) (?:buy|order|get))\b")  # asks for what there is to say
HAS_COME = r"\bwhich\b.*\b(?:orders|parcels|packages)\b.*\b(?:delivered|arrived|reached|received|come)\b"
MOST_LIBRARIES = 4  # kept indexes: one for each state of the documents and each day

# Why a question goes to a person instead of being answered, worst first, and what the customer then reads.
ESCALATIONS = {
    "bad_question": "I cannot read this question: {detail}.",
    "unavailable": "I cannot reach the shop's records at the moment. Please try again later.",
    "not_signed_in": "Please sign in first: I can only show orders to the account that placed them.",
    "order_not_found": "I find no such order in your account.",
    "complaint": "I am sorry about that: this needs a person.",
    "needs_person": "This needs a person.",
    "no_order": "I find no order of yours{detail}.",
    "conflict": "Our documents contradict one another on this ({detail}).",
    "not_in_force": "The only text that I find on this is not in force on that day ({detail}).",
    "unsupported": "I could not word an answer that our documents support.",
    "no_passage": "Our documents do not answer this, as far as I can find.",
}
WITHOUT_TICKET = {"bad_question", "unavailable", "not_signed_in", "no_order"}  # a person could do no more about it
PASSED_ON = "I have passed it to a person: ticket {ticket}."
NOT_PASSED_ON = "I could not pass it to a person just now: please ask again later."

# What only the shop itself can speak about. A leaflet may say how to wash a tent; it may not say what is refunded, whom
# to pay or what the assistant should do. A sentence of unreviewed text with one of these words is kept from the composer.
SHOP_MATTERS = set(words("""
    order return refund pay payment paid price cost free money discount code voucher gift card bank invoice buy buyer sale
    deliver delivery ship warranty guarantee claim complaint cancel customer account password email phone data staff
    support service shop assistant chatbot system instruction instruct prompt answer reply ignore http https www"""))


@dataclass
class Cost:
    """What an answer took, counted and not timed."""

    sql_queries: int = 0
    passages_scored: int = 0
    prompt_characters: int = 0  # what a model in the composer's place would have been sent
    answer_characters: int = 0


@dataclass(frozen=True)
class Subject:
    """What was spoken of: the next question may say 'it'."""

    products: frozenset[str] = frozenset()
    orders: tuple[str, ...] = ()
    asked: str = ""


@dataclass(frozen=True)
class Answer:
    """Cited sentences, or the reason why a person has to answer; both, where a part of the question is left open."""

    tool: str  # order_status | search | hand_over, or two of them: order_status+search
    sentences: tuple[Sentence, ...] = ()
    escalation: str | None = None
    detail: str = ""
    dropped: tuple[Sentence, ...] = ()  # what the composer said and the evidence does not
    left_open: tuple[str, ...] = ()  # the parts of the question that have no answer here, in the customer's words
    ticket: str | None = field(default=None, compare=False)  # the number under which a person finds the question
    subject: Subject = field(default=Subject(), compare=False)
    cost: Cost = field(default_factory=Cost, compare=False)

    @property
    def own_words(self) -> str:
        """What is said, without what is quoted from the question."""
        said = [f"{s.text} [{s.source}]" for s in self.sentences]
        if self.escalation:
            said.append(ESCALATIONS[self.escalation].format(detail=self.detail))
            if self.escalation not in WITHOUT_TICKET:
                said.append(PASSED_ON.format(ticket=self.ticket) if self.ticket else NOT_PASSED_ON)
        return " ".join(said)

    @property
    def text(self) -> str:
        """What the customer reads. (A page that shows it escapes it, as it does every text.)"""
        quoted = "".join(f" Not answered: “{part}”" for part in self.left_open)
        return self.own_words + quoted


class Library:
    """What is kept between questions while the documents stay the same."""

    def __init__(self, index: Index, composer: Composer | None, quotable: Iterable[Passage]):
        self.quotable = {p.id: p for p in quotable}  # what may be said of each passage
        self.sentences = [(p, text) for p in index.passages for text in self.quotable[p.id].sentences]
        self.index, self.scorer = index, Scorer(index)
        self.composer = composer or ExtractiveComposer(index)
        self.titles = {p.topic: p.title for p in index.passages if p.kind == "catalogue"}

    def readings(self, part: Part, subject: Subject) -> list[str]:
        """The part with what it leaves out: the product that was spoken of, and, for 'And standard?', the words of the last question."""
        asked = self.scorer.read(f"{part.context} {part.text}".strip())
        texts = [part.text]
        goes_on = re.match(r"\W*(?:and|what about|how about|also)\b", part.text.lower())
        if goes_on and subject.asked and len(asked.words) <= 2 and asked.words <= self.scorer.vocabulary:
            last = self.scorer.read(subject.asked)
            own = asked.products and {w for t in last.products for w in re.findall(r"\w+", self.titles[t].lower())}
            kept = " ".join(w for w in last.text.rstrip("?. ").split() if w.lower() not in (own or ()))
            texts.insert(len(texts) if asked.words else 0, f"{part.text.rstrip('?. ')} {kept}?")
        products = asked.products or subject.products
        if not asked.words <= self.scorer.vocabulary and not re.search(r"\b(?:it|its|they|them|their|this|that|one)\b", part.text.lower()):
            products = asked.products  # 'Do you sell umbrellas?' is not about the tent that was spoken of
        about = "" if asked.products or not products else f" (about the {' or the '.join(self.titles[t] for t in sorted(products))})"
        return [f"{part.context} {text}".strip() + about for text in texts]


@dataclass
class _Request:
    connection: sqlite3.Connection
    text: str
    token: str | None
    day: date
    before: Answer
    cost: Cost


class Assistant:
    """Answers questions about one shop, whose file is at `path`. Every question opens the file anew, read-only, and closes it:
    what the shop changed a moment ago is what is answered, and threads and processes share nothing that could be mixed up.

    `today` is a day, or a function that says which day it is (`date.today`); a question may bring its own. `desk` takes the
    tickets. `embeddings` are an extra. `screen` (hold back what a leaflet has no say in) and `verify` (keep only supported
    sentences) can be switched off, to see what each is good for; `least_share` says what counts as not found.
    """

    def __init__(
        self,
        path: str | Path,
        composer: Composer | None = None,
        today: date | Callable[[], date] = TODAY,
        *,
        desk: Desk | None = None,
        embeddings: Embeddings | None = None,
        least_share: float | None = None,
        screen: bool = True,
        verify: bool = True,
        timeout: float = 0.2,
    ):
        self.path, self.today, self.timeout = Path(path), today, timeout
        self.desk = desk or Desk(self.path.with_name(self.path.name + ".tickets"))
        self.least_share = least_share if least_share is not None else LEAST_SHARE if embeddings is None else LEAST_WITH_MODEL
        self.embeddings, self.screen, self.verify, self._composer = embeddings, screen, verify, composer
        self._libraries: OrderedDict[tuple, Library] = OrderedDict()
        self._lock = threading.Lock()
        check_shop(self.path)
        self.current()

    def day(self) -> date:
        """The day on which a question counts as asked that brings none of its own."""
        return self.today() if callable(self.today) else self.today

    def current(self, day: date | None = None) -> Library:
        """The index over the documents as they stand at this moment."""
        with closing(open_shop(self.path, self.timeout)) as connection:
            return self.library(connection, day or self.day())

    def library(self, connection: sqlite3.Connection, day: date) -> Library:
        """The index over the documents as they are now, kept for as long as they and the day stay the same."""
        passages = tuple(load_passages(connection, day))
        with self._lock:
            if passages in self._libraries:
                self._libraries.move_to_end(passages)
            else:
                self._libraries[passages] = Library(Index(passages, self.embeddings), self._composer, map(self.quotable, passages))
                while len(self._libraries) > MOST_LIBRARIES:
                    self._libraries.popitem(last=False)
            return self._libraries[passages]

    def ask(self, question: str, token: str | None = None, *, day: date | None = None, before: Answer | None = None) -> Answer:
        """Answer a question of whoever holds the token. The token comes with the connection, never from the question.

        `before` is the answer to this customer's last question: 'How much is it?' is then about the same thing. It carries
        over what was spoken of, and no rights: an order is looked up again, for the session of this question.
        """
        cost, day = Cost(), day or self.day()
        text, wrong = read_question(question)
        if wrong:
            return Answer("hand_over", escalation="bad_question", detail=wrong, cost=cost)
        try:
            with closing(open_shop(self.path, self.timeout)) as connection:
                connection.set_trace_callback(lambda _: setattr(cost, "sql_queries", cost.sql_queries + 1))
                return self._answer(_Request(connection, text, token, day, before or Answer("search"), cost))
        except (sqlite3.Error, ShopUnavailable) as error:
            log.error("%s", error if isinstance(error, ShopUnavailable) else unavailable(self.path, error))
            return Answer("hand_over", escalation="unavailable", cost=cost)

    def _answer(self, request: _Request) -> Answer:
        """Each part by its tool, then all of them as one answer, with one ticket for what needs a person."""
        library = self.library(request.connection, request.day)
        session = authenticate(request.connection, request.token, request.day)
        subject, answers, parts = request.before.subject, [], split_parts(library.index.speller.correct(request.text))
        for part in parts:
            part = replace(part, tool=_tool(part, subject, session))
            if part.tool == "hand_over":
                answer = Answer("hand_over", escalation="needs_person")
            elif part.tool == "order_status":
                answer = self._orders(request, library, session, part, subject)
            else:
                answer = self._search(request, library, part, subject)
            subject = answer.subject if answer.subject != Subject() else subject
            answers.append(answer)
        answer = _joined([p.text for p in parts], answers, subject, request.cost)
        if answer.escalation in WITHOUT_TICKET or answer.escalation is None:
            return answer
        try:
            return replace(answer, ticket=self.desk.write(request.day, session.customer_id if session else None, answer.escalation, request.text))
        except DeskUnavailable as error:
            log.error("%s", error)
            return replace(answer, ticket=None)

    def _orders(self, request: _Request, library: Library, session: Session | None, part: Part, subject: Subject) -> Answer:
        """Own orders as evidence; for what is not there one refusal, whether it is somebody else's or nobody's."""
        if session is None:
            return Answer("order_status", escalation="not_signed_in")
        said = f"{part.context} {part.text}".strip()
        wanted, none = order_ids(said), ("order_not_found", "")
        if not wanted and not re.search(SOMEBODY_ELSE, said.lower()):  # whoever is named in a question is somebody's say-so: only the session counts
            wanted, none = self._described(request, library, session, part, subject)
        records = [order_status(request.connection, session, order_id) for order_id in wanted]
        evidence = [record for record in records if record]
        if not evidence:
            return Answer("order_status", escalation=none[0], detail=none[1])
        answer = self._compose("order_status", part.text, evidence, library, request.cost)
        goods = library.scorer.products(frozenset(words(part.text)), part.text)
        answer = replace(answer, subject=Subject(products=goods, orders=tuple(p.id for p in evidence)))
        if len(evidence) < len(wanted):
            return replace(answer, escalation="order_not_found")
        if re.search(COMPLAINT, said.lower()) and answer.escalation is None:
            return replace(answer, escalation="complaint")
        return answer

    def _described(self, request: _Request, library: Library, session: Session, part: Part, subject: Subject) -> tuple[list[str], tuple[str, str]]:
        """The session's orders that the words describe: by day, by state, by what was in them, all, or else the latest. And what to say for none."""
        said = f"{part.context} {part.text}".strip()
        low, found = said.lower(), lambda **by: find_orders(request.connection, session, **by)  # noqa: E731
        when = period(said, request.day)
        state = next((s for s in ("cancelled", "returned") if re.search(rf"\b(?:were|was|which|been|got|are)\b.*\b{s}\b", low)), None)
        if re.search(HAS_COME, low) and not re.search(NEGATION, low):
            state = "delivered"
        if when:
            return found(first=when.first, last=when.last, state=state), ("no_order", f" {when.said}" if " " in when.said else f" for {when.said}")
        if subject.orders and not re.search(r"\b(?:orders|last|latest|all)\b", low) and not library.scorer.products(frozenset(words(low)), low):
            return list(subject.orders), ("order_not_found", "")
        if state:
            return found(state=state), ("no_order", f" that was {state}")
        if re.search(ALL_ORDERS, low):
            return found(), ("no_order", "")
        goods = library.scorer.products(frozenset(words(low)), low)
        if goods:
            return found(products=sorted(goods), limit=1), ("no_order", " with " + " or ".join(library.titles[g] for g in sorted(goods)))
        return found(limit=1), ("no_order", "")

    def _search(self, request: _Request, library: Library, part: Part, subject: Subject) -> Answer:
        """Find sentences, let the best one's topic decide whether there is a text in force, and have that worded."""
        request.cost.passages_scored += len(library.index.passages)
        for question in library.readings(part, subject):
            asked = library.scorer.read(question)
            none = Answer("search", escalation="no_passage", subject=Subject(products=asked.products, asked=question))
            if asked.empty and asked.products and (len(asked.text.split()) <= 3 or re.search(GENERAL, asked.text.lower())):
                evidence = [p for p in library.index.passages if p.topic in asked.products and p.kind == "catalogue"]
                return replace(self._compose("search", question, evidence, library, request.cost), subject=none.subject)
            ranked = [] if asked.empty else library.scorer.rank(asked, library.sentences, library.index.meaning(asked.question))
            if ranked and ranked[0][0] >= self.least_share * library.scorer.leniency(asked, ranked):
                break
        else:
            return none
        topic = [p for p in library.index.passages if p.topic == ranked[0][1].topic]
        ids = ", ".join(p.id for p in topic)
        if any(p.standing == "conflicting" for p in topic):
            return replace(none, escalation="conflict", detail=ids)
        if not any(p.standing in ("in force", "unreviewed") for p in topic):
            return replace(none, escalation="not_in_force", detail=ids)
        near = dict.fromkeys(p.topic for score, p, _ in ranked if score >= 0.4 * ranked[0][0])
        evidence = [library.quotable[p.id] for t in near for p in library.index.passages if p.topic == t and p.standing in ("in force", "unreviewed")]
        answer = self._compose("search", question, evidence, library, request.cost)
        return replace(answer, subject=none.subject)

    def quotable(self, passage: Passage) -> Passage:
        """The passage without the sentences that its author has no say in."""
        if passage.standing != "unreviewed" or not self.screen:
            return passage
        kept = [s for s in passage.sentences if not SHOP_MATTERS & set(words(s)) and not re.search(r"\w\.\w|@", s)]
        return replace(passage, text=" ".join(kept))

    def _compose(self, tool: str, question: str, evidence: Sequence[Passage], library: Library, cost: Cost) -> Answer:
        """Ask the composer, and keep what the evidence says word for word."""
        cost.prompt_characters += len(as_prompt(question, evidence))
        draft = library.composer.compose(question, evidence)
        kept = tuple(s for s in draft if supported(s, evidence) or not self.verify)
        dropped = tuple(s for s in draft if s not in kept)
        cost.answer_characters += sum(len(s.text) for s in kept)
        escalation = None if kept else "unsupported" if dropped else "no_passage"
        return Answer(tool, kept, escalation, dropped=dropped)


def _tool(part: Part, subject: Subject, session: Session | None) -> str:
    """The tool, once it is known what the last question was about: 'What is in it?' after an order is about the order."""
    if part.tool == "search" and subject.orders and re.search(STATUS_OF_IT, part.text.lower()):
        return "order_status"
    return part.tool


def _joined(texts: Sequence[str], answers: Sequence[Answer], subject: Subject, cost: Cost) -> Answer:
    """One answer out of the parts' answers; where only some of them are answered, it says which are not."""
    sentences = tuple(dict.fromkeys(s for a in answers for s in a.sentences))
    dropped = tuple(s for a in answers for s in a.dropped)
    tools = tuple(dict.fromkeys(a.tool for a in answers))
    failed = [(text, a) for text, a in zip(texts, answers) if a.escalation]
    open_parts = tuple(text for text, a in failed if not a.sentences) if sentences else ()
    first = min((a for _, a in failed), key=lambda a: list(ESCALATIONS).index(a.escalation), default=None)
    reason, detail = (first.escalation, first.detail) if first else (None, "")
    return Answer("+".join(sorted(tools)), sentences, reason, detail, dropped, open_parts, None, subject, cost)
