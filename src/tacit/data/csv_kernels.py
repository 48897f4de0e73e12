"""Compiled loops over the bytes of a CSV file: where cells are, which of them are equal, and which number each is.

The rules of CSV are those of Python's csv module, the rules of numbers those of `float`: a cell that these loops do not
understand at once is marked, and Python reads it. All loops are in this file, because numba compiles again if the file
of a kernel changes, and looks at no other file.
"""

from __future__ import annotations

import numpy as np

from tacit.core.jit import entry, inlined

PARSED, ASK, NO_NUMBER = 0, 1, 2  # what `parse` knows about a text

_COMMA, _QUOTE, _FEED, _RETURN = 44, 34, 10, 13
# 10^22 is the last power of ten that is a float exactly. So w * 10^k and w / 10^k with w <= 2^53 are rounded once, to
# the float nearest to the number (Clinger, "How to read floating point numbers accurately", 1990).
_TEN = 10.0 ** np.arange(23)
# The letters of inf, infinity, nan and e: with another one, or another sign, a text is no number.
_IN_NUMBERS = np.zeros(256, dtype=np.bool_)
_IN_NUMBERS[list(b"0123456789+-._eEiInNfFtTyYaA")] = True
_IN_NUMBERS[128:] = True  # digits of other alphabets


@inlined
def _is_blank(byte):  # type: ignore[no-untyped-def]
    return byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31


@inlined
def _wide_blank(raw, at, stop):  # type: ignore[no-untyped-def]
    """How many bytes the blank beyond ASCII has that begins here; 0 if none does. Blank as in `str.strip`."""
    if raw[at] == 0xC2 and at + 2 <= stop and (raw[at + 1] == 0x85 or raw[at + 1] == 0xA0):
        return 2
    if raw[at] < 0xE1 or raw[at] > 0xE3 or at + 3 > stop:
        return 0
    a, b, c = raw[at], raw[at + 1], raw[at + 2]
    if a == 0xE2 and b == 0x80 and (c <= 0x8A or c == 0xA8 or c == 0xA9 or c == 0xAF):
        return 3
    wide = (a == 0xE1 and b == 0x9A and c == 0x80) or (a == 0xE2 and b == 0x81 and c == 0x9F)
    return 3 if wide or (a == 0xE3 and b == 0x80 and c == 0x80) else 0


@entry
def tokenise(raw, last, line, limit, start, stop, odd, lines, counts):  # type: ignore[no-untyped-def]
    """Finds the records that are complete. Returns how many records and cells, where they end, and the next line.

    raw, last : the bytes, and whether the file ends with them
    line : the number of the first line
    limit : a cell with more bytes than this is odd
    start, stop, odd : (cells,) to fill: each cell without quotes and outer blanks; an odd one as it is in the file
    lines, counts : (records,) to fill: the line on which a record begins, and its number of cells
    """
    records, cells, done, size = 0, 0, 0, len(raw)
    i = 0
    while i < size:
        if raw[i] == _FEED or raw[i] == _RETURN:  # a blank line
            i += 2 if raw[i] == _RETURN and i + 1 < size and raw[i + 1] == _FEED else 1
            line += 1
            done = i
            continue
        first, first_line, whole = cells, line, True
        while True:
            begin, a, is_odd, closed = i, i, False, True
            b = -1  # where the cell ends, if it is known
            if i < size and raw[i] == _QUOTE:
                a, closed = i + 1, False
                i += 1
                while i < size and not closed:
                    if raw[i] == _QUOTE:
                        if i + 1 < size and raw[i + 1] == _QUOTE:
                            is_odd = True
                            i += 2
                            continue
                        closed = True
                    elif raw[i] == _FEED or (raw[i] == _RETURN and not (i + 1 < size and raw[i + 1] == _FEED)):
                        line += 1
                    i += 1
                b = i - 1 if closed else i
                if not closed and not last and i - begin <= 4 * limit:  # beyond, the cell is too long in any case
                    whole = False
                    break
            while i < size and raw[i] != _COMMA and raw[i] != _FEED and raw[i] != _RETURN:
                if b >= 0:
                    is_odd = True  # text behind a closing quote
                i += 1
            if b < 0:
                b = i
            if is_odd or i - begin > limit:
                start[cells], stop[cells], odd[cells] = begin, i, True
            else:
                while a < b:
                    step = 1 if _is_blank(raw[a]) else _wide_blank(raw, a, b)
                    if step == 0:
                        break
                    a += step
                while a < b:
                    if _is_blank(raw[b - 1]):
                        b -= 1
                    elif b - 2 >= a and _wide_blank(raw, b - 2, b) == 2:
                        b -= 2
                    elif b - 3 >= a and _wide_blank(raw, b - 3, b) == 3:
                        b -= 3
                    else:
                        break
                start[cells], stop[cells], odd[cells] = a, b, False
            cells += 1
            if i < size and raw[i] == _COMMA:
                i += 1
                continue
            break
        if not whole:
            cells, line = first, first_line
            break
        if i < size:
            i += 2 if raw[i] == _RETURN and i + 1 < size and raw[i + 1] == _FEED else 1
            line += 1
        lines[records], counts[records] = first_line, cells - first
        records += 1
        done = i
    return records, cells, done, line


