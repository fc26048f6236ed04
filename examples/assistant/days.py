"""Which days a customer means: 'in November', '17 May', 'three weeks ago', 'since the beginning of May'."""

import calendar
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from dateparser.date import DateDataParser

MONTH = r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
NUMBER = r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
# What can be a date in a question. 'may' and 'march' alone are verbs unless something says that it is a month.
PHRASE = re.compile(
    rf"(?P<iso>\b\d{{4}}-\d\d-\d\d\b)|(?P<dotted>\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}\b)|"
    rf"(?P<full>\b{DAY}(?: of)? {MONTH}(?:,? \d{{4}})?\b|\b{MONTH} {DAY}(?:,? \d{{4}})?\b)|"
    rf"(?P<month>\b(?:in|since|from|of|last|during|for|until|before|after|this) {MONTH}\b(?: \d{{4}})?|\b(?!may\b|mar(?:ch)?\b){MONTH}\b(?: \d{{4}})?|"
    rf"\bmay \d{{4}}\b)|"
    rf"(?P<ago>\b{NUMBER} (?:day|week|month|year)s? ago\b)|(?P<named>\b(?:today|yesterday|the day before yesterday)\b)|"
    r"(?P<span>\b(?:this|last|the last|past) (?:week|month|year)\b)|(?P<weekday>\b(?:on|last) (?:mon|tues|wednes|thurs|fri|satur|sun)day\b)|"
    r"(?P<year>\bin (?:19|20)\d\d\b)", re.IGNORECASE)  # fmt: skip


@dataclass(frozen=True)
class Period:
    """From the first day to the last, both included, and the words that said so."""

    first: date
    last: date
    said: str


def period(text: str, today: date) -> Period | None:
    """The one stretch of days that a question names, seen from `today` and in the past where it can be; None for none."""
    found = PHRASE.search(text)
    if not found:
        return None
    said, kind = found[0], found.lastgroup
    phrase = re.sub(r"^(?:in|since|from|of|last|during|for|until|before|after|this|on|the last|past) (?!week|month|year)", "", said, flags=re.IGNORECASE)
    phrase = re.sub(r"^(?:the last|past) ", "last ", re.sub(r" of ", " ", phrase), flags=re.IGNORECASE)
    if kind == "named" and "before" in phrase.lower():
        phrase = "2 days ago"
    settings = {"RELATIVE_BASE": datetime(today.year, today.month, today.day), "PREFER_DATES_FROM": "past", "DATE_ORDER": "DMY"}
    data = DateDataParser(languages=["en"], settings=settings).get_date_data(phrase)
    if data.date_obj is None:
        return None
    day, size = data.date_obj.date(), data.period
    if kind == "month" and not re.search(r"\d", phrase) and day.month == today.month:
        day = today
    first, last = {"year": (date(day.year, 1, 1), date(day.year, 12, 31)), "month": _month(day), "week": _week(day)}.get(size, (day, day))
    lead = text[: found.start()].lower() + said.lower()
    if re.search(r"\b(?:beginning|start) of\b[^,]*$", lead) and size == "month":
        last = first + timedelta(days=9)
    if re.search(r"\bsince\b", lead):
        last = today
    elif re.search(r"\bafter\b", lead):
        first, last = last + timedelta(days=1), today
    elif re.search(r"\bbefore\b(?! yesterday)", lead):
        first, last = date.min, first - timedelta(days=1)
    return Period(first, last, said)


def _month(day: date) -> tuple[date, date]:
    return day.replace(day=1), day.replace(day=calendar.monthrange(day.year, day.month)[1])


def _week(day: date) -> tuple[date, date]:
    monday = day - timedelta(days=day.weekday())
    return monday, monday + timedelta(days=6)
