"""Rows of a matrix in packed_exponents' twelve bits, found by PyTorch's own operations: they run on every device, under
torch.compile and in CUDA graphs. The stored bytes are those of codecs/packed_exponents/format.h.

(H200, a row of 128256 x 4096 in a CUDA graph: 4.3 us compiled, 37 as operations; uncoded 1.3 and 1.7. A step of that
model takes 5000.)
"""

import dataclasses

import torch

from ..errors import Malformed
from . import coded as coded_tensors

CODEC = "packed_exponents"
# A row may have so many, since each row that is looked up takes time and memory for as many as the row with the most
# has. A row of zeros, which some models have for padding, has one an element.
MOST_RECORDS = 8192

_BLOCK_ROWS, _GROUP_COLS, _LINE_WORDS = 16, 128, 16  # words of 32 bits: two columns each
_CODES = 16


def _signed(word):
    return word - (1 << 32) if word >> 31 else word


_SIGNS_AND_CODES, _BYTES, _BOTH = _signed(0x87008700), 0x00FF00FF, 0x00010001


@dataclasses.dataclass(frozen=True)
class Layout:
    """What of a coded tensor looking up needs. `most_records`: of one row."""

    cols: int
    fields: slice  # bytes
    lowest: int
    short_group: bool  # the last group of a row lacks its third line
    most_records: int

    @property
    def groups(self):
        return -(-self.cols // _GROUP_COLS)


# Tensors that find() makes once, so that a look-up is some twenty operations: each takes a kernel where nothing is
# compiled.
INDEX = ("places",  # int32 [rows, 4]: first line, lines from group to group, first record, the one after the last
         "steps",  # int32 [2, 3 * groups]: of each line of a row its group, and its number there
         "words",  # int64: of each record the word, and last one that changes nothing
         "lacks")  # int32: what it lacks


def find(coded):
    """(Layout, tensors of INDEX by name) of a coded tensor that is right."""
    described = coded_tensors.describe(coded)
    sections = {section["name"]: section for section in described["sections"]}
    if described["codec"] != CODEC or sections.keys() != {"header", "fields", "blocks", "records"}:
        raise Malformed(f"Rows are looked up in matrices of {CODEC}, and this is one of {described['codec']}.")
    bytes_of = {name: slice(section["offset"], section["offset"] + section["bytes"])
                for name, section in sections.items()}
    lowest = int(coded[bytes_of["header"]][0])
    words, lacks, ends = _records(coded, bytes_of, described["rows"], lowest)
    cols, begins = described["cols"], torch.cat([ends.new_zeros(1), ends[:-1]])
    layout = Layout(cols, bytes_of["fields"], lowest, 0 < cols % _GROUP_COLS <= _GROUP_COLS // 2,
                    int((ends - begins).max()))
    line = torch.arange(3 * layout.groups, dtype=torch.int32, device=coded.device)
    places = torch.cat([_lines(described["rows"], layout, coded.device), begins[:, None], ends[:, None]], 1)
    if int(places.max()) >= 1 << 31:
        raise Malformed("The matrix is too large to look up rows.")
    return layout, {"places": places.int(), "steps": torch.stack([line // 3, line % 3]), "words": words, "lacks": lacks}


def _lines(rows, layout, device):
    number = torch.arange(rows, dtype=torch.int64, device=device)
    first = number // _BLOCK_ROWS * _BLOCK_ROWS
    block_rows = torch.clamp(rows - first, max=_BLOCK_ROWS)
    return torch.stack([first * (3 * layout.groups - layout.short_group) + 3 * (number - first), 3 * block_rows], 1)


def _records(coded, bytes_of, rows, lowest):
    """Words and lacks of INDEX, and of each row the number of the record after its last."""
    blocks, records = coded[bytes_of["blocks"]].view(torch.int64), coded[bytes_of["records"]].view(torch.int32)
    block = torch.repeat_interleave(torch.arange(len(blocks) - 1, device=coded.device), torch.diff(blocks))
    ends = torch.bincount(block * _BLOCK_ROWS + (records >> 20 & 15), minlength=rows).cumsum(0)
    exponent = records >> 24 & 255
    lacks = exponent - exponent.clamp(lowest, lowest + _CODES - 1) << 7 + 16 * (records & 1)
    zero = records.new_zeros(1)
    return torch.cat([records >> 1 & 0x7FFFF, zero]).long(), torch.cat([lacks, zero]), ends


def look_up(coded, layout, index, ids):
    """bf16 [*ids.shape, cols]: rows of the matrix. An id that is no row is an error as for torch.nn.Embedding.

    `index`: the tensors of INDEX, in order.
    """
    places, steps, words, lacks = index
    number = ids.reshape(-1)
    place = places.index_select(0, number)
    line = torch.addcmul(place[:, 0:1] + steps[1], place[:, 1:2], steps[0])
    if layout.short_group:  # each row before this one in the block has a line less in the last group
        line = line - torch.where(steps[0] == layout.groups - 1, number[:, None] % _BLOCK_ROWS, 0)
    lines = coded[layout.fields].view(torch.int32).view(-1, _LINE_WORDS)
    stored = lines.index_select(0, line.reshape(-1)).view(len(number), layout.groups, 3, _LINE_WORDS)
    elements = _elements(stored, layout)
    if layout.most_records:
        record = place[:, 2:3] + torch.arange(layout.most_records, dtype=torch.int32, device=place.device)
        record = torch.where(record < place[:, 3:4], record, len(words) - 1)
        # Two of the same word add up.
        elements.scatter_add_(1, words[record], lacks[record])
    return elements.view(torch.bfloat16)[:, :layout.cols].reshape(*ids.shape, layout.cols)


def _elements(stored, layout):
    """Those with the exponents that were stored, two in a word, [n, words], of [n, groups, 3, words of a line]."""
    codes, low = stored[:, :, 0], stored[:, :, 1:]
    # Strips 0 to 2 are shifted by 0, 4 and 8 bits. Strip 3 has its sign in the word's other half: a rotation.
    strips = torch.stack([codes, codes << 4, codes << 8, codes >> 4 & 0x0FFFFFFF | codes << 28], 2)
    both = torch.stack([low, low >> 8], 3).view(strips.shape)
    elements = (strips & _SIGNS_AND_CODES | both & _BYTES) + (layout.lowest << 7) * _BOTH
    return elements.view(len(stored), 4 * _LINE_WORDS * layout.groups)
