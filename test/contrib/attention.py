"""Attention operators, and the rotary embeddings that belong to them."""
import ml_dtypes
import numpy as np
import onnxruntime as ort
from contrib_build import MICROSOFT, Case, answer, floats, make_model, maybe, numbers, op, pick
from onnx import TensorProto, helper


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
        rows = int(dice.integers(1, 13))
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
    both = pick(dice, {"qk_norm_epsilon": epsilon}, {"qk_norm_epsilon": 0.5, "q_norm_epsilon": epsilon, "k_norm_epsilon": epsilon})
    case.attributes |= pick(dice, {}, both) if epsilon == 1e-6 else both
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


def hidden_after(name, case, masks):
    """The case with zeros where the masks, further inputs, are false: what lies there is not defined."""
    model, first = make_model(MICROSOFT, name, case, None, ()), len(case.inputs)
    graph = model.graph
    graph.initializer.append(helper.make_tensor("zero", TensorProto.FLOAT, (), [0]))
    for i, mask in enumerate(masks):
        output, given = graph.output[i].name, f"whole{i}"
        graph.node[0].output[i] = given
        graph.input.append(helper.make_tensor_value_info(f"x{first + i}", TensorProto.BOOL, mask.shape))
        graph.node.append(helper.make_node("CastLike", ["zero", given], [f"zero{i}"]))
        graph.node.append(helper.make_node("Where", [f"x{first + i}", given, f"zero{i}"], [output]))
    case.inputs, case.model = case.inputs + masks, model
    return case


