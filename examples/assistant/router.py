"""Reading a question: its parts, and the tool for each; the application's decision, from the customer's words alone."""

import re
import unicodedata
from dataclasses import dataclass

from .language import words

LONGEST_QUESTION = 1000  # characters

# An order number with its prefix is one anywhere. Five bare figures are one unless what stands beside them says otherwise.
PREFIXED_ID = re.compile(r"(?<![\w.])(?:#|TT[-\s]?)([0-9]{5})(?![\w.]*[0-9])", re.IGNORECASE)
BARE_ID = re.compile(r"(?<![\w.,#-])([0-9]{5})(?![\w.,-]*[0-9])(?P<after>\s*[^\s\d.,:;!?]*)")
NOT_BEFORE_AN_ID = re.compile(r"(?:\b(?:to|than|over|under|about|year|zip|zip code|zipcode|post ?code|postal code|code|plz|budget|costs?|of|filter|in|"
                              r"phone)(?: is| are| of)?|[€$])\s*$",
                              re.IGNORECASE)
NOT_AFTER_AN_ID = re.compile(r"^\s*(?:mm|cm|m|km|kg|g|litres?|liters?|l|cents?|ct|euros?|€|times|steps|metres?|meters?|hours?|days?|lumens?|"
                             r"customers?|[A-Z][a-zà-ÿ]+)$")

# Patterns over the lower-case text. Written on the development cases: new wordings will slip through.
THING = r"(?:orders?|parcels?|packages?|shipments?|purchases?|delivery|deliveries|items?|things?|stuff)"
PARCEL = r"(?:orders?|parcels?|packages?|shipments?|purchases?|delivery|deliveries)"
GOODS = (r"(?:tents?|(?:sleeping )?bags?|stoves?|lanterns?|lamps?|backpacks?|rucksacks?|jackets?|boots|(?:water )?filters?|poles?|sticks?|torch(?:es)?|"
         r"mats?|bars|hammocks?)")
WANTS_A_PERSON = (r"\b(?:human|manager|supervisor)\b|\b(?:real|live|actual) (?:person|agent)\b|"
                  r"\b(?:talk|speak|chat|connect|transfer)\w* (?:\w+ ){0,3}(?:person|people|agent|someone|somebody|representative|colleague)\b|"
                  r"\b(?:someone|somebody|anyone|anybody|person)\b.* \b(?:call|ring|phone) me\b|\b(?:call|ring|phone) me\b")
ABOUT_EVERYBODY = (r"\b(?:all|every|other|another|any|each)(?: the)? (?:\w+ )?(?:customer|user|account|client)|"
                   r"\b(?:every|all)(?: the)? orders? (?:in|of|from) (?:the|your) (?:\w+ )?(?:database|shop|system|table)")
INSTRUCTS = (r"\b(?:ignore|forget|disregard|override|bypass)\b.{0,30}\b(?:rules?|instructions?|prompts?|restrictions?|guidelines?)\b|"
             r"\bsystem ?(?:override|prompt)|^\W*system\b\s*:|"
             r"\bselect\b.+\bfrom\b|\bdrop table\b|\b(?:print|show|reveal|output|dump)\b.{0,30}\b(?:prompt|instructions|table|database|sessions?|tokens?)\b")
WANTS_AN_ACTION = (
    r"(?:^|[.,;:!?]\s*|\b(?:please|pls|plz|can you|could you|you to|like to|want to|need to|must|and|to) )(?:cancel|change|refund|replace|update|"
    r"redirect|delete|stop|exchange) "
    rf"(?:it\b|them\b|tt\b|order\b|(?:\w+ ){{0,1}}address\b|\d{{5}}|(?:my|our|the|this) (?:\w+ ){{0,2}}(?:{THING}|address|account|name|data)\b)|"
    r"\b(?:send|ship|deliver|redirect)\b.{0,40}\b(?:to (?:another|a different|a new|my new|my other)) address|\bdeliver (?:it|them) (?:to|at)\b|"
    rf"\b(?:add|put|remove|take)\b.{{0,40}}\b(?:to|on|in|from|off|out of) (?:tt\b|(?:my|our|the|this) (?:\w+ )?{PARCEL}\b|order\b)")
