#!/usr/bin/env python3
"""Computes the polynomials of ir/loops/math*.c: python3 tools/minimax.py > ir/loops/math_coeffs.inc

Needs mpmath. Each polynomial minimises the largest weighted error on an interval (Remez exchange on a fine grid).
Coefficients are rounded to the type one after the other, lowest first, and the others fitted again each time.
"""
import struct
import sys
from mpmath import mp, mpf, cos, pi, matrix, lu_solve, exp, log, log1p, sin, asin, atan, atanh, sinh, tanh
from mpmath import erf, erfc, sqrt, taylor, polyval

mp.prec = 240
GRID = 500


def series(f, z, n=40):
    """Value near 0 of a function that cancels there, from its Taylor coefficients."""
    if f not in series.known:
        with mp.workprec(1500):
            series.known[f] = taylor(f, 0, n)
    return series.known[f]


series.known = {}


def tail(f, skip, odd, x):
    """sum of the Taylor terms of f from `skip` on, as a function of x (or of x^2 when odd or even)."""
    c = series(f, x, 70)
    step = 1 if odd is None else 2
    terms = c[skip::step]
    return polyval(terms[::-1], x)


def round_to(bits, v):
    if bits == 64:
        return mpf(float(v))
    with mp.workprec(24):
        return +v


def solve(points, value, weight, first, degree):
    n = len(points)
    a, r = matrix(n, n), matrix(n, 1)
    for i, p in enumerate(points):
        for k in range(first, degree + 1):
            a[i, k - first] = p ** k
        a[i, n - 1] = (-1) ** i / weight[i]
        r[i] = value[i]
    s = lu_solve(a, r)
    return [s[k] for k in range(n - 1)]


def extrema(err):
    """Indices of alternating extrema of a list of signed errors."""
    out = []
    for i, e in enumerate(err):
        if out and (err[out[-1]] > 0) == (e > 0):
            if abs(e) > abs(err[out[-1]]):
                out[-1] = i
        else:
            out.append(i)
    return out


def remez(grid, g, w, fixed, degree):
    first = len(fixed)
    need = degree - first + 2
    rest = [gv - polyval(fixed[::-1], z) if fixed else gv for z, gv in zip(grid, g)]
    usable = [i for i in range(len(grid)) if w[i] > 0]
    at = [usable[round(k * (len(usable) - 1) / (need - 1))] for k in range(need)]
    best = None
    for _ in range(30):
        c = solve([grid[i] for i in at], [rest[i] for i in at], [w[i] for i in at], first, degree)
        full = fixed + c
        err = [w[i] * (polyval(full[::-1], z) - g[i]) for i, z in enumerate(grid)]
        worst = max(abs(e) for e in err)
        if best is None or worst < best[0]:
            best = (worst, c)
        e = extrema(err)
        while len(e) > need:
            if len(e) == need + 1 or abs(err[e[0]]) < abs(err[e[-1]]) and len(e) == need + 1:
                e.pop(0 if abs(err[e[0]]) < abs(err[e[-1]]) else -1)
            else:
                j = min(range(len(e) - 1), key=lambda k: max(abs(err[e[k]]), abs(err[e[k + 1]])))
                del e[j:j + 2]
        if len(e) < need or e == at:
            break
        at = e
    return best


def fit(bits, lo, hi, g, weight, target):
    lo, hi = mpf(lo), mpf(hi)
    grid = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * (k + mpf(1) / 2) / GRID) for k in range(GRID)]
    gv = [g(z) for z in grid]
    w = [weight(z) for z in grid]
    for degree in range(1, 30):
        if remez(grid, gv, w, [], degree)[0] < target:
            break
    fixed = []
    for k in range(degree + 1):
        fixed.append(round_to(bits, remez(grid, gv, w, fixed, degree)[1][0]))
    worst = max(abs(wi * (polyval(fixed[::-1], z) - gi)) for z, gi, wi in zip(grid, gv, w))
    return fixed, worst


def hexa(v):
    return float(v).hex()


def show(name, what, bits, result):
    c, worst = result
    print(f"// {what}; error 2^{float(mp.log(worst, 2)):.1f}")
    print(f"static const double {name}_{bits}[] = {{{', '.join(hexa(x) for x in c)}}};")
    print(name, bits, len(c), file=sys.stderr)