def padded_chunk(dice):
    """Rows of which each batch entry uses the first few, behind as many as its cache has."""
    batch, rows, windowed, dtype = int(dice.integers(1, 4)), int(dice.integers(1, 6)), dice.random() < 0.3, pick(dice, np.float32, np.float16)
    added, past = dice.integers(0, rows + 1, batch), dice.integers(0, 7, batch)
    past = np.where(past + added == 0, 1, past)
    lengths, window = past + added, int(dice.integers(1, 7))
    room = window + int(dice.integers(0, 5)) if windowed else int(past.max()) + rows + int(dice.integers(0, 4))
    total = max(int(lengths.max()), rows) + int(dice.integers(0, 3))
    case = group_query(dice, (batch, rows, rows, total, lengths, room), dtype)
    case.attributes.pop("causal", None)
    if case.attributes.get("do_rotary"):
        case.inputs[7:9] = rotary_caches(dice, int(past.max()) + rows + 2, 2 * case.inputs[7].shape[1], dtype)
        if case.inputs[9] is not None:
            case.inputs[9] = numbers(dice, 0, len(case.inputs[7]), batch, rows)
    kept = lengths
    if windowed:
        gap = room - window + 1
        kept = lengths - gap * -(-np.maximum(lengths - room, 0) // gap)
        case.attributes |= {"sliding_window_cache": 1, "local_window_size": window}
    case.inputs += [added.astype(np.int32)]
    row = np.arange(max(rows, room, total))
    in_cache = (row[:room if windowed else max(room, total)] < kept[:, None])[:, None, :, None]
    masks = [(row[:rows] < added[:, None])[..., None], in_cache, in_cache]
    return hidden_after("GroupQueryAttention", case, masks)


def float8_cache(dice):
    """The CPU provider has no such caches: its answer for what they hold, as floats."""
    sizes = (*group_query_sizes(dice)[:5], int(dice.integers(0, 7)))
    batch, rows, fresh, total, lengths, room = sizes
    case = group_query(dice, (batch, rows, fresh, total, lengths, total + room), np.float32)
    for name in ("do_rotary", "rotary_interleaved"):
        case.attributes.pop(name, None)
    case.inputs[7:10] = None, None, None
    heads, kv_heads = case.attributes["num_heads"], case.attributes["kv_num_heads"]
    packed = case.inputs[1] is None
    head = case.inputs[0].shape[2] // (heads + 2 * kv_heads * packed)
    kind = pick(dice, "PER_TENSOR", "PER_CHANNEL")
    scales = [(dice.random((1, 1, 1, 1) if kind == "PER_TENSOR" else (1, kv_heads, 1, head)) * 0.1 + pick(dice, 0.05, 1e-4)).astype(np.float32)
              for _ in range(2)]

    def codes(x, scale):
        return np.clip(x * (np.float32(1) / scale), -448, 448).astype(ml_dtypes.float8_e4m3fn)

    def rounded(x, scale):  # of [batch, row, head * element]
        apart = x.reshape(*x.shape[:2], kv_heads, head).swapaxes(1, 2)
        return (codes(apart, scale).astype(np.float32) * scale).swapaxes(1, 2).reshape(x.shape)

    given = list(case.inputs)
    if packed:
        q, k, v = np.split(given[0], [heads * head, (heads + kv_heads) * head], 2)
        given[0] = np.concatenate([q, rounded(k, scales[0]), rounded(v, scales[1])], 2)
    else:
        given[1:3] = rounded(given[1], scales[0]), rounded(given[2], scales[1])
    for i, scale in zip((3, 4), scales):
        case.inputs[i] = codes(case.inputs[i], scale)
        given[i] = case.inputs[i].astype(np.float32) * scale
    y, *caches = answer(MICROSOFT, "GroupQueryAttention", Case(given, dict(case.attributes), 3))
    case.expected = [y, *(codes(x, scale) for x, scale in zip(caches, scales))]
    case.inputs[12:14] = [s.reshape(1) if kind == "PER_TENSOR" else s for s in scales]
    case.attributes |= {"kv_cache_bit_width": 8, "k_quant_type": kind, "v_quant_type": kind}
    return some_constants(dice, case, 6, 10, 11, 12, 13)


@op("GroupQueryAttention", count=60)
def group_query_attention(dice):
    if dice.random() < 0.1:
        return float8_cache(dice)
    if dice.random() < 0.1:
        return padded_chunk(dice)
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
    elif fresh and not bits and case.inputs[0].dtype == np.float32 and dice.random() < 0.2:
        case = with_norms(dice, case)
    return some_constants(dice, case, 6, 7, 8, 9, 10, 11, 12, 13)


# ---- MultiHeadAttention and DecoderMaskedMultiHeadAttention
def key_mask(dice, batch, rows, total, filtered, *forms):
    """Of one of the forms. With a filter of -10000 each query sees at least one key: what hides all rounds away scores."""
    strong = filtered <= -10000
    form = pick(dice, *forms)
    if form in ("ends", "cumulated", "ends and starts"):
        ends = dice.integers(1 if strong else 0, total + 1, batch)
        if form == "ends":
            return ends.astype(np.int32)
        if form == "ends and starts":
            starts = np.minimum(dice.integers(0, total + 1, batch), np.maximum(ends - 1, 0))
            return np.concatenate([ends, starts]).astype(np.int32)
        return np.concatenate([ends, np.zeros(2 * batch + 2, int)]).astype(np.int32)
    if form == "dummy":
        return np.zeros((pick(dice, 1, batch), 1), np.int32)
    mask = numbers(dice, 0, 2, *((batch, total) if form == "keys" else (batch, rows, total)), dtype=np.int32)
    if strong:
        mask[..., 0] = 1
    return mask


def common_attributes(dice, causal=True):
    attributes = pick(dice, {}, {}, {"mask_filter_value": -10000.0}, {"mask_filter_value": -4.0})
    attributes |= pick(dice, {}, {"scale": 0.4})
    return attributes | (pick(dice, {}, {}, {"unidirectional": 1}) if causal else {})


def attention_bias(dice, batch, heads, rows, total):
    return floats(dice, pick(dice, 1, batch), pick(dice, 1, heads), rows, total)


def multi_head(dice, heads, head, value_head):
    kind = pick(dice, "plain", "plain", "cross", "past", "past", "decode", "shared", "beams")
    batch, rows = int(dice.integers(1, 4)), int(dice.integers(1, 10))
    if kind in ("decode", "beams"):
        rows = 1
    fresh = int(dice.integers(1, 12)) if kind in ("plain", "cross") and dice.random() < 0.7 else rows
    if kind not in ("plain", "cross"):
        value_head = head
    past = int(dice.integers(1, 8)) if kind not in ("plain", "cross") else 0
    total = past + fresh
    inputs = [floats(dice, batch, rows, heads * head), floats(dice, batch, fresh, heads * head),
              floats(dice, batch, fresh, heads * value_head)] + [None] * 7
    if kind == "cross":
        value_head = head
        inputs[1:3] = [floats(dice, batch, heads, fresh, head) for _ in range(2)]
    inputs[3] = maybe(dice, floats(dice, heads * (2 * head + value_head)))
    if kind in ("past", "decode"):
        inputs[6:8] = [floats(dice, batch, heads, past, head) for _ in range(2)]
    if kind in ("shared", "beams"):
        room = total + int(dice.integers(0, 5))
        inputs[6:8] = [floats(dice, batch, heads, room, head) for _ in range(2)]
        inputs[8] = np.full((1,), past, np.int32)
    if kind == "beams":
        width = int(pick(dice, 1, batch))
        inputs[9] = numbers(dice, 0, width, batch // width, width, room, dtype=np.int32)
    return kind, batch, rows, total, inputs


def unpacked(dice, case, heads, head):
    """The CPU provider has no packed keys and values: its answer for separate ones."""
    whole = dice.random() < 0.5
    q, k, v = (x.reshape(*x.shape[:2], heads, head) for x in case.inputs[:3])
    plain = Case(list(case.inputs), case.attributes, case.outputs, output_types=case.output_types)
    case.expected = answer(MICROSOFT, "MultiHeadAttention", plain)
    case.inputs[:3] = [np.stack([q, k, v], 3), None, None] if whole else [case.inputs[0], np.stack([k, v], 3), None]
    return case


@op("MultiHeadAttention", count=40)
def multi_head_attention(dice):
    heads, head = int(dice.integers(1, 5)), int(pick(dice, 1, 4, 7, 16))
    kind, batch, rows, total, inputs = multi_head(dice, heads, head, int(pick(dice, head, head, 5)))
    attributes = {"num_heads": heads, **common_attributes(dice, kind != "beams")}
    if dice.random() < 0.5:
        forms = ("keys",) if kind == "beams" else ("ends", "cumulated", "keys", "keys", "queries")
        inputs[4] = key_mask(dice, batch, rows, total, attributes.get("mask_filter_value", -10000), *forms)
    if dice.random() < 0.4:
        inputs[5] = attention_bias(dice, 1 if kind == "beams" else batch, 1 if kind == "beams" else heads, rows, total)
    case = Case(inputs, attributes, pick(dice, 1, 3, 4), output_types={3: np.float32})
    if kind in ("shared", "beams", "past", "decode"):
        case.outputs = pick(dice, 3, 4)
    if kind == "plain" and inputs[1].shape[1] == rows and inputs[2].shape == inputs[1].shape and inputs[3] is None:
        return unpacked(dice, case, heads, head)
    return some_constants(dice, case, 3, 4, 5, 8)


@op("DecoderMaskedMultiHeadAttention")
def decoder_masked(dice):
    heads, head = int(dice.integers(1, 5)), int(pick(dice, 4, 8, 16))
    cross = dice.random() < 0.3
    batch, past, room = int(dice.integers(1, 5)), int(dice.integers(0, 8)), int(dice.integers(1, 5))
    inputs = [floats(dice, batch, 1, heads * head) for _ in range(3)] + [None] * 8
    attributes = {"num_heads": heads, **({} if cross else {"past_present_share_buffer": 1}),
                  **common_attributes(dice, causal=False)}
    total = past + 1
    if cross:
        inputs[1:3] = [floats(dice, batch, heads, total, head) for _ in range(2)]
    else:
        if dice.random() < 0.3:
            inputs[:3] = [floats(dice, batch, 1, 3 * heads * head), None, None]
        inputs[5:7] = [floats(dice, batch, heads, past + room, head) for _ in range(2)]
        inputs[7] = np.full((1,), past, np.int32)
        if dice.random() < 0.4:
            inputs[4] = attention_bias(dice, 1, heads, 1, total)
            inputs[4] = np.broadcast_to(inputs[4], (1, heads, 1, total)).copy()
    inputs[10] = maybe(dice, floats(dice, 3 * heads * head), 0.4)
    if dice.random() < 0.4:
        inputs[3] = key_mask(dice, batch, 1, total, attributes.get("mask_filter_value", -10000), "keys")
    if not cross and dice.random() < 0.4:
        width = int(pick(dice, 1, batch))
        inputs[8] = np.full((1,), width, np.int32)
        inputs[9] = numbers(dice, 0, width, batch // width, width, past + room, dtype=np.int32)
    case = Case(inputs, attributes, 1 if cross else 3, output_types={3: np.float32})
    if dice.random() < 0.4:
        attributes["output_qk"] = 1
        case.outputs = ["y", "", "", "qk"] if cross else 4
    return some_constants(dice, case, 3, 4, 7, 8, 10)


# ---- Attention and QAttention
def projected(dice):
    """Sizes, and what both operators have in common."""
    batch, rows, heads = int(dice.integers(1, 4)), int(dice.integers(1, 10)), int(dice.integers(1, 4))
    head, width = int(pick(dice, 1, 4, 8, 16)), int(pick(dice, 3, 8, 16))
    attributes = {"num_heads": heads, **common_attributes(dice)}
    past = maybe(dice, floats(dice, 2, batch, heads, int(pick(dice, 0, 1, 5)), head), 0.4)
    total = rows + (0 if past is None else past.shape[3])
    mask = None
    if dice.random() < 0.6:
        mask = key_mask(dice, batch, rows, total, attributes.get("mask_filter_value", -10000), "ends", "cumulated",
                        "ends and starts", "keys", "queries", "dummy")
    return batch, rows, heads, head, width, attributes, past, total, mask


def in_megatron_form(dice, case, rows, total, batch):
    """The CPU provider has no masks of 4 axes: its answer for the part that counts."""
    size = total + int(dice.integers(0, 3))
    mask = numbers(dice, 0, 2, batch, 1, size, size, dtype=np.int32)
    mask[..., 0] = 1
    case.inputs[3] = np.ascontiguousarray(mask[:, 0, total - rows:total, :total])
    case.expected = answer(MICROSOFT, "Attention", Case(list(case.inputs), case.attributes, case.outputs))
    case.inputs[3] = mask
    return case


def in_shared_buffer(dice, case):
    """The CPU provider's Attention has no buffer that past and present share: its answer for the part that counts."""
    past = case.inputs[4]
    y, present = answer(MICROSOFT, "Attention", case)
    buffer = floats(dice, *past.shape[:3], present.shape[3] + int(dice.integers(0, 4)), past.shape[4])
    buffer[:, :, :, :past.shape[3]] = past
    after = buffer.copy()
    after[:, :, :, :present.shape[3]] = present
    case.inputs = case.inputs[:4] + [buffer, None, np.full((1,), past.shape[3], np.int32)]
    case.attributes["past_present_share_buffer"] = 1
    case.expected = [y, after]
    return case


@op("Attention", count=30)
def attention(dice):
    batch, rows, heads, head, width, attributes, past, total, mask = projected(dice)
    value_head = head if past is not None else int(pick(dice, head, head, 5))
    sizes = [heads * head, heads * head, heads * value_head]
    if value_head != head or dice.random() < 0.3:
        attributes["qkv_hidden_sizes"] = sizes
    inputs = [floats(dice, batch, rows, width), floats(dice, width, sum(sizes)), floats(dice, sum(sizes)), mask, past]
    if past is None and dice.random() < 0.4:
        inputs += [attention_bias(dice, batch, heads, rows, total)]
    case = Case(inputs, attributes, 2 if past is not None or (head == value_head and dice.random() < 0.3) else 1)
    if mask is None and "unidirectional" not in attributes and dice.random() < 0.3:
        return in_megatron_form(dice, case, rows, total, batch)
    if past is not None and dice.random() < 0.3:
        case = in_shared_buffer(dice, case)
    return some_constants(dice, case, 1, 2, 3, 5, 6)


@op("QAttention")
def qattention(dice):
    batch, rows, heads, head, width, attributes, past, total, mask = projected(dice)
    width = heads * head
    weight_type = pick(dice, np.uint8, np.int8)
    low = -128 if weight_type == np.int8 else 0
    columns = pick(dice, (), (1,), (3 * width,))
    inputs = [numbers(dice, 0, 256, batch, rows, width, dtype=np.uint8),
              numbers(dice, low, low + 256, width, 3 * width, dtype=weight_type), floats(dice, 3 * width),
              np.full(pick(dice, (), (1,)), 0.01, np.float32), (0.01 * (1 + dice.random(columns))).astype(np.float32), mask,
              maybe(dice, numbers(dice, 0, 256, *pick(dice, (), (1,)), dtype=np.uint8)), None, past]
    if dice.random() < 0.5:
        inputs[7] = numbers(dice, low, low + 256, *columns, dtype=weight_type)
    case = Case(inputs, attributes, 2 if past is not None or dice.random() < 0.3 else 1)
    return some_constants(dice, case, 1, 2, 3, 4, 5, 6, 7)


# ---- Rotary embeddings
def rotary(dice, dtype):
    """Inputs but the positions, and the attributes."""
    batch, rows, heads = int(dice.integers(1, 4)), int(dice.integers(1, 8)), int(dice.integers(1, 5))
    head = 2 * int(dice.integers(1, 9))
    form = pick(dice, "heads", "no heads", "part", "apart", "part apart")
    width = int(dice.integers(1, head // 2 + 1)) if "part" in form.split() else head // 2
    attributes = {"num_heads": heads} if form in ("heads", "part", "part apart") else {}
    attributes |= {"rotary_embedding_dim": 2 * width} if "part" in form.split() else {}
    attributes |= {"interleaved": int(dice.integers(2))}
    shape = (batch, heads, rows, head) if form.endswith("apart") else (batch, rows, heads * head)
    length = rows + int(dice.integers(0, 9))
    return floats(dice, *shape, dtype=dtype), rotary_caches(dice, length, width, dtype), attributes, batch, rows, length


@op("RotaryEmbedding")
def rotary_embedding(dice):
    dtype = pick(dice, np.float32, np.float32, np.float16)
    x, caches, attributes, batch, rows, length = rotary(dice, dtype)
    at = numbers(dice, 0, length, batch, rows) if dice.random() < 0.6 else numbers(dice, 0, length - rows + 1, 1)
    attributes |= pick(dice, {}, {"scale": 2.0}) | pick(dice, {}, {"is_packed_batching": 1})
    case = Case([x, at, *caches], attributes, atol=1e-3 if dtype == np.float16 else 1e-5)
    return some_constants(dice, case, 1, 2, 3)


@op("MRotaryEmbedding")
def mrotary_embedding(dice):
    dtype = pick(dice, np.float32, np.float32, np.float16)
    x, caches, attributes, batch, rows, length = rotary(dice, dtype)
    half = caches[0].shape[1]
    cuts = np.sort(dice.integers(0, half + 1, 2))
    attributes["mrope_section"] = [int(v) for v in np.diff([0, *cuts, half])]
    attributes |= pick(dice, {}, {"mrope_layout": 0}, {"mrope_layout": 1}, {"mrope_layout": 1})
    if attributes.get("mrope_layout") == 1:
        third = half // 3
        attributes["mrope_section"] = [half - 2 * third, third, third]
    attributes |= pick(dice, {}, {"scale": 2.0}) | pick(dice, {}, {"is_packed_batching": 1})
    at = numbers(dice, 0, length, 3, batch, rows)
    case = Case([x, at, *caches], attributes, atol=2e-3 if dtype == np.float16 else 1e-5)
    return some_constants(dice, case, 1, 2, 3)


@op("GemmaRotaryEmbedding")
def gemma_rotary_embedding(dice):
    """The CPU provider has none: by the script in its documentation."""
    batch, heads, rows, head = (int(dice.integers(1, 6)) for _ in range(4))
    angles = floats(dice, batch, rows, head, scale=3)
    operands = [floats(dice, batch, heads, rows, head, dtype=np.float16) for _ in range(4)]
    sines, cosines = (f(angles).astype(np.float16)[:, None].astype(np.float32) for f in (np.sin, np.cos))
    q, q_rotated, k, k_rotated = (x.astype(np.float32) for x in operands)
    expected = [(x * cosines + y * sines).astype(np.float16) for x, y in ((q, q_rotated), (k, k_rotated))]
    return some_constants(dice, Case([angles, *operands], {}, 2, atol=4e-3, expected=expected), 0)


# ---- Linear attention
def windowed(dice, name, case, axis, state, cut):
    """The CPU provider keeps the last state only: its answers for all beginnings of the input that count.

    state: the number of past_state among the inputs; cut: those with an axis of positions.
    """
    window = int(pick(dice, 1, 2, 5))
    rows, states = case.inputs[0].shape[axis], []
    for j in range(window):
        given = list(case.inputs)
        for i in cut:
            if given[i] is not None:
                given[i] = np.take(given[i], range(max(rows - window + j + 1, 1)), axis)
        _, after = answer(MICROSOFT, name, Case(given, case.attributes, 2))
        states.append(after if rows - window + j >= 0 else np.zeros_like(after))
    case.expected = [answer(MICROSOFT, name, case)[0], np.stack(states)]
    if case.inputs[state] is not None:
        past = floats(dice, window, *case.inputs[state].shape)
        past[-1] = case.inputs[state]
        case.inputs[state] = past
    case.attributes["state_window"] = window
    return case


@op("LinearAttention")
def linear_attention(dice):
    batch, rows, size, value_size = int(dice.integers(1, 3)), int(dice.integers(1, 8)), *dice.integers(1, 9, 2)
    few = int(dice.integers(1, 4))
    many = few * int(dice.integers(1, 4))
    heads, kv_heads = pick(dice, (few, many), (many, few))
    key_heads = pick(dice, kv_heads, kv_heads, 1)
    rule = pick(dice, "linear", "gated", "delta", "gated_delta")
    keys = floats(dice, batch, rows, key_heads * size)
    inputs = [floats(dice, batch, rows, heads * size), keys / np.sqrt(size).astype(np.float32),
              floats(dice, batch, rows, kv_heads * value_size),
              maybe(dice, floats(dice, batch, kv_heads, size, value_size)), None, None]
    if "gated" in rule:
        inputs[4] = -np.abs(floats(dice, batch, rows, kv_heads * int(pick(dice, 1, size))))
    if "delta" in rule:
        inputs[5] = dice.random((batch, rows, int(pick(dice, 1, kv_heads)))).astype(np.float32)
    attributes = {"q_num_heads": heads, "kv_num_heads": kv_heads, "update_rule": rule, **pick(dice, {}, {"scale": 0.3}),
                  **pick(dice, {}, {"chunk_size": 2})}
    case = Case(inputs, attributes, 2)
    return case if dice.random() < 0.6 else windowed(dice, "LinearAttention", case, 1, 3, (0, 1, 2, 4, 5))


@op("LinearAttentionGate")
def linear_attention_gate(dice):
    dtype = pick(dice, np.float32, np.float16)
    batch, rows, heads = (int(dice.integers(1, 9)) for _ in range(3))
    inputs = [floats(dice, batch, rows, heads, dtype=dtype, scale=4), floats(dice, heads), floats(dice, heads),
              maybe(dice, floats(dice, batch, rows, heads, dtype=dtype))]
    case = Case(inputs, {}, 1 if inputs[3] is None else pick(dice, 1, 2), atol=1e-3 if dtype == np.float16 else 1e-5)
    return some_constants(dice, case, 1, 2)


@op("CausalConvWithState")
def causal_conv_with_state(dice):
    batch, rows, taps, dilation = *(int(dice.integers(1, 6)) for _ in range(3)), int(pick(dice, 1, 1, 2, 3))
    last = dice.random() < 0.4
    channels = tuple(int(v) for v in dice.integers(1, 5, dice.integers(1, 4) if last else 1))
    length, count = (taps - 1) * dilation, int(np.prod(channels))

    def shape(size):
        return (batch, size, *channels) if last else (batch, *channels, size)

    inputs = [floats(dice, *shape(rows)), floats(dice, count, 1, taps), maybe(dice, floats(dice, count)),
              maybe(dice, floats(dice, *shape(length)))]
    attributes = {**pick(dice, {}, {"activation": "silu"}, {"activation": "swish"}, {"activation": "none"}),
                  **({"channels_last": 1} if last else {}), **({"dilation": dilation} if dilation > 1 else {})}
    case = Case(inputs, attributes, 2)
    if dice.random() < 0.4:
        case = windowed(dice, "CausalConvWithState", case, 1 if last else 2, 3, (0,))
    return some_constants(dice, case, 1, 2)


# ---- SparseAttention
def answer_in_place(name, case, shared):
    """ONNX Runtime's outputs where it asks for one buffer of an input and an output: shared[output] = input."""
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    model = make_model(MICROSOFT, name, case, None, ())
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    given = {i: ort.OrtValue.ortvalue_from_numpy(v.copy()) for i, v in enumerate(case.inputs) if v is not None}
    for i, value in given.items():
        binding.bind_ortvalue_input(f"x{i}", value)
    for j in range(case.outputs):
        if j in shared:
            binding.bind_ortvalue_output(f"y{j}", given[shared[j]])
        else:
            binding.bind_output(f"y{j}")
    session.run_with_iobinding(binding)
    return [value.numpy().copy() for value in binding.get_outputs()]


def one_by_one(case):
    """The CPU provider reads probabilities of the wrong row where lengths differ: its answers for each entry alone."""
    parts = []
    for b, length in enumerate(case.inputs[8]):
        given = [v if v is None or i > 4 else v[b:b + 1].copy() for i, v in enumerate(case.inputs)]
        given[7:9] = [np.full((1,), length, np.int32)] * 2
        parts.append(answer_in_place("SparseAttention", Case(given, case.attributes, 3), {1: 3, 2: 4}))
    return [np.concatenate(outputs) for outputs in zip(*parts)]


@op("SparseAttention")
def sparse_attention(dice):
    dtype = pick(dice, np.float32, np.float32, np.float16)
    batch, prompt = int(dice.integers(1, 3)), dice.random() < 0.5
    block, blocks, layouts = 16, int(dice.integers(1, 5)), int(dice.integers(1, 4))
    kv_heads = int(dice.integers(1, 3))
    heads = layouts * kv_heads * int(dice.integers(1, 3))
    head, cache = int(pick(dice, 16, 32)), block * blocks
    rows = int(dice.integers(1, cache + 1)) if prompt else 1
    total = rows if prompt else int(dice.integers(2, max(cache, 2) + 1))
    lengths = np.full(batch, total) if prompt else dice.integers(2, total + 1, batch)
    lengths[0] = total
    mask = np.tril(dice.random((layouts, blocks, blocks)) < pick(dice, 0.3, 0.7, 1.0)) | np.eye(blocks, dtype=bool)
    columns = np.full((layouts, int(mask.sum((1, 2)).max())), -1)
    for layout in range(layouts):
        columns[layout, :mask[layout].sum()] = np.nonzero(mask[layout])[1]
    ends = np.cumsum(np.concatenate([np.zeros((layouts, 1), int), mask.sum(2)], 1), 1)
    packed = dice.random() < 0.4
    inputs = [floats(dice, batch, rows, (heads + 2 * kv_heads * packed) * head, dtype=dtype)]
    inputs += [None if packed else floats(dice, batch, rows, kv_heads * head, dtype=dtype) for _ in range(2)]
    inputs += [floats(dice, batch, kv_heads, cache, head, dtype=dtype) for _ in range(2)]
    inputs += [ends.astype(np.int32), columns.astype(np.int32), np.full((1,), total, np.int32), lengths.astype(np.int32)]
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads, "sparse_block_size": block, **pick(dice, {}, {"scale": 0.3})}
    if dice.random() < 0.5:
        attributes |= {"do_rotary": 1, "rotary_interleaved": int(dice.integers(2))}
        inputs += rotary_caches(dice, cache + int(dice.integers(5)), head // 2, dtype)
    case = Case(inputs, attributes, 3, atol=2e-3 if dtype == np.float16 else 1e-5)
    case.expected = one_by_one(case)
    return some_constants(dice, case, 5, 6, 7, 9, 10)


# ---- Packed sequences, and biases by position: without a CPU kernel, by their documentation
def packed_tokens(dice):
    """Lengths, the most of them, token_offset and cumulative_sequence_length."""
    batch = int(dice.integers(1, 4))
    lengths = dice.integers(1, 7, batch)
    most = int(lengths.max() + dice.integers(0, 2))
    real = [b * most + i for b in range(batch) for i in range(lengths[b])]
    rest = [i for i in range(batch * most) if i not in real]
    offset = np.array(real + rest, np.int32).reshape(batch, most)
    return lengths, most, offset, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def each_sequence(q, k, v, heads, lengths, scale, bias):
    """Softmax attention of each sequence of [token, width] tensors."""
    outputs, begin = [], 0
    for b, length in enumerate(lengths):
        parts = [x[begin:begin + length].astype(np.float64).reshape(length, heads, -1) for x in (q, k, v)]
        scores = np.einsum("ihd,jhd->hij", parts[0], parts[1]) * (scale or 1 / np.sqrt(parts[0].shape[2]))
        if bias is not None:
            scores += bias[b if bias.shape[0] > 1 else 0][:, :length, :length]
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        outputs.append(np.einsum("hij,jhd->ihd", weights, parts[2]).reshape(length, -1))
        begin += length
    return np.concatenate(outputs)


def packed_case(dice, dtype):
    lengths, most, offset, ends = packed_tokens(dice)
    heads, head, value_head = int(dice.integers(1, 4)), int(pick(dice, 2, 8)), int(pick(dice, 2, 8))
    bias = maybe(dice, floats(dice, pick(dice, 1, len(lengths)), pick(dice, 1, heads), most, most, dtype=dtype))
    return lengths, offset, ends, heads, head, value_head, bias, pick(dice, {}, {"scale": 0.3})


@op("PackedMultiHeadAttention")
def packed_multi_head_attention(dice):
    dtype = pick(dice, np.float32, np.float16)
    lengths, offset, ends, heads, head, value_head, bias, attributes = packed_case(dice, dtype)
    joined = dice.random() < 0.4
    value_head = head if joined else value_head
    q, k = (floats(dice, ends[-1], heads * head, dtype=dtype) for _ in range(2))
    v = floats(dice, ends[-1], heads * value_head, dtype=dtype)
    added = maybe(dice, floats(dice, heads * (2 * head + value_head), dtype=dtype))
    sums = [q, k, v] if added is None else [
        x + y for x, y in zip((q, k, v), np.split(added, [heads * head, 2 * heads * head]))]
    expected = each_sequence(*sums, heads, lengths, attributes.get("scale"), bias).astype(dtype)
    first = [np.stack([x.reshape(-1, heads, head) for x in (q, k, v)], 2), None, None] if joined else [q, k, v]
    case = Case([*first, added, offset, ends, bias], {"num_heads": heads, **attributes}, expected=[expected],
                atol=4e-3 if dtype == np.float16 else 1e-5)
    return some_constants(dice, case, 3, 4, 5, 6)


@op("PackedAttention")
def packed_attention(dice):
    lengths, offset, ends, heads, head, value_head, bias, attributes = packed_case(dice, np.float32)
    sizes = [heads * head, heads * head, heads * value_head]
    if head != value_head or dice.random() < 0.3:
        attributes["qkv_hidden_sizes"] = sizes
    width = int(dice.integers(1, 9))
    x, weights, added = floats(dice, ends[-1], width), floats(dice, width, sum(sizes)), floats(dice, sum(sizes))
    parts = np.split(x.astype(np.float64) @ weights + added, np.cumsum(sizes)[:2], 1)
    expected = each_sequence(*parts, heads, lengths, attributes.get("scale"), bias).astype(np.float32)
    case = Case([x, weights, added, offset, ends, bias], {"num_heads": heads, **attributes}, expected=[expected], atol=1e-4)
    return some_constants(dice, case, 1, 2, 3, 4, 5)


@op("GatedRelativePositionBias")
def gated_relative_position_bias(dice):
    lengths, most, offset, _ = packed_tokens(dice)
    batch, heads, head, half = len(lengths), *(int(dice.integers(1, 5)) for _ in range(3))
    packed = dice.random() < 0.4
    tokens = int(lengths.sum())
    x = floats(dice, tokens, heads * head) if packed else floats(dice, batch, most, heads * head)
    bias, rel_pos = floats(dice, heads * head), floats(dice, 1, heads, most, most)
    weight, added, eco = floats(dice, head, 2 * half), floats(dice, 2 * half), floats(dice, 1, heads, 1, 1)
    whole = x + bias
    if packed:
        whole = np.zeros((batch * most, heads * head), np.float32)
        whole[offset.reshape(-1)[:tokens]] = x + bias
    q = whole.reshape(batch, most, heads, head).transpose(0, 2, 1, 3).astype(np.float64)
    gates = 1 / (1 + np.exp(-(q @ weight + added).reshape(batch, heads, most, 2, half).sum(-1)))
    expected = (gates[..., :1] * (gates[..., 1:] * eco - 1) + 2) * rel_pos
    case = Case([x, bias, rel_pos, weight, added, eco, offset if packed else None], {"num_heads": heads},
                expected=[expected.astype(np.float32)], atol=1e-4)
    return some_constants(dice, case, 1, 2, 3, 4, 5)


@op("RelativePositionBias")
def relative_position_bias(dice):
    both, heads = bool(dice.integers(2)), int(dice.integers(1, 4))
    count, most = int(pick(dice, 8, 16, 32)), int(pick(dice, 20, 50, 128))
    length = int(dice.integers(1, 80))
    table = floats(dice, count, heads, dtype=pick(dice, np.float32, np.float16))
    d = np.arange(length)[None] - np.arange(length)[:, None]
    base, own = (np.where(d > 0, count // 2, 0), count // 2) if both else (0, count)
    d = np.abs(d) if both else np.maximum(-d, 0)
    exact = own // 2
    grown = np.log(np.maximum(d, 1) / np.float32(exact), dtype=np.float32) / np.log(np.float32(most / exact))
    far = np.minimum(exact + (grown * np.float32(own - exact)).astype(int), own - 1)
    bucket = base + np.where(d < exact, d, far)
    expected = table.reshape(heads, count)[:, bucket][None]
    attributes = {"max_distance": most, **({"is_bidirectional": 1} if both else pick(dice, {}, {"is_bidirectional": 0}))}
    inputs = [table] + [np.full(pick(dice, (), (1,)), length) for _ in range(2)]
    return Case(inputs, attributes, expected=[expected], constants=(0, 1, 2) if dice.random() < 0.5 else (0,))


@op("LongformerAttention")
def longformer_attention(dice):
    dtype = pick(dice, np.float32, np.float16)
    batch, heads, head, window = int(dice.integers(1, 3)), int(dice.integers(1, 4)), int(pick(dice, 2, 8)), int(dice.integers(1, 4))
    rows, width = 2 * window * int(dice.integers(1, 5)), heads * head
    x = floats(dice, batch, rows, width, dtype=dtype)
    weights = [floats(dice, width, 3 * width, dtype=dtype, scale=0.3) for _ in range(2)]
    biases = [floats(dice, 3 * width, dtype=dtype) for _ in range(2)]
    masked = dice.random((batch, rows)) < pick(dice, 0, 0.3)
    masked[:, 0] = False
    flags = (dice.random((batch, rows)) < pick(dice, 0, 0.3)) & ~masked
    flags[:, 0] = True
    near = np.abs(np.arange(rows)[:, None] - np.arange(rows)) <= window
    seen = ((near | flags[:, None]) & ~masked[:, None], np.broadcast_to(~masked[:, None], (batch, rows, rows)))
    results = []
    for weight, bias, visible in zip(weights, biases, seen):
        q, k, v = np.split(x.astype(np.float64) @ weight + bias, 3, 2)
        q, k, v = (t.reshape(batch, rows, heads, head) for t in (q, k, v))
        scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(head)
        scores = np.where(visible[:, None], scores, -np.inf)
        probabilities = np.exp(scores - scores.max(-1, keepdims=True))
        probabilities /= probabilities.sum(-1, keepdims=True)
        results.append(np.einsum("bhij,bjhd->bihd", probabilities, v).reshape(batch, rows, width))
    expected = np.where(flags[..., None], results[1], results[0]).astype(dtype)
    mask = np.where(masked, -10000.0, 0.0).astype(dtype)
    case = Case([x, weights[0], biases[0], mask, weights[1], biases[1], flags.astype(np.int32)],
                {"num_heads": heads, "window": window}, expected=[expected], atol=2e-2 if dtype == np.float16 else 1e-4)
    return some_constants(dice, case, 1, 2, 3, 4, 5, 6)


# Sequences with as many tokens each as `lengths` says, one behind the other.
def delta_net_inputs(dice, lengths, uniform, gate, rule, dtype):
    heads, size, value_size = int(dice.integers(1, 4)), *(int(v) for v in dice.integers(1, 9, 2))
    value_heads, tokens, batch = heads * int(dice.integers(1, 4)), sum(lengths), len(lengths)
    axes = (batch, lengths[0]) if uniform == 2 else (tokens,)
    qkv = [floats(dice, *axes, h, w, dtype=dtype) for h, w in ((heads, size), (heads, size), (value_heads, value_size))]
    wide, gates = dice.random() < 0.4, pick(dice, np.float32, dtype)
    state = floats(dice, batch, value_heads, value_size, size)
    inputs = [*qkv, None, None, None, state, None, None, None, None]
    if uniform == 0:
        inputs[3] = np.cumsum([0, *lengths]).astype(np.int32)
    if "gated" in rule:
        inputs[4] = -np.abs(floats(dice, *axes, value_heads, *(size,) * wide, dtype=gates))
        if gate != "none":
            bias = pick(dice, (value_heads,), (value_heads, size), (value_heads * size,)) if wide else (value_heads,)
            inputs[7:9] = floats(dice, value_heads, scale=0.3), floats(dice, *bias)
    if "delta" in rule:
        inputs[5] = dice.random((*axes, value_heads)).astype(gates)
    if dice.random() < 0.3:
        inputs[0], inputs[1], inputs[2] = np.concatenate([x.reshape(*axes, x.shape[-2] * x.shape[-1]) for x in qkv], -1), None, None
    elif uniform != 1 and dice.random() < 0.3:
        inputs[6] = None
    return inputs


@op("GatedDeltaNet", count=40)
def gated_delta_net(dice):
    batch, rule, dtype = int(dice.integers(1, 4)), pick(dice, "linear", "gated", "delta", "gated_delta"), pick(dice, np.float32, np.float16, ml_dtypes.bfloat16)
    uniform = int(dice.integers(3))  # 0: with cumulative lengths, 1: one axis of tokens, 2: two
    lengths = [int(v) for v in dice.integers(0, 6, batch)] if uniform == 0 else [int(dice.integers(1, 6))] * batch
    gate = pick(dice, "none", "softplus", "qwen", "sigmoid", "kda") if "gated" in rule else "none"
    inputs = delta_net_inputs(dice, lengths, uniform, gate, rule, dtype)
    attributes = {"update_rule": rule, "gate_activation": gate, **pick(dice, {}, {"scale": 0.3}), **pick(dice, {}, {"chunk_size": 16}),
                  "qk_l2_norm": int("delta" in rule or dice.integers(2)), **pick(dice, {}, {"gate_lower_bound": -2.0}),
                  "beta_activation": pick(dice, "none", "sigmoid") if "delta" in rule else "none"}
    outputs, room = int(dice.integers(1, 3)), int(dice.integers(1, 5))
    if dice.random() < 0.4:
        attributes["state_update_capacity"], outputs = room, 3
        inputs[9] = numbers(dice, 0, 7, batch, dtype=np.int32)
        inputs[10] = maybe(dice, np.array([dice.integers(2)], np.int32))
    while inputs[-1] is None:
        inputs.pop()
    return Case(inputs, attributes, outputs, rtol=1e-3 if dtype == np.float32 else 2e-2, atol=1e-4 if dtype == np.float32 else 2e-2)
