"""A byte-pair tokenizer: 256 bytes, then one token for each pair that training joined, most frequent first.

Text is cut into pieces first, and pairs are joined within a piece only: a run of letters, of digits or of other signs, with the
space before it; or a run of spaces. tokenizer.c does the same.
"""
import collections

LONGEST = 32  # bytes of a piece
SPACES = b" \t\n\v\f\r"


def kind(byte):
    """Of letters (and all bytes of UTF-8 beyond ASCII) 0, of digits 1, of spaces 2, of other signs 3."""
    if byte >= 0x80 or chr(byte).isalpha():
        return 0
    return 1 if chr(byte).isdigit() else 2 if byte in SPACES else 3


KINDS = bytes(map(kind, range(256)))


def piece_end(text, start):
    """Where the piece that begins at start ends. A space belongs to the word after it."""
    at = start + 1
    first = KINDS[text[start]]
    if text[start] == 0x20 and at < len(text) and KINDS[text[at]] != 2:
        first = KINDS[text[at]]
    while at < len(text) and at - start < LONGEST and KINDS[text[at]] == first:
        if first == 2 and text[at] == 0x20 and at + 1 < len(text) and KINDS[text[at + 1]] != 2:
            break
        at += 1
    return at


def pieces(text):
    at = 0
    while at < len(text):
        end = piece_end(text, at)
        yield text[at:end]
        at = end


def join(word, pair, token):
    joined, at = [], 0
    while at < len(word):
        if at + 1 < len(word) and (word[at], word[at + 1]) == pair:
            joined.append(token)
            at += 2
        else:
            joined.append(word[at])
            at += 1
    return joined


def train(text, size):
    """The pairs that tokens 256 to size - 1 join."""
    counted = collections.Counter(pieces(text))
    words, times = [list(w) for w in counted], list(counted.values())
    pairs, places = collections.Counter(), collections.defaultdict(set)
    for i, word in enumerate(words):
        for pair in zip(word, word[1:]):
            pairs[pair] += times[i]
            places[pair].add(i)
    merges = []
    while len(merges) < size - 256:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        for i in places.pop(best):
            for pair in zip(words[i], words[i][1:]):
                pairs[pair] -= times[i]
            words[i] = join(words[i], best, 256 + len(merges))
            for pair in zip(words[i], words[i][1:]):
                pairs[pair] += times[i]
                places[pair].add(i)
        del pairs[best]
        merges.append(best)
    return merges


def encode(text, merges, known=None):
    """The tokens of bytes; known, a dict, keeps those of pieces already seen."""
    ranks = {pair: 256 + i for i, pair in enumerate(merges)}
    known = {} if known is None else known
    tokens = []
    for piece in pieces(text):
        if piece not in known:
            word = list(piece)
            while len(word) > 1:
                pair = min(zip(word, word[1:]), key=lambda p: ranks.get(p, 1 << 30))
                if pair not in ranks:
                    break
                word = join(word, pair, ranks[pair])
            known[piece] = word
        tokens += known[piece]
    return tokens


def spellings(merges):
    """The bytes of each token."""
    spelt = [bytes([i]) for i in range(256)]
    for left, right in merges:
        spelt.append(spelt[left] + spelt[right])
    return spelt