def odd_tail(f):
    """(f(x) - x) / x^3 as a function of z = x^2."""
    return lambda z: tail(f, 3, True, z) if z < mpf(1) / 10 else (f(sqrt(z)) - sqrt(z)) / (z * sqrt(z))


L = log(2) / 2 * mpf("1.001")
Q = (pi / 4 * mpf("1.001")) ** 2
table = [
    # name, meaning, interval, function, weight, and log2 of how much more error than usual is taken (f32, f64)
    ("EXP", "e^r = 1 + r + r^2 p(r), |r| <= ln(2)/2", -L, L,
     lambda r: tail(exp, 2, None, r), lambda r: r * r / exp(r), (0, 0)),
    ("LOG", "log(1+f) = f - f^2/2 + f^3 p(f), sqrt(1/2) <= 1+f <= sqrt(2)", sqrt(mpf(1) / 2) - 1, sqrt(2) - 1,
     lambda f: (log1p(f) - f + f * f / 2) / f ** 3, lambda f: abs(f ** 3 / log1p(f)), (0, 0)),
    ("ATANH", "atanh(s) = s + s z (1/3 + z p(z)), z = s^2, |s| <= 0.1717", 0, mpf("0.0295"),
     lambda z: tail(atanh, 5, True, z), lambda z: z * z, (-10, -10)),
    ("SIN", "sin(r) = r + r z p(z), z = r^2, |r| <= pi/4", 0, Q,
     odd_tail(sin), lambda z: z * sqrt(z) / sin(sqrt(z)) if z else mpf(0), (0, 0)),
    ("COS", "cos(r) = 1 - z/2 + z^2 p(z)", 0, Q,
     lambda z: tail(cos, 4, True, z), lambda z: z * z / cos(sqrt(z)), (0, 0)),
    ("ASIN", "asin(x) = x + x z p(z), z = x^2 <= 1/4", 0, mpf(1) / 4,
     odd_tail(asin), lambda z: z * sqrt(z) / asin(sqrt(z)) if z else mpf(0), (0, 0)),
    ("ATAN", "atan(x) = x + x z p(z), z = x^2 <= 1", 0, 1,
     odd_tail(atan), lambda z: z * sqrt(z) / atan(sqrt(z)) if z else mpf(0), (0, 0)),
    ("SINH", "sinh(x) = x + x z p(z), z = x^2 <= 1", 0, 1,
     odd_tail(sinh), lambda z: z * sqrt(z) / sinh(sqrt(z)) if z else mpf(0), (0, 0)),
    ("TANH", "tanh(x) = x + x z p(z), z = x^2 <= 0.6^2", 0, mpf("0.36"),
     odd_tail(tanh), lambda z: z * sqrt(z) / tanh(sqrt(z)) if z else mpf(0), (0, 0)),
    ("ERF", "erf(x) = x + x p(z), z = x^2 <= 1", 0, 1,
     lambda z: erf(sqrt(z)) / sqrt(z) - 1, lambda z: sqrt(z) / erf(sqrt(z)), (0, 0)),
]
# For integers in fixed point: name, meaning, function, weight, log2 of the error; 0 <= x <= 1.
fixed = [
    ("EXP2_FIXED", "2^x = 1 + x p(x)", lambda x: (2 ** x - 1) / x, lambda x: x / 2 ** x, -29),
    ("RECIPROCAL_FIXED", "1 / (1 + x) = p(x)", lambda x: 1 / (1 + x), lambda x: 1 + x, -9),
]
# erf(t) = 1 - exp(-p(t - middle)): pieces of [1, where erf is 1 to the type's precision].
pieces = {32: [(1, mpf("3.95"))], 64: [(1, mpf("2.25")), (mpf("2.25"), mpf("5.95"))]}


def erf_piece(bits, lo, hi, target):
    lo, hi = mpf(lo), mpf(hi)
    mid = mpf(float(round((lo + hi) * 4) / 8))
    return mid, fit(bits, lo - mid, hi - mid, lambda u: -log(erfc(u + mid)),
                    lambda u: erfc(u + mid) / erf(u + mid), target)


# Functions in pieces around multiples of a step, from 0 to the last one.


