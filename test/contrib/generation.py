"""Text generation: GreedySearch, BeamSearch, Sampling and WhisperBeamSearch with small random decoders."""
import numpy as np
from contrib_build import Case, floats, maybe, numbers, op, pick
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
INTS = TensorProto.INT32


class Network:
    """Nodes and initializers of a graph."""

    def __init__(self, dice, prefix):
        self.dice, self.prefix, self.nodes, self.held, self.count = dice, prefix, [], [], 0

    def name(self):
        self.count += 1
        return f"{self.prefix}{self.count}"

    def op(self, kind, *inputs, outputs=1, to=None, domain="", to_type=None, **attributes):
        names = [to] if to else [self.name() for _ in range(outputs)]
        if to_type:
            attributes["to"] = to_type
        self.nodes.append(helper.make_node(kind, [v or "" for v in inputs], names, domain=domain, **attributes))
        return names[0] if len(names) == 1 else names

    def hold(self, value):
        name = self.name()
        self.held.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def ints(self, *values):
        return self.hold(np.array(values, np.int64))

    def weight(self, *shape, scale=None):
        return self.hold(floats(self.dice, *shape, scale=scale or shape[0] ** -0.5))

    def size(self, v, axis):
        return self.op("Shape", v, start=axis, end=axis + 1)

    def heads(self, x, count, size):
        """(B, S, H * D) as (B, H, S, D)"""
        return self.op("Transpose", self.op("Reshape", x, self.ints(0, 0, count, size)), perm=[0, 2, 1, 3])

    def merged(self, x, width):
        return self.op("Reshape", self.op("Transpose", x, perm=[0, 2, 1, 3]), self.ints(0, 0, width))

    def attention(self, q, k, v, size, bias):
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.op("Mul", scores, self.hold(np.float32(size ** -0.5)))
        if bias:
            scores = self.op("Add", scores, bias)
        return self.op("MatMul", self.op("Softmax", scores, axis=-1), v)

    def bias(self, allowed):
        return self.op("Where", allowed, self.hold(np.float32(0)), self.hold(np.float32(-10000)))

    def causal(self, queries, past):
        """(S, P + S): query i sees keys up to P + i; queries, past: vectors of one size"""
        zero, one = self.hold(np.int64(0)), self.hold(np.int64(1))
        first, count = self.op("Squeeze", past), self.op("Squeeze", queries)
        last = self.op("Add", first, count)
        rows = self.op("Unsqueeze", self.op("Range", first, last, one), self.ints(1))
        return self.op("LessOrEqual", self.op("Range", zero, last, one), rows)

    def masked(self, mask):
        """(B, 1, 1, T) of an attention mask (B, T)"""
        return self.op("Unsqueeze", self.op("Greater", mask, self.hold(np.int32(0))), self.ints(1, 2))

    def graph(self, name, inputs, outputs):
        return helper.make_graph(self.nodes, name, inputs, outputs, self.held)


