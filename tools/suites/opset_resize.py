"""Samples of Resize and Upsample: every mode, coordinate transformation and rounding a version knows."""
import numpy as np
from opset_cases import Sample, f32, i64, values

TRANSFORMS = {"half_pixel": 11, "pytorch_half_pixel": 11, "align_corners": 11, "asymmetric": 11, "tf_half_pixel_for_nn": 11, "tf_crop_and_resize": 11, "half_pixel_symmetric": 19}
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
SCALES = {"up": (1, 1, 2, 3), "down": (1, 1, 0.6, 0.5), "mixed": (1, 1, 1.5, 0.8)}
NO_ROI = np.zeros((0,), np.float32)


def upsample(v):
    x = values(v.rng(), (1, 2, 3, 4))
    for mode in ("nearest", "linear"):
        for name, scales in {"double": (1, 1, 2, 2), "uneven": (1, 1, 2, 3), "fraction": (1, 1, 1.5, 2.5)}.items():
            if v.version < 9:
                yield Sample(f"{mode}_{name}", [x], {"mode": mode, "scales": [float(s) for s in scales]})
            else:
                yield Sample(f"{mode}_{name}", [x, f32(*scales)], {"mode": mode}, const=(1,))
    for t in v.sweep("T"):
        a = values(v.rng(t.name), (1, 1, 2, 2), t)
        yield Sample(t.name, [a], {"scales": (1.0, 1.0, 2.0, 2.0)}) if v.version < 9 else Sample(t.name, [a, f32(1, 1, 2, 2)], const=(1,))


def resize10(v):
    x = values(v.rng(), (1, 2, 4, 5))
    for mode in ("nearest", "linear"):
        for name, scales in SCALES.items():
            yield Sample(f"{mode}_{name}", [x, f32(*scales)], {"mode": mode}, const=(1,))
    for t in v.sweep("T"):
        yield Sample(t.name, [values(v.rng(t.name), (1, 1, 2, 3), t), f32(1, 1, 2, 2)], const=(1,))


def resize(v):
    if v.version == 10:
        yield from resize10(v)
        return
    x = values(v.rng(), (1, 2, 4, 5))
    nothing = NO_ROI if v.version < 13 else None

    def by_scales(name, data, scales, attrs, **more):
        return Sample(name, [data, nothing, f32(*scales)], attrs, const=(1, 2) if nothing is not None else (2,), **more)

    def by_sizes(name, data, sizes, attrs, **more):
        empty = np.zeros((0,), np.float32) if v.version < 13 else None
        return Sample(name, [data, nothing, empty, i64(*sizes)], attrs, const=(1, 2, 3) if empty is not None else (3,), **more)

    for transform, since in TRANSFORMS.items():
        if v.version < since or transform == "tf_crop_and_resize" or (transform == "tf_half_pixel_for_nn" and v.version >= 13):
            continue
        for mode in ("nearest", "linear", "cubic"):
            for name, scales in SCALES.items():
                yield by_scales(f"{mode}_{transform}_{name}", x, scales, {"mode": mode, "coordinate_transformation_mode": transform}, both=True)
            yield by_sizes(f"{mode}_{transform}_sizes", x, (1, 2, 7, 3), {"mode": mode, "coordinate_transformation_mode": transform}, both=True)
    for rounding in ROUNDINGS:
        for transform in ("half_pixel", "asymmetric", "align_corners"):
            yield by_scales(f"nearest_{transform}_{rounding}", x, (1, 1, 2, 0.6), {"mode": "nearest", "nearest_mode": rounding, "coordinate_transformation_mode": transform}, both=True)
    for i, attrs in enumerate(({"cubic_coeff_a": -0.5}, {"exclude_outside": 1}, {"cubic_coeff_a": -0.5, "exclude_outside": 1})):
        yield by_scales(f"cubic_{i}", x, (1, 1, 2, 2), {"mode": "cubic"} | attrs, both=True)
    for mode in ("nearest", "linear", "cubic"):
        roi = f32(0, 0, 0.4, 0.6, 1, 1, 0.6, 0.8)
        attrs = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize"}
        empty = np.zeros((0,), np.float32) if v.version < 13 else None
        yield Sample(f"{mode}_crop", [x, roi, empty, i64(1, 2, 3, 3)], attrs, const=(1, 2, 3) if empty is not None else (1, 3), both=True)
        outside = f32(0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7)
        yield Sample(f"{mode}_crop_outside", [x, outside, empty, i64(1, 2, 3, 3)], attrs | {"extrapolation_value": 10.0}, const=(1, 2, 3) if empty is not None else (1, 3), both=True)
    yield by_sizes("line", values(v.rng("l"), (1, 2, 6)), (1, 2, 9), {"mode": "linear"}, both=True)
    yield by_sizes("volume", values(v.rng("v"), (1, 1, 2, 3, 4)), (1, 1, 4, 6, 6), {"mode": "linear"}, both=True)
    if v.version >= 13:
        yield Sample("sizes_input", [x, None, None, i64(1, 2, 8, 10)], {"mode": "linear"})
    if v.version >= 18:
        for mode in ("linear", "cubic"):
            yield by_scales(f"{mode}_antialias", x, (1, 1, 0.6, 0.6), {"mode": mode, "antialias": 1}, both=True)
        yield Sample("axes", [x, None, f32(2, 0.8)], {"axes": [2, 3], "mode": "nearest"}, const=(2,), both=True)
        yield Sample("axes_swapped", [x, None, None, i64(3, 8)], {"axes": [3, 2], "mode": "linear"}, const=(3,), both=True)
        for policy in ("not_larger", "not_smaller"):
            yield Sample(policy, [x, None, None, i64(7, 8)], {"axes": [2, 3], "mode": "nearest", "keep_aspect_ratio_policy": policy}, const=(3,), both=True)
    for t in v.sweep("T1"):
        yield by_scales(t.name, values(v.rng(t.name), (1, 1, 3, 4), t), (1, 1, 2, 2), {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"})


SAMPLES = {"Resize": resize, "Upsample": upsample}
