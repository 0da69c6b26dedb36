"""Samples at computed places: GridSample, AffineGrid, RoiAlign, MaxRoiPool, DeformConv, Col2Im, MaxUnpool, LpPool, crops and pads
to a size, and Upsample of opset 9."""
import math

import numpy as np
from graph import Skip, dims, elements, fixed, is_fixed, per_binding
from signal_blocks import batch_of
from window import Geometry


def image_of(b, x, channels=None):
    """x where it is an image, else an input of one."""
    if x.rank == 4 and is_fixed(x.shape[1]) and elements(x.shape) < 12000 and channels in (None, x.shape[1][0]):
        return x
    return b.input((batch_of(b, x), fixed(channels or b.pick(1, 2, 3)), fixed(b.pick(5, 7, 8)), fixed(b.pick(6, 8, 9))), stem="image")


def grid_sample(b, x):
    b.need(16)
    x = image_of(b, x)
    if b.name_of(x.shape[0]) is None:
        raise Skip
    out = dims(b.pick(1, 3, 6), b.pick(2, 5, 8))
    modes = ("linear", "nearest", "cubic") if b.opset >= 20 else ("bilinear", "nearest", "bicubic")
    words = {"mode": b.pick(*modes), "padding_mode": b.pick("zeros", "border", "reflection"), "align_corners": b.pick(0, 1)}
    shape = x.shape[:2] + out
    b.fits(flops=16 * elements(shape))
    return b.op("GridSample", [x, grid(b, x, out)], shape, **words)


def grid(b, x, out):
    """Places from -1 to 1 and a little beyond, given or made of a matrix of the batch."""
    if b.opset >= 20 and b.chance(0.4) and is_fixed(x.shape[0]):
        theta = b.op("Add", [b.input((x.shape[0],) + dims(2, 3), std=0.2, stem="theta"), b.const(np.eye(2, 3, dtype=np.float32))])
        size = b.ints(x.size(0), x.size(1), out[0][0], out[1][0])
        # With aligned corners a single place of an axis is its first for ONNX, and its last for ONNX Runtime.
        aligned = b.pick(0, 1) if min(out[0][0], out[1][0]) > 1 else 0
        return b.op("AffineGrid", [theta, size], (x.shape[0],) + out + dims(2), std=0.6, align_corners=aligned)
    return b.input((x.shape[0],) + out + dims(2), std=0.62, stem="grid")


def grid_sample_volume(b, x):
    """Of three axes, from opset 20 on."""
    b.need(20)
    volume = b.input((batch_of(b, x),) + dims(2, 4, 5, 3), stem="volume")
    out = dims(2, 3, 2)
    places = b.input((volume.shape[0],) + out + dims(3), std=0.62, stem="grid")
    return b.op("GridSample", [volume, places], volume.shape[:2] + out, mode=b.pick("linear", "nearest"), padding_mode=b.pick("zeros", "border", "reflection"),
                align_corners=b.pick(0, 1))


def affine_grid(b, x):
    b.need(20)
    n, out = b.pick(1, 2, 3), (b.pick(2, 5), b.pick(3, 4))
    deep = b.chance(0.3)
    theta = b.input(dims(n, 3, 4) if deep else dims(n, 2, 3), stem="theta")
    size = b.ints(n, 3, 2, *out) if deep else b.ints(n, 3, *out)
    return b.op("AffineGrid", [theta, size], dims(n, 2, *out, 3) if deep else dims(n, *out, 2), align_corners=b.pick(0, 1))


def boxes(b, count, high, low=0.0):
    """Corners x1, y1, x2, y2 of boxes that have an area."""
    first = b.numbers.random((count, 2)) * (0.5 * high) + low
    return np.concatenate([first, first + 0.7 + b.numbers.random((count, 2)) * (0.5 * high)], 1).astype(np.float32)


def roi_align(b, x):
    b.need(13, 21)
    x = image_of(b, x)
    n, out = b.pick(1, 3, 5), (b.pick(1, 2, 3), b.pick(2, 3))
    where = boxes(b, n, 12.0)
    rois = b.const(where) if b.chance(0.5) else b.op("Add", [b.input(dims(n, 4), std=0.1, stem="rois"), b.const(where)])
    words = {"mode": b.pick("avg", "avg", "max"), "output_height": out[0], "output_width": out[1], "sampling_ratio": b.pick(1, 2, 3), "spatial_scale": b.pick(1.0, 0.5)}
    if b.opset >= 16:
        words["coordinate_transformation_mode"] = b.pick("half_pixel", "output_half_pixel")
    batch = b.const(np.array([b.between(0, min(x.shape[0]) - 1) for _ in range(n)], np.int64))
    shape = dims(n) + x.shape[1:2] + dims(*out)
    b.fits(flops=36 * elements(shape))
    return b.op("RoiAlign", [x, rois, batch], shape, **words)


def max_roi_pool(b, x):
    b.need(13, 21)
    x = image_of(b, x)
    n, out = b.pick(1, 2, 4), (b.pick(1, 2), b.pick(1, 2, 3))
    rows = [[b.between(0, min(x.shape[0]) - 1), *(b.between(0, 2) for _ in range(2)), *(b.between(3, 7) for _ in range(2))] for _ in range(n)]
    return b.op("MaxRoiPool", [x, b.const(np.array(rows, np.float32))], dims(n) + x.shape[1:2] + dims(*out), pooled_shape=out, spatial_scale=b.pick(1.0, 0.5))


