"""Inverses, dynamic time warping, hashes."""
import numpy as np
from contrib_build import Case, floats, numbers, op, pick
from normalization import tolerances
from tensor import strings


@op("Inverse")
def inverse(dice):
    dtype, size = pick(dice, np.float32, np.float64, np.float16), pick(dice, 1, 2, 3, 5, 8)
    batch = pick(dice, (), (3,), (2, 2))
    # Far enough from singular, in an order of rows that needs pivots
    x = floats(dice, *batch, size, size, scale=0.2) + np.eye(size) * pick(dice, 2, -3)
    x = x[..., dice.permutation(size), :].astype(dtype)
    return Case([x], **(tolerances(dtype) | ({"atol": 1e-4} if dtype == np.float32 else {})))


@op("DynamicTimeWarping")
def dynamic_time_warping(dice):
    shape = (pick(dice, 1, 4, 9), pick(dice, 1, 5, 16))
    cost = floats(dice, *shape) if dice.integers(2) else numbers(dice, 0, 3, *shape).astype(np.float32)
    return Case([cost.reshape(pick(dice, shape, (1, *shape)))])


@op("MurmurHash3", count=40)
def murmur_hash(dice):
    dtype, shape = pick(dice, np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64, object), pick(dice, (5,), (2, 3), (), (0,))
    if dtype is object:
        x = strings(dice, *shape) if shape else np.array("one", object)
    elif np.issubdtype(dtype, np.floating):
        x = floats(dice, *shape, dtype=dtype)
    else:
        x = numbers(dice, 0 if np.issubdtype(dtype, np.unsignedinteger) else -2**31, 2**31, *shape, dtype=dtype)
    attributes = {**pick(dice, {}, {"positive": 0}, {"positive": 1}), **pick(dice, {}, {"seed": int(dice.integers(0, 2**31))})}
    return Case([x], attributes)