SOMEBODY_ELSE = (r"\bcus-?\d+|\S@\S|\b(?:did|has|have|had) (?!you|your|my|the|our|it|this|that|she|he\b)[a-z]+ [a-z]+ (?:buy|bought|order|ordered|"
                 r"receive|received|purchased?)\b|"
                 r"\borders (?:has|have|of|from|by) (?!my|the|me|our|all|january|feb|march|april|may|june|july|aug|sept|oct|nov|dec|last|this|20)[a-z]+ [a-z]+|"
                 r"\bmy (?:husband|wife|brother|sister|son|daughter|mother|father|friend|neighbour|boss|partner|aunt|uncle|cousin)(?:'s|"
                 r"s)?\b.*\b(?:order|bought|buy|parcel|package)|"
                 r"\b(?:anybody|anyone|somebody|someone|who) else\b.*\b(?:order|bought|buy)")
STATUS = (r"\bwhere(?:'s| is| are|s)\b|\btrack(?:ing)?\b|\bon (?:the|its|their) (?:way|road)\b|\bleft (?:the|your)\b|\bget(?:s)? here\b|\bhere yet\b|"
          r"\bgo out\b|\bgone out\b|"
          r"\bexpect\b|\bwhen (?:\w+ ){0,6}(?:arrive|arrives|come|comes|delivered|get|reach)\b|\bstatus\b|\bstate of\b|\bhappening with\b|"
          r"\b(?:shipped|delivered|arrived|dispatched|sent)\b|"
          r"\bhow long until\b|\bhow far along\b|\bany (?:news|update)\b|\breach(?:ed)? me\b")
ABOUT_AN_ORDER = (rf"\b(?:my|our) (?:\w+ )?{PARCEL}\b|\b(?:did|have|had|what|that|which|stuff|thing|things|'ve) i (?:\w+ )?(?:just )?(?:order|buy|"
                  rf"bought|ordered|purchased?|placed?)\b|"
                  rf"\bi(?:'ve| have|'d)? (?:just |ever |already )?(?:ordered|bought|purchased|placed)\b|\btrack(?:ing)? (?:number|code|no|id)\b|"
                  rf"\border history\b|\borders\b.*\bi\b.*\b(?:placed?|made?|make)\b|\b(?:last|latest|recent|previous|past) (?:orders?|parcels?|packages?|"
                  rf"purchases?)\b|\bordered\b|"
                  rf"\bdeliver(?:ed)? (?:\w+ )?to me\b|\b(?:has|did) \S+@\S+ (?:order|buy)")
AN_ORDER_OF_A_DAY = r"\border\b"
IN_GENERAL = (r"\bif\b|(?<!when )(?<!where )\b(?:can|may|could|should|must|do) i\b|\bwhat happens\b|\bpolicy\b|\b(?:until|by) when\b|\bhow (?:do|can|"
              r"should) i\b|\bi can\b|^\W*who\b|"
              r"\b(?:can|could|may|might) (?:he|she|they|somebody|someone|the \w+|a \w+)\b|"
              r"\bother people\b|\b(?:anybody|anyone|somebody|someone) (?:else )?(?:see|read)\b|\bwho pays?\b")
SHOWS_MINE = r"\b(?:tracking|my orders|all (?:of )?my|order history|status)\b"
MADE = r"(?:\w+ )?(?:made|manufactured|produced|sewn|grown|from)\b"
OF_DELIVERY = (r"\b(?:express|standard|delivery (?:take|cost|time)|shipping (?:take|cost|time)|deliver to|ship to)\b|"
               r"\bi (?:fetch|collect|pick)\b")  # a shop's terms, not one parcel
ALL_ORDERS = (r"\b(?:all|every|list|each|both|any)\b.*\border|\bmy orders\b|\border history\b|\beverything i\b|\borders so far\b|\bordered so far\b|"
              r"\bbought so far\b|"
              r"\bwhich orders\b|\bwhat orders\b|\borders\b.*\bplaced?\b|\bever (?:bought|ordered)\b")
COMPLAINT = (r"\b(?:broken?|broke|damaged?|ripped|torn|holes?|missing|wrong|defect\w*|fault\w*|late|angry|furious|disgrace\w*|unacceptable|awful|"
             r"terrible|fed up|too few|too many|instead of|"
             r"scratched|leak\w*|complain\w*|complaint|disappoint\w*|dented|cracked|stained|wtf|empty|incomplete|short of|ridiculous|scandal\w*|lost|refund)\b|"
             r"\bnot acceptable\b|\bstill (?:not|is not|isn't|hasn't|has not|haven't)\b|\bnever (?:arrived|came)\b|\bnobody (?:answers|writes|"
             r"replies)|\bshould have (?:been|arrived|come)\b|"
             r"\bonly (?:one|\d) |\bsort this out\b|\bdoes(?:n't| not) work\b|\bis(?:n't| not) here\b")

