// Decodes one block in plain loops, checked or unchecked: reference and portable kernels differ only in that.
#pragma once

#include <cstring>

#include "codecs/codec.h"
#include "codecs/rans_byte_planes/format.h"

namespace ecmv::codecs::rans_byte_planes {

// Where the sections of a matrix lie.
struct StoredMatrix {
  const std::byte* tables;
  const std::byte* index;
  const uint8_t* states;
  const uint8_t* stream;
  const uint8_t* raw;
  const std::byte* exceptions;
  const int8_t* elements;
  const uint8_t* fractions;  // nullptr: elements are int8

  StoredMatrix(const CompressedView& compressed)
      : tables(bytes_of<std::byte>(compressed, kTables)),
        index(bytes_of<std::byte>(compressed, kIndex)),
        states(bytes_of<uint8_t>(compressed, kStates)),
        stream(bytes_of<uint8_t>(compressed, kStream)),
        raw(bytes_of<uint8_t>(compressed, kRaw)),
        exceptions(bytes_of<std::byte>(compressed, kExceptions)),
        elements(bytes_of<int8_t>(compressed, kElements)),
        fractions(compressed.type == datasets::ElementType::i8
                      ? nullptr
                      : reinterpret_cast<const uint8_t*>(compressed.sections[kFractions].bytes.data())) {}

 private:
  template <typename Byte>
  static const Byte* bytes_of(const CompressedView& compressed, SectionNumber section) {
    return reinterpret_cast<const Byte*>(compressed.sections[section].bytes.data());
  }
};

// Tables for decoding blocks. Models are copied because they are not aligned in their section.
struct Sections {
  Header header;
  Model models[kMaxModels];
  const std::byte* index = nullptr;
  const uint8_t* states = nullptr;
  const uint8_t* stream = nullptr;
  const uint8_t* raw = nullptr;
  const std::byte* exceptions = nullptr;
  bool empty_heads = false;  // of bf16: exceptions are put in as elements are made, before the head is known

  explicit Sections(const StoredMatrix& matrix)
      : index(matrix.index),
        states(matrix.states),
        stream(matrix.stream),
        raw(matrix.raw),
        exceptions(matrix.exceptions),
        empty_heads(matrix.fractions != nullptr) {
    std::memcpy(&header, matrix.tables, sizeof header);
    if (header.models > 0) std::memcpy(models, matrix.tables + sizeof header, header.models * sizeof(Model));
  }
  BlockIndex block(int64_t number) const {
    BlockIndex entry;
    std::memcpy(&entry, index + number * sizeof entry, sizeof entry);
    return entry;
  }
  struct Exception {
    int64_t gap;  // elements since the exception before
    int delta;
  };
  Exception exception(const std::byte* from, uint64_t entry) const {
    const int gap_bits = header.gap_bits, width = gap_bits + header.delta_bits;
    const uint64_t bit = entry * static_cast<uint64_t>(width);
    uint32_t value;
    std::memcpy(&value, from + bit / 8, sizeof value);
    value = (value >> bit % 8) & ((1u << width) - 1);
    const uint32_t widest = (1u << gap_bits) - 1, gap = value & widest;
    return {gap, gap == widest ? 0 : header.delta[value >> gap_bits]};
  }
  bool ends_head(const std::byte* head, uint64_t entry) const {
    const uint64_t width = header.gap_bits + header.delta_bits, bit = entry * width;
    uint32_t value;
    std::memcpy(&value, head + bit / 8, sizeof value);
    return ~(value >> bit % 8) << (32 - width) == 0;
  }
  // Calls use(exception) for the exceptions of a block in order: first as many as fit into the head, which is
  // kHeadBytes long and padded like the section, then the block's exceptions in the section. An entry of ones ends a
  // head early.
  template <class F>
  void each_exception(const std::byte* head, BlockIndex here, BlockIndex next, F&& use) const {
    const uint64_t in_head = 8 * kHeadBytes / (header.gap_bits + header.delta_bits);
    for (uint64_t n = 0; n < in_head; ++n) {
      if (ends_head(head, n)) break;
      use(exception(head, n));
    }
    for (uint64_t n = here.exceptions; n < next.exceptions; ++n) use(exception(exceptions, n));
  }
  // The number of a block's elements that model 0 codes.
  int64_t first_elements(const Layout& layout, int64_t block_number) const {
    const int64_t rows = layout.block_rows(block_number);
    return (header.models == 1 ? rows : rows * header.first_share / 256) * layout.cols;
  }
};

// Stores elements of bf16 at any address.
inline void join(const int8_t* exponents, const uint8_t* fractions, int64_t count, std::byte* out) {
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t element = bf16_of(exponents[i], fractions[i]);
    std::memcpy(out + 2 * i, &element, sizeof(element));
  }
}