def info(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def gpt_graph(net, name, vocabulary, layers, heads, size, width, fused):
    embedding = net.weight(vocabulary, width, scale=1.5)
    x = net.op("Add", net.op("Gather", embedding, "input_ids"), net.op("Gather", net.weight(64, width, scale=0.7), "position_ids"))
    if not fused:
        allowed = net.causal(net.size("input_ids", 1), net.size("past_0", 3))
        bias = net.bias(net.op("And", allowed, net.masked("attention_mask")))
    for i in range(layers):
        if fused:
            y, _ = net.op("Attention", x, net.weight(width, 3 * width), net.weight(3 * width, scale=0.1), "attention_mask",
                          f"past_{i}", outputs=2, domain=MICROSOFT, num_heads=heads, unidirectional=1)
            net.nodes[-1].output[1] = f"present_{i}"
        else:
            qkv = net.op("MatMul", x, net.weight(width, 3 * width))
            q, k, v = (net.heads(part, heads, size) for part in net.op("Split", qkv, outputs=3, axis=2, num_outputs=3))
            k = net.op("Concat", net.op("Gather", f"past_{i}", net.hold(np.int64(0)), axis=0), k, axis=2)
            v = net.op("Concat", net.op("Gather", f"past_{i}", net.hold(np.int64(1)), axis=0), v, axis=2)
            zero = net.ints(0)
            net.op("Concat", net.op("Unsqueeze", k, zero), net.op("Unsqueeze", v, zero), axis=0, to=f"present_{i}")
            y = net.merged(net.attention(q, k, v, size, bias), width)
        x = net.op("Add", x, net.op("MatMul", y, net.weight(width, width)))
    net.op("MatMul", x, net.weight(width, vocabulary, scale=1.2 * width ** -0.5), to="logits")
    past = [info(f"past_{i}", [2, "batch", heads, "past", size]) for i in range(layers)]
    present = [info(f"present_{i}", [2, "batch", heads, "total", size]) for i in range(layers)]
    return net.graph(name, [info("input_ids", ["batch", "length"], INTS), info("position_ids", ["batch", "length"], INTS),
                            info("attention_mask", ["batch", "total"], INTS), *past],
                     [info("logits", ["batch", "length", vocabulary]), *present])


def one(value, dtype=np.int32):
    return np.array([value], dtype)


def vocabulary_mask(dice, *shape):
    return (dice.random(shape) < 0.8).astype(np.int32)


def prompt(dice, vocabulary, pad):
    batch, length = pick(dice, 1, 2, 3), pick(dice, 1, 2, 5)
    ids = numbers(dice, 0, vocabulary, batch, length, dtype=np.int32)
    for row in ids:  # padding on the left
        row[:int(dice.integers(0, length))] = pad
    return ids


def drawn(dice, count):
    """The numbers of inputs that are initializers."""
    return pick(dice, (), tuple(range(1, count)), tuple(i for i in range(count) if dice.random() < 0.5))


def with_vocabulary(dice, attributes, vocabulary, decoder):
    """vocab_size may be smaller than the logits are wide: ONNX Runtime is asked about narrower logits, as it reads those of
    later rows at wrong places."""
    asked = dict(attributes)
    for name, graph in decoder.items():
        attributes[name] = asked[name] = graph
    choice = int(dice.integers(4))
    if choice == 1:
        attributes["vocab_size"] = pick(dice, -1, 0, vocabulary)
    if choice == 2:
        width = vocabulary + int(dice.integers(1, 4))
        attributes["vocab_size"] = vocabulary
        attributes.update({name: widened(dice, graph, width) for name, graph in decoder.items()})
    return asked


def widened(dice, graph, width):
    """The graph with more logits."""
    wide = type(graph)()
    wide.CopyFrom(graph)
    if wide.output[0].name != "logits":
        return wide
    for node in wide.node:
        node.output[:] = ["narrow" if v == "logits" else v for v in node.output]
    narrow = wide.output[0].type.tensor_type.shape.dim[2].dim_value
    wide.initializer.append(numpy_helper.from_array(floats(dice, narrow, width - narrow, scale=3), "more"))
    wide.node.append(helper.make_node("MatMul", ["narrow", "more"], ["others"]))
    wide.node.append(helper.make_node("Concat", ["narrow", "others"], ["logits"], axis=2))
    wide.output[0].type.tensor_type.shape.dim[2].dim_value = width
    return wide


def asked_case(case, attributes, defaults=()):
    """What ONNX Runtime is asked; `defaults`: of optional inputs that it demands."""
    inputs = list(case.inputs)
    for i, value in defaults:
        inputs[i] = value if inputs[i] is None else inputs[i]
    return Case(inputs, attributes, case.outputs, case.constants, unwritten=case.unwritten)


def gpt_attributes(dice, vocabulary, eos, pad):
    layers, (heads, size) = pick(dice, 1, 1, 2), (pick(dice, 1, 2), pick(dice, 2, 4))
    graphs = {name: gpt_graph(Network(dice, name[0]), name, vocabulary, layers, heads, size, heads * size, dice.random() < 0.3)
              for name in pick(dice, ("decoder",), ("decoder",), ("decoder", "init_decoder"))}
    attributes = {"eos_token_id": eos, "pad_token_id": pad}
    if dice.random() < 0.4:
        attributes["no_repeat_ngram_size"] = int(dice.integers(0, 4))
    return attributes, with_vocabulary(dice, attributes, vocabulary, graphs)


@op("GreedySearch")
def greedy_search(dice):
    vocabulary = pick(dice, 5, 9, 16)
    eos = int(dice.integers(vocabulary))
    pad = pick(dice, eos, int(dice.integers(vocabulary)))
    ids = prompt(dice, vocabulary, pad)
    longest = ids.shape[1] + pick(dice, 1, 2, 5, 9)
    attributes, asked = gpt_attributes(dice, vocabulary, eos, pad)
    inputs = [ids, one(longest), maybe(dice, one(int(dice.integers(0, longest + 2)))),
              maybe(dice, one(pick(dice, 1.0, 1.3, 0.8), np.float32)), maybe(dice, vocabulary_mask(dice, vocabulary)),
              maybe(dice, vocabulary_mask(dice, len(ids), vocabulary)),
              maybe(dice, numbers(dice, 0, 2, *ids.shape, dtype=np.int32), 0.3)]
    case = Case(inputs, attributes, constants=drawn(dice, 7), unwritten=pad)
    case.asked = asked_case(case, asked)
    return case


def with_presence(graph, bias):
    """The graph with `bias` (batch, vocabulary) subtracted from the logits."""
    changed = type(graph)()
    changed.CopyFrom(graph)
    for node in changed.node:
        node.output[:] = ["before" if v == "logits" else v for v in node.output]
    changed.initializer.append(numpy_helper.from_array(bias[:, None].astype(np.float32), "presence"))
    changed.node.append(helper.make_node("Sub", ["before", "presence"], ["logits"]))
    return changed


def frequencies(dice):
    """How often tokens follow 4096 equal prompts: a model of Sampling and the means of what it gives."""
    vocabulary = pick(dice, 5, 9)
    net, decoder = Network(dice, "n"), Network(dice, "d")
    chosen = {"custom": int(dice.integers(2)), "top_p": float(np.float32(dice.uniform(0.3, 0.99))), "temperature": pick(dice, 1.0, 2.0)}
    if not chosen["custom"]:
        chosen["min_tokens_to_keep"] = int(dice.integers(0, 3))
    sequences = net.op("Sampling", "x0", net.hold(one(3)), None, None, None, None, None, None, net.hold(one(int(dice.integers(100)))),
                       domain=MICROSOFT, eos_token_id=vocabulary, pad_token_id=vocabulary,
                       decoder=gpt_graph(decoder, "decoder", vocabulary, 1, 1, 4, 4, False), **chosen)
    tokens = net.op("Unsqueeze", net.op("Slice", sequences, net.ints(1), net.ints(3), net.ints(1)), net.ints(2))
    hits = net.op("Cast", net.op("Equal", tokens, net.hold(np.arange(vocabulary, dtype=np.int32))), to_type=TensorProto.FLOAT)
    net.op("ReduceMean", hits, net.ints(0), keepdims=0, to="y0")
    graph = net.graph("case", [info("x0", [4096, 1], INTS)], [info("y0", [2, vocabulary])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)], ir_version=10)
    return Case([np.full((4096, 1), int(dice.integers(vocabulary)), np.int32)], model=model, rtol=0, atol=0.05)


