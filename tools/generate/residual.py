"""Products with something added: every order of epilogue, every origin of what is added, every reuse of it."""
import cells
import elementwise
import norm
import product
import views
import window
from elementwise import activation, epilogue_step
from graph import Skip, elements, fixed, is_fixed


def produce(b, x):
    """P(x), and how to make further branches of the same shape from x."""
    if x.rank >= 3 and (x.rank > 3 or b.chance(0.4)):
        pick = b.pick("conv", "conv", "depthwise", "pointwise", "transposed", "pool", "norm")
        g = window.Geometry(b, x, keep=b.chance(0.6), pool=pick == "pool")
        c = x.size(1) if pick in ("depthwise", "pool", "norm") else b.pick(x.size(1), 8, 12, 17, 4)
        if pick == "transposed":
            return window.conv_transpose_same(b, x, c), lambda: branch_same(b, x, c)
        if pick == "pointwise":
            return window.pointwise(b, x, c), lambda: branch_same(b, x, c)
        if pick == "norm":
            return norm_of(b, x), lambda: branch_same(b, x, c)
        made = {"conv": lambda: window.conv(b, x, g, c, 1), "depthwise": lambda: window.depthwise(b, x, g, c), "pool": lambda: window.pool(b, x, g)}
        return made[pick](), lambda: branch(b, x, g, c)
    n = b.pick(x.size(-1), x.size(-1), product.some_width(b))
    if b.chance(0.15):
        n = x.size(-1)
        return norm_of(b, x), lambda: row_branch(b, x, n)
    if b.chance(0.2):
        return long_product(b, x, n), lambda: row_branch(b, x, n)
    return b.random.choice(product.ROWWISE if x.rank == 2 else product.ROWWISE[:2])(b, x, n), lambda: row_branch(b, x, n)


def norm_of(b, x):
    return b.random.choice(norm.SAME)(b, x)


def long_product(b, x, n):
    """A product over thousands of terms, n columns wide."""
    k = b.random.choice(product.LONG)
    wide = product.long_value(b, x, k)
    shape = x.shape[:-1] + (fixed(n),)
    b.fits(shape, flops=product.cost(shape, k))
    return b.op("MatMul", [wide, b.weight((k, n), k**-0.5)], shape)


def row_branch(b, x, n):
    kind = b.pick("dense", "gemm", "cut", "act", "wide", "norm")
    have = x.size(-1)
    if kind == "cut" and n <= have:
        return b.op("Slice", [x, b.ints(have - n), b.ints(have), b.ints(-1)], x.shape[:-1] + (fixed(n),))
    if kind == "act" and n == have:
        return activation(b, x)
    if kind == "norm" and n == have:
        return norm_of(b, x)
    if kind == "wide":
        return elementwise.binary(b, views.cut(b, x) if b.chance(0.1) else product.dense(b, x, n), b.weight((n,), 0.5), ("Mul", "Add"))
    return product.gemm(b, x, n) if kind == "gemm" and x.rank == 2 else product.dense_bias(b, x, n)


def branch(b, x, g, c):
    """Another window of the same geometry over x, brought to c channels."""
    kind = b.pick("conv", "pool", "pool_conv", "depthwise")
    if kind == "conv":
        return window.conv(b, x, g, c, 1)
    if kind == "depthwise":
        return window.depthwise(b, x, g, c)
    y = window.pool(b, x, g)
    return y if c == x.size(1) and kind == "pool" else window.pointwise(b, y, c)


def branch_same(b, x, c):
    kind = b.pick("conv", "pointwise", "act", "transposed", "split")
    if kind == "act" and c == x.size(1):
        return activation(b, x)
    if kind == "split" and c < x.size(1):
        return b.op("Slice", [x, b.ints(0), b.ints(c), b.ints(1)], x.shape[:1] + (fixed(c),) + x.shape[2:])
    if kind == "transposed":
        return window.conv_transpose_same(b, x, c)
    if kind == "pointwise":
        return window.pointwise(b, x, c)
    return window.conv(b, x, window.Geometry(b, x, keep=True), c, 1)


def added(b, x, y, more):
    """What is joined with y: its own input, a branch, an input, a graph output, a value used thrice, a constant."""
    kind = b.pick("own", "own", "own", "branch", "branch", "branch", "input", "output", "thrice", "row", "pool", "self")
    if kind == "own" and x.shape == y.shape:
        return x
    if kind == "input" and all(b.name_of(d) is not None for d in y.shape):
        return b.input(y.shape, std=b.pick(0.3, 1.0, 3.0), stem="r")
    same = [v for v in b.pool if v.shape == y.shape and v.dtype == y.dtype]
    if kind == "pool" and same:
        return b.random.choice(same)
    if kind == "self":
        return activation(b, y)
    if kind == "row":
        return elementwise.operand(b, y)
    r = b.attempt(lambda b: more()) or b.attempt(lambda b: more()) or activation(b, y)
    if kind == "output":
        b.marked.append(r)
    if kind == "thrice":
        b.pool.append(r)
        b.marked.append(activation(b, r))
    return r


