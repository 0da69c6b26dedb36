#!/usr/bin/env python3
"""A detector as exported, suppression of overlapping boxes included: its detections are those of ONNX Runtime."""
import unittest

import numpy
import onnxruntime

from typed import SOURCE, Typed, main

MODEL = SOURCE / "build" / "models" / "ssdlite320.onnx"


def overlaps(box, boxes):
    """Intersection over union of [x1, y1, x2, y2] with each of boxes [n, 4]."""
    low, high = numpy.maximum(box[:2], boxes[:, :2]), numpy.minimum(box[2:], boxes[:, 2:])
    shared = numpy.prod(numpy.clip(high - low, 0, None), axis=1)
    size = lambda b: numpy.prod(b[..., 2:] - b[..., :2], axis=-1)
    return shared / numpy.maximum(size(box) + size(boxes) - shared, 1e-12)


def matched(ours, theirs):
    """How many of their detections (boxes, scores, labels) are among ours, each of which counts once."""
    boxes, scores, labels = ours
    free = numpy.ones(len(boxes), bool)
    for box, score, label in zip(*theirs):
        fits = free & (labels == label) & (abs(scores - score) <= 1e-4) & (overlaps(box, boxes) >= 0.999)
        if fits.any():
            free[fits.argmax()] = False
    return int((~free).sum())


class Detections(Typed):
    @unittest.skipUnless(MODEL.is_file(), "build/models has no ssdlite320.onnx: ./dev setup makes it")
    def test_ssdlite_finds_what_onnxruntime_finds(self):
        self.ends(0, "build", MODEL, "-o", "ssd.engine", "--no-tune", "--quiet")
        peer = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
        port = peer.get_inputs()[0]
        for seed in (1, 2):
            # Smooth, as a photograph is: noise alone has few sure detections.
            rng = numpy.random.default_rng(seed)
            image = numpy.kron(rng.random((3, 20, 20)), numpy.ones((16, 16))) * 0.8 + rng.random((3, 320, 320)) * 0.2
            image = image.astype(numpy.float32)
            numpy.save(self.folder / "image.npy", image)
            self.ends(0, "run", "ssd.engine", "--input", f"{port.name}=image.npy", "--output-dir", "out", "--quiet")
            theirs = peer.run(None, {port.name: image})
            ours = [numpy.load(self.folder / "out" / f"{o.name}.npy") for o in peer.get_outputs()]
            self.assertGreater(len(theirs[0]), 50)
            self.assertGreaterEqual(matched(ours, theirs), 0.99 * len(theirs[0]), f"seed {seed}")
            self.assertLessEqual(len(ours[0]), 1.01 * len(theirs[0]))


if __name__ == "__main__":
    main()