@op("Sampling")
def sampling(dice):
    return frequencies(dice) if dice.random() < 0.2 else sampling_case(dice)


def sampling_case(dice):
    """Options that leave one token, or a low temperature: which tokens others draw depends on the random numbers.

    ONNX Runtime subtracts the penalties of all tokens from the score of the first: it is asked about a decoder that
    subtracts them.
    """
    case = greedy_search(dice)
    attributes, asked, (ids, vocabulary) = case.attributes, dict(case.asked.attributes), (case.inputs[0], vocabulary_of(case))
    custom, single = int(dice.integers(2)), dice.random() < 0.5
    chosen = {"custom": custom, "top_p": 0.0 if single else float(np.float32(dice.uniform(0.05, 0.99))),
              "temperature": pick(dice, 1.0, 0.7, 1.5, 0.0) if single else 1e-5,
              **pick(dice, {}, {"filter_value": -1e30}, {"filter_value": float("-inf")})}
    if not custom:
        chosen["min_tokens_to_keep"] = 1 if single else int(dice.integers(0, vocabulary))
    presence, seed = None, maybe(dice, one(int(dice.integers(0, 1000))))
    if dice.random() < 0.4:
        presence, case.inputs[3] = numbers(dice, 0, 2, len(ids), vocabulary, dtype=np.int32), None
        chosen["presence_penalty"] = pick(dice, 0.0, 2.0, -1.5)
    if attributes.get("no_repeat_ngram_size") in (1, 2):  # which may leave no token
        chosen["no_repeat_ngram_size"] = 3
    attributes.update(chosen)
    asked.update(chosen)
    if presence is not None:
        scale = chosen["presence_penalty"] * (chosen["temperature"] or 1)
        asked.update({name: with_presence(asked[name], presence * scale) for name in ("decoder", "init_decoder") if name in asked})
    case.inputs += [presence, seed]
    case.constants = drawn(dice, 9)
    case.asked = asked_case(case, asked)
    case.asked.inputs[7] = None
    return case


