"""Texts: numbers as texts, texts joined, split, matched, normalised, looked up, and counted; what leaves the graph are numbers."""
import numpy as np
from graph import MICROSOFT, ML, Skip, dims, fixed
from signal_blocks import batch_of


def numerals(b, x, shape=None):
    """Whole numbers and their texts."""
    ids = b.input(shape or (batch_of(b, x),) + (dims(b.pick(1, 3)) if b.chance(0.5) else ()), b.pick("i64", "i32"), low=0, high=25, stem="ids")
    return b.op("Cast", [ids], dtype="str", to=8)


def words(b, *texts, shape=None):
    return b.const(np.array(texts, object).reshape(shape or (len(texts),)), "text")


def told(b, text):
    """A text as a number: by a list, by a pattern, by a comparison, or read again."""
    way = b.pick("label", "label", "pattern", "same", "category")
    if way == "category":
        keys = [str(k) for k in range(0, 25, b.pick(2, 3))]
        return b.op("CategoryMapper", [text], dtype="i64", domain=ML, cats_strings=keys, cats_int64s=[b.between(-50, 50) for _ in keys], default_int64=b.pick(None, 7))
    if way == "pattern" and b.opset >= 20:
        return b.op("RegexFullMatch", [text], dtype="bool", pattern=b.pick("1[0-9]*", "[0-9]+", ".*x.*", "(1|2).?.*"))
    if way == "same" and b.opset >= 19:
        return b.op("Equal", [text, words(b, b.pick("7", "12", "1x"), shape=(1,))], dtype="bool")
    keys = [str(k) for k in range(0, 25, b.pick(1, 2))] + ["1x", "x"]
    return b.op("LabelEncoder", [text], dtype="i64", domain=ML, keys_strings=keys, values_int64s=[b.between(0, 99) for _ in keys], default_int64=-1)


def joined(b, x):
    b.need(20)
    text = numerals(b, x)
    pair = [text, words(b, b.pick("x", "0", " 1"), shape=(1,))]
    y = b.op("StringConcat", pair if b.chance(0.6) else pair[::-1], text.shape)
    return told(b, y)


def split(b, x):
    """Three parts of each."""
    b.need(20)
    text = b.op("StringConcat", [numerals(b, x, dims(b.pick(1, 3))), words(b, b.pick(" 1 x", " x 12", " 3 4"), shape=(1,))])
    parts, count = b.ops("StringSplit", [text], [text.shape + (None,), text.shape], ["str", "i64"], domain="", delimiter=b.pick(None, " "), maxsplit=b.pick(None, 1))
    b.marked.append(count)
    return told(b, parts)


def tokens(b, x):
    """Words of each, by an expression or by separators."""
    text = b.op("StringConcat", [numerals(b, x, dims(b.pick(1, 3))), words(b, b.pick(" 1 x", "1, x 12", "  "), shape=(1,))]) if b.opset >= 20 else numerals(b, x, dims(3))
    own = b.pick({"tokenexp": "[0-9]+"}, {"tokenexp": "."}, {"tokenexp": "1|12|x"}, {"separators": [" ", "[,x]"]}, {"separators": [""]})
    least = 1 if own in ({"tokenexp": "."}, {"separators": [""]}) else b.pick(1, 2)
    y = b.op("Tokenizer", [text], text.shape + (None,), "str", domain=MICROSOFT, mark=b.pick(0, 1), mincharnum=least, pad_value=b.pick("#", "7"), **own)
    return told(b, y)


def normalised(b, x):
    """Texts in capitals, those to be left out left out."""
    text = numerals(b, x, dims(b.pick(2, 5)))
    change = b.pick("UPPER", "LOWER", "NONE")
    y = b.op("StringNormalizer", [text], (None,), case_change_action=change, is_case_sensitive=b.pick(0, 1), stopwords=["3", "7", "12"], locale="C")
    keys = [str(k) for k in range(25)]
    return b.op("LabelEncoder", [y], (None,), "i64", domain=ML, keys_strings=keys, values_int64s=list(range(25)), default_int64=-1)


def labels(b, x):
    """From texts to floats, and from numbers to texts and back."""
    text = numerals(b, x)
    keys = [str(k) for k in range(0, 25, 3)]
    y = b.op("LabelEncoder", [text], dtype="f32", domain=ML, keys_strings=keys, values_floats=[k * 0.25 for k in range(len(keys))], default_float=-1.0)
    if b.chance(0.5):
        return y
    one = b.op("Squeeze", [text, b.ints(1)], text.shape[:1]) if text.rank == 2 and text.shape[1] == fixed(1) else text
    return b.op("OneHotEncoder", [one], one.shape + dims(len(keys)), "f32", domain=ML, cats_strings=keys, zeros=1)


def counted(b, x):
    """TfIdfVectorizer over numbers and over texts."""
    grams = [b.between(0, 9) for _ in range(4)]
    pairs = [b.between(0, 9) for _ in range(6)]
    grams = list(dict.fromkeys(grams))
    pool = grams + pairs
    width = len(grams) + 3
    if len({tuple(pairs[k : k + 2]) for k in (0, 2, 4)}) < 3:
        raise Skip
    shape = dims(b.pick(5, 8)) if b.chance(0.5) else dims(b.pick(1, 3), 6)
    ids = b.input(shape, b.pick("i64", "i32"), low=0, high=10, stem="ids")
    texts = b.chance(0.3)
    v = b.op("Cast", [ids], dtype="str", to=8) if texts else ids
    own = {"pool_strings": [str(k) for k in pool]} if texts else {"pool_int64s": pool}
    mode = b.pick("TF", "IDF", "TFIDF")
    weights = [float(np.float32(0.5 + b.numbers.random())) for _ in range(width)] if mode != "TF" else None
    return b.op("TfIdfVectorizer", [v], shape[:-1] + dims(width), "f32", 1.0, mode=mode, min_gram_length=b.pick(1, 2), max_gram_length=2, max_skip_count=b.pick(0, 1),
                ngram_counts=[0, len(grams)], ngram_indexes=list(range(width)), weights=weights, **own)


def moved(b, x):
    """Texts that are turned, repeated and chosen."""
    text = numerals(b, x, dims(b.pick(2, 3), b.pick(1, 4)))
    way = b.pick("turn", "twice", "pick", "read")
    if way == "turn":
        text = b.op("Transpose", [text], text.shape[::-1], perm=[1, 0])
    if way == "twice":
        text = b.op("Concat", [text, text], dims(2 * text.size(0), text.size(1)), axis=0)
    if way == "pick":  # of the last axis: of another, ONNX Runtime takes the first text of each row only
        text = b.op("Gather", [text, b.ints(0, -1, 0)], dims(text.size(0), 3), axis=1)
    if way == "read":
        return b.op("Cast", [text], dtype="f32", std=10.0, to=1) if b.chance(0.5) else b.op("Cast", [text], dtype="i64", to=7)
    return told(b, text)


BLOCKS = [joined, joined, split, tokens, normalised, labels, counted, counted, moved]
