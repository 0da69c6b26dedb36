#!/usr/bin/env python3
"""Measures what the pinned `tokenizers` package does with every code point and writes it as tables.

usage: .venv/bin/python tools/make_unicode_tables.py [--check]

Its classes come from several Unicode versions at once (an old one for categories, another for decomposition, the newest
for case), so no library has the same tables. Writes src/text/unicode_classes.cpp and src/text/unicode_mappings.cpp;
--check only compares them. The tables are proved again, as a whole, by tests/text.
"""
import argparse
import os
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

SURROGATES = range(0xD800, 0xE000)
CODES = [c for c in range(0x110000) if c not in SURROGATES]
HANGUL = range(0xAC00, 0xAC00 + 11172)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def bert(**on):
    flags = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**flags, **on})


def word_characters():
    """Code points after which a single_word token does not match (\\w of its regular expressions)."""
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "<w>": 1}, unk_token="[UNK]"))
    tokenizer.add_tokens([AddedToken("<w>", single_word=True, normalized=False)])
    out = []
    for start in range(0, len(CODES), 10000):
        part = CODES[start:start + 10000]
        for c, e in zip(part, tokenizer.encode_batch([chr(c) + "<w>" for c in part])):
            if 1 not in e.ids:
                out.append(c)
    return out


def combining_ranks(nfd, decomposed):
    """Rank of each code point's combining class among all classes; only their order matters to normalisation."""
    references = {}
    for c in CODES:
        k = unicodedata.ucd_3_2_0.combining(chr(c))
        if k and c not in decomposed and unicodedata.combining(chr(c)) == k:
            references.setdefault(k, chr(c))
    order = [references[k] for k in sorted(references)]
    ranks = {}
    for c in CODES:
        if c in decomposed:
            continue
        s = chr(c)
        if s != order[-1] and nfd.normalize_str(order[-1] + s) == order[-1] + s:
            # A starter, or of the last class: only a mark of a lower class moves before it.
            if nfd.normalize_str(s + order[0]) == s + order[0]:
                continue
        ranks[c] = 1 + sum(nfd.normalize_str(r + s) == r + s for r in order)
    return ranks


def single_steps(decomposed):
    """{code: (first, second or 0)} whose repeated use gives the full decompositions."""
    whole = {tuple(map(ord, v)): c for c, v in decomposed.items() if len(v) > 1}
    out = {}
    for c, v in decomposed.items():
        codes = tuple(map(ord, v))
        if len(codes) <= 2:
            out[c] = (codes[0], codes[1] if len(codes) == 2 else 0)
        else:
            out[c] = (whole[codes[:-1]], codes[-1])
    return out


def ranges(codes):
    out = []
    for c in sorted(codes):
        if out and c == out[-1][1] + 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def gaps_of(pairs):
    """[first, last] ranges as (distance from the end of the one before, length)."""
    numbers, end = [], 0
    for first, last in pairs:
        numbers += [first - end, last - first + 1]
        end = last + 1
    return numbers


def array(name, comment, numbers, kind="int32_t"):
    lines, line = [], "   "
    for n in numbers:
        word = f" {n},"
        if len(line) + len(word) > 118:
            lines.append(line)
            line = "   "
        line += word
    lines.append(line)
    body = "\n".join(lines)
    return f"// {comment}\nstatic constexpr {kind} {name}[] = {{\n{body}\n}};\n"


def span(name, array_name):
    return f"std::span<const int32_t> {name}() {{ return {array_name}; }}\n"


HEAD = """// Made by tools/make_unicode_tables.py from tokenizers {version}: {what}
// Do not edit: change the script.
// clang-format off
#include "text/unicode_tables.hpp"

namespace peri::text::tables {{

{body}
}}  // namespace peri::text::tables
"""


