"""Reading a question and choosing the tool for it: the application's decision, from the customer's words alone."""

import re
import unicodedata

LONGEST_QUESTION = 1000  # characters
ORDER_ID = re.compile(r"(?<![\w.])#?(?:TT[-\s]?)?([0-9]{5})(?![\w.]*[0-9])", re.IGNORECASE)

# Patterns over the lower-case question. Written on the development cases: new wordings will slip through.
THING = r"(?:order|parcel|package|shipment|purchase|delivery|item|thing|stuff)s?"
WANTS_A_PERSON = (r"\bhuman\b|\b(?:real|live|actual) (?:person|agent)\b|"
                  r"\b(?:talk|speak|chat|connect|transfer)\w* (?:\w+ ){0,3}(?:person|agent|someone|somebody|representative|colleague)\b")
ABOUT_EVERYBODY = r"\b(?:all|every|other|another|any) (?:\w+ )?(?:customer|user|account|client)"
WANTS_AN_ACTION = (r"(?:^|[.,;:!?]\s*|\b(?:please|can you|could you|to|must|and) )(?:cancel|change|refund|replace|update|redirect|delete|stop) "
                   rf"(?:it\b|them\b|tt\b|order\b|(?:my|our|the|this) (?:\w+ ){{0,2}}(?:{THING}|address|account|name|data)\b)")
ABOUT_AN_ORDER = (rf"\b(?:my|our) (?:\w+ )?{THING}\b|\b(?:did|have|had) i (?:just )?(?:order|buy|bought)|\bi (?:ordered|bought)\b|"
                  r"\btrack(?:ing)?\b|\b(?:has|did) \S+@\S+ (?:order|buy)")
IN_GENERAL = r"\bif\b|(?<!when )(?<!where )\b(?:can|may|could|should|must|do) i\b|\bwhat happens\b|\bpolicy\b|\buntil when\b"


def choose_tool(question: str) -> str:
    """order_status, search or hand_over, from the question alone: no retrieved text has a say in it."""
    text = question.lower()
    if any(re.search(pattern, text) for pattern in (WANTS_A_PERSON, ABOUT_EVERYBODY, WANTS_AN_ACTION)):
        return "hand_over"
    if order_ids(question) or (re.search(ABOUT_AN_ORDER, text) and not re.search(IN_GENERAL, text)):
        return "order_status"
    return "search"


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
    text = "".join(c for c in text if unicodedata.category(c) != "Cf").strip()
    return text, "" if text else "it is empty"


def order_ids(question: str) -> list[str]:
    """The order numbers in a question, in the shop's spelling, without repeats."""
    return list(dict.fromkeys(f"TT-{number}" for number in ORDER_ID.findall(question)))
