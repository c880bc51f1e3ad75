"""Attention operators, and the rotary embeddings that belong to them."""
import numpy as np
from contrib_build import MICROSOFT, Case, answer, floats, maybe, numbers, op, pick


def rotary_caches(dice, rows, width, dtype=np.float32):
    angles = np.arange(rows)[:, None] / 30.0 ** (np.arange(width)[None] / max(width, 1)) + dice.random()
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


def some_constants(dice, case, *numbers):
    """Some of these inputs become initializers."""
    given = [i for i in numbers if i < len(case.inputs) and case.inputs[i] is not None]
    case.constants = tuple(i for i in given if dice.random() < 0.5)
    return case


# ---- GroupQueryAttention
def group_query_sizes(dice):
    """Batch, rows, new keys, total, length of each batch entry, rows of the past (None: no past)."""
    kind = pick(dice, "prompt", "prompt", "first", "decode", "decode", "more", "shared")
    batch = 1 if kind == "more" else int(dice.integers(1, 4))
    room = int(dice.integers(0, 7))
    if kind in ("prompt", "first"):
        rows = int(dice.integers(1, 9))
        lengths = dice.integers(1, rows + 1, batch) if dice.random() < 0.5 else np.full(batch, rows)
        past = None if kind == "prompt" else pick(dice, 0, rows, rows + room)
        return batch, rows, rows, rows, lengths, past
    rows = int(dice.integers(2, 5)) if kind == "more" else 1
    total = rows + int(dice.integers(1, 12))
    lengths = dice.integers(rows, total + 1, batch)
    lengths[dice.integers(batch)] = total
    if kind == "shared":
        return batch, rows, 0, total, lengths, total + room
    return batch, rows, rows, total, lengths, pick(dice, total - rows, total, total + room)


