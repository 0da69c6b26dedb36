"""From a seed to a model: free sizes, starting values, blocks of one family and of others in one graph, and outputs of
every kind: last values, values still read, inputs, one value twice."""
import bytes_blocks
import cells
import chance
import classical
import containers
import control
import data
import doubles
import elementwise
import exported
import indices
import integers
import later
import microsoft
import norm
import product
import quantised
import recurrent
import residual
import sampling
import signal_blocks
import sizes
import text_blocks
import views
import window
from graph import Builder, Skip, fixed

FAMILIES = {
    "residual": residual.BLOCKS, "window": window.BLOCKS, "product": product.BLOCKS, "elementwise": elementwise.BLOCKS,
    "views": views.BLOCKS, "cells": cells.BLOCKS, "attention": cells.ATTENTION, "norm": norm.BLOCKS, "sizes": sizes.BLOCKS, "data": data.BLOCKS,
    "control": control.BLOCKS, "quantised": quantised.BLOCKS,
    "recurrent": recurrent.BLOCKS, "signal": signal_blocks.BLOCKS, "sampling": sampling.BLOCKS,
    "indices": indices.BLOCKS, "integers": integers.BLOCKS, "bytes": bytes_blocks.BLOCKS,
    "microsoft": microsoft.BLOCKS, "classical": classical.BLOCKS, "text": text_blocks.BLOCKS,
    "chance": chance.BLOCKS, "containers": containers.BLOCKS, "later": later.BLOCKS, "doubles": doubles.BLOCKS,
    "exported": exported.BLOCKS,
}
# What whole networks are made of comes more often than what is there once.
ORDER = ["residual"] * 3 + ["window", "product", "sizes"] * 2 + ["elementwise", "views", "cells", "attention", "norm", "data", "control", "quantised"] + [
    "recurrent", "signal", "sampling", "indices", "indices", "integers", "integers", "bytes", "bytes", "microsoft", "microsoft", "classical", "text", "chance", "containers", "later", "doubles", "exported"]
IMAGES = {"window": 1.0, "residual": 0.5, "attention": 0.1, "norm": 0.5, "views": 0.4, "elementwise": 0.3, "sizes": 0.5, "data": 0.2, "control": 0.3, "quantised": 0.3,
          "sampling": 0.8, "later": 0.3, "containers": 0.2, "indices": 0.3, "exported": 0.4}


SMALL = ("bytes", "classical", "microsoft", "exported")  # families of single operators: more blocks in a model
# Where most of a family is of some versions only.
VERSIONS = {"later": (20, 23, 24, 24, 26, 26), "text": (13, 20, 20, 21, 24), "signal": (17, 18, 20, 21, 23, 26), "sampling": (16, 18, 19, 20, 20, 21, 24),
            "integers": (14, 17, 18, 18, 21, 24, 26), "chance": (13, 15, 17, 18, 21, 23), "indices": (13, 16, 18, 18, 21, 24, 26), "containers": (15, 17, 18, 21, 24)}


def batch(b):
    if b.chance(0.25):
        return fixed(b.pick(1, 1, 2, 3))
    return b.symbol("batch", b.pick(1, 2, 2, 3, 4, 8), 1, b.pick(5, 7, 11))


def side(b, name):
    if b.chance(0.4):
        return fixed(b.pick(1, 4, 5, 7, 8, 9, 12, 13, 14, 16))
    return b.symbol(name, b.pick(8, 9, 12, 14, 16, 17), b.pick(1, 1, 2, 4, 5, 7), b.pick(11, 13, 19, 23))


def image(b):
    c = b.pick(1, 2, 3, 3, 4, 5, 8, 8, 12, 16, 17, 24, 32)
    n = b.random.choices((1, 2, 3), (4, 15, 1))[0]
    if n == 3:
        return b.input((batch(b), fixed(b.pick(1, 2, 4)), *(fixed(b.pick(3, 4, 5)) for _ in range(2)), side(b, "depth")))
    return b.input((batch(b), fixed(c), *(side(b, s) for s in ("height", "width")[:n])))


