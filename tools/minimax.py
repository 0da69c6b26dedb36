"""Computes the polynomial and rational coefficients of src/kernels/cpu/simd/coefficients.hpp and writes the file.

Method: the weighted minimax problem is solved by Lawson's iteratively reweighted least squares on Chebyshev nodes
(rationals: linearised by Sanathanan and Koerner). Coefficients are then rounded to the target precision one by one,
from the one that matters most, and the rest is fitted again, so that rounding costs nearly nothing.
Usage: tools/minimax.py [OUTPUT]; needs numpy and mpmath.
"""
import sys

import mpmath as mp
import numpy as np

mp.mp.prec = 400


def nodes(lo, hi, count):
    return (lo + hi) / 2 + (hi - lo) / 2 * np.cos(np.pi * (np.arange(count) + 0.5) / count)[::-1]


def table(function, xs):
    return np.array([mp.mpf(function(mp.mpf(float(x)))) for x in xs])


def lawson(matrix, target, rounds=60):
    """Coefficients c that minimise max |matrix c - target|."""
    matrix = matrix.astype(np.longdouble)
    target = target.astype(np.longdouble)
    scale = np.abs(matrix).max(axis=0)
    scaled = (matrix / scale).astype(np.float64)
    weights = np.full(len(target), 1.0 / len(target))
    best, best_error = None, np.inf
    for _ in range(rounds):
        root = np.sqrt(weights)[:, None]
        solution = np.zeros(matrix.shape[1], dtype=np.longdouble)
        residual = target.copy()
        for _ in range(3):  # iterative refinement: residuals in long double
            step = np.linalg.lstsq(scaled * root, (residual * root[:, 0]).astype(np.float64), rcond=None)[0]
            solution += step
            residual = target - (matrix / scale) @ solution
        error = np.abs(residual).max()
        if error < best_error:
            best, best_error = solution / scale, error
        weights = weights * np.abs(residual).astype(np.float64)
        weights /= weights.sum()
    return best, float(best_error)


def polynomial(function, lo, hi, degree, weight, dtype, count=600):
    """c[0..degree] with function(x) ~ sum c[k] x^k, minimising max |weight(x) * error(x)|."""
    xs = nodes(lo, hi, count)
    values = table(function, xs)
    w = np.array([float(weight(float(x))) for x in xs])
    target = np.array([np.longdouble(mp.nstr(v, 30)) for v in values]) * w
    columns = np.stack([xs.astype(np.longdouble)**k * w for k in range(degree + 1)], axis=1)
    fixed = {}
    error = 0
    for k in range(degree + 1):
        free = [j for j in range(degree + 1) if j not in fixed]
        rest = target - sum((columns[:, j] * np.longdouble(v) for j, v in fixed.items()), np.zeros(count, np.longdouble))
        solution, error = lawson(columns[:, free], rest)
        fixed[free[0]] = dtype(solution[0])
    return [fixed[k] for k in range(degree + 1)], error


def rational(function, lo, hi, p_degree, q_degree, weight, dtype, count=1200):
    """p, q (q[0] = 1) with function(x) ~ P(x)/Q(x), minimising max |weight(x) * error(x)|."""
    xs = nodes(lo, hi, count)
    f = np.array([np.longdouble(mp.nstr(v, 30)) for v in table(function, xs)])
    w = np.array([float(weight(float(x))) for x in xs])
    q_values = np.ones(count, np.longdouble)
    for _ in range(12):
        ww = w / np.abs(q_values)
        columns = [xs.astype(np.longdouble)**k * ww for k in range(p_degree + 1)]
        columns += [-f * xs.astype(np.longdouble)**k * ww for k in range(1, q_degree + 1)]
        solution, _ = lawson(np.stack(columns, axis=1), f * ww, rounds=25)
        q = np.concatenate([[np.longdouble(1)], solution[p_degree + 1:]])
        q_values = sum(c * xs.astype(np.longdouble)**k for k, c in enumerate(q))
    best = None
    for k in range(128):  # P and Q may be multiplied by any number: take the one whose rounding hurts least
        candidate = round_rational(xs, f, w, p_degree, q * (1 + k / 128), dtype)
        if best is None or candidate[2] < best[2]:
            best = candidate
    return best