def quantised_cache(dice, shape, bits):
    if bits == 8:
        return numbers(dice, -128, 128, *shape, dtype=np.int8)
    return numbers(dice, 0, 256, *shape[:3], (shape[3] + 1) // 2, dtype=np.uint8)


def clear_after(cache, lengths):
    """What lies after the valid rows is up to whether past and present share memory; zeros are zeros in both."""
    for b, length in enumerate(lengths):
        cache[b, :, length:] = 0
    return cache


def group_query(dice, sizes, dtype, bits=0):
    batch, rows, fresh, total, lengths, past = sizes
    kv_heads = int(dice.integers(1, 4))
    heads = kv_heads * int(dice.integers(1, 4))
    head = int(pick(dice, 8, 16, 32, 48))
    packed = fresh == rows and dice.random() < 0.4
    q = floats(dice, batch, rows, (heads + 2 * kv_heads * packed) * head, dtype=dtype)
    k, v = (floats(dice, batch, fresh, kv_heads * head, dtype=dtype) for _ in range(2))
    inputs = [q, None if packed else k, None if packed else v, None, None,
              (lengths - 1).astype(np.int32), np.full(pick(dice, (), (1,)), total, np.int32)] + [None] * 9
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads}
    if past is not None:
        old = np.zeros(batch, int) if rows == total and fresh else lengths - fresh
        for i in (3, 4):
            shape = (batch, kv_heads, past, head)
            cache = quantised_cache(dice, shape, bits) if bits else floats(dice, *shape, dtype=dtype)
            inputs[i] = clear_after(cache, old)
    if head >= 16 and dice.random() < 0.5:
        attributes |= {"do_rotary": 1, "rotary_interleaved": int(dice.integers(2))}
        width = int(pick(dice, head // 2, 8))
        inputs[7:9] = rotary_caches(dice, total + int(dice.integers(5)), width, dtype)
        if dice.random() < 0.4:
            inputs[9] = numbers(dice, 0, 2, batch, rows)
            if rows != total:
                inputs[9] = numbers(dice, 0, total, batch, rows)
            if rows == total:
                inputs[9][0, 0] = dice.integers(len(inputs[7]) - rows + 1)
    if dice.random() < 0.3:
        inputs[10] = floats(dice, pick(dice, 1, batch), pick(dice, 1, heads), rows, total, dtype=dtype)
    inputs[11] = maybe(dice, floats(dice, heads, dtype=dtype), 0.2)
    attributes |= pick(dice, {}, {}, {"smooth_softmax": 1})
    attributes |= pick(dice, {}, {}, {"softcap": 2.5})
    attributes |= pick(dice, {}, {}, {"scale": 0.3})
    # A window makes what padding sees depend on the kernel that ONNX Runtime takes.
    padded = rows == total and (lengths < total).any()
    attributes |= pick(dice, {}, {"local_window_size": int(dice.integers(rows if padded else 0, total + 2))})
    attributes |= pick(dice, {}, {}, {}, {"causal": 0}) if "local_window_size" not in attributes else {}
    return Case(inputs, attributes, 3, atol=1e-3 if dtype == np.float16 else 1e-5)


def with_norms(dice, case):
    """The CPU provider has no norms of queries and keys: its answer for normalised ones."""
    heads, kv_heads = case.attributes["num_heads"], case.attributes["kv_num_heads"]
    packed = case.inputs[1] is None
    head = case.inputs[0].shape[2] // (heads + 2 * kv_heads * packed)
    weights = [floats(dice, head, dtype=case.inputs[0].dtype) for _ in range(2)]
    epsilon = pick(dice, 1e-6, 0.01)

    def normalised(x, weight):
        apart = x.reshape(*x.shape[:2], -1, head).astype(np.float64)
        apart /= np.sqrt((apart ** 2).mean(-1, keepdims=True) + epsilon)
        return (apart * weight).reshape(x.shape).astype(x.dtype)

    given = list(case.inputs)
    if packed:
        q, k, v = np.split(given[0], [heads * head, (heads + kv_heads) * head], 2)
        given[0] = np.concatenate([normalised(q, weights[0]), normalised(k, weights[1]), v], 2)
    else:
        given[0], given[1] = normalised(given[0], weights[0]), normalised(given[1], weights[1])
    case.expected = answer(MICROSOFT, "GroupQueryAttention", Case(given[:14], case.attributes, case.outputs))
    case.inputs[14:16] = weights
    case.attributes |= pick(dice, {}, {"qk_norm_epsilon": epsilon}) if epsilon == 1e-6 else {"qk_norm_epsilon": epsilon}
    return case


def sliding_cache(dice, dtype):
    """After the step the cache is full: what it has after its valid rows is not defined."""
    rows = int(dice.integers(1, 8))
    batch = int(dice.integers(1, 4)) if rows == 1 else 1
    window = int(dice.integers(1, 7))
    capacity = window + int(dice.integers(0, 5))
    gap = capacity - window + 1
    lengths = capacity + gap * dice.integers(0, 4, batch)
    if lengths.min() < rows:
        lengths = lengths + gap * (rows // gap + 1)
    case = group_query(dice, (batch, rows, rows, int(lengths.max()), lengths, None), dtype)
    head = case.inputs[0].shape[2] // (case.attributes["num_heads"] +
                                       2 * case.attributes["kv_num_heads"] * (case.inputs[1] is None))
    for i in (3, 4):
        case.inputs[i] = floats(dice, batch, case.attributes["kv_num_heads"], capacity, head, dtype=dtype)
    case.attributes |= {"sliding_window_cache": 1, "local_window_size": window, "causal": 1}
    return some_constants(dice, case, 6, 7, 8, 9, 10, 11)


@op("GroupQueryAttention", count=60)
def group_query_attention(dice):
    if dice.random() < 0.15:
        return sliding_cache(dice, pick(dice, np.float32, np.float16))
    sizes = group_query_sizes(dice)
    bits = int(pick(dice, 0, 0, 0, 4, 8))
    case = group_query(dice, sizes, np.float32 if bits else pick(dice, np.float32, np.float16), bits)
    batch, rows, fresh, total, lengths, past = sizes
    kv_heads = case.attributes["kv_num_heads"]
    if bits:
        kind = pick(dice, "PER_TENSOR", "PER_CHANNEL")
        head = case.inputs[0].shape[2] // (case.attributes["num_heads"] + 2 * kv_heads * (case.inputs[1] is None))
        shape = (1,) if kind == "PER_TENSOR" else pick(dice, (kv_heads * head,), (1, kv_heads, 1, head))
        case.inputs[12:14] = [(dice.random(shape) * 0.1 + 0.05).astype(np.float32) for _ in range(2)]
        case.attributes |= {"kv_cache_bit_width": bits, "k_quant_type": kind, "v_quant_type": kind}
    if (lengths == total).all() and not bits and dice.random() < 0.3:
        case.attributes["qk_output"] = int(dice.integers(1, 3))
        case.outputs = 4
    elif past is None and not bits and case.inputs[0].dtype == np.float32 and dice.random() < 0.2:
        case.outputs = 1
    elif not bits and case.inputs[0].dtype == np.float32 and dice.random() < 0.2:
        case = with_norms(dice, case)
    return some_constants(dice, case, 6, 7, 8, 9, 10, 11, 12, 13)