def classes():
    clean, strip = bert(clean_text=True), bert(strip_accents=True)
    split = pre_tokenizers.BertPreTokenizer()
    white = pre_tokenizers.WhitespaceSplit()
    nfd = normalizers.NFD()
    decomposed = {c: nfd.normalize_str(chr(c)) for c in CODES if nfd.normalize_str(chr(c)) != chr(c)}
    removed = [c for c in CODES if clean.normalize_str(chr(c)) == ""]
    spaces = [c for c in CODES if len(white.pre_tokenize_str("a" + chr(c) + "b")) == 2]
    cleaned_to_space = {c for c in CODES if clean.normalize_str(chr(c)) == " "}
    assert cleaned_to_space == set(spaces) - set(removed)
    punctuation = [c for c in CODES if len(split.pre_tokenize_str("a" + chr(c) + "b")) == 3]
    marks = [c for c in CODES if c not in decomposed and strip.normalize_str(chr(c)) == ""]
    ranks = combining_ranks(nfd, decomposed)
    runs = []
    for first, last in ranges(ranks):
        for c in range(first, last + 1):
            if runs and runs[-1][1] == c - 1 and runs[-1][2] == ranks[c]:
                runs[-1][1] = c
            else:
                runs.append([c, c, ranks[c]])
    rank_numbers = []
    for gap_length, run in zip(zip(*[iter(gaps_of([r[:2] for r in runs]))] * 2), runs):
        rank_numbers += [*gap_length, run[2]]
    tables = [
        ("removed", "kRemoved", "Removed by clean_text: (gap, length) ...", gaps_of(ranges(removed))),
        ("white_space", "kWhiteSpace", "White space: (gap, length) ...", gaps_of(ranges(spaces))),
        ("punctuation", "kPunctuation", "Split off as punctuation: (gap, length) ...", gaps_of(ranges(punctuation))),
        ("stripped_marks", "kStrippedMarks", "Stripped as accents: (gap, length) ...", gaps_of(ranges(marks))),
        ("word_characters", "kWordCharacters", "Part of a word (single_word): (gap, length) ...", gaps_of(ranges(word_characters()))),
        ("combining_ranks", "kCombiningRanks", "Canonical order: (gap, length, rank) ...", rank_numbers),
    ]
    body = "\n".join(array(a, c, n) + span(f, a) for f, a, c, n in tables)
    return HEAD.format(version=tokenizers.__version__, what="classes of code points", body=body), decomposed


def mappings(decomposed):
    lower = normalizers.Lowercase()
    lowered = {c: lower.normalize_str(chr(c)) for c in CODES if lower.normalize_str(chr(c)) != chr(c)}
    longer = {c: v for c, v in lowered.items() if len(v) != 1}
    assert {c: list(map(ord, v)) for c, v in longer.items()} == {0x130: [0x69, 0x307]}, longer
    steps = single_steps({c: v for c, v in decomposed.items() if c not in HANGUL})
    for c in HANGUL:
        i = c - 0xAC00
        parts = [0x1100 + i // 588, 0x1161 + i % 588 // 28] + ([0x11A7 + i % 28] if i % 28 else [])
        assert [ord(x) for x in decomposed[c]] == parts
    numbers, end = [], 0
    for c in sorted(steps):
        numbers += [c - end, steps[c][0] - c, steps[c][1]]
        end = c
    lower_numbers, end = [], 0
    for c in sorted(lowered):
        if c in longer:
            continue
        numbers_of_c = [c - end, ord(lowered[c]) - c]
        lower_numbers += numbers_of_c
        end = c
    body = "\n".join([
        array("kDecompositions", "Canonical decomposition, one step, Hangul left out: (gap, first - code, second or 0) ...",
              numbers) + span("decompositions", "kDecompositions"),
        array("kLowercase", "Lower case, U+0130 left out: (gap, lower - code) ...", lower_numbers)
        + span("lowercase", "kLowercase")])
    return HEAD.format(version=tokenizers.__version__, what="mappings of code points", body=body)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    class_text, decomposed = classes()
    wrong = 0
    for name, text in (("unicode_classes.cpp", class_text), ("unicode_mappings.cpp", mappings(decomposed))):
        path = os.path.join(ROOT, "src", "text", name)
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
        if check:
            print(name, "is current" if old == text else "DIFFERS")
            wrong += old != text
        elif old != text:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
