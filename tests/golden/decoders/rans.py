"""A decoder of rans streams, written from "The format in full" of codecs/rans/README.md alone."""

import struct

from stream import blocks_of, main

# state -> (format of a state, format of a word, bits of a word, lower bound)
FORMS = {
    "w16s32": ("I", "H", 16, 1 << 16),
    "w32s64": ("Q", "I", 32, 1 << 31),
    "w8s32": ("I", "B", 8, 1 << 23),
}


def slot_table(frequency, prob_bits):
    """(symbol, rank) of each of the 2^prob_bits slots."""
    symbols = len(frequency)
    bucket_bits = next(k for k in (6, 7, 8) if 1 << k >= symbols)
    buckets, size = 1 << bucket_bits, 1 << (prob_bits - bucket_bits)
    left = frequency + [0] * (buckets - symbols)
    split, alias, bias = [size] * buckets, [None] * buckets, [0] * buckets
    small, large = [], []
    for s in reversed(range(buckets)):
        (small if left[s] < size else large).append(s)
    while small:
        b, g = small.pop(), large[-1]
        split[b], alias[b] = left[b], g
        left[g] -= size - left[b]
        bias[b] = left[g] - split[b]
        if left[g] < size:
            small.append(large.pop())
    table = []
    for slot in range(1 << prob_bits):
        bucket, position = slot % buckets, slot // buckets
        if position < split[bucket]:
            table.append((bucket, position))
        else:
            table.append((alias[bucket], position + bias[bucket]))
    assert sorted(table) == [(s, r) for s in range(symbols) for r in range(frequency[s])]
    return table


def decode(sections, settings, rows, cols):
    alphabet, offsets, payload = sections
    prob_bits, lanes = int(settings["prob_bits"]), int(settings["lanes"])
    state_format, word_format, word_bits, lower = FORMS[settings["state"]]
    symbols = len(alphabet) // 3
    values = alphabet[:symbols]
    frequency = [f + 1 for f in struct.unpack_from("<%dH" % symbols, alphabet, symbols)]
    assert sum(frequency) == 1 << prob_bits
    table = slot_table(frequency, prob_bits)

    out = bytearray()
    for elements, block in blocks_of(rows, cols, int(settings["block_elements"]), offsets, payload, 128):
        states = list(struct.unpack_from("<%d%s" % (lanes, state_format), block))
        words = struct.iter_unpack("<" + word_format, block[struct.calcsize("<%d%s" % (lanes, state_format)) :])
        for i in range(-(-elements // lanes) * lanes):
            x = states[i % lanes]
            symbol, rank = table[x % (1 << prob_bits)]
            if i < elements:
                out.append(values[symbol])
            x = frequency[symbol] * (x >> prob_bits) + rank
            while x < lower:
                x = x << word_bits | next(words)[0]
            states[i % lanes] = x
        assert states == [lower] * lanes
        assert next(words, None) is None
    return bytes(out)


if __name__ == "__main__":
    main(decode)