def vocabulary_of(case):
    return case.asked.attributes["decoder"].output[0].type.tensor_type.shape.dim[2].dim_value


# ---- Encoders and decoders like T5's
class Shape:
    """Sizes of an encoder and its decoder."""

    def __init__(self, dice, vocabulary):
        self.vocabulary, self.layers, self.heads, self.size = vocabulary, pick(dice, 1, 1, 2), pick(dice, 1, 2), pick(dice, 2, 4)
        self.width = self.heads * self.size

    def caches(self, kind, name, length):
        return [info(f"{kind}_{part}_{name}_{i}", ["batch", self.heads, length, self.size])
                for i in range(self.layers) for part in ("key", "value")]


def project(net, x, shape, to=None):
    heads = net.op("Reshape", net.op("MatMul", x, net.weight(shape.width, shape.width)), net.ints(0, 0, shape.heads, shape.size))
    return net.op("Transpose", heads, perm=[0, 2, 1, 3], to=to)


def encode(net, x, shape, mask):
    """The hidden states, from x (B, S, width)."""
    bias = net.bias(net.masked(mask)) if mask else None
    q, k, v = (project(net, x, shape) for _ in range(3))
    y = net.merged(net.attention(q, k, v, shape.size, bias), shape.width)
    return net.op("Add", x, y)


def cross_caches(net, hidden, shape):
    for i in range(shape.layers):
        project(net, hidden, shape, f"present_key_cross_{i}")
        project(net, hidden, shape, f"present_value_cross_{i}")


def decode(net, ids, shape, mask, past, cross):
    """logits and present_*_self of the tokens ids; past, cross: prefixes of names; past None: there are none."""
    x = net.op("Gather", net.weight(shape.vocabulary, shape.width, scale=1.5), ids)
    first = net.size(f"{past}_key_self_0", 2) if past else net.ints(0)
    count = net.size(ids, 1)
    places = net.op("Range", net.op("Squeeze", first), net.op("Squeeze", net.op("Add", first, count)), net.hold(np.int64(1)))
    x = net.op("Add", x, net.op("Gather", net.weight(64, shape.width, scale=0.7), places))
    causal = net.bias(net.causal(count, first))
    for i in range(shape.layers):
        q, k, v = (project(net, x, shape) for _ in range(3))
        k = net.op("Concat", f"{past}_key_self_{i}", k, axis=2, to=f"present_key_self_{i}") if past else net.op(
            "Identity", k, to=f"present_key_self_{i}")
        v = net.op("Concat", f"{past}_value_self_{i}", v, axis=2, to=f"present_value_self_{i}") if past else net.op(
            "Identity", v, to=f"present_value_self_{i}")
        x = net.op("Add", x, net.merged(net.attention(q, k, v, shape.size, causal), shape.width))
        bias = net.bias(net.masked(mask)) if mask else None
        y = net.attention(project(net, x, shape), f"{cross}_key_cross_{i}", f"{cross}_value_cross_{i}", shape.size, bias)
        x = net.op("Add", x, net.op("MatMul", net.merged(y, shape.width), net.weight(shape.width, shape.width)))
    net.op("MatMul", x, net.weight(shape.width, shape.vocabulary, scale=1.2 * shape.width ** -0.5), to="logits")