def series(b, rank=None):
    width = b.pick(1, 3, 4, 8, 8, 12, 16, 17, 24, 31, 32, 33, 64, 65)
    rank = rank or b.pick(2, 2, 3, 3)
    length = () if rank == 2 else ((fixed(b.pick(1, 3, 5, 8)),) if b.chance(0.3) else (b.symbol("sequence", b.pick(4, 7, 8, 16, 32), 1, b.pick(13, 17, 37)),))
    return b.input((batch(b), *length, fixed(width)), std=b.pick(0.1, 1.0, 1.0, 1.0, 5.0))


def start(b, family):
    if b.chance(IMAGES.get(family, 0)):
        return image(b)
    return series(b, 3 if family == "attention" else None)


def grow(b, family):
    """Blocks until enough are there: most of the family, some of any."""
    wanted, made = b.pick(2, 3, 4, 6) if family in VERSIONS or family in SMALL else b.pick(1, 1, 2, 2, 3, 4, 5), 0
    for _ in range(12 * wanted):
        usable = [v for v in b.pool if v.dtype == "f32" and None not in v.shape and v.rank <= 5]
        x = usable[-1] if b.chance(0.65) else b.random.choice(usable)
        blocks = FAMILIES[family] if made == 0 or b.chance(0.6) else FAMILIES[b.random.choice(ORDER)]
        y = b.attempt(b.random.choice(blocks), x)
        if y is None:
            continue
        b.pool.append(y)
        made += 1
        if made == wanted or b.closed:
            break
    if not made:
        raise Skip


def outputs(b):
    """All that nothing reads, and sometimes more; an input or a second name stands behind Identity or by itself."""
    made = [v for v in b.pool + b.marked if v.kind == "node"]
    out = list(dict.fromkeys(v for v in made if v.uses == 0))
    out += [v for v in b.marked if v not in out and b.chance(0.8)]
    out += [v for v in made if v not in out and b.chance(0.12)]
    if b.chance(0.06):
        out.append(b.op("Identity", [b.pick(*(out or b.inputs))]))
    if b.chance(0.04):
        out.append(b.op("Identity", [b.random.choice(b.inputs)]))
    if b.chance(0.05):
        b.random.shuffle(out)
    return list(dict.fromkeys(out))


def read_by(node):
    """Names that a node reads, those that its bodies take from outside too."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from (o.name for o in attribute.g.output)
            for inner in attribute.g.node:
                yield from read_by(inner)


def used_only(b):
    """Drops inputs that nothing reads, and nodes whose values nothing wants."""
    wanted = {v.name for v in b.final}
    kept = []
    for node in reversed(b.nodes):
        if any(o in wanted for o in node.output):
            kept.append(node)
            wanted.update(read_by(node))
    b.nodes = kept[::-1]
    b.inputs = [v for v in b.inputs if v.name in wanted]
    b.weights = {n: w for n, w in b.weights.items() if n in wanted}
    used = {n for v in b.inputs for n in map(b.name_of, v.shape) if isinstance(n, str)}
    b.symbols = {n: d for n, d in b.symbols.items() if n in used}


def model_of(seed, family=None):
    """(model, facts): the graph of this seed, and what runs it."""
    for turn in range(100):
        b = Builder(seed * 100 + turn)
        chosen = family or b.random.choice(ORDER)
        b.opset = b.random.choice(VERSIONS[chosen]) if chosen in VERSIONS else b.opset
        try:
            b.pool.append(start(b, chosen))
            grow(b, chosen)
        except Skip:
            continue
        b.final = outputs(b)
        if not b.final:
            continue
        used_only(b)
        if not b.inputs:
            continue
        facts = {"seed": seed, "family": chosen, "symbols": {n: list(d[:3]) for n, d in b.symbols.items()},
                 "inputs": [{"name": v.name, "dtype": v.dtype, "shape": [b.name_of(d) for d in v.shape]} | b.specs[v.name] for v in b.inputs]}
        b.seed = seed
        return b.model(b.final, chosen), facts
    raise Skip