ASKS = re.compile(
    r"^\W*(?:(?:and|but|also|so|oh|ok|hi|hello|please|pls|then|good (?:morning|day|evening)|i(?:'d| would) (?:like|love) to know|i wonder|tell me|"
    r"could you tell me|can you tell me)[\s,!]+)*"
    r"(?:what(?:'s|s)?|how(?:'s)?|when(?:'s)?|where(?:'s|s)?|which|wich|who(?:'s|m|se)?|why|do|does|did|is|are|was|were|can|could|may|must|will|would|"
    r"has|have|had|should|shall|am|any|by when|until when|"
    r"till when|from (?:what|which)|for how|in (?:what|which)|at (?:what|which)|into what|on (?:what|which)|show|list|give|tell|status|u|don't|isn't|"
    r"doesn't|aren't)\b", re.IGNORECASE)
WHEN_IT_IS = re.compile(r"^\W*(?:when|where|what)(?:ever)?(?:'s)? (?:i|it|we|you|they|he|she|somebody|someone|my|our|the)\b[^?]*$", re.IGNORECASE)
ASKS_WITHIN = re.compile(r"\bhow (?:long|much|many|often|far)\b|\b(?:what|where|which|when)\W*$", re.IGNORECASE)
POINTS_BACK = (r"^\W*(?:and )?(?:(?:what|which)(?: (?:one|order|parcel)s?)?(?:'s| is| was| are| were) (?:it|that|this|they|those|these)|"
               r"how (?:much )?long(?:er)?)\W*$")
STATUS_OF_IT = (rf"{STATUS}|\b(?:it|they|them)\b.*\b(?:left|way|arrive|come|here|due)\b|\bwhat(?:'s| is| was) (?:in|inside)\b|\bcontents?\b|\binside\b|"
                rf"{POINTS_BACK}")