def t5_encoder(dice, shape, with_start):
    net = Network(dice, "e")
    x = net.op("Gather", net.weight(shape.vocabulary, shape.width, scale=1.5), "encoder_input_ids")
    hidden = encode(net, x, shape, "encoder_attention_mask")
    inputs = [info("encoder_input_ids", ["batch", "length"], INTS), info("encoder_attention_mask", ["batch", "length"], INTS)]
    cross_caches(net, hidden, shape)
    cross = shape.caches("present", "cross", "length")
    if not with_start:
        return net.graph("encoder", inputs, cross)
    net.op("Identity", hidden, to="encoder_hidden_states")
    decode(net, "decoder_input_ids", shape, "encoder_attention_mask", None, "present")
    outputs = [info("logits", ["batch", 1, shape.vocabulary]), info("encoder_hidden_states", ["batch", "length", shape.width]),
               *shape.caches("present", "self", 1), *cross]
    return net.graph("encoder", [*inputs, info("decoder_input_ids", ["batch", 1], INTS)], outputs)


def t5_decoder(dice, shape, with_states, whole, with_ids):
    """whole: the decoder gets all tokens, and takes the last one; with_ids: it masks tokens that are 1 for the encoder."""
    net = Network(dice, "d")
    ids = net.op("Slice", "input_ids", net.ints(-1), net.ints(2 ** 31), net.ints(1)) if whole else "input_ids"
    mask = "encoder_attention_mask"
    if with_ids:
        mask = net.op("Where", net.op("Equal", "encoder_input_ids", net.hold(np.int32(1))), net.hold(np.int32(0)), mask)
    decode(net, ids, shape, mask, "past", "past")
    inputs = [info("input_ids", ["batch", "tokens" if whole else 1], INTS)]
    inputs += [info("encoder_input_ids", ["batch", "length"], INTS)] if with_ids else []
    inputs.append(info("encoder_attention_mask", ["batch", "length"], INTS))
    if with_states:
        inputs.append(info("encoder_hidden_states", ["batch", "length", shape.width]))
    inputs += [*shape.caches("past", "self", "past"), *shape.caches("past", "cross", "length")]
    return net.graph("decoder", inputs, [info("logits", ["batch", 1, shape.vocabulary]), *shape.caches("present", "self", "total")])


def whisper_encoder(dice, shape, features, length):
    """length: of the decoder's first tokens."""
    net = Network(dice, "e")
    x = net.op("MatMul", net.op("Transpose", "encoder_input_ids", perm=[0, 2, 1]), net.weight(features, shape.width))
    net.op("Identity", encode(net, x, shape, None), to="encoder_hidden_states")
    cross_caches(net, "encoder_hidden_states", shape)
    decode(net, "decoder_input_ids", shape, None, None, "present")
    outputs = [info("logits", ["batch", length, shape.vocabulary]), info("encoder_hidden_states", ["batch", "frames", shape.width]),
               *shape.caches("present", "self", length), *shape.caches("present", "cross", "frames")]
    return net.graph("encoder", [info("encoder_input_ids", ["batch", features, "frames"]),
                                 info("decoder_input_ids", ["batch", length], INTS)], outputs)