def nearly_minimax(points, value, fixed, degree):
    """The coefficients after `fixed` by least squares of the relative error at Chebyshev points."""
    first, n = len(fixed), degree + 1 - len(fixed)
    a, r = matrix(n, n), matrix(n, 1)
    for x, v in zip(points, value):
        row = [x ** (first + j) / v for j in range(n)]
        rest = 1 - polyval(fixed[::-1], x) / v if fixed else mpf(1)
        for i in range(n):
            r[i] += row[i] * rest
            for j in range(n):
                a[i, j] += row[i] * row[j]
    return lu_solve(a, r)


def in_pieces(name, what, count, step, degree, f, ends):
    """ends: the first coefficients of some pieces."""
    step, pieces = round_to(32, step), []
    for k in range(count):
        lo, hi = (-step / 2 if k else mpf(0)), (step / 2 if k < count - 1 else mpf(2) ** -20)
        points = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * (j + mpf(1) / 2) / 100) for j in range(100)]
        value = [f(k * step + x) for x in points]
        fixed = [ends[k]] if ends.get(k) == 0 else []
        while len(fixed) <= degree:
            fixed.append(round_to(32, nearly_minimax(points, value, fixed, degree)[0]))
        fixed[0] = ends.get(k, fixed[0])
        pieces.append(fixed)
    rows = (", ".join(hexa(p[j]) for p in pieces) for j in range(degree + 1))
    print(f"// {what} = p(t - k step), k = rint(t / step), 0 <= t <= {count - 1} step: each coefficient of all pieces")
    print(f"static const double {name}{count}_STEP_32 = {hexa(step)};")
    print(f"static const double {name}{count}_PIECES_32[][{count}] = {{{', '.join('{' + r + '}' for r in rows)}}};")


def main():
    print("// Made by tools/minimax.py: polynomials, lowest coefficient first, and constants in several parts.")
    targets = {32: mpf(2) ** -28, 64: mpf(2) ** -57}
    for name, what, lo, hi, g, w, more in table:
        for bits in (32,) if name == "LOG" else (32, 64):
            show(name, what, bits, fit(bits, lo, hi, g, w, targets[bits] * mpf(2) ** more[bits == 64]))
    for name, what, g, w, least in fixed:
        show(name, f"{what}, 0 <= x <= 1", 64, fit(64, 0, 1, g, w, mpf(2) ** least))
    for bits in (32, 64):
        for i, (lo, hi) in enumerate(pieces[bits]):
            mid, result = erf_piece(bits, lo, hi, targets[bits])
            show(f"ERFC{i}", f"-log(erfc(t)) = p(t - {float(mid)}), {float(lo)} <= t <= {float(hi)}", bits, result)
            print(f"static const double ERFC{i}_MIDDLE_{bits} = {float(mid)};")
    in_pieces("ERF", "erf(t) / t", 16, mpf(4) / 15, 5, lambda t: erf(t) / t, {15: mpf(1) / 4})  # erf(4) is 1
    in_pieces("ERF", "erf(t) / t", 8, mpf(4) / 7, 6, lambda t: erf(t) / t, {7: mpf(1) / 4})
    in_pieces("TANH", "tanh(t)", 16, mpf(3) / 5, 7, tanh, {0: mpf(0), 15: mpf(1)})  # tanh(9) is 1
    for name, v in (("LN2", log(2)), ("PIO2_HL", pi / 2), ("THIRD", mpf(1) / 3)):
        for bits, short in ((32, 15 if name == "LN2" else 24), (64, 41 if name == "LN2" else 53)):
            with mp.workprec(short):
                hi = +v
            print(f"static const double {name}_{bits}[] = {{{hexa(hi)}, {hexa(round_to(bits, v - hi))}}};")
    # pi/2 in parts short enough that their product with n is exact, and 2/pi as a string of bits.
    for bits, width, parts in ((32, 11, 5), (64, 33, 4)):
        rest, out = pi / 2, []
        for k in range(parts):
            with mp.workprec(width if k < parts - 1 else 24 if bits == 32 else 53):
                c = +rest
            out.append(c)
            rest -= c
        print(f"static const double PIO2_{bits}[] = {{{', '.join(hexa(c) for c in out)}}};")
    with mp.workprec(2000):
        x, words = 2 / pi, []
        for _ in range(39):
            x *= 2 ** 32
            words.append(int(mp.floor(x)))
            x -= words[-1]
    print(f"static const uint32_t TWO_OVER_PI[] = {{{', '.join(f'0x{w:08x}' for w in words)}}};")


main()