BETWEEN_PARTS = re.compile(
    r"(?<=[?!;])\s+|(?<=[^\s\d]\.)\s+|(?<=\d\.)\s+(?=[A-Z])|\s+[-–—]\s+|"
    r",?\s+(?:and|but)\s+(?:also\s+)?(?=(?:what|how|when|where|which|who|why|do|does|did|is|are|can|could|may|must|will|would|has|have|should)\b"
    r"(?! (?:not|never|already|just|been|now|still|got|had)\b))|,?\s+(?=because\b)|"
    r",\s+(?:(?:also|so|then)\s+)?"
    r"(?=(?:what|how|when|where|which|who|why|do you|does|did|is|are|can|could|may i|must|will|has|have you)\b)", re.IGNORECASE)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One thing that is asked for, the statements that stood before it, and the tool that it needs."""

    text: str
    context: str
    tool: str  # order_status | search | hand_over


def read_question(question: str) -> tuple[str, str]:
    """The question in plain characters, and what is wrong with it ('' when nothing is)."""
    if not isinstance(question, str):
        raise ValueError(f"question: is a {type(question).__name__}; it must be a str")
    if len(question) > LONGEST_QUESTION:
        return "", f"it has {len(question)} characters, and I read at most {LONGEST_QUESTION}"
    text = unicodedata.normalize("NFKC", question)
    control = next((c for c in text if unicodedata.category(c) in ("Cc", "Cs") and c not in "\t\n\r"), None)
    if control:
        return "", f"it contains the control character U+{ord(control):04X}"
    text = " ".join("".join(c for c in text if unicodedata.category(c) != "Cf").split()).replace("’", "'")
    return text, "" if text else "it is empty"


def split_parts(text: str) -> list[Part]:
    """What is asked for, one part each; a statement ('My boots are torn.') is context for what is asked beside it."""
    if any(re.search(pattern, text.lower()) for pattern in (ABOUT_EVERYBODY, INSTRUCTS)):
        return [Part(text, "", "hand_over")]  # no part of such a text is taken at its word
    text = re.sub(r"\b(how \w+),? (and|or) how\b", r"\1 \2", text, flags=re.IGNORECASE)  # 'how short and how long …' is one thing
    clauses = [c.strip() for c in BETWEEN_PARTS.split(text) if c and re.search(r"\w", c)] or [text]
    active = [bool(c.endswith("?") or ASKS.search(c) or ASKS_WITHIN.search(c) or order_ids(c) or choose_tool(c) == "hand_over") for c in clauses]
    beside = [bool(WHEN_IT_IS.search(c) and any(active[i + 1 :]) or re.match(r"because\b", c, re.IGNORECASE)) for i, c in enumerate(clauses)]
    active = [asks and not known for asks, known in zip(active, beside)]
    if sum(active) > 1:  # '…, and who?' asks for nothing of its own
        active = [asks and not (len(c.split()) <= 2 and not words(c) and not order_ids(c)) for c, asks in zip(clauses, active)]
    if not any(active):  # nothing that looks like a question: take it for one
        return [Part(text, "", choose_tool(text))]
    parts, context = [], []
    for clause, asks in zip(clauses, active):
        if asks:
            parts.append(Part(clause, " ".join(context), choose_tool(clause)))
            context = []
        else:
            context.append(clause)
    if context:  # what is added behind belongs to what was asked last
        last = parts[-1]
        parts[-1] = Part(last.text, " ".join([last.context, *context]).strip(), last.tool)
    for i, part in enumerate(parts):  # 'My order is TT-12345. Has it left?', 'I placed an order yesterday, is it on its way?'
        if part.tool == "search" and re.search(STATUS_OF_IT, part.text.lower()):
            earlier = next((p.text for p in reversed(parts[:i]) if p.tool == "order_status"), None)
            if earlier:
                parts[i] = Part(part.text, f"{earlier} {part.context}".strip(), "order_status")
            elif choose_tool(part.context) == "order_status" or order_ids(part.context):
                parts[i] = Part(part.text, part.context, "order_status")
    return parts


def choose_tool(text: str) -> str:
    """order_status, search or hand_over, from the customer's words alone: no retrieved text has a say in it."""
    text = text.replace("’", "'")
    low = text.lower()
    if any(re.search(pattern, low) for pattern in (WANTS_A_PERSON, ABOUT_EVERYBODY, INSTRUCTS)):
        return "hand_over"
    if re.search(WANTS_AN_ACTION, low) and not re.search(r"\bhow (?:long|do|can|much)\b|\bcan i\b|\bmay i\b|\bwhen\b|\?\s*$", re.sub(r"\b(?:can|could|"
                                                         r"would|will) you\b.*", "", low)):
        return "hand_over"
    if order_ids(text) or re.search(SOMEBODY_ELSE, low):
        return "order_status"
    general = re.search(IN_GENERAL, low) and not re.search(SHOWS_MINE, low)
    mine = re.search(rf"\b(?:my|our|i)\b.*\b{GOODS}\b|\b{GOODS}\b.*\b(?:i|me|my)\b|\b(?:my|our) (?:\w+ )?{THING}\b", low) and re.search(STATUS, low)
    waiting = re.search(rf"\b{GOODS}\b.*\b(?:on the way|when (?:come|arrive|will (?:come|arrive)))|"
                        rf"\bwhere(?:'s| is| are|s) (?:\w+ ){{0,2}}{GOODS}\b(?! {MADE})", low)
    dated = re.search(AN_ORDER_OF_A_DAY, low) and re.search(rf"\border from\b|\b{_MONTHS} order\b|\border of\b", low)
    if (re.search(ABOUT_AN_ORDER, low) or mine or waiting or dated) and not general and not re.search(OF_DELIVERY, low):
        return "order_status"
    return "search"


_MONTHS = "(?:january|february|march|april|may|june|july|august|september|october|november|december)"


def order_ids(text: str) -> list[str]:
    """The order numbers in a text, in the shop's spelling, without repeats: postcodes, prices and measures are none."""
    found = {m.start(1): m[1] for m in PREFIXED_ID.finditer(text)}
    for m in BARE_ID.finditer(text):
        if not NOT_BEFORE_AN_ID.search(text[: m.start()]) and not NOT_AFTER_AN_ID.search(m["after"]):
            found.setdefault(m.start(1), m[1])
    return list(dict.fromkeys(f"TT-{found[at]}" for at in sorted(found)))