def whisper_decoder(dice, shape, with_states, whole):
    net = Network(dice, "d")
    ids = net.op("Slice", "input_ids", net.ints(-1), net.ints(2 ** 31), net.ints(1)) if whole else "input_ids"
    decode(net, ids, shape, None, "past", "past")
    inputs = [info("input_ids", ["batch", "tokens" if whole else 1], INTS)]
    if with_states:
        inputs.append(info("encoder_hidden_states", ["batch", "frames", shape.width]))
    inputs += [*shape.caches("past", "self", "past"), *shape.caches("past", "cross", "frames")]
    return net.graph("decoder", inputs, [info("logits", ["batch", 1, shape.vocabulary]), *shape.caches("present", "self", "total")])


# ---- Beam search
def search_inputs(dice, ids, vocabulary, start, checks):
    """checks: False if the encoder gives the first logits, which ONNX Runtime does not take if they are the only ones."""
    longest, beams = start + pick(dice, 1 if checks else 3, 2, 5, 9), pick(dice, 1, 2, 3, 4)
    return [ids, one(longest), maybe(dice, one(int(dice.integers(0, longest)))), one(beams),
            one(int(dice.integers(1, beams + 1))), maybe(dice, one(pick(dice, 1.0, 0.0, 0.7, 2.0, -1.0), np.float32)),
            maybe(dice, one(pick(dice, 1.0, 1.3, 0.8), np.float32)), maybe(dice, vocabulary_mask(dice, vocabulary), 0.3),
            maybe(dice, vocabulary_mask(dice, len(ids), vocabulary), 0.3),
            maybe(dice, numbers(dice, 0, 2, *ids.shape, dtype=np.int32), 0.3)]


def steps_of(scores, inputs, attributes, start, continues):
    """How many of the steps in `scores` took place, by the search that they tell of; continues: the first never ends it."""
    beams, early = int(inputs[3][0]), attributes.get("early_stopping", 0) == 1
    penalty = float(inputs[5][0]) if inputs[5] is not None else 1.0
    steps, batch, _, vocabulary = scores.shape
    worst = [[] for _ in range(batch)]
    done = [False] * batch
    for step in range(steps):
        flat = scores[step].reshape(batch, -1)
        best = np.argsort(-flat, axis=1, kind="stable")[:, :2 * beams]
        values = np.take_along_axis(flat, best, 1).reshape(-1)
        length = float(start + step) ** penalty
        for b in range(batch):
            if done[b]:
                continue
            for place in best[b, :beams]:
                if place % vocabulary == attributes["eos_token_id"]:
                    worst[b] = sorted(worst[b] + [flat[b, place] / length], reverse=True)[:beams]
            top = values[b * beams:(b + 2) * beams].max() / length
            done[b] = len(worst[b]) == beams and (early or not worst[b][-1] < top)
        if all(done) and (step or not continues):
            return step + 1
    return steps


def without_rest(outputs, case, start, continues):
    """Scores of steps that did not take place are zeros; ONNX Runtime returns what was in memory."""
    if outputs[-1].ndim == 4:
        outputs[-1][steps_of(outputs[-1], case.inputs, case.attributes, start, continues):] = 0
    return outputs


def t5_attributes(dice, vocabulary, eos, pad):
    shape, with_start = Shape(dice, vocabulary), dice.random() < 0.5
    with_states = with_start and dice.random() < 0.5
    graphs = {"encoder": t5_encoder(dice, shape, with_start),
              "decoder": t5_decoder(dice, shape, with_states, dice.random() < 0.3, dice.random() < 0.3)}
    attributes = {"eos_token_id": eos, "pad_token_id": pad, "model_type": 1,
                  "decoder_start_token_id": pick(dice, pad, int(dice.integers(vocabulary)))}
    if dice.random() < 0.4:
        attributes["no_repeat_ngram_size"] = int(dice.integers(0, 4))
    return attributes, with_vocabulary(dice, attributes, vocabulary, graphs), not with_start


SEARCH_DEFAULTS = ((2, one(0)), (5, one(1.0, np.float32)))


