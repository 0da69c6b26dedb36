#!/usr/bin/env python3
"""Write the hostile corpus: bad ONNX files, external data, safetensors and Hugging Face folders, class by class.

The same seed gives the same bytes. OUT/index.json lists every file with its class, what it must get (refuse, load,
survive) and words of which the message must hold one. run_hostile.py tries them. Large files are sparse; OUT/outside
holds what no file may reach.
"""
import argparse
import collections
import pathlib
import sys

import hostile_external
import hostile_files
import hostile_folders
import hostile_graph
import hostile_operators
import hostile_protobuf
import hostile_tensors
import numpy as np
from corpus import Corpus

PARTS = (hostile_files, hostile_protobuf, hostile_tensors, hostile_graph, hostile_operators, hostile_external, hostile_folders)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", metavar="OUT", type=pathlib.Path, help="folder to write; a corpus that stands there is replaced")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    corpus = Corpus(a.out)
    for part in PARTS:
        part.add(corpus, np.random.default_rng(a.seed))
    corpus.close(a.seed)
    for kind, count in sorted(collections.Counter(e["class"] for e in corpus.entries).items()):
        print(f"{kind:14}{count:6}")
    print(f"{a.out}: {len(corpus.entries)} files, {len(corpus.skipped)} left out, seed {a.seed}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as error:
        print(f"make_hostile.py: {error}", file=sys.stderr)
        sys.exit(1)