def evaluate(c, x):
    """Horner's rule in float32 with fused steps."""
    y = np.full_like(x, c[-1])
    for value in c[-2::-1]:
        y = (y.astype(np.float64) * x + np.float64(value)).astype(np.float32)
    return y


def round_rational(xs, f, w, p_degree, q, dtype):
    q = [dtype(v) for v in q]
    q_values = sum(np.longdouble(c) * xs.astype(np.longdouble)**k for k, c in enumerate(q))
    fixed = {}
    columns = np.stack([xs.astype(np.longdouble)**k * w / q_values for k in range(p_degree + 1)], axis=1)
    for k in range(p_degree + 1):
        free = [j for j in range(p_degree + 1) if j not in fixed]
        rest = f * w - sum((columns[:, j] * np.longdouble(v) for j, v in fixed.items()), np.zeros(len(xs), np.longdouble))
        solution, _ = lawson(columns[:, free], rest, rounds=10)
        fixed[free[0]] = dtype(solution[0])
    p = [fixed[k] for k in range(p_degree + 1)]
    x = xs.astype(dtype)
    error = np.abs((evaluate(p, x) / evaluate(q, x)).astype(np.float64) / f - 1).max()
    return p, q, float(error)


def pieces(function, borders, degree, centred):
    """Rows k of c[k][piece]: function(x) ~ sum c[k] (x - base)^k on each piece, base its centre or its left border, minimising
    the relative error of a function that ends constant. The first piece begins (or is centred) at 0, where the function is 0: it keeps its relative accuracy."""
    columns, worst = [], 0
    for number, (left, right) in enumerate(borders):
        base = (left + right) / 2 if centred else left
        if number == 0:
            quotient = lambda x: function(x) / x if x > 1e-9 else function(mp.mpf("1e-9")) / mp.mpf("1e-9")
            c, error = polynomial(quotient, 0, right, degree - 1, lambda x: float(1 / quotient(x)), np.float32, 200)
            c = [np.float32(0)] + c
        else:
            c, error = polynomial(lambda t, b=base: function(b + t), left - base, right - base, degree,
                                  lambda t, b=base: float(1 / function(mp.mpf(b + t))), np.float32, 200)
        if number == len(borders) - 1:  # the end is at least that constant, and is cut there by who evaluates
            c[0] = np.nextafter(c[0], np.float32(2))
        columns.append(c)
        worst = max(worst, error)
    return [[c[k] for c in columns] for k in range(degree + 1)], worst


def split(value, count):
    """`value` as a sum of `count` float32 numbers, each the rest rounded."""
    parts = []
    for _ in range(count):
        parts.append(np.float32(float(value)))
        value = value - mp.mpf(float(parts[-1]))
    return parts


def text(values, single):
    return ", ".join((float(v).hex() + "f") if single else float(v).hex() for v in values)


