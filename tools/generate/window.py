"""Windows over images and series: convolutions of every kind, pooling, resizing, pixel shuffles, padding. A geometry is
drawn first, so that two branches over one value can have equal shapes."""
import math

import numpy as np
from graph import Skip, elements, fixed, is_fixed, per_binding


class Geometry:
    """Kernel, stride, dilation and padding of the spatial axes of x, and the sizes that come out."""

    def __init__(self, b, x, keep=False, pool=False):
        n = x.rank - 2
        if not 1 <= n <= 3:
            raise Skip
        self.kernel = [b.pick(1, 1, 2, 3, 3, 3, 4, 5, 7) for _ in range(n)] if b.chance(0.35) else [b.pick(1, 1, 2, 3, 3, 3, 3, 5, 7)] * n
        self.dilation = [1] * n if pool or b.chance(0.75) else [b.pick(1, 2, 3) for _ in range(n)]
        self.stride = [1] * n if keep or b.chance(0.5) else [b.pick(1, 2, 2, 3) for _ in range(n)] if b.chance(0.4) else [2] * n
        self.auto = b.pick("SAME_UPPER", "SAME_LOWER") if b.chance(0.12) and all(s <= k for s, k in zip(self.stride, self.kernel)) else None
        reach = [(k - 1) * d for k, d in zip(self.kernel, self.dilation)]
        if keep:
            low = [r // 2 if b.chance(0.8) else b.between(0, r) for r in reach]
            self.pads = low + [r - a for r, a in zip(reach, low)]
        elif b.chance(0.6):
            self.pads = [r // 2 for r in reach] * 2
        else:
            self.pads = [b.between(0, r + (1 if b.chance(0.2) else 0)) for r in reach * 2]
        if pool:
            self.pads = [min(p, k - 1) for p, k in zip(self.pads, self.kernel * 2)]
        if self.auto:
            self.pads, self.dilation = [0] * (2 * n), [1] * n
        self.out = tuple(self.size(b, x.shape[2 + k], k) for k in range(n))

    def size(self, b, dim, k):
        reach, n = (self.kernel[k] - 1) * self.dilation[k] + 1, len(self.kernel)
        if self.auto:
            return per_binding(lambda d: -(-d // self.stride[k]), dim)
        out = per_binding(lambda d: (d + self.pads[k] + self.pads[n + k] - reach) // self.stride[k] + 1 if d + self.pads[k] + self.pads[n + k] >= reach else 0, dim)
        if min(out) < 1:
            raise Skip
        return out

    def attributes(self, b):
        words = {"kernel_shape": self.kernel if b.chance(0.8) else None, "strides": self.stride, "dilations": self.dilation}
        return words | ({"auto_pad": self.auto} if self.auto else {"pads": self.pads})


def conv(b, x, geometry=None, out=None, group=None):
    """groups: 1, c (depthwise, with multiplier), or between."""
    g = geometry or Geometry(b, x)
    c = x.size(1)
    group = group or b.pick(1, 1, 1, 1, c, c, next((q for q in (2, 3, 4) if c % q == 0), 1))
    if out is None:
        out = c * b.pick(1, 1, 1, 2) if group == c else group * b.pick(1, 2, 3, 4, 5, 8) if group > 1 else b.pick(1, 2, 3, 4, 5, 8, 8, 12, 16, 17, 24, 32)
    if out % group:
        raise Skip
    shape = (x.shape[0], fixed(out)) + g.out
    k = c // group * math.prod(g.kernel)
    b.fits(shape, flops=2 * elements(shape) * k)
    more = [b.weight((out,), 0.3)] if b.chance(0.6) else []
    w = b.weight((out, c // group, *g.kernel), 1 / math.sqrt(k))
    return b.op("Conv", [x, w, *more], shape, group=group if group > 1 or b.chance(0.5) else None, **g.attributes(b))


def depthwise(b, x, geometry=None, out=None):
    c = x.size(1)
    if out is not None and out % c:
        raise Skip
    return conv(b, x, geometry, out or c, c)


def pointwise(b, x, out=None):
    g = Geometry.__new__(Geometry)
    n = x.rank - 2
    if n < 1:
        raise Skip
    g.kernel, g.dilation, g.stride, g.pads, g.auto, g.out = [1] * n, [1] * n, [1] * n, [0] * (2 * n), None, x.shape[2:]
    return conv(b, x, g, out, 1)


def long_conv(b, x):
    """Many channels, few places: reductions beyond 1,536 and 3,072."""
    if x.rank != 4:
        raise Skip
    c = b.pick(96, 176, 200, 352, 512)
    wide = conv(b, x, Geometry(b, x), out=c, group=1) if b.chance(0.5) else pointwise(b, x, c)
    g = Geometry(b, wide)
    return conv(b, wide, g, out=b.pick(1, 4, 8, 17), group=1)


def conv_transpose(b, x):
    n, c = x.rank - 2, x.size(1)
    if not 1 <= n <= 3:
        raise Skip
    kernel, stride = [b.pick(1, 2, 3, 4) for _ in range(n)], [b.pick(1, 2, 2, 3) for _ in range(n)]
    dilation = [1] * n if b.chance(0.8) else [2] * n
    extra = [b.between(0, s - 1) for s in stride] if b.chance(0.4) else [0] * n
    pads = [0] * (2 * n) if b.chance(0.4) else [b.between(0, k - 1) for k in kernel * 2]
    out = tuple(per_binding(lambda d: (d - 1) * stride[k] + extra[k] + (kernel[k] - 1) * dilation[k] + 1 - pads[k] - pads[n + k], x.shape[2 + k]) for k in range(n))
    if any(min(d) < 1 for d in out):
        raise Skip
    group = b.pick(1, 1, c, next((q for q in (2, 4) if c % q == 0), 1))
    per = b.pick(1, 2, 4, 5) if group > 1 else b.pick(1, 3, 8, 9)
    shape = (x.shape[0], fixed(per * group)) + out
    terms = c // group * math.prod(kernel)
    b.fits(shape, flops=2 * elements(shape) * terms)
    w = b.weight((c, per, *kernel), math.sqrt(math.prod(stride) / terms))
    more = [b.weight((per * group,), 0.3)] if b.chance(0.5) else []
    return b.op("ConvTranspose", [x, w, *more], shape, strides=stride, dilations=dilation, group=group, pads=pads, output_padding=extra if any(extra) else None)


def conv_transpose_same(b, x, out=None):
    """A transposed convolution that keeps the spatial sizes."""
    n, c = x.rank - 2, x.size(1)
    if not 1 <= n <= 3:
        raise Skip
    k, out = b.pick(1, 3), out or c
    shape = (x.shape[0], fixed(out)) + x.shape[2:]
    b.fits(shape, flops=2 * elements(shape) * c * k**n)
    return b.op("ConvTranspose", [x, b.weight((c, out, *[k] * n), 1 / math.sqrt(c * k**n))], shape, pads=[k // 2] * (2 * n))


def of_padding_alone(g, axis, size, out):
    """Whether a window along this axis, of `size` elements, holds none of them."""
    at = lambda place, tap: place * g.stride[axis] - g.pads[axis] + tap * g.dilation[axis]
    return any(all(not 0 <= at(place, tap) < size for tap in range(g.kernel[axis])) for place in range(out))


def pool(b, x, geometry=None):
    g = geometry or Geometry(b, x, pool=True)
    kind = b.pick("MaxPool", "AveragePool")
    if any(p >= k for p, k in zip(g.pads, g.kernel * 2)) or (kind == "AveragePool" and any(d != 1 for d in g.dilation) and b.opset < 19):
        raise Skip
    if kind == "MaxPool" and any(of_padding_alone(g, k, n, out) for k in range(x.rank - 2) for n, out in zip(x.shape[2 + k], g.out[k])):
        raise Skip  # the largest of nothing, whose products pass float32
    shape = x.shape[:2] + g.out
    b.fits(shape, flops=elements(shape) * math.prod(g.kernel))
    words = g.attributes(b) | {"kernel_shape": g.kernel}
    if kind == "AveragePool":
        words["count_include_pad"] = b.pick(0, 1)
        if b.opset < 19:
            del words["dilations"]
    return b.op(kind, [x], shape, **words)


def global_pool(b, x):
    if x.rank < 3:
        raise Skip
    return b.op(b.pick("GlobalAveragePool", "GlobalMaxPool"), [x], x.shape[:2] + (fixed(1),) * (x.rank - 2))


def squeeze_excite(b, x):
    """x times a gate made of its own mean."""
    if x.rank != 4:
        raise Skip
    c = x.size(1)
    gate = b.op("Relu", [pointwise(b, global_pool(b, x), max(1, c // 2))])
    gate = b.op(b.pick("Sigmoid", "HardSigmoid"), [pointwise(b, gate, c)], std=0.6)
    return b.op("Mul", [x, gate] if b.chance(0.7) else [gate, x], x.shape)


def resize(b, x):
    if x.rank not in (3, 4):
        raise Skip
    n = x.rank - 2
    mode = b.pick("nearest", "nearest", "linear", "linear", "cubic") if n == 2 else b.pick("nearest", "linear")
    coordinates = b.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    words = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        words["nearest_mode"] = b.pick("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")
    if b.chance(0.5) or not all(is_fixed(d) for d in x.shape):
        scales = [b.pick(1.0, 2.0, 2.0, 3.0, 1.5, 0.5) for _ in range(n)]
        out = tuple(per_binding(lambda d: math.floor(d * s), x.shape[2 + k]) for k, s in enumerate(scales))
        more = [None, b.const(np.array([1.0, 1.0, *scales], np.float32))]
    else:
        out = tuple(fixed(max(1, x.size(2 + k) * b.pick(1, 2, 3) + b.pick(0, 0, 1, -1))) for k in range(n))
        more = [None, None, b.ints(x.size(0), x.size(1), *(d[0] for d in out))]
    shape = x.shape[:2] + out
    b.fits(shape, flops=8 * elements(shape))
    return b.op("Resize", [x, *more], shape, **words)


def shuffle(b, x):
    if x.rank != 4:
        raise Skip
    block = b.pick(2, 2, 3)
    c = x.size(1)
    if b.chance(0.6):
        x = x if c % block**2 == 0 else conv(b, x, Geometry(b, x, keep=True), out=block**2 * b.pick(1, 2, 3), group=1)
        shape = (x.shape[0], fixed(x.size(1) // block**2)) + tuple(per_binding(lambda d: d * block, d) for d in x.shape[2:])
        return b.op("DepthToSpace", [x], shape, blocksize=block, mode=b.pick("DCR", "CRD"))
    if any(n % block for d in x.shape[2:] for n in d):
        raise Skip
    shape = (x.shape[0], fixed(c * block**2)) + tuple(per_binding(lambda d: d // block, d) for d in x.shape[2:])
    return b.op("SpaceToDepth", [x], shape, blocksize=block)


def pad(b, x):
    if not x.rank:
        raise Skip
    mode = b.pick("constant", "constant", "reflect", "edge")
    lows, highs = ([b.pick(0, 1, 2) if k >= x.rank - 2 or b.chance(0.1) else 0 for k in range(x.rank)] for _ in range(2))
    if mode == "reflect" and any(max(a, c) >= min(d) for a, c, d in zip(lows, highs, x.shape)):
        raise Skip
    shape = tuple(per_binding(lambda d: d + a + c, d) for d, a, c in zip(x.shape, lows, highs))
    more = [b.scalar(b.pick(0.0, 1.0))] if mode == "constant" and b.chance(0.6) else []
    return b.op("Pad", [x, b.ints(*lows, *highs), *more], shape, mode=mode)


def padded_conv(b, x):
    return conv(b, pad(b, x))


def batch_norm(b, x):
    if x.rank < 2:
        raise Skip
    c = x.size(1)
    more = [b.weight((c,), 0.2, 1.0), b.weight((c,), 0.3), b.weight((c,), 0.3), b.const((b.numbers.random(c) + 0.5).astype(np.float32))]
    return b.op("BatchNormalization", [x, *more], epsilon=1e-5)


def conv_norm(b, x):
    return batch_norm(b, conv(b, x))


BLOCKS = [conv, conv, conv, conv_norm, depthwise, pointwise, long_conv, conv_transpose, pool, global_pool, squeeze_excite, resize, shuffle, pad, padded_conv, batch_norm]
