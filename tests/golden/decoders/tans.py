"""A decoder of tans streams, written from "The format in full" of codecs/tans/README.md alone."""

import struct

from stream import blocks_of, main


def read_alphabet(alphabet, pairs):
    """Values and frequencies by symbol; the value of an escape is None."""
    if not pairs:
        n = len(alphabet) // 3
        return list(alphabet[:n]), [f + 1 for f in struct.unpack_from("<%dH" % n, alphabet, n)]
    n = (len(alphabet) - 2) // 4
    (escape,) = struct.unpack_from("<H", alphabet)
    values = list(struct.unpack_from("<%dH" % n, alphabet, 2))
    frequency = [f + 1 for f in struct.unpack_from("<%dH" % n, alphabet, 2 + 2 * n)]
    return (values, frequency) if escape == 0 else (values + [None], frequency + [escape])


def spread(frequency, size, even):
    """The symbol of each state."""
    symbol_of = [None] * size
    if even:
        places = sorted(
            ((2 * i + 1) * size // (2 * q), symbol) for symbol, q in enumerate(frequency) for i in range(q)
        )
        return [symbol for _, symbol in places]
    state = 0
    for symbol, q in enumerate(frequency):
        for _ in range(q):
            assert symbol_of[state] is None
            symbol_of[state] = symbol
            state = (state + size // 2 + size // 8 + 3) % size
    return symbol_of


def decoding_table(values, frequency, table_bits, even):
    """(value, bits, what the next state is added to) of each state."""
    size = 1 << table_bits
    assert sum(frequency) == size
    x = list(frequency)
    table = []
    for symbol in spread(frequency, size, even):
        bits = table_bits - (x[symbol].bit_length() - 1)
        table.append((values[symbol], bits, (x[symbol] << bits) - size))
        x[symbol] += 1
    return table


def decode(sections, settings, rows, cols):
    alphabet, offsets, payload = sections
    lanes, pairs = int(settings["lanes"]), settings["symbols"] == "pairs"
    values, frequency = read_alphabet(alphabet, pairs)
    table = decoding_table(values, frequency, int(settings["table_bits"]), settings["spread"] == "even")

    out = bytearray()
    for elements, block in blocks_of(rows, cols, int(settings["block_elements"]), offsets, payload, 64):
        states = list(struct.unpack_from("<%dH" % lanes, block))
        source, window, available = iter(block[2 * lanes :]), 0, 0
        decoded = bytearray()

        def take(count):
            nonlocal window, available
            while available < count:
                window |= next(source) << available
                available += 8
            number = window & ((1 << count) - 1)
            window >>= count
            available -= count
            return number

        symbols = -(-elements // 2) if pairs else elements
        for i in range(-(-symbols // lanes) * lanes):
            value, count, base = table[states[i % lanes]]
            states[i % lanes] = base + take(count)
            if value is None:
                value = take(16)
            if pairs:
                decoded += bytes((value & 255, value >> 8))
            else:
                decoded.append(value)
        assert states == [0] * lanes
        assert window == 0 and next(source, None) is None
        out += decoded[:elements]
    return bytes(out)


if __name__ == "__main__":
    main(decode)
