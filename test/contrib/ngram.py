"""N-grams of tokens, hashes, words of characters."""
import numpy as np
from contrib_build import Case, floats, maybe, numbers, op, pick


@op("NGramRepeatBlock")
def ngram_repeat_block(dice):
    batch, length, vocabulary = pick(dice, 1, 3), pick(dice, 1, 2, 5, 20), pick(dice, 3, 7)
    return Case([numbers(dice, 0, 3, batch, length), floats(dice, batch, vocabulary)], {"ngram_size": pick(dice, 1, 2, 3, 4)})


@op("NGramHashMapping", count=40)
def ngram_hash_mapping(dice):
    dtype, most, heads = pick(dice, np.int32, np.int64), pick(dice, 2, 3, 4), pick(dice, 1, 2, 3)
    batch, length, count = pick(dice, 1, 2), pick(dice, 1, 2, 7), (most - 1) * heads
    limits = np.iinfo(dtype)
    inputs = [numbers(dice, 0, 5, batch, length, dtype=dtype), numbers(dice, limits.min // 4, limits.max // 4, most, dtype=dtype),
              numbers(dice, 1, 1000, count, dtype=dtype), maybe(dice, numbers(dice, 0, 5, batch, most - 1, dtype=dtype)),
              maybe(dice, numbers(dice, 0, 5000, count, dtype=dtype)), maybe(dice, np.array(2, dtype)),
              maybe(dice, np.sort(numbers(dice, 0, 3, batch, length, dtype=np.int32), 1))]
    attributes = {"max_ngram_size": most, "n_head_per_ngram": heads, "pad_id": int(dice.integers(0, 6)),
                  **pick(dice, {}, {"reset_on_eos": 1})}
    return Case(inputs, attributes, outputs=pick(dice, 1, 2))


@op("WordConvEmbedding")
def word_conv_embedding(dice):
    words, length, width, size, filters = pick(dice, 1, 5), pick(dice, 4, 7), pick(dice, 1, 2, 3), pick(dice, 1, 4), pick(dice, 1, 8)
    letters = numbers(dice, 1, 9, words, length, dtype=np.int32)
    for row in letters:
        row[int(dice.integers(1, length + 1)):] = 0
    attributes = pick(dice, {}, {"embedding_size": filters, "conv_window_size": width, "char_embedding_size": size})
    return Case([letters, floats(dice, filters, 1, width, size), floats(dice, filters), floats(dice, 9, size)], attributes,
                constants=pick(dice, (), (1, 2, 3)))


@op("BifurcationDetector", count=40)
def bifurcation_detector(dice):
    length, current = pick(dice, 1, 5, 12), pick(dice, 1, 2, 6)
    source, tokens = numbers(dice, 0, 3, length), numbers(dice, 0, 3, current)
    start = int(dice.integers(0, length + 1))
    guess = np.append(source[start:], 1)
    if dice.integers(2) and len(guess) > 1:
        guess[int(dice.integers(len(guess))):] = 3
    predicted = maybe(dice, guess, 0.7)
    least = pick(dice, 1, 2)
    attributes = pick(dice, {}, {"min_ngram_size": least, "max_ngram_size": least + int(dice.integers(0, 3))})
    return Case([source, tokens, np.array([start]), predicted], attributes, outputs=2)


def lengths_of(dice, count):
    """of sequences that are packed one behind the other"""
    return np.array([int(dice.integers(1, 6)) for _ in range(count)])


@op("VarlenNGramHashMapping", count=40)
def varlen_ngram_hash_mapping(dice):
    dtype, most, heads, batch = pick(dice, np.int32, np.int64), pick(dice, 2, 3, 4), pick(dice, 1, 2, 3), pick(dice, 1, 2, 4)
    lengths, count, limits = lengths_of(dice, batch), (most - 1) * heads, np.iinfo(dtype)
    tokens, room = int(lengths.sum()), pick(dice, 0, 0, 1, 3, 8)
    segments = maybe(dice, np.sort(numbers(dice, 0, 3, tokens, dtype=np.int32)))
    inputs = [numbers(dice, 0, 5, tokens, dtype=dtype),
              numbers(dice, limits.min // 4, limits.max // 4, most + pick(dice, 0, 1), dtype=dtype),
              numbers(dice, 1, 1000, count, dtype=dtype), np.append(0, np.cumsum(lengths)).astype(np.int32),
              maybe(dice, numbers(dice, 0, 5, batch, most - 1, dtype=dtype)), maybe(dice, numbers(dice, 0, 5000, count, dtype=dtype)),
              maybe(dice, np.array(2, dtype)), segments,
              None if segments is None else maybe(dice, numbers(dice, 0, 3, batch, most - 1, dtype=np.int32)),
              numbers(dice, -1, 9, batch, dtype=np.int32) if room else None]
    attributes = {"max_ngram_size": most, "n_head_per_ngram": heads, "pad_id": int(dice.integers(0, 6)),
                  **pick(dice, {}, {"reset_on_eos": 1}), **pick(dice, {"state_update_capacity": room}, {})} | (
                      {"state_update_capacity": room} if room else {})
    outputs = ["y0", pick(dice, "", "y1"), pick(dice, "", "y2") if segments is not None else "", "y3" if room else ""]
    return Case(inputs, attributes, outputs=outputs)