def main():
    f32, f64 = np.float32, np.float64
    lines = []

    def emit(name, values, single, note):
        kind = "float" if single else "double"
        lines.append(f"// {note}")
        lines.append(f"inline constexpr {kind} {name}[] = {{{text(values, single)}}};")

    def emit_table(name, rows, note):
        lines.append(f"// {note}")
        lines.append(f"alignas(64) inline constexpr float {name}[{len(rows)}][{len(rows[0])}] = {{")
        lines.extend("    {" + text(row, True) + "}," for row in rows)
        lines.append("};")

    half = float(mp.log(2) / 2) * 1.002
    small = lambda x: x if abs(x) > 1e-12 else mp.mpf("1e-12")
    c, e = polynomial(lambda x: (mp.expm1(small(x)) - small(x)) / small(x)**2, -half, half, 4, lambda x: abs(x) + 1e-3, f32)
    emit("kExpm1", c, True, f"e^r = 1 + r + r^2 * P(r), |r| <= ln(2)/2; error of expm1(r), relative: {e:.1e}")
    lo, hi = float(mp.sqrt(0.5) - 1), float(mp.sqrt(2) - 1)
    c, e = polynomial(lambda x: (mp.log1p(small(x)) - small(x) + small(x)**2 / 2) / small(x)**3, lo, hi, 7,
                      lambda x: x * x + 1e-4, f32)
    emit("kLog1p", c, True, f"log(1+f) = f - f^2/2 + f^3 * P(f), sqrt(1/2) <= 1+f <= sqrt(2); relative: {e:.1e}")
    for count, step, degree in ((16, 0.25, 5), (8, 33 / 64, 7)):
        borders = [((k - 0.5) * step, (k + 0.5) * step) for k in range(count)]
        rows, e = pieces(mp.erf, borders, degree, True)
        emit_table(f"kErf{count}", rows, f"erf by {count} pieces of {step} centred at multiples of it; relative: {e:.1e}")
    for count, step, degree in ((16, 181 / 512, 5), (8, 187 / 256, 7)):
        borders = [((k - 0.5) * step, (k + 0.5) * step) for k in range(count)]
        rows, e = pieces(lambda x: mp.erf(x / mp.sqrt(2)) / 2, borders, degree, True)
        emit_table(f"kHalfErf{count}", rows, f"erf(x / sqrt(2)) / 2 likewise, by {step}; relative: {e:.1e}")
    for bits, degree in ((2, 6), (1, 7)):
        starts = [2.0**e * (1 + k / 2**bits) - 1 for e in range(4) for k in range(2**bits)]
        borders = [(a, min(b, 9.25)) for a, b in zip(starts, starts[1:] + [15.0]) if a < 9.25]
        rows, e = pieces(mp.tanh, borders, degree, False)
        count = 4 * 2**bits
        for row in rows:  # beyond the last piece nothing is looked up; a number's last bits begin at 3 * 2^bits
            row += [f32(0)] * (count - len(row))
            row[:] = row[2**bits:] + row[:2**bits]
        emit_table(f"kTanh{count}", rows, f"tanh by pieces that begin at the floats of {bits} fraction bits less 1; relative: {e:.1e}")
    quarter = float(mp.pi / 4) * 1.002
    c, e = polynomial(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 1e-6, quarter**2, 3, lambda z: z, f32)
    emit("kSin", c, True, f"sin(r) = r + r^3 * P(r^2), |r| <= pi/4; relative: {e:.1e}")
    c, e = polynomial(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 1e-4, quarter**2, 2, lambda z: z * z, f32)
    emit("kCos", c, True, f"cos(r) = 1 - r^2/2 + r^4 * P(r^2), |r| <= pi/4; absolute: {e:.1e}")
    limit = float((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1))**2 * 1.002
    c, e = polynomial(lambda z: 2 / mp.log(2) * (mp.atanh(mp.sqrt(z)) / mp.sqrt(z)), 1e-10, limit, 7, lambda z: 0.35, f64)
    emit("kLog2Double", c, False, f"log2((1+s)/(1-s)) = s * P(s^2), in double for pow; relative: {e:.1e}")
    c, e = polynomial(lambda x: mp.mpf(2)**x, -0.501, 0.501, 8, lambda x: 1.0, f64)
    emit("kExp2Double", c, False, f"2^f = P(f), |f| <= 1/2, in double for pow; absolute: {e:.1e}")
    emit("kLn2", split(mp.log(2), 2), True, "ln(2) and pi/2 as sums of floats")
    emit("kHalfPi", split(mp.pi / 2, 3), True, "r = x - n*c[0] - n*c[1] - n*c[2] by fused steps")
    bits = int(mp.floor(mp.ldexp(2 / mp.mpf(mp.pi), 256)))
    words = [(bits >> (256 - 32 * (k + 1))) & 0xFFFFFFFF for k in range(8)]
    lines.append("// 2/pi in binary, 256 bits after 64 leading zeros: the exact reduction of large arguments.")
    lines.append("inline constexpr uint32_t kTwoOverPi[] = {0, 0, " + ", ".join(f"0x{w:08x}u" for w in words) + "};")
    head = ("// Coefficients of the vector functions. Written by tools/minimax.py, which says how; do not edit by hand.\n"
            "#pragma once\n\n#include <cstdint>\n\nnamespace peri::simd {\n\n// clang-format off\n")
    body = head + "\n".join(lines) + "\n// clang-format on\n\n}  // namespace peri::simd\n"
    path = sys.argv[1] if len(sys.argv) > 1 else "src/kernels/cpu/simd/coefficients.hpp"
    with open(path, "w") as out:
        out.write(body)


main()
