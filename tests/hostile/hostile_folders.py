"""Classes `safetensors` and `huggingface`: a tiny sound BERT folder, and everything that can be wrong with one."""
import json
import os
import shutil
import struct

WIDTH, LAYERS, HEADS, INNER, PLACES = 8, 2, 2, 16, 16
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##a", "##b", "hello", "world", ".", ",", "the", "##ing"]
ANY = ("safetensors", "header", "tensor", "config", "offset", "json", "JSON")


def shapes():
    """Tensor names and shapes of the tiny network."""
    out = {"embeddings.word_embeddings.weight": [len(WORDS), WIDTH], "embeddings.position_embeddings.weight": [PLACES, WIDTH], "embeddings.token_type_embeddings.weight": [2, WIDTH]}
    norm = lambda name: {f"{name}.weight": [WIDTH], f"{name}.bias": [WIDTH]}  # noqa: E731
    dense = lambda name, to, of: {f"{name}.weight": [to, of], f"{name}.bias": [to]}  # noqa: E731
    out |= norm("embeddings.LayerNorm")
    for i in range(LAYERS):
        base = f"encoder.layer.{i}"
        for part in ("query", "key", "value"):
            out |= dense(f"{base}.attention.self.{part}", WIDTH, WIDTH)
        out |= dense(f"{base}.attention.output.dense", WIDTH, WIDTH) | norm(f"{base}.attention.output.LayerNorm")
        out |= dense(f"{base}.intermediate.dense", INNER, WIDTH) | dense(f"{base}.output.dense", WIDTH, INNER) | norm(f"{base}.output.LayerNorm")
    return out | dense("pooler.dense", WIDTH, WIDTH)


def layout(named):
    """Header entries and body of tensors of float32, contiguous."""
    header, body = {}, bytearray()
    for i, (name, shape) in enumerate(named.items()):
        count = 1
        for d in shape:
            count *= d
        start = len(body)
        body += struct.pack(f"<{count}f", *(0.05 * ((k * 7 + i) % 11 - 5) + ("LayerNorm.weight" in name) for k in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, len(body)]}
    return header, bytes(body)


def packed(header, body, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


CONFIG = {
    "architectures": ["BertModel"], "model_type": "bert", "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INNER, "vocab_size": len(WORDS), "max_position_embeddings": PLACES,
    "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0, "position_embedding_type": "absolute",
}  # fmt: skip
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [{"id": i, "content": w, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i, w in enumerate(WORDS[:5])],
    "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}, "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
                       "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                       "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}, "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {w: i for i, w in enumerate(WORDS)}},
}  # fmt: skip


def sound(folder, **replace):
    """Write the sound folder; `replace` maps a file name to bytes, an object (written as JSON), or None (left out)."""
    files = {
        "config.json": CONFIG, "tokenizer.json": TOKENIZER, "tokenizer_config.json": {"do_lower_case": True, "tokenizer_class": "BertTokenizer"}, "model.safetensors": packed(*layout(shapes())),
        "modules.json": [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}, {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}],
        "1_Pooling/config.json": {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False},
    } | replace  # fmt: skip
    for name, data in files.items():
        if data is not None:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())


def case(c, kind, name, must="refuse", *words, before=None, facts=None, **replace):
    folder = c.folder(kind, name)
    sound(folder, **replace)
    if before:
        before(folder)
    c.entry(folder, kind, must, words or ANY, **(facts or {}))


def write_weights(c, name, data, must="refuse", *words, **facts):
    case(c, "safetensors", name, must, *(words or ANY), facts=facts, **{"model.safetensors": data})


