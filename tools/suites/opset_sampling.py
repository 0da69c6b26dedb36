"""Samples of reading at computed places: grid_sample, regions of interest, unpooling, columns, unique elements."""
import numpy as np
from opset_cases import Sample, f32, i64, values


def places(rng, shape):
    """Grid places in and around [-1, 1], away from where nearest changes its mind."""
    return rng.uniform(-1.3, 1.3, shape).astype(np.float32)


def grid_sample(v):
    old = v.version < 20
    modes = {"linear": "bilinear" if old else "linear", "nearest": "nearest", "cubic": "bicubic" if old else "cubic"}
    for name, mode in modes.items():
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                rng = v.rng(f"{name}{padding}{align}")
                yield Sample(f"{name}_{padding}_{align}", [values(rng, (2, 3, 5, 4)), places(rng, (2, 3, 2, 2))], {"mode": mode, "padding_mode": padding, "align_corners": align})
    if not old:
        for name in ("linear", "nearest"):
            rng = v.rng(f"volume{name}")
            yield Sample(f"volume_{name}", [values(rng, (1, 2, 3, 4, 5)), places(rng, (1, 2, 2, 2, 3))], {"mode": name})


def rois(rng, count, dtype=np.float32):
    low = rng.uniform(0, 5, (count, 2))
    return np.concatenate([low, low + rng.uniform(0.5, 6, (count, 2))], 1).astype(dtype)


def roi_align(v):
    forms = {"default": {}, "bins": {"output_height": 3, "output_width": 2}, "ratio": {"output_height": 2, "output_width": 2, "sampling_ratio": 3}, "scale": {"output_height": 2, "output_width": 3, "spatial_scale": 0.5}, "max": {"mode": "max", "output_height": 2, "output_width": 2, "sampling_ratio": 2}}
    if v.version >= 16:
        forms["old_pixels"] = {"output_height": 2, "output_width": 2, "coordinate_transformation_mode": "output_half_pixel"}
    for name, attrs in forms.items():
        rng = v.rng(name)
        yield Sample(name, [values(rng, (2, 3, 8, 9)), rois(rng, 4), i64(0, 1, 1, 0)], attrs)
    rng = v.rng("float64")
    if np.dtype(np.float64) in v.sweep("T1"):
        yield Sample("float64", [values(rng, (2, 3, 8, 9), np.float64), rois(rng, 2, np.float64), i64(1, 0)], {"output_height": 2, "output_width": 2})


def max_roi_pool(v):
    for name, attrs in {"one": {"pooled_shape": [1, 1]}, "bins": {"pooled_shape": [2, 3]}, "scale": {"pooled_shape": [2, 2], "spatial_scale": 0.5}}.items():
        rng = v.rng(name)
        boxes = np.round(rois(rng, 3)) + np.float32(0.25)  # away from where rounding changes its mind
        yield Sample(name, [values(rng, (2, 3, 8, 9)), np.concatenate([np.array([[0], [1], [1]], np.float32), boxes], 1)], attrs)


def max_unpool(v):
    at = i64(0, 3, 9, 15).reshape(1, 1, 2, 2)
    yield Sample("plain", [values(v.rng(), (1, 1, 2, 2)), at], {"kernel_shape": [2, 2], "strides": [2, 2]})
    yield Sample("line", [values(v.rng("line"), (1, 2, 3)), i64(0, 2, 4, 6, 9, 11).reshape(1, 2, 3)], {"kernel_shape": [2], "strides": [2]})
    for t in v.sweep("T1"):
        yield Sample(t.name, [values(v.rng(t.name), (1, 1, 2, 2), t), at], {"kernel_shape": [2, 2], "strides": [2, 2]})


def col2im(v):
    forms = {"plain": ((2, 12, 9), (4, 4), (2, 2), {}), "pads": ((1, 9, 12), (3, 4), (3, 3), {"pads": [1, 1, 1, 1]}), "strides": ((1, 8, 4), (4, 4), (2, 2), {"strides": [2, 2]}), "dilated": ((1, 4, 9), (5, 5), (2, 2), {"dilations": [2, 2]}), "volume": ((1, 8, 8), (3, 3, 3), (2, 2, 2), {})}
    for name, (x, image, block, attrs) in forms.items():
        yield Sample(name, [values(v.rng(name), x), i64(*image), i64(*block)], attrs, const=(1, 2))


