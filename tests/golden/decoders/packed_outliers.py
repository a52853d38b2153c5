"""A decoder of packed_outliers streams, written from "Stored bytes" of codecs/packed_outliers/README.md alone."""

import struct

from stream import main

STRIPS, STRIP_COLS, BLOCK_ROWS, PADDING = 8, 64, 16, 64


def group_fields(group, bits, width):
    """The fields of a group, strip after strip."""
    fields = [0] * (STRIPS * width)
    done = 0  # bits of every field that the planes before have given
    for plane in (4, 2, 1) if bits < 8 else (8,):
        if not bits & plane:
            continue
        for row in range(plane):
            for j in range(width):
                byte = group[(done + row) * width + j]
                for place, strip in enumerate(range(row, STRIPS, plane)):
                    fields[strip * width + j] |= (byte >> (place * plane) & ((1 << plane) - 1)) << done
        done += plane
    assert done == bits
    return fields


def decode(sections, settings, rows, cols):
    header, fields, blocks, distances, deltas = sections
    bits, lowest, distance_bytes, delta_bits = struct.unpack("<BbBB", header)
    assert settings["bits"] in ("0", str(bits))
    out = []
    at = 0
    for _ in range(rows):
        for first in range(0, cols, STRIPS * STRIP_COLS):
            here = min(cols - first, STRIPS * STRIP_COLS)
            width = STRIP_COLS if here == STRIPS * STRIP_COLS else -(-here // 32) * 4
            out += [lowest + f for f in group_fields(fields[at : at + bits * width], bits, width)[:here]]
            at += bits * width
    assert fields[at:] == bytes(PADDING)

    count = len(distances) // distance_bytes
    distance = struct.unpack("<%d%s" % (count, "B" if distance_bytes == 1 else "H"), distances)
    if delta_bits == 8:
        delta = struct.unpack("<%db" % count, deltas)
    else:
        halves = [half for byte in deltas for half in (byte & 15, byte >> 4)][:count]
        delta = [half - 16 if half > 7 else half for half in halves]
    first = struct.unpack("<%dQ" % (-(-rows // BLOCK_ROWS) + 1), blocks)
    assert first[0] == 0 and first[-1] == count
    for block in range(len(first) - 1):
        element = block * BLOCK_ROWS * cols
        for record in range(first[block], first[block + 1]):
            element += distance[record]
            assert element < (block + 1) * BLOCK_ROWS * cols
            out[element] += delta[record]
    return struct.pack("<%db" % len(out), *out)


if __name__ == "__main__":
    main(decode, takes_empty=True)