@op("BeamSearch", count=40)
def beam_search(dice):
    vocabulary = pick(dice, 3, 5, 8, 16)
    eos = int(dice.integers(vocabulary))
    pad = pick(dice, eos, int(dice.integers(vocabulary)))
    ids = prompt(dice, vocabulary, pad)
    if dice.random() < 0.5:
        (attributes, asked), checks, start = gpt_attributes(dice, vocabulary, eos, pad), True, ids.shape[1]
    else:
        attributes, asked, checks = t5_attributes(dice, vocabulary, eos, pad)
        start = 1
    early = int(dice.integers(2))
    for each in (attributes, asked):
        each["early_stopping"] = early
    case = Case(search_inputs(dice, ids, vocabulary, start, checks), attributes, pick(dice, 1, 2, 3, ["y0", "", "y2"]),
                constants=drawn(dice, 10), unwritten=pad)
    case.asked = asked_case(case, asked, SEARCH_DEFAULTS)
    case.corrected = lambda outputs: without_rest(outputs, case, start, not checks)
    return case


@op("WhisperBeamSearch")
def whisper_beam_search(dice):
    vocabulary = pick(dice, 12, 12, 16, 70)
    eos, batch, length, features = int(dice.integers(1, 5)), pick(dice, 1, 2, 3), pick(dice, 1, 2, 4), pick(dice, 2, 3)
    pad, start, shape = pick(dice, eos, int(dice.integers(5))), int(dice.integers(vocabulary)), Shape(dice, vocabulary)
    forced = numbers(dice, 0, vocabulary, batch, length, dtype=np.int32)
    if length == 1 and dice.random() < 0.5:
        forced = None
    attributes = {"eos_token_id": eos, "pad_token_id": pad, "early_stopping": int(dice.integers(2)), "decoder_start_token_id": start}
    if dice.random() < 0.4:
        attributes["no_repeat_ngram_size"] = int(dice.integers(0, 4))
    names = ("translate_token_id", "transcribe_token_id", "start_of_lm_token_id", "no_timestamps_token_id", "no_speech_token_id")
    attributes.update({name: int(dice.integers(vocabulary)) for name in names if dice.random() < 0.7})
    attributes["beginning_timestamp_token_id"] = int(dice.integers(6, 10))
    graphs = {"encoder": whisper_encoder(dice, shape, features, length),
              "decoder": whisper_decoder(dice, shape, dice.random() < 0.5, dice.random() < 0.3)}
    asked = with_vocabulary(dice, attributes, vocabulary, graphs)
    sound = floats(dice, batch, features, pick(dice, 1, 4, 7))
    temperature = maybe(dice, one(pick(dice, 1.0, 0.5, 2.0, 0.0), np.float32))
    inputs = [*search_inputs(dice, sound, vocabulary, length, False)[:9], None, forced,
              maybe(dice, one(int(dice.random() < 0.8)), 0.7), None, None, temperature]
    outputs = pick(dice, 1, 2, 3, ["y0", "", "y2"], ["y0", "", "y2", "", "y4"])
    if len(outputs if isinstance(outputs, list) else []) == 5:  # ONNX Runtime returns zeros for y4: scores that nothing changed
        for i in (2, 6, 7, 8, 11, 14):
            inputs[i] = None
        attributes["no_repeat_ngram_size"] = asked["no_repeat_ngram_size"] = 0
        token = attributes["no_speech_token_id"] = asked["no_speech_token_id"] = int(dice.integers(vocabulary))
    case = Case(inputs, attributes, outputs, constants=drawn(dice, 15), unwritten=pad)
    case.asked = asked_case(case, asked, SEARCH_DEFAULTS)
    if isinstance(outputs, list) and len(outputs) == 5:
        case.corrected = lambda outputs: [*without_rest(outputs[:2], case, length, True), np.exp(outputs[1][0, :, 0, token])]
    else:
        case.corrected = lambda outputs: without_rest(outputs, case, length, True)
    return case
