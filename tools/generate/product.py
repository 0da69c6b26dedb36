"""Matrix products: MatMul, Gemm and Einsum with constant and varying operands on either side, vectors, batches that
broadcast, and reductions from one term to many thousands."""
import math

import numpy as np
from elementwise import tame
from graph import Skip, elements, fixed, is_fixed


def cost(shape, k):
    return 2 * elements(shape) * k


def some_width(b):
    return b.pick(1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 33, 48, 64, 65)


def dense(b, x, n=None):
    """x @ w, w constant."""
    k, n = x.size(-1), n or some_width(b)
    shape = x.shape[:-1] + (fixed(n),)
    b.fits(shape, flops=cost(shape, k))
    w = b.weight((k, n), 1 / math.sqrt(k))
    return b.op("MatMul", [x, w], shape)


def dense_bias(b, x, n=None):
    y = dense(b, x, n)
    return b.op("Add", [y, b.weight((y.size(-1),), 0.3)] if b.chance(0.7) else [b.weight((y.size(-1),), 0.3), y], y.shape)


def gemm(b, x, n=None):
    if x.rank != 2:
        raise Skip
    k, n = x.size(1), n or some_width(b)
    shape = (x.shape[0], fixed(n))
    b.fits(shape, flops=cost(shape, k))
    alpha, beta = b.pick((1.0, 1.0), (1.0, 1.0), (0.5, 1.0), (1.0, 0.25), (2.0, 0.5))
    turned = b.pick(0, 1)
    w = b.weight((n, k) if turned else (k, n), 1 / math.sqrt(k))
    bias = b.pick(None, (n,), (n,), (1, n), (), (1,))
    more = [] if bias is None else [b.weight(bias, 0.5)]
    return b.op("Gemm", [x, w, *more], shape, alpha=alpha, beta=beta, transB=turned)


def gemm_turned(b, x):
    """The first operand transposed: K is the rows of x."""
    if x.rank != 2 or not is_fixed(x.shape[0]):
        raise Skip
    k, n = x.size(0), some_width(b)
    shape = (x.shape[1], fixed(n))
    b.fits(shape, flops=cost(shape, k))
    return b.op("Gemm", [x, b.weight((k, n), 1 / math.sqrt(k)), b.weight((n,), 0.3)], shape, transA=1)


def constant_left(b, x):
    """w @ x: the weight stands on the left."""
    if x.rank < 2:
        raise Skip
    k, m = x.size(-2), some_width(b)
    shape = x.shape[:-2] + (fixed(m), x.shape[-1])
    b.fits(shape, flops=cost(shape, k))
    lead = (1,) * (x.rank - 2) if b.chance(0.3) else ()
    return b.op("MatMul", [b.weight(lead + (m, k), 1 / math.sqrt(k)), x], shape, std=x.std)


def vector(b, x):
    """x @ v or v @ x."""
    if x.rank < 2:
        raise Skip
    if b.chance(0.6):
        k = x.size(-1)
        return b.op("MatMul", [x, b.weight((k,), 1 / math.sqrt(k))], x.shape[:-1])
    k = x.size(-2)
    return b.op("MatMul", [b.weight((k,), 1 / math.sqrt(k)), x], x.shape[:-2] + x.shape[-1:], std=x.std)


def varying(b, x):
    """Both operands computed: x with something of its own transposed, or two values of the pool."""
    if x.rank < 2:
        raise Skip
    k = max(x.shape[-1][:3])
    other = dense(b, x, b.pick(8, 16, 5)) if is_fixed(x.shape[-1]) and b.chance(0.4) else x
    if other is not x:  # [.., s, d]^T @ [.., s, n]
        turned = transposed(b, x)
        shape = x.shape[:-2] + (x.shape[-1], other.shape[-1])
        k = max(x.shape[-2][:3])
    else:
        turned, shape = x, x.shape[:-1] + (x.shape[-2],)
        other = transposed(b, x)
    b.fits(shape, flops=cost(shape, k))
    y = b.op("MatMul", [turned, other], shape, std=x.std**2 * math.sqrt(k))
    return tame(b, y)


def transposed(b, x):
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return b.op("Transpose", [x], x.shape[:-2] + (x.shape[-1], x.shape[-2]), perm=perm)


def batch_broadcast(b, x):
    """A batch of constant matrices against fewer, or more, of x."""
    if x.rank not in (2, 3):
        raise Skip
    k, n, heads = x.size(-1), b.pick(3, 8, 17), b.pick(1, 2, 3)
    if x.rank == 2:
        shape = (fixed(heads),) + x.shape[:-1] + (fixed(n),)
        w = b.weight((heads, k, n), 1 / math.sqrt(k))
    else:
        x = b.op("Unsqueeze", [x, b.ints(1)], (x.shape[0], fixed(1)) + x.shape[1:])
        shape = (x.shape[0], fixed(heads)) + x.shape[2:-1] + (fixed(n),)
        w = b.weight((heads, k, n), 1 / math.sqrt(k))
    b.fits(shape, flops=cost(shape, k))
    return b.op("MatMul", [x, w], shape)


