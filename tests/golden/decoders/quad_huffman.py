"""A decoder of quad_huffman streams, written from codecs/quad_huffman/FORMAT.md alone."""

import struct

from stream import main

LANES = 32
ROTATIONS = (0, 8, 4, -4)  # of the four pairs of columns of a symbol of exponents


def rotated(word, bits):
    """The 32-bit word rotated left."""
    bits %= 32
    return (word << bits | word >> (32 - bits)) & 0xFFFFFFFF


def words_of(data):
    return struct.unpack("<%dI" % (len(data) // 4), data)


class Header:
    def __init__(self, data):
        self.B, self.folded, self.f8 = data[0] & 15, data[0] >> 4 & 1, data[0] >> 6 & 1
        self.T = data[1]
        (self.lowest,) = struct.unpack_from("<h", data, 2)
        self.segments, self.fragments = data[4] & 63, data[4] >> 7
        assert data[4] & 64
        self.K, self.floats = 1 << (data[5] & 3), data[5] >> 4 & 1
        self.rotated, self.strips = data[5] >> 6 & 1, data[5] >> 7
        assert data[0] & 0xA0 == 0 and data[5] & 0x2C == 0 and self.K in (4, 8) and 8 <= self.T <= 13
        assert len(data) == (7 if self.floats else 6)
        if self.floats:
            self.C = self.K // 4
            assert self.B == (4 if self.f8 else 8) + self.C
        else:
            self.C = self.B - self.folded
        self.segment_cols = 32 * self.K
        self.tile_cols = self.segments * self.segment_cols
        assert 128 <= self.tile_cols <= 2048


# The table: (length, high parts) of each entry


def pair_place(k):
    """Where bit 0 of a half is, of column k of eight columns of exponents, and how far it is rotated."""
    return 16 * (k % 2), ROTATIONS[k // 2]


def high_parts(header, entry):
    K, C = header.K, header.C
    data = entry.to_bytes(4, "little")
    if K == 4:
        return [byte >> max(C, 1) for byte in data]
    if header.floats:
        return [rotated(entry, -turn) >> (half + 9) & 3 for half, turn in map(pair_place, range(8))]
    if header.folded:
        return [data[k] >> 2 & 3 for k in range(4)] + [data[k] & 3 for k in range(4)]
    return [(data[k % 4] >> 4 * (k // 4) & 15) >> max(C, 1) for k in range(8)]


def length_of(header, entry):
    data = entry.to_bytes(4, "little")
    if header.K == 4:
        if not header.folded or header.C < 2:
            return sum((byte & 1) << j for j, byte in enumerate(data))
        return (data[0] + 4 * data[1] + 16 * data[2]) % 64
    if header.folded:
        return data[3] >> 4
    modulus = 1024 if header.rotated and header.B < 2 else 64
    return (data[0] + 2 * data[1] + 4 * data[2] + 8 * data[3]) % modulus


def read_table(header, data):
    """(length, high parts) by the bits that come next."""
    table = []
    for entry in words_of(data):
        length = length_of(header, entry)
        symbol = entry & ~(1 << 15 | 1 << 23) if header.rotated and header.B < 2 else entry
        turns = [rotated(symbol, -4 * n) for n in range(8)] if header.rotated else [symbol]
        table.append((length, [high_parts(header, turn) for turn in turns]))
    assert len(table) == 1 << header.T
    return table


# Raw words


def plane(bits, words):
    """The numbers of the eight quads in a plane's words, for one column of each."""
    if bits == 3:
        on_top = sum((word >> 6) << 2 * i for i, word in enumerate(words))
        return [word >> shift & 7 for word in words for shift in (0, 3)] + [on_top & 7, on_top >> 3]
    return [word >> shift & ((1 << bits) - 1) for word in words for shift in range(0, 8, bits)]


def raw_of_column(header, bytes_):
    """The raw bits of the eight quads in one column of each, from a byte of each word."""
    B = header.B
    if header.K == 8 and not header.folded and B in (1, 2):
        numbers = plane(B, bytes_)
        order = (0, 2, 4, 6, 1, 3, 5, 7) if B == 1 else (0, 2, 1, 3, 4, 6, 5, 7)
        return [number for _, number in sorted(zip(order, numbers))]
    first = 2 if header.folded and B == 3 else min(B, 4)
    out = plane(first, bytes_[:first]) if B else [0] * 8
    if B > first:
        out = [low | high << first for low, high in zip(out, plane(B - first, bytes_[first:]))]
    return out


def raw_of_floats(header, words):
    """(sign, mantissa, low bits of the exponent) of 32 columns."""
    out = []
    for c in range(32):
        if header.K == 8:
            half, turn = pair_place(c % 8)
            word = rotated(words[c // 8 if header.f8 else c // 4], -turn) >> half
            low = words[-2 + c // 16]
            exponent = rotated(low, -turn - (2 if c % 16 >= 8 else 0)) >> (half + 7) & 3
            out.append((word >> 15 & 1, word >> 4 & 7 if header.f8 else word & 127, exponent))
            continue
        exponent = words[-1] >> (8 * (c % 4) + c // 4) & 1
        if header.f8:
            p, i = c % 8 // 2, c % 2
            word = words[c // 8]
            nibble = lambda n: word >> 4 * (n % 8) & 15
            out.append((nibble(3 + p + 4 * i) >> 3, nibble(1 + p + 4 * i) & 7, exponent))
        else:
            byte = words[c // 4] >> 8 * (c % 4) & 255
            out.append((byte >> 7, byte & 127, exponent))
    return out


def unit_words(header):
    batch_words = header.B * (4 if header.K == 8 and header.B <= 3 else 2)
    return next(u for u in (4, 2, 1) if batch_words % u == 0)


def words_of_last_segment(header, cols):
    """Words of all lanes that the last segment of a row group stores, with so many columns."""
    largest = 15 if header.f8 else 255
    if header.floats and header.K == 4 and header.lowest + 31 >= largest:
        cols = header.segment_cols
    unit = unit_words(header)
    return LANES * -(-(-(-cols // 32) * header.B) // unit) * unit


def raw_words(header, data, lane):
    """A lane's words of a segment."""
    unit = unit_words(header)
    count = header.K * header.B
    return [data[i // unit * LANES * unit + lane * unit + i % unit] for i in range(count)]


# Codes


class Tile:
    """The codes of a tile: every lane's bits, the schedule and where its lanes are."""

    def __init__(self, header, codes, begin, end, lines, schedule):
        full, partial = 4 * (lines & 0xFFFF), lines >> 16
        assert partial <= 32
        words = words_of(codes[16 * begin : 16 * end])
        masks, at = words[:partial], -(-partial // 4) * 4
        assert not any(words[partial:at])
        rows = []
        for mask in [0xFFFFFFFF] * full + list(masks):
            row = [0] * LANES
            for lane in range(LANES):
                if mask >> lane & 1:
                    row[lane] = words[at]
                    at += 1
            rows.append(row)
        assert len(words) == -(-at // 4) * 4 and not any(words[at:])
        self.header = header
        self.bits = [sum(row[lane] << 32 * i for i, row in enumerate(rows)) for lane in range(LANES)]
        self.position = [0] * LANES
        self.reach = [min(4 * sum(schedule[: s + 1]), len(rows)) for s in range(len(schedule))]

    def segment(self, table, s, lane):
        """The high parts of a lane's columns."""
        ahead = self.reach[min(s + 1, len(self.reach) - 1)]
        at = max(self.position[lane], 32 * (ahead - 32))
        begin, out = at, []
        for _ in range(32):
            next_bits = self.bits[lane] >> at
            n = next_bits & 7 if self.header.rotated else 0
            index = (next_bits >> 3 if self.header.rotated else next_bits) & ((1 << self.header.T) - 1)
            length, symbols = table[index]
            out += symbols[n]
            at += length
        assert at - begin <= 416 or not self.header.rotated
        assert at <= 32 * self.reach[s]
        self.position[lane] = at
        return out


# Patches


def patch_int8(header, patches, first, last, in_first_half, add):
    """Calls add(row of the stored tile, column, -1 or 1)."""
    if not header.strips:
        for i in range(first, last):
            (patch,) = struct.unpack_from("<H", patches, 2 * i)
            half = 0 if i - first < in_first_half else 1024
            add(patch & 31, (patch >> 5 & 1023) + half, -1 if patch >> 15 else 1)
        return
    place = 0
    for packet in range(first, last):
        bits = int.from_bytes(patches[12 * packet : 12 * packet + 12], "little")
        for i in range(8):
            patch = bits >> 12 * i & 4095
            place += patch >> 1
            if patch >> 1 != 2047:
                column = place % 1024
                add(column // 32, 32 * (place // 1024) + column % 32, -1 if patch & 1 else 1)


# Matrices


def stored_shape(header, rows, cols):
    if header.fragments:
        return 2 * 16 * -(-rows // 16), 8 * -(-cols // 16)
    return (32 * -(-cols // 1024), 32 * rows) if header.strips else (rows, cols)


def place_in_matrix(header, row, col):
    """Row and column of the matrix of a stored element."""
    if header.fragments:
        i, l, j, c = row // 32, row % 32, col // 8, col % 8
        within = 2 * (l % 4) + c % 2 + 8 * (c // 2 % 2) if header.floats else 4 * (l % 4) + c % 4
        return 16 * i + l // 4 + 8 * (c // 4), 16 * j + within
    if header.strips:
        return col // 32, row // 32 * 1024 + 32 * (row % 32) + col % 32
    return row, col


def decode_tile(header, table, tile, raw, segments):
    """Lists of the elements of every lane, [number], or of floats [exponent, sign, mantissa]."""
    lanes = [[] for _ in range(LANES)]
    segment_words = LANES * header.K * header.B
    for s in range(segments):
        data = raw[s * segment_words : (s + 1) * segment_words]
        for lane in range(LANES):
            high = tile.segment(table, s, lane)
            words = raw_words(header, data, lane)
            for group in range(header.K):
                part = words[group * header.B : (group + 1) * header.B]
                if header.floats:
                    for c, (sign, mantissa, low) in enumerate(raw_of_floats(header, part)):
                        exponent = header.lowest + (high[32 * group + c] << header.C) + low
                        lanes[lane].append([exponent, sign, mantissa])
                    continue
                columns = [raw_of_column(header, [word >> 8 * k & 255 for word in part]) for k in range(4)]
                for c in range(32):
                    raw_bits = columns[c % 4][c // 4]
                    lanes[lane].append([int8_element(header, high[32 * group + c], raw_bits)])
    return lanes


def int8_element(header, high, raw):
    number = (high << header.C) + (raw & ((1 << header.C) - 1))
    if header.folded and raw >> header.C:
        return header.lowest - 1 - number
    return header.lowest + number


def decode(sections, settings, rows, cols):
    if sections[0] == b"\x20":
        assert not any(sections[1:5]) and not sections[6]
        return sections[5]
    header = Header(sections[0])
    table = read_table(header, sections[1])
    index, schedule, codes, raw, patches = words_of(sections[2]), *sections[3:]
    raw = words_of(raw)
    stored_rows, stored_cols = stored_shape(header, rows, cols)
    across = -(-stored_cols // header.tile_cols)
    down = -(-stored_rows // LANES)
    assert len(index) == 4 * (across * down + 1)
    ends = index[-4:]
    assert 16 * ends[0] == len(codes)
    if header.floats:
        signs = patches[4 * ends[1] :]
        assert len(signs) == ends[1]
    size = 2 if header.floats and not header.f8 else 1
    out = bytearray(rows * cols * size)
    raw_at = skipped = 0
    for t in range(across * down):
        first_row, first_col = t // across * LANES, t % across * header.tile_cols
        segments = -(-min(header.tile_cols, stored_cols - first_col) // header.segment_cols)
        word = index[4 * t : 4 * t + 4]
        after = index[4 * t + 4 : 4 * t + 8]
        tile_schedule = schedule[t * header.segments : t * header.segments + segments]
        tile = Tile(header, codes, word[0], after[0], word[3], tile_schedule)
        raw_end = raw_at + segments * LANES * header.K * header.B
        lanes = decode_tile(header, table, tile, raw[raw_at:raw_end], segments)
        raw_at, skipped = raw_end, 0
        if t % across == across - 1:
            whole = LANES * header.K * header.B
            last_cols = stored_cols - first_col - (segments - 1) * header.segment_cols
            skipped = whole - words_of_last_segment(header, last_cols)
            raw_at -= skipped
        if header.floats:
            for i in range(word[1], after[1]):
                (patch,) = struct.unpack_from("<I", patches, 4 * i)
                element = lanes[patch & 31][patch >> 5 & 2047]
                assert element[0] == patch >> 24
                element[:] = [patch >> 16 & 255, signs[i] >> 7, signs[i] & 127]
        else:
            def add(row, col, delta):
                lanes[row][col][0] += delta << header.C
            patch_int8(header, patches, word[1], after[1], word[2], add)
        for l in range(LANES):
            for c, element in enumerate(lanes[l]):
                if first_row + l >= stored_rows or first_col + c >= stored_cols:
                    continue
                row, col = place_in_matrix(header, first_row + l, first_col + c)
                if row >= rows or col >= cols:
                    continue
                at = (row * cols + col) * size
                if not header.floats:
                    struct.pack_into("<b", out, at, element[0])
                elif header.f8:
                    out[at] = element[1] << 7 | element[0] << 3 | element[2]
                else:
                    struct.pack_into("<H", out, at, element[1] << 15 | element[0] << 7 | element[2])
    assert raw_at + skipped == len(raw)
    return bytes(out)


if __name__ == "__main__":
    main(decode, takes_empty=True)