// Decodes a block to `out`, row-major. kChecked: throws MalformedStream if the stream ends early or is not used up.
template <bool kChecked>
void decode_block(const Sections& sections, const Layout& layout, int64_t number, int8_t* out) {
  const BlockIndex here = sections.block(number), next = sections.block(number + 1);
  const int64_t total = layout.block_rows(number) * layout.cols, first = sections.first_elements(layout, number);
  uint32_t state[kFormatLanes];
  const uint8_t* states = sections.states + number * 2 * kFormatLanes;
  for (int i = 0; i < kFormatLanes; ++i) state[i] = states[i] << 8 | states[kFormatLanes + i];
  const uint8_t *byte = sections.stream + here.stream, *end = sections.stream + next.stream;
  const uint8_t *raw = sections.raw + here.raw, *raw_end = sections.raw + next.raw;
  for (int m = 0; m < sections.header.models; ++m) {
    const Model& model = sections.models[m];
    const Form form = model.form;
    const int64_t begin = m == 0 ? 0 : first, stop = m == 0 && sections.header.models == 2 ? first : total;
    for (int64_t base = begin; base < stop; base += round_elements(form.values)) {
      if constexpr (kChecked)
        if (raw_end - raw < round_raw_bytes(form))
          throw MalformedStream("A rans_byte_planes block has too few raw bits.");
      for (int step = 0; step < kSteps; ++step) {
        Placement placement[3];
        for (int i = 0; i < form.values; ++i) placement[i] = place(form.values, form.raw_bits, step, i);
        for (int lane = 0; lane < kGroup; ++lane) {
          uint32_t& x = state[step * kGroup + lane];
          const uint32_t slot = x & 255;
          const int symbol = model.symbol[slot];
          x = model.frequency[symbol] * (x >> 8) + ((slot + model.minus_start[symbol]) & 255);
          if (x < 256) {
            if constexpr (kChecked)
              if (byte == end) throw MalformedStream("A rans_byte_planes stream ends in the middle of a block.");
            x = x << 8 | *byte++;
          }
          for (int i = 0; i < form.values; ++i) {
            const int64_t at = base + (step * form.values + i) * kGroup + lane;
            if (at >= stop) continue;
            int index = symbol & class_mask(form.values, i);
            for (int n = 0; n < placement[i].count; ++n) {
              const Piece piece = placement[i].pieces[n];
              const int bits = raw[piece.vector * kGroup + lane];
              index |= (piece.shift >= 0 ? bits >> piece.shift : bits << -piece.shift) & piece.mask;
            }
            out[at] = model.value[i][index];
          }
        }
      }
      raw += round_raw_bytes(form);
    }
  }
  if constexpr (kChecked)
    if (byte != end || raw != raw_end) throw MalformedStream("A rans_byte_planes block does not use up its bytes.");
  std::byte head[kHeadBytes + kExceptionPadding] = {};
  for (int i = 0; i < kFormatLanes; ++i) {
    if constexpr (kChecked)
      if (state[i] >> 8 != 1)
        throw MalformedStream("A rans_byte_planes block does not end in a state that its encoder can begin with.");
    head[i] = static_cast<std::byte>(state[i]);
  }
  if constexpr (kChecked)
    if (sections.empty_heads && !sections.ends_head(head, 0))
      throw MalformedStream("A rans_byte_planes block of bf16 has exceptions in its head.");
  int64_t at = 0;
  sections.each_exception(head, here, next, [&](Sections::Exception exception) {
    at += exception.gap;
    if constexpr (kChecked)
      if (at >= total) throw MalformedStream("An exception of a rans_byte_planes block lies past its end.");
    out[at] = static_cast<int8_t>(out[at] + exception.delta);
  });
}

}  // namespace ecmv::codecs::rans_byte_planes