def headers(c):
    header, body = layout(shapes())
    first, second = list(header)[:2]
    text = json.dumps(header).encode()

    def write(name, data, must="refuse", *words):
        write_weights(c, name, data, must, *words)

    write("good", packed(header, body), "load")
    write("empty", b"")
    write("seven_bytes", b"\1\0\0\0\0\0\0")
    for name, length in {"zero": 0, "one": 1, "short": len(text) - 1, "long": len(text) + 1, "past_file": len(text) + len(body) + 1, "over_100_mb": 100_000_001, "2_63": 2**63, "largest": 2**64 - 1, "wraps": 2**64 - 8}.items():
        write(f"header_length_{name}", packed(header, body, length))
    for name, bad in {"array": b"[]", "number": b"7", "text": b'"x"', "not_json": b"{nonsense}", "spaces_first": b"   " + text, "newline_first": b"\n" + text, "cut": text[: len(text) // 2], "trailing_comma": text[:-1] + b",}", "nul": text[:-1] + b"\0}", "not_utf8": text.replace(b"query", b"\xff\xfe\x80ry", 1), "deep": b'{"a":' * 100000, "deep_arrays": b'{"a":' + b"[" * 200000, "two_objects": text + text, "bom": b"\xef\xbb\xbf" + text, "empty_object": b"{}", "bytes_ff": b"\xff" * 64}.items():
        write(f"header_{name}", packed(bad, body), "refuse", *ANY, "embeddings", "UTF")
    write("duplicate_key", packed(text[:-1] + b", " + json.dumps(first).encode() + b": " + json.dumps(header[second]).encode() + b"}", body), "refuse", *ANY, "duplicate", "twice")
    write("surrogate_key", packed(text[:-1] + b', "\\ud800": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}', body))


def entries(c):
    """One tensor's entry changed at a time."""
    header, body = layout(shapes())
    first, second = list(header)[:2]

    def changed(name, must="refuse", **entry):
        write_weights(c, name, packed(header | {first: {k: v for k, v in (header[first] | entry).items() if v is not None}}, body), must, *ANY, first)

    changed("offsets_reversed", data_offsets=header[first]["data_offsets"][::-1])
    changed("offsets_past_end", data_offsets=[0, len(body) + 4])
    changed("offsets_negative", data_offsets=[-4, 508])
    changed("offsets_float", data_offsets=[0.0, 512.0])
    changed("offsets_text", data_offsets=["0", "512"])
    changed("offsets_one", data_offsets=[0])
    changed("offsets_three", data_offsets=[0, 512, 512])
    changed("offsets_huge", data_offsets=[2**63, 2**64 - 1])
    changed("offsets_over_64_bits", data_offsets=[0, 2**70])
    changed("offsets_absent", data_offsets=None)
    changed("overlap", data_offsets=header[second]["data_offsets"])
    changed("size_short", data_offsets=[0, 508])
    changed("shape_larger", shape=[len(WORDS) * 2, WIDTH])
    changed("shape_negative", shape=[-len(WORDS), -WIDTH])
    changed("shape_wraps", shape=[2**32, 2**32, len(WORDS), WIDTH])
    changed("shape_wraps_to_size", shape=[2**62 + len(WORDS) * WIDTH // 4, 4])
    changed("shape_float", shape=[float(len(WORDS)), WIDTH])
    changed("shape_text", shape="16x8")
    changed("shape_absent", shape=None)
    changed("shape_flat", shape=[len(WORDS) * WIDTH])
    changed("shape_swapped", shape=[WIDTH, len(WORDS)])
    changed("shape_rank_100000", shape=[1] * 100000)
    for dtype in ("F33", "", "f32", "FLOAT", "F64", "I32", "BOOL", None, 7):
        changed(f"dtype_{'absent' if dtype is None else dtype or 'empty'}", dtype=dtype)


def bodies(c, rng):
    header, body = layout(shapes())
    first, text = next(iter(header)), json.dumps(header).encode()

    def write(name, data, must="refuse", *words, **facts):
        write_weights(c, name, data, must, *words, **facts)

    hole = {k: v | {"data_offsets": [o + 8 * (k != first) for o in v["data_offsets"]]} for k, v in header.items()}
    write("hole", packed(hole, body[:512] + b"\0" * 8 + body[512:]))
    write("hole_at_front", packed({k: v | {"data_offsets": [o + 4 for o in v["data_offsets"]]} for k, v in header.items()}, b"\0" * 4 + body))
    write("trailing_bytes", packed(header, body + b"\0" * 4))
    write("body_short", packed(header, body[:-1]))
    write("body_absent", packed(header, b""))
    write("metadata", packed({"__metadata__": {"format": "pt"}} | header, body), "load")
    write("metadata_numbers", packed({"__metadata__": {"format": 7}} | header, body), "survive")
    write("metadata_text", packed({"__metadata__": "pt"} | header, body), "survive")
    write("tensor_is_number", packed(header | {first: 7}, body))
    write("tensor_absent", packed(*layout({k: s for k, s in shapes().items() if "layer.1.output.dense.weight" not in k})), "refuse", "encoder.layer.1.output.dense.weight")
    write("tensor_extra", packed(*layout(shapes() | {"extra.weight": [3, 3]})), "survive")
    write("prefix_bert", packed(*layout({f"bert.{k}": s for k, s in shapes().items()})), "survive")
    write("is_pickle", b"\x80\x04\x95" + b"cos\nsystem\n(S'touch pwned'\ntR." + b"\0" * 100)
    write("is_zip", b"PK\x03\x04" + b"\0" * 200)
    write("many_empty", packed({f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(100000)}, b""))
    data = packed(header, body)
    for cut in sorted({int(x) for x in rng.integers(1, len(data) - 1, 20)}):
        write(f"cut_{cut:05}", data[:cut])
    for i in range(40):
        flipped, at = bytearray(data), int(rng.integers(0, 8 + len(text)))
        flipped[at] ^= 1 << int(rng.integers(0, 8))
        write(f"flip_{i:02}_at_{at:05}", bytes(flipped), "survive", only="inspect")
    folder = c.folder("safetensors", "sparse_1_tib")
    sound(folder)
    try:
        with open(folder / "model.safetensors", "r+b") as file:
            file.truncate(1 << 40)
        c.entry(folder, "safetensors", "refuse", ANY + ("size",), sparse=True)
    except OSError as error:
        c.skip("safetensors", "sparse_1_tib", str(error))
        shutil.rmtree(folder)


def configs(c):
    def changed(name, must="refuse", *words, **keys):
        config = {k: v for k, v in (CONFIG | keys).items() if v != "absent"}
        case(c, "huggingface", name, must, *(words or (*keys, "config")), **{"config.json": config})

    case(c, "huggingface", "good", "load", facts={"text": "hello world"})
    for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size", "max_position_embeddings"):
        for name, v in {"zero": 0, "negative": -2, "huge": 2**31, "largest": 2**63 - 1, "over_64_bits": 2**70, "fraction": 2.5, "text": "8", "null": None, "absent": "absent", "list": [8], "inf": 1e999}.items():
            changed(f"{key}_{name}", "survive" if name in ("absent", "null") else "refuse", key, "config", "embeddings", "encoder", "shape", **{key: v})
    changed("heads_not_dividing", "refuse", "num_attention_heads", "hidden_size", num_attention_heads=3)
    changed("layers_10_million", "refuse", "num_hidden_layers", "layer", num_hidden_layers=10_000_000)
    changed("layers_fewer", "survive", num_hidden_layers=1)
    changed("eps_negative", "survive", layer_norm_eps=-1.0)
    changed("eps_text", "refuse", layer_norm_eps="tiny")
    changed("activation_unknown", "refuse", "hidden_act", "frob", hidden_act="frob")
    changed("position_relative", "refuse", "position_embedding_type", position_embedding_type="relative_key")
    changed("model_type_unknown", "refuse", "frobformer", model_type="frobformer", architectures=["FrobModel"])
    changed("model_type_absent", "refuse", "model_type", "architecture", model_type="absent", architectures="absent")
    changed("model_type_number", "refuse", "model_type", "architecture", model_type=7)
    changed("architectures_text", "survive", architectures="BertModel")
    for name, bad in {"empty": b"", "not_json": b"{nonsense", "array": b"[]", "deep": b'{"a":' * 200000, "deep_lists": b"[" * 1000000, "nul": b"\0" * 100, "not_utf8": b'{"model_type": "\xff\xfe"}', "duplicate": b'{"model_type": "bert", "model_type": "gpt2"}', "number_long": b'{"hidden_size": ' + b"9" * 100000 + b"}", "bom": b"\xef\xbb\xbf" + json.dumps(CONFIG).encode(), "trailing": json.dumps(CONFIG).encode() + b"}}", "utf16": json.dumps(CONFIG).encode("utf-16")}.items():
        case(c, "huggingface", f"config_{name}", "survive" if name == "bom" else "refuse", "config.json", **{"config.json": bad})
    case(c, "huggingface", "config_absent", "refuse", "config.json", **{"config.json": None})
    case(c, "huggingface", "config_is_folder", "refuse", "config.json", before=lambda f: (f / "config.json").mkdir(), **{"config.json": None})
    case(c, "huggingface", "config_is_fifo", "refuse", "config.json", before=lambda f: os.mkfifo(f / "config.json"), **{"config.json": None})
    code = CONFIG | {"auto_map": {"AutoModel": "modeling_evil.EvilModel"}, "trust_remote_code": True}
    evil = lambda f: (f / "modeling_evil.py").write_text("open('../../../outside/pwned', 'w')\n")  # noqa: E731
    case(c, "huggingface", "remote_code", "survive", before=evil, **{"config.json": code})
    folder = c.folder("huggingface", "empty_folder")
    c.entry(folder, "huggingface", "refuse", ("config.json",))


def shards(c):
    named = shapes()
    names = list(named)
    half = {"1": {k: named[k] for k in names[: len(names) // 2]}, "2": {k: named[k] for k in names[len(names) // 2 :]}}
    files = {f"model-0000{n}-of-00002.safetensors": packed(*layout(s)) for n, s in half.items()}
    where = {k: f"model-0000{n}-of-00002.safetensors" for n, s in half.items() for k in s}

    def write(name, weight_map, must="refuse", *words, index=None, more=None, before=None):
        whole = {"metadata": {"total_size": 1}, "weight_map": weight_map}
        case(c, "huggingface", f"shards_{name}", must, *(words or ("index", "weight_map", "shard", "safetensors")), before=before, **({"model.safetensors": None, "model.safetensors.index.json": whole if index is None else index} | files | (more or {})))

    write("good", where, "load")
    for name, target in {"parent": "../../../outside/secret.bin", "absolute": "/etc/passwd", "empty": "", "folder": "1_Pooling", "missing": "ghost.safetensors", "url": "https://example.org/x.safetensors", "nul": "a\0b", "pickle": "pytorch_model.bin"}.items():
        write(f"to_{name}", where | {names[0]: target})
    write("value_number", where | {names[0]: 7})
    write("value_null", where | {names[0]: None})
    write("map_is_list", list(where))
    write("map_absent", None, index={"metadata": {}})
    write("wrong_shard", where | {names[0]: "model-00002-of-00002.safetensors"}, "refuse", names[0], "index", "shard")
    write("tensor_unlisted", {k: v for k, v in where.items() if k != names[0]}, "survive")
    write("tensor_ghost", where | {"ghost.weight": "model-00001-of-00002.safetensors"}, "survive")
    write("index_not_json", where, index=b"{")
    write("index_deep", where, index=b'{"weight_map":' * 100000)
    write("one_shard_gone", where, "refuse", "model-00002-of-00002", more={"model-00002-of-00002.safetensors": None})
    both = half["2"] | {names[0]: named[names[0]]}
    write("tensor_in_two", where, "survive", more={"model-00002-of-00002.safetensors": packed(*layout(both))})
    link = lambda f: (f / "model-00002-of-00002.safetensors").symlink_to("../../files/good.onnx")  # noqa: E731  (links are followed, as hub caches make them)
    write("link_to_other_bytes", where, more={"model-00002-of-00002.safetensors": None}, before=link)


def others(c):
    def hub(folder):
        """Top-level files as links into a blob store, as hub caches make them."""
        store = c.out / "huggingface" / "blobs"
        store.mkdir(exist_ok=True)
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            shutil.move(folder / name, store / name)
            (folder / name).symlink_to(f"../blobs/{name}")

    case(c, "huggingface", "hub_links", "load", before=hub)
    for name in ("pytorch_model.bin", "model.pt", "model.ckpt", "tf_model.h5", "flax_model.msgpack"):
        case(c, "huggingface", f"only_{name.replace('.', '_')}", "refuse", name, "safetensors", before=lambda f, n=name: (f / n).write_bytes(b"\x80\x02cos\nsystem\n(S'touch pwned'\ntR."), **{"model.safetensors": None})
    case(c, "huggingface", "no_weights", "refuse", "safetensors", **{"model.safetensors": None})
    case(c, "huggingface", "weights_fifo", "refuse", "safetensors", before=lambda f: os.mkfifo(f / "model.safetensors"), **{"model.safetensors": None})
    case(c, "huggingface", "weights_folder", "refuse", "safetensors", before=lambda f: (f / "model.safetensors").mkdir(), **{"model.safetensors": None})
    case(c, "huggingface", "weights_dangling", "refuse", "safetensors", before=lambda f: (f / "model.safetensors").symlink_to("gone"), **{"model.safetensors": None})
    for name, modules in {"path_parent": [{"idx": 0, "name": "0", "path": "../../outside", "type": "sentence_transformers.models.Transformer"}], "path_absolute": [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}, {"idx": 1, "name": "1", "path": "/etc", "type": "sentence_transformers.models.Pooling"}], "type_code": [{"idx": 0, "name": "0", "path": "", "type": "os.system"}], "text": "x", "numbers": [1, 2]}.items():
        case(c, "huggingface", f"modules_{name}", "refuse", "modules.json", "module", "pooling", "1_Pooling", "path", **{"modules.json": modules})
    for name, pooling in {"none": {"pooling_mode_mean_tokens": False}, "several": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "text": {"pooling_mode_mean_tokens": "yes"}, "width": {"pooling_mode_mean_tokens": True, "word_embedding_dimension": 2**40}}.items():
        case(c, "huggingface", f"pooling_{name}", "survive", **{"1_Pooling/config.json": pooling})
    case(c, "huggingface", "pooling_not_json", "refuse", "1_Pooling", "ooling", **{"1_Pooling/config.json": b"{"})


def tokenizers(c):
    def write(name, value, must="refuse", *words):
        case(c, "huggingface", f"tokenizer_{name}", must, *(words or ("tokenizer",)), facts={"text": "hello world", "by": "run"} if must == "refuse" else {"text": "hello world"}, **{"tokenizer.json": value})

    def model_with(**keys):
        return TOKENIZER | {"model": {k: v for k, v in (TOKENIZER["model"] | keys).items() if v != "absent"}}

    for name, bad in {"empty": b"", "not_json": b"{", "array": b"[]", "deep": b'{"model":' * 100000, "not_utf8": b'{"model": "\xff"}', "nul": b"\0" * 50}.items():
        write(name, bad)
    write("absent", None, "survive")
    for kind in ("BPE", "Unigram", "Frob", 7, None):
        write(f"model_{kind}", model_with(type=kind))
    write("merges_cyclic", TOKENIZER | {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b", "ab a", "b ab"]}})
    write("vocab_list", model_with(vocab=["a", "b"]))
    write("vocab_absent", model_with(vocab="absent"))
    write("vocab_empty", model_with(vocab={}), "survive")
    for name, v in {"negative": -1, "huge": 2**63 - 1, "past_embeddings": 5000, "text": "7", "fraction": 1.5, "null": None}.items():
        write(f"vocab_id_{name}", model_with(vocab=TOKENIZER["model"]["vocab"] | {"hello": v}))
    write("vocab_ids_equal", model_with(vocab={w: 1 for w in WORDS}), "survive")
    write("vocab_word_1_mib", model_with(vocab=TOKENIZER["model"]["vocab"] | {"h" * (1 << 20): 11}), "survive")
    write("vocab_1_million", model_with(vocab={f"w{i}": i for i in range(1_000_000)} | TOKENIZER["model"]["vocab"]), "survive")
    write("unknown_token_absent", model_with(unk_token="[GONE]"), "survive")
    for name, v in {"zero": 0, "negative": -1, "huge": 2**62, "text": "x"}.items():
        write(f"max_chars_{name}", model_with(max_input_chars_per_word=v), "survive")
    write("prefix_empty", model_with(continuing_subword_prefix=""), "survive")
    bomb = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    write("regex_bomb", TOKENIZER | {"pre_tokenizer": bomb})
    write("regex_replace", TOKENIZER | {"normalizer": {"type": "Replace", "pattern": {"Regex": "(x*)*y"}, "content": "z"}})
    deep = b'{"type":"Sequence","normalizers":[' * 50000 + b"]}" * 50000
    write("normalizers_deep", json.dumps(TOKENIZER | {"normalizer": "@"}).encode().replace(b'"@"', deep))
    for part in ("normalizer", "pre_tokenizer", "post_processor"):
        write(f"{part}_unknown", TOKENIZER | {part: {"type": "Frob"}})
    write("template_special_absent", TOKENIZER | {"post_processor": TOKENIZER["post_processor"] | {"special_tokens": {}}})
    template = [{"SpecialToken": {"id": "[CLS]", "type_id": 2**40}}, {"Sequence": {"id": "A", "type_id": -1}}]
    write("template_types", TOKENIZER | {"post_processor": TOKENIZER["post_processor"] | {"single": template}})
    write("template_long", TOKENIZER | {"post_processor": TOKENIZER["post_processor"] | {"single": TOKENIZER["post_processor"]["single"] * 20000}}, "survive")
    write("added_id_past", TOKENIZER | {"added_tokens": [{"id": 2**31, "content": "hello", "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}]})
    write("added_empty", TOKENIZER | {"added_tokens": [{"id": 5, "content": "", "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}]}, "survive")
    write("truncation_negative", TOKENIZER | {"truncation": {"max_length": -5, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}}, "survive")
    write("padding_huge", TOKENIZER | {"padding": {"strategy": {"Fixed": 2**40}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}}, "survive")


def add(c, rng):
    headers(c)
    entries(c)
    bodies(c, rng)
    configs(c)
    shards(c)
    others(c)
    tokenizers(c)