def einsum(b, x):
    if x.rank != 3:
        raise Skip
    k, n = x.size(2), b.pick(4, 9)
    b.fits((x.shape[0], x.shape[1], fixed(n)), flops=cost(x.shape, n))
    if b.chance(0.5):
        return b.op("Einsum", [x, b.weight((k, n), 1 / math.sqrt(k))], x.shape[:2] + (fixed(n),), equation="bsk,kn->bsn")
    return b.op("Einsum", [x, b.weight((n, k), 1 / math.sqrt(k))], (x.shape[0], fixed(n), x.shape[1]), equation="bsk,nk->bns")


FORMS = {2: ("ab,cb->ac", "ab,ab->a", "ab->ba", "ab,bc->ac", "ab->", "ab,ab->ab"),
         3: ("abc,adc->abd", "abc,abc->ab", "abc->cab", "abc,cd->dab", "abc->b", "abc,acd->abd", "...ab->...ba", "abc,c->ab"),
         4: ("abcd,abed->abce", "abcd,ce->abed", "abcd->adbc", "abcd,abcd->abc")}


def einsum_form(b, x):
    """Equations of every kind: the second operand is x, or a constant where its sizes are numbers."""
    equation = b.pick(*FORMS.get(x.rank, ()))
    left, right = equation.replace("...", "z").split("->")
    names = left.split(",")
    size = dict(zip(names[0], x.shape))
    new = [c for c in names[-1] if c not in size]
    size |= {c: fixed(b.pick(2, 5)) for c in new}
    shape = tuple(size[c] for c in right)
    terms = math.prod(max(size[c][:3]) for c in size if c not in right)
    b.fits(shape, flops=cost(shape, terms))
    if len(names) == 1:
        return tame(b, b.op("Einsum", [x], shape, std=x.std * math.sqrt(terms), equation=equation))
    if not new and names[1] == names[0]:
        other = b.op("Tanh", [x], std=0.6)
    else:
        if not all(is_fixed(size[c]) for c in names[1]):
            raise Skip
        other = b.weight([size[c][0] for c in names[1]], 1 / math.sqrt(terms))
    return tame(b, b.op("Einsum", [x, other], shape, std=x.std, equation=equation))


LONG = (257, 511, 640, 1024, 1535, 1537, 1600, 2048, 2049, 3071, 3073, 3080, 4096, 5000, 6145, 8192)


def long_dense(b, x):
    """A long reduction: x widened by a cheap outer product or tiling, then reduced."""
    k = b.random.choice(LONG)
    n = b.pick(1, 4, 8, 16, 17) if k > 2000 else b.pick(8, 16, 33)
    wide = long_value(b, x, k)
    shape = wide.shape[:-1] + (fixed(n),)
    b.fits(shape, flops=cost(shape, k))
    w = b.weight((k, n), 1 / math.sqrt(k))
    if wide.rank == 2 and b.chance(0.5):
        return b.op("Gemm", [wide, w, b.weight((n,), 0.3)], shape)
    return b.op("MatMul", [wide, w], shape)


def long_value(b, x, k):
    """A value whose last axis has k elements: an input, or x repeated."""
    if x.rank < 1 or x.rank > 3:
        raise Skip
    shape = x.shape[:-1] + (fixed(k),)
    b.fits(shape)
    if b.chance(0.5) and all(b.name_of(d) is not None for d in shape):
        return b.input(shape)
    column = b.op("MatMul", [x, b.weight((x.size(-1), 1), 1 / math.sqrt(x.size(-1)))], x.shape[:-1] + (fixed(1),))
    y = b.op("Add", [b.op("Mul", [column, b.weight((k,), 1.0)], shape), b.weight((k,), 0.5)])
    return b.op("Tanh", [y], std=0.6)


def quantised_int(b, x):
    """MatMulInteger of small bytes."""
    if x.rank != 2:
        raise Skip
    k, n = x.size(1), b.pick(3, 8)
    u = b.op("Cast", [b.op("Round", [b.op("Clip", [b.op("Mul", [x, b.scalar(20.0)]), b.scalar(0.0), b.scalar(200.0)])])], dtype="u8", to=2)
    w = b.const(b.numbers.integers(0, 200, (k, n)).astype(np.uint8))
    y = b.op("MatMulInteger", [u, w], (x.shape[0], fixed(n)), "i32")
    return tame(b, b.op("Cast", [y], dtype="f32", to=1, std=2000.0 * k))


BLOCKS = [dense, dense, dense_bias, dense_bias, gemm, gemm, gemm_turned, constant_left, vector, varying, batch_broadcast, einsum, einsum_form, einsum_form, long_dense]
ROWWISE = [dense, dense_bias, gemm]  # keep the leading axes; take the width wanted
