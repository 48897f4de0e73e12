"""What people who type records get wrong, seen from a cell alone: spelling, dates, commas, codes for missing."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

import numpy as np

# Words that people write into an empty cell.
MISSING_WORDS = frozenset({"", "?", "-", "--", ".", "na", "n/a", "nan", "null", "none", "nil", "missing", "unknown"})
_DATE = re.compile(
    r"\d{4}([-/.])\d{1,2}\1\d{1,2}([T ]\S.*)?"  # 2024-01-31, also with a time
    r"|\d{1,2}([-/.])\d{1,2}\3(\d{4}|\d{2})( \S.*)?"  # 31.1.2024, 1/31/24
    r"|(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])"  # 20240131
)
_COMMA = re.compile(r"[-+]?\d[\d. ]*,\d+([eE][-+]?\d+)?")
_UNIT = re.compile(r"([-+]?\d+(\.\d+)?)\s*[^\W\d_%]+|([-+]?\d+(\.\d+)?)\s*%|[$€£]\s*(\d+(\.\d+)?)")
_LETTER = re.compile(r"(?=.*\d)[-+\dOoIl.]*[OoIl][-+\dOoIl.]*")  # 12O
# Surveys write 77, 88, 98, 999, -1, -9 and the like where there is no answer.
_CODE = re.compile(r"-?(7{2,}|8{2,}|9{2,}|9+[78])|-[1789]")


def is_date(text: str) -> bool:
    """Whether a cell looks like a date.

    >>> is_date("2024-01-31"), is_date("31/1/24 10:00"), is_date("20240131"), is_date("12.5"), is_date("1.2-3")
    (True, True, True, False, False)
    """
    return _DATE.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Whether a cell is a finite number."""
    return _number(text) is not None


def folded(text: str) -> str:
    """A text without its case and its blanks."""
    return "".join(text.casefold().split())


def spelled_alike(texts: Iterable[str]) -> list[list[str]]:
    """Groups of two or more texts that differ only by case or blanks.

    >>> spelled_alike(["F", "M", "f", "New York", "new  york"])
    [['F', 'f'], ['New York', 'new  york']]
    """
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(folded(text), []).append(text)
    return [group for group in groups.values() if len(group) > 1]


def closest(text: str, known: Iterable[str]) -> str | None:
    """The known text that was probably meant, if there is one."""
    by_fold = {folded(each): each for each in known}
    if folded(text) in by_fold:
        return by_fold[folded(text)]
    near = get_close_matches(folded(text), by_fold, n=1, cutoff=0.7)
    return by_fold[near[0]] if near else None


def closest_column(name: str, columns: Iterable[str]) -> str | None:
    """The column that was probably meant: spelled nearly alike, or the only one that has the name among its words.

    >>> closest_column("age", ["sex", "Age_years"]), closest_column("weight", ["Weigth", "ward"])
    ('Age_years', 'Weigth')
    >>> closest_column("age", ["age_years", "age_days"]), closest_column("age", ["dosage", "sex"])
    (None, None)
    """
    columns = list(columns)
    a_word = re.compile(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", re.IGNORECASE)
    among = [each for each in columns if a_word.search(each)]
    return closest(name, columns) or (among[0] if len(among) == 1 else None)


def about_value(text: str, known: Iterable[str], remedy: str) -> str:
    """What to do with a value that is not among the known ones.

    >>> about_value("male", ["Female", "Male"], "add it")
    "did you mean 'Male'? (case or blanks)"
    >>> about_value("1.0", ["0", "1"], "add it"), about_value("femail", ["Female", "Male"], "add it")
    ("did you mean '1'?", "did you mean 'Female'?")
    """
    known = list(known)
    for each in known:
        if folded(each) == folded(text):
            return f"did you mean {each!r}? (case or blanks)"
    for each in known:
        if _number(each) is not None and _number(each) == _number(text):
            return f"did you mean {each!r}?"
    if text.casefold() in MISSING_WORDS:
        return "does it mean missing? List it in missing_values"
    meant = None if _number(text) is not None else closest(text, known)
    return remedy if meant is None else f"did you mean {meant!r}?"


def about_number(text: str, remedy: str) -> str:
    """What to do with a cell that is not a finite number.

    >>> about_number("12,5", ""), about_number("70 kg", ""), about_number("12O", "")
    ('a decimal comma? Write 12.5', 'a unit? Write 70', 'a letter in place of a digit?')
    >>> about_number("1,234", "")
    'a comma? Write 1234 or 1.234'
    """
    if is_date(text):
        return "a date: write a number, such as an age"
    if text.casefold() in MISSING_WORDS:
        return "does it mean missing? List it in missing_values"
    if _COMMA.fullmatch(text):
        whole, _, fraction = text.replace(" ", "").replace(".", "").partition(",")
        if len(fraction) == 3 and "." not in text:
            return f"a comma? Write {whole}{fraction} or {whole}.{fraction}"
        return f"a decimal comma? Write {whole}.{fraction}"
    if _LETTER.fullmatch(text):
        return "a letter in place of a digit?"
    if unit := _UNIT.fullmatch(text):
        return f"a unit? Write {unit[1] or unit[3] or unit[5]}"
    return remedy


def looks_like_code(text: str) -> bool:
    """Whether a number is one that surveys write for missing."""
    number = _number(text)
    return number is not None and number.is_integer() and _CODE.fullmatch(str(int(number))) is not None


def codes(numbers: np.ndarray) -> list[float]:
    """Numbers that look like codes for missing and are far from the others.

    Far means farther than the others lie apart, or the only negative numbers.

    >>> codes(np.array([18.0, 45.0, 95.0, 999.0])), codes(np.array([0.0, 1.0, 2.0, 7.0, -1.0]))
    ([999.0], [-1.0])
    >>> codes(np.array([18.0, 45.0, 95.0, 99.0])), codes(np.array([-1.0, 1.0]))
    ([], [])
    """
    distinct = np.unique(numbers)
    ends = np.abs(np.fmod(distinct, 10.0))  # a code ends with 7, 8 or 9, or is -1; few numbers of a large column do
    coded = (np.abs(distinct) < 2.0**53) & (np.isin(ends, (7.0, 8.0, 9.0)) | (distinct == -1.0))
    coded[coded] = [looks_like_code(repr(float(number))) for number in distinct[coded]]
    rest = distinct[~coded]
    if len(rest) < 2:
        return []
    lo, hi = float(rest[0]), float(rest[-1])

    def far(code: float) -> bool:
        apart = max(code - hi, lo - code)
        return apart > hi - lo or (code < 0 <= lo and len(rest) > 2)

    return [code for code in distinct[coded].tolist() if far(code)]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None