@entry
def distinct(raw, start, stop, most, codes, firsts):  # type: ignore[no-untyped-def]
    """Numbers equal texts alike, in the order in which they come. Returns how many there are; -1: more than `most`.

    codes, firsts : (texts,) and (most,) to fill: the number of each text, and the first text of each number
    """
    slots = 1
    while slots < 4 * most:
        slots *= 2
    table = np.full(slots, -1, dtype=np.int32)
    found = 0
    for k in range(len(start)):
        size, value = stop[k] - start[k], np.uint64(14695981039346656037)  # FNV-1a
        for j in range(start[k], stop[k]):
            value = (value ^ np.uint64(raw[j])) * np.uint64(1099511628211)
        slot = np.int64((value ^ (value >> np.uint64(32))) & np.uint64(slots - 1))
        while True:
            code = table[slot]
            if code < 0:
                if found == most:
                    return -1
                table[slot] = code = found
                firsts[found] = k
                found += 1
                break
            other = firsts[code]
            same = stop[other] - start[other] == size
            j = 0
            while same and j < size:
                same = raw[start[other] + j] == raw[start[k] + j]
                j += 1
            if same:
                break
            slot = (slot + 1) & (slots - 1)
        codes[k] = code
    return found


@entry
def pack(raw, start, stop, ends, packed):  # type: ignore[no-untyped-def]
    """Copies the texts one behind the other; text k lies in packed[ends[k]:ends[k+1]]."""
    to = 0
    for k in range(len(start)):
        for j in range(start[k], stop[k]):
            packed[to] = raw[j]
            to += 1
        ends[k + 1] = to


@entry
def parse(raw, start, stop, numbers, known):  # type: ignore[no-untyped-def]
    """Reads texts as numbers, exactly as `float` does; `known` says of which ones that succeeded."""
    for k in range(len(start)):
        i, end = start[k], stop[k]
        known[k] = NO_NUMBER if i == end else ASK
        negative = i < end and raw[i] == 45
        if i < end and (raw[i] == 45 or raw[i] == 43):
            i += 1
        w, digits, power, dot = np.int64(0), 0, 0, False
        while i < end:
            if 48 <= raw[i] <= 57:
                if w >= 100_000_000_000_000_000:  # one digit more could overflow
                    digits = 0
                    break
                w = w * 10 + (raw[i] - 48)
                digits += 1
                power -= dot
            elif raw[i] == 46 and not dot:
                dot = True
            else:
                break
            i += 1
        if digits and i < end and (raw[i] == 101 or raw[i] == 69):
            i += 1
            below = i < end and raw[i] == 45
            if i < end and (raw[i] == 45 or raw[i] == 43):
                i += 1
            exponent, begin = 0, i
            while i < end and 48 <= raw[i] <= 57 and exponent < 10_000:
                exponent = exponent * 10 + (raw[i] - 48)
                i += 1
            if i == begin:
                digits = 0
            power += -exponent if below else exponent
        if digits and i == end and w <= 9_007_199_254_740_992 and -22 <= power <= 22:
            number = w / _TEN[-power] if power < 0 else w * _TEN[power]
            numbers[k] = -number if negative else number
            known[k] = PARSED
            continue
        for j in range(start[k], end):
            if not _IN_NUMBERS[raw[j]]:
                known[k] = NO_NUMBER
                break