def residual(b, x):
    """act(P(x)) + r, in every order, once or several times."""
    if x.rank < 2:
        raise Skip
    if b.chance(0.5):  # a value that ends here: its memory may become the result's
        x = elementwise.tame(b, activation(b, x))
    y, more = produce(b, x)
    for _ in range(b.pick(0, 0, 1, 1, 1, 2)):
        y = epilogue_step(b, y) if b.chance(0.5) else activation(b, y)
    for _ in range(b.pick(1, 1, 1, 2)):
        r = added(b, x, y, more)
        kind = b.pick("Add", "Add", "Add", "Add", "Mul", "Sub", "Max")
        y = b.op(kind, [y, r] if b.chance(0.6) or kind == "Sub" else [r, y], elementwise.joined(y, r), std=y.std * r.std if kind == "Mul" else (y.std**2 + r.std**2) ** 0.5)
        y = elementwise.tame(b, y)
        if b.chance(0.4):
            y = b.attempt(epilogue_step, y) or y
    return y


def merge(b, x):
    """Two or three branches of x, added or beside each other."""
    if x.rank < 2:
        raise Skip
    y, more = produce(b, x)
    all_ = [y] + [v for v in (b.attempt(lambda b: more()) for _ in range(b.pick(1, 1, 2))) if v is not None and v.shape == y.shape]
    all_ = [activation(b, v) if b.chance(0.4) else v for v in all_]
    if len(all_) < 2:
        raise Skip
    if b.chance(0.5):
        axis = 1 if x.rank > 2 and is_fixed(y.shape[1]) else x.rank - 1
        return b.op("Concat", all_, y.shape[:axis] + (fixed(y.size(axis) * len(all_)),) + y.shape[axis + 1 :], axis=axis)
    out = all_[0]
    for v in all_[1:]:
        out = b.op(b.pick("Add", "Add", "Mul", "Max"), [out, v])
    return activation(b, out) if b.chance(0.5) else out


def gemm_varying_c(b, x):
    """Gemm whose third operand is computed."""
    if x.rank != 2:
        raise Skip
    k, n = x.size(1), product.some_width(b)
    c = b.pick(lambda: product.dense(b, x, n), lambda: activation(b, product.dense(b, x, n)), lambda: b.input((x.shape[0], fixed(n))))()
    shape = (x.shape[0], fixed(n))
    b.fits(shape, flops=product.cost(shape, k))
    return b.op("Gemm", [x, b.weight((k, n), k**-0.5), c], shape, alpha=b.pick(1.0, 0.5), beta=b.pick(1.0, 0.3))


def two_products(b, x):
    """P(x) + Q(z), both long or both short, with activations on either side."""
    if x.rank < 2:
        raise Skip
    n = product.some_width(b)
    make = long_product if b.chance(0.4) else product.dense_bias
    p, q = make(b, x, n), make(b, x, n)
    p = activation(b, p) if b.chance(0.4) else p
    return activation(b, b.op("Add", [p, q])) if b.chance(0.4) else b.op("Add", [p, q])


def bottleneck(b, x):
    """1x1, 3x3, 1x1 with a way around, and blocks like it."""
    if x.rank != 4:
        raise Skip
    c = x.size(1)
    mid = b.pick(4, 8, c, 2 * c)
    y = activation(b, window.pointwise(b, x, mid))
    y = window.depthwise(b, y, window.Geometry(b, y, keep=True)) if b.chance(0.5) else window.conv(b, y, window.Geometry(b, y, keep=True), mid, 1)
    y = activation(b, window.batch_norm(b, y) if b.chance(0.5) else y)
    if b.chance(0.3):
        y = window.squeeze_excite(b, y)
    y = window.pointwise(b, y, c)
    y = b.op("Add", [y, x] if b.chance(0.5) else [x, y])
    return activation(b, y) if b.chance(0.6) else y


def gate_residual(b, x):
    """The last lines of a recurrent cell over any product: z * h + (1 - z) * c."""
    if x.rank < 2:
        raise Skip
    n = x.size(-1)
    z = b.op("Sigmoid", [product.dense_bias(b, x, n)], std=0.6)
    c = b.op("Tanh", [product.dense(b, x, n)], std=0.6)
    return b.op("Add", [b.op("Mul", [z, x]), b.op("Mul", [b.op("Sub", [b.scalar(1.0), z], z.shape, "f32"), c])])


BLOCKS = [residual] * 6 + [merge, merge, gemm_varying_c, two_products, bottleneck, gate_residual, cells.gru]