def deform_conv(b, x):
    b.need(19)
    x = image_of(b, x)
    c, group, offset_group = x.size(1), 1, 1
    if c % 2 == 0:
        group, offset_group = b.pick(1, 2), b.pick(1, 2)
    g = Geometry(b, x)
    if g.auto or b.name_of(x.shape[0]) is None or any(b.name_of(d) is None for d in g.out):
        raise Skip
    out, k = group * b.pick(1, 3, 4), math.prod(g.kernel)
    shape = (x.shape[0], fixed(out)) + g.out
    b.fits(shape, (x.shape[0], fixed(2 * offset_group * k)) + g.out, flops=8 * elements(shape) * k * c // group)
    w = b.weight((out, c // group, *g.kernel), 1 / math.sqrt(k * c // group))
    offset = b.input((x.shape[0], fixed(2 * offset_group * k)) + g.out, std=0.7, stem="offset")
    more = [b.weight((out,), 0.3) if b.chance(0.5) else None, b.input((x.shape[0], fixed(offset_group * k)) + g.out, stem="mask") if b.chance(0.4) else None]
    while more and more[-1] is None:
        more.pop()
    return b.op("DeformConv", [x, w, offset, *more], shape, kernel_shape=g.kernel, strides=g.stride, dilations=g.dilation, pads=g.pads, group=group, offset_group=offset_group)


def col2im(b, x):
    b.need(18)
    kernel, image = (b.pick(1, 2, 3), b.pick(2, 3)), (b.pick(4, 6), b.pick(5, 7))
    stride, dilation, pads = [b.pick(1, 1, 2) for _ in range(2)], [b.pick(1, 1, 2) for _ in range(2)], [b.pick(0, 0, 1) for _ in range(4)]
    steps = [(image[k] + pads[k] + pads[k + 2] - (kernel[k] - 1) * dilation[k] - 1) // stride[k] + 1 for k in range(2)]
    if min(steps) < 1:
        raise Skip
    c = b.pick(1, 2, 3)
    columns = b.input((batch_of(b, x),) + dims(c * math.prod(kernel), math.prod(steps)), stem="columns")
    return b.op("Col2Im", [columns, b.ints(*image), b.ints(*kernel)], columns.shape[:1] + dims(c, *image), strides=stride, dilations=dilation, pads=pads)


def unpool(b, x):
    """MaxPool's results at the places where they came from."""
    size = b.pick(2, 2, 3)
    x = image_of(b, x) if b.chance(0.4) else b.input((batch_of(b, x),) + dims(b.pick(1, 3), 2 * size, 3 * size), stem="image")
    if any(n % size or n < size for d in x.shape[2:] for n in d):
        raise Skip
    small = x.shape[:2] + tuple(per_binding(lambda n: n // size, d) for d in x.shape[2:])
    y, at = b.ops("MaxPool", [x], [small] * 2, ["f32", "i64"], kernel_shape=[size] * 2, strides=[size] * 2)
    if b.chance(0.3):
        b.marked.append(at)
    if all(is_fixed(d) for d in x.shape) and b.chance(0.3):
        return b.op("MaxUnpool", [y, at, b.ints(*(d[0] for d in x.shape))], x.shape, kernel_shape=[size] * 2, strides=[size] * 2)
    return b.op("MaxUnpool", [b.op("Mul", [y, b.scalar(0.5)]), at], x.shape, kernel_shape=[size] * 2, strides=[size] * 2)


def lp_pool(b, x):
    if not 3 <= x.rank <= 5:
        raise Skip
    p = b.pick(1, 2, 2, 3)
    if b.chance(0.4) and b.opset < 22:
        return b.op("GlobalLpPool", [x], x.shape[:2] + (fixed(1),) * (x.rank - 2), std=2 * x.std, p=p)
    g = Geometry(b, x, pool=True)
    shape = x.shape[:2] + g.out
    b.fits(shape, flops=elements(shape) * math.prod(g.kernel))
    words = g.attributes(b) | {"kernel_shape": g.kernel, "p": p}
    if b.opset < 18:
        del words["dilations"]
    return b.op("LpPool", [x], shape, std=2 * x.std, **words)


def crop_pad(b, x):
    b.need(18)
    if not x.rank:
        raise Skip
    axes = sorted(b.random.sample(range(x.rank), b.between(1, min(2, x.rank))))
    sizes = [b.pick(1, 3, 6, 9) for _ in axes]
    shape = tuple(fixed(sizes[axes.index(k)]) if k in axes else d for k, d in enumerate(x.shape))
    b.fits(shape)
    return b.op("CenterCropPad", [x, b.ints(*sizes)], shape, axes=axes)


def upsample(b, x):
    if x.rank != 4:
        raise Skip
    b.alone(9)
    scales = [b.pick(1.0, 2.0, 3.0) for _ in range(2)]
    shape = x.shape[:2] + tuple(per_binding(lambda n: int(n * s), d) for d, s in zip(x.shape[2:], scales))
    return b.op("Upsample", [x, b.const(np.array([1, 1, *scales], np.float32))], shape, mode=b.pick("nearest", "linear"))


BLOCKS = [grid_sample, grid_sample, grid_sample_volume, affine_grid, roi_align, roi_align, max_roi_pool, deform_conv, deform_conv, col2im, unpool, lp_pool, lp_pool, crop_pad, upsample]