def affine_grid(v):
    for align in (0, 1):
        yield Sample(f"image_{align}", [values(v.rng("i"), (2, 2, 3)), i64(2, 3, 4, 5)], {"align_corners": align}, fixed=(0,))
        yield Sample(f"volume_{align}", [values(v.rng("v"), (1, 3, 4)), i64(1, 1, 2, 3, 4)], {"align_corners": align}, const=(1,), fixed=(0,))


def det(v):
    for name, shape in {"two": (2, 2), "three": (4, 3, 3), "five": (2, 2, 5, 5)}.items():
        yield Sample(name, [values(v.rng(name), shape)], fixed=(0,))


def unique(v):
    x = f32(2, 1, 1, 3, 4, 3)
    for kept in (0, 1):
        yield Sample(f"flat_{kept}", [x], {"sorted": kept}, outputs=4)
        yield Sample(f"slices_{kept}", [f32(1, 0, 0, 1, 0, 0, 0, 3, 4).reshape(3, 3)], {"sorted": kept, "axis": 0}, outputs=4)
    yield Sample("values", [values(v.rng("v"), (3, 4), np.int64)])
    yield Sample("columns", [v.rng("c").integers(0, 2, (2, 5)).astype(np.float32)], {"axis": -1}, outputs=4)


def center_crop_pad(v):
    for name, shape in {"crop": (3, 4), "pad": (8, 9), "both": (8, 3), "odd": (2, 10)}.items():
        yield Sample(name, [values(v.rng(name), (5, 7)), i64(*shape)], const=(1,))
    yield Sample("axes", [values(v.rng("axes"), (5, 7, 3)), i64(9, 2)], {"axes": [0, -2]}, const=(1,))
    yield Sample("input", [values(v.rng("input"), (5, 7)), i64(4, 8)])


def tensor_scatter(v):
    yield Sample("linear", [values(v.rng("l"), (2, 3, 5, 4)), values(v.rng("lu"), (2, 3, 2, 4)), i64(1, 3)])
    yield Sample("circular", [values(v.rng("c"), (2, 5, 4)), values(v.rng("cu"), (2, 3, 4)), i64(4, 2)], {"mode": "circular"})
    yield Sample("axis", [values(v.rng("a"), (2, 5, 4)), values(v.rng("au"), (2, 5, 1))], {"axis": 2})


def deform_conv(v):
    # name → (x, w, offset channels, output size, attributes)
    forms = {"plain": ((1, 2, 5, 6), (3, 2, 3, 3), 18, (3, 4), {}), "pads": ((2, 3, 5, 5), (2, 3, 3, 3), 18, (3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}), "groups": ((1, 4, 5, 5), (4, 2, 2, 2), 16, (4, 4), {"group": 2, "offset_group": 2}), "dilated": ((1, 1, 7, 6), (1, 1, 2, 2), 8, (5, 4), {"dilations": [2, 2]})}
    for name, (x, w, channels, size, attrs) in forms.items():
        for full in (False, True):
            rng = v.rng(name)
            inputs = [values(rng, x), values(rng, w), rng.uniform(-2, 2, (x[0], channels, *size)).astype(np.float32)]
            if full:
                inputs += [values(rng, w[:1]), rng.uniform(0, 1, (x[0], channels // 2, *size)).astype(np.float32)]
            yield Sample(f"{name}_mask" if full else name, inputs, attrs, const=(1,), fixed=(0,))


SAMPLES = {
    "GridSample": grid_sample, "RoiAlign": roi_align, "MaxRoiPool": max_roi_pool, "MaxUnpool": max_unpool, "Col2Im": col2im, "AffineGrid": affine_grid,
    "DeformConv": deform_conv, "Det": det, "Unique": unique, "CenterCropPad": center_crop_pad, "TensorScatter": tensor_scatter,
}  # fmt: skip
