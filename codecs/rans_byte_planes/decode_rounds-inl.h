// The register loop of rans_byte_planes, compiled by simd.cpp inside each target's namespace. A round is one step of each of
// the 8 groups: 512, 1024 or 1536 elements. Its vectors go to memory, or straight into the dot product where the whole round
// lies in one row; a round with a row's end inside goes through a buffer on the stack.
// (No include guard: included once for every instruction set.)

using D8 = hn::FixedTag<uint8_t, 64>;
using D16 = hn::FixedTag<int16_t, 32>;
using D32 = hn::FixedTag<int32_t, 16>;
using Bytes = hn::Vec<D8>;

// Where the elements of a block are multiplied; y already holds -128 * sum(x).
struct Product {
  const int8_t* x = nullptr;
  int32_t* y = nullptr;
  int64_t cols = 0;
};

template <int kCount, class F, size_t... I>
HWY_INLINE void UnrollEach(F&& f, std::index_sequence<I...>) {
  (f(std::integral_constant<int, static_cast<int>(I)>{}), ...);
}
template <int kCount, class F>
HWY_INLINE void Unroll(F&& f) {
  UnrollEach<kCount>(f, std::make_index_sequence<kCount>{});
}

// Look-ups that ignore the upper bits of an index, as the instructions do: Highway's own wrappers demand indices in range.
HWY_INLINE Bytes Lookup64(Bytes table, Bytes index) { return Bytes{_mm512_permutexvar_epi8(index.raw, table.raw)}; }
HWY_INLINE Bytes Lookup128(Bytes low, Bytes high, Bytes index) { return Bytes{_mm512_permutex2var_epi8(low.raw, index.raw, high.raw)}; }
HWY_INLINE Bytes Lookup256(const Bytes* t, Bytes index) {
  const Bytes low = Lookup128(t[0], t[1], index), high = Lookup128(t[2], t[3], index);
  return Bytes{_mm512_mask_mov_epi8(low.raw, _mm512_movepi8_mask(index.raw), high.raw)};
}
// Expands into a register that keeps its other bytes: Highway's Expand zeroes them, which costs a blend more.
HWY_INLINE Bytes ExpandInto(Bytes old, uint64_t mask, const uint8_t* from) {
  return Bytes{_mm512_mask_expand_epi8(old.raw, mask, _mm512_loadu_si512(from))};
}

template <int kShift>
HWY_INLINE Bytes Shifted(Bytes v) {
  if constexpr (kShift > 0) return Bytes{_mm512_srli_epi16(v.raw, kShift)};
  if constexpr (kShift < 0) return Bytes{_mm512_slli_epi16(v.raw, -kShift)};
  return v;
}

// States, tables and streams of a block under one model.
template <int kValues, int kRawBits, bool kEven>
struct Rounds {
  static constexpr Form kForm{kValues, kRawBits, kEven, 0};
  static constexpr int kIndexBits = index_bits(kForm);
  static constexpr int kValueVectors = 1 << (kIndexBits - 6);
  static constexpr int kBatch = 4;

  Bytes symbol_table[4], frequency, minus_start, value_table[3][kValueVectors], join_low, join_high;

  HWY_INLINE Rounds(const Model& model, bool biased) {
    const D8 d8;
    for (int i = 0; i < 4; ++i) symbol_table[i] = hn::LoadU(d8, model.symbol + 64 * i);
    if (kEven) {
      // Slots 2i and 2i + 1 hold the same symbol: half the table, addressed by slot / 2.
      alignas(64) uint8_t half[128];
      for (int i = 0; i < 128; ++i) half[i] = model.symbol[2 * i];
      symbol_table[0] = hn::Load(d8, half);
      symbol_table[1] = hn::Load(d8, half + 64);
    }
    frequency = hn::LoadU(d8, model.frequency);
    minus_start = hn::LoadU(d8, model.minus_start);
    const Bytes bias = hn::Set(d8, biased ? 0x80 : 0);
    for (int p = 0; p < kValues; ++p)
      for (int i = 0; i < kValueVectors; ++i)
        value_table[p][i] = hn::Xor(bias, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(model.value[p]) + 64 * i));
    // Unpacking puts words 8q..8q+7 of a quarter q into the lower and its next 8 into the upper result; these bring the low
    // and the high bytes of both back into one register.
    alignas(64) uint8_t low[64], high[64];
    for (int q = 0; q < 4; ++q)
      for (int j = 0; j < 16; ++j) {
        low[16 * q + j] = static_cast<uint8_t>((j < 8 ? 0 : 64) + 2 * (8 * q + (j & 7)));
        high[16 * q + j] = static_cast<uint8_t>(low[16 * q + j] + 1);
      }
    join_low = hn::Load(d8, low);
    join_high = hn::Load(d8, high);
  }

  HWY_INLINE Bytes Symbol(Bytes slot) const {
    if constexpr (kEven) return Lookup128(symbol_table[0], symbol_table[1], Shifted<1>(slot));
    return Lookup256(symbol_table, slot);
  }

  template <int kPosition>
  HWY_INLINE Bytes Value(Bytes index) const {
    if constexpr (kIndexBits == 6) return Lookup64(value_table[kPosition][0], index);
    if constexpr (kIndexBits == 7) return Lookup128(value_table[kPosition][0], value_table[kPosition][1], index);
    if constexpr (kIndexBits == 8) return Lookup256(value_table[kPosition], index);
  }

  template <int kStep, int kPosition>
  HWY_INLINE Bytes Index(Bytes symbol, const uint8_t* HWY_RESTRICT raw) const {
    const D8 d8;
    constexpr Placement kPlacement = place(kValues, kRawBits, kStep, kPosition);
    Bytes index = symbol;
    if constexpr (kPlacement.count > 0) {
      constexpr Piece kPiece = kPlacement.pieces[0];
      index = hn::BitwiseIfThenElse(hn::Set(d8, kPiece.mask), Shifted<kPiece.shift>(hn::LoadU(d8, raw + kPiece.vector * kGroup)), index);
    }
    if constexpr (kPlacement.count > 1) {
      constexpr Piece kPiece = kPlacement.pieces[1];
      index = hn::BitwiseIfThenElse(hn::Set(d8, kPiece.mask), Shifted<kPiece.shift>(hn::LoadU(d8, raw + kPiece.vector * kGroup)), index);
    }
    return index;
  }

  // One round; sink(number, vector) gets its kSteps * kValues vectors in order.
  template <class Sink>
  HWY_INLINE void Round(Bytes* HWY_RESTRICT high, Bytes* HWY_RESTRICT low, const uint8_t* HWY_RESTRICT& stream, const uint8_t* HWY_RESTRICT raw, Sink&& sink) const {
    const D8 d8;
    const D16 d16;
    const hn::Repartition<int8_t, D8> di8;
    const Bytes ones = hn::Set(d8, 1);
    Unroll<kSteps / kBatch>([&](auto batch) HWY_ATTR {
      constexpr int kFirst = batch.value * kBatch;
      Bytes symbol[kBatch], f[kBatch], bias[kBatch], h[kBatch], l[kBatch];
      hn::Vec<D16> first[kBatch], second[kBatch];
      Unroll<kBatch>([&](auto j) HWY_ATTR { symbol[j] = Symbol(low[kFirst + j]); });
      Unroll<kBatch>([&](auto j) HWY_ATTR {
        f[j] = Lookup64(frequency, symbol[j]);
        bias[j] = Lookup64(minus_start, symbol[j]);
      });
      Unroll<kBatch>([&](auto j) HWY_ATTR { bias[j] = hn::Add(low[kFirst + j], bias[j]); });
      Unroll<kBatch>([&](auto j) HWY_ATTR {
        first[j] = hn::BitCast(d16, hn::InterleaveLower(d8, f[j], bias[j]));
        second[j] = hn::BitCast(d16, hn::InterleaveUpper(d8, f[j], bias[j]));
      });
      // At most 127 * 255 + 126: no saturation.
      Unroll<kBatch>([&](auto j) HWY_ATTR {
        first[j] = hn::SatWidenMulPairwiseAdd(d16, hn::InterleaveLower(d8, high[kFirst + j], ones), hn::BitCast(di8, first[j]));
        second[j] = hn::SatWidenMulPairwiseAdd(d16, hn::InterleaveUpper(d8, high[kFirst + j], ones), hn::BitCast(di8, second[j]));
      });
      Unroll<kBatch>([&](auto j) HWY_ATTR {
        h[j] = Lookup128(hn::BitCast(d8, first[j]), hn::BitCast(d8, second[j]), join_high);
        l[j] = Lookup128(hn::BitCast(d8, first[j]), hn::BitCast(d8, second[j]), join_low);
      });
      Unroll<kBatch>([&](auto j) HWY_ATTR {
        const uint64_t empty = _mm512_testn_epi8_mask(h[j].raw, h[j].raw);
        high[kFirst + j] = Bytes{_mm512_mask_mov_epi8(h[j].raw, empty, l[j].raw)};
        low[kFirst + j] = ExpandInto(l[j], empty, stream);
        stream += hwy::PopCount(empty);
      });
      Unroll<kBatch>([&](auto j) HWY_ATTR {
        Unroll<kValues>([&](auto p) HWY_ATTR {
          constexpr int kStep = kFirst + j.value;
          sink(std::integral_constant<int, kStep * kValues + p.value>{}, this->template Value<p.value>(this->template Index<kStep, p.value>(symbol[j], raw)));
        });
      });
    });
  }
};

// The row that the next element belongs to, and what of it is summed up so far.
struct RowSum {
  hn::Vec<D32> even, odd;
  int64_t row = 0, col = 0;

  HWY_INLINE void EndRow(const Product& product) {
    product.y[row++] += hn::ReduceSum(D32(), hn::Add(even, odd));
    even = odd = hn::Zero(D32());
    col = 0;
  }

  // Adds `count` elements, given as w + 128, across the ends of rows. Reads up to a vector behind the buffer's elements.
  HWY_INLINE void AddBuffer(const uint8_t* HWY_RESTRICT buffer, int64_t count, const Product& product) {
    const D8 d8;
    const D32 d32;
    const hn::Repartition<int8_t, D8> di8;
    while (count > 0) {
      const int64_t length = std::min(count, product.cols - col);
      const int8_t* HWY_RESTRICT x = product.x + col;
      int64_t i = 0;
      for (; i + 2 * kGroup <= length; i += 2 * kGroup) {
        even = hn::SumOfMulQuadAccumulate(d32, hn::LoadU(d8, buffer + i), hn::LoadU(di8, x + i), even);
        odd = hn::SumOfMulQuadAccumulate(d32, hn::LoadU(d8, buffer + i + kGroup), hn::LoadU(di8, x + i + kGroup), odd);
      }
      for (; i < length; i += kGroup)
        even = hn::SumOfMulQuadAccumulate(d32, hn::LoadU(d8, buffer + i), hn::LoadN(di8, x + i, static_cast<size_t>(std::min<int64_t>(kGroup, length - i))), even);
      buffer += length;
      count -= length;
      col += length;
      if (col == product.cols) EndRow(product);
    }
  }
};

// Where a block's next part begins.
struct Cursor {
  const uint8_t* stream = nullptr;
  const uint8_t* raw = nullptr;
};

template <bool kMultiply, int kValues, int kRawBits, bool kEven>
HWY_NOINLINE void DecodePart(const Model& model, Bytes* HWY_RESTRICT planes, Cursor& cursor, int64_t begin, int64_t end, int8_t* out,
                             const Product& product, int64_t ahead) {
  const D8 d8;
  const D32 d32;
  const hn::Repartition<int8_t, D8> di8;
  using R = Rounds<kValues, kRawBits, kEven>;
  const R rounds(model, kMultiply);
  constexpr int64_t kRound = round_elements(kValues);
  constexpr int64_t kRawBytes = round_raw_bytes(R::kForm);
  Bytes high[kSteps], low[kSteps];
  for (int i = 0; i < kSteps; ++i) high[i] = planes[i], low[i] = planes[kSteps + i];
  const uint8_t* HWY_RESTRICT stream = cursor.stream;
  const uint8_t* HWY_RESTRICT raw = cursor.raw;
  alignas(64) uint8_t buffer[kRound + kGroup];
  RowSum sum{hn::Zero(d32), hn::Zero(d32), kMultiply ? begin / product.cols : 0, kMultiply ? begin % product.cols : 0};
  for (int64_t base = begin; base < end; base += kRound) {
    // A round reads about 256 bytes of stream and all its raw bytes. Prefetching behind the end of a section is harmless.
    for (int i = 0; i < 5; ++i) hwy::Prefetch(stream + ahead + 64 * i);
    for (int64_t i = 0; i < kRawBytes; i += 64) hwy::Prefetch(raw + ahead + i);
    if (kMultiply && sum.col + kRound <= product.cols && base + kRound <= end) {
      const int8_t* HWY_RESTRICT x = product.x + sum.col;
      auto even = sum.even, odd = sum.odd;
      rounds.Round(high, low, stream, raw, [&](auto n, Bytes v) HWY_ATTR {
        auto& to = n.value % 2 == 0 ? even : odd;
        to = hn::SumOfMulQuadAccumulate(d32, v, hn::LoadU(di8, x + n.value * kGroup), to);
      });
      sum.even = even, sum.odd = odd;
      sum.col += kRound;
      if (sum.col == product.cols) sum.EndRow(product);
    } else {
      uint8_t* HWY_RESTRICT to = kMultiply || end - base < kRound ? buffer : reinterpret_cast<uint8_t*>(out + base);
      rounds.Round(high, low, stream, raw, [&](auto n, Bytes v) HWY_ATTR { hn::StoreU(v, d8, to + n.value * kGroup); });
      const int64_t count = std::min(kRound, end - base);
      if constexpr (kMultiply) {
        sum.AddBuffer(buffer, count, product);
      } else if (count < kRound) {
        std::memcpy(out + base, buffer, count);
      }
    }
    raw += kRawBytes;
  }
  for (int i = 0; i < kSteps; ++i) planes[i] = high[i], planes[kSteps + i] = low[i];
  cursor = {stream, raw};
}

template <bool kMultiply, int kValues, int kRawBits = 0, class... Args>
HWY_INLINE void DispatchRaw(const Model& model, Args&&... args) {
  if constexpr (kRawBits <= max_raw_bits(kValues)) {
    if (model.form.raw_bits != kRawBits) return DispatchRaw<kMultiply, kValues, kRawBits + 1>(model, args...);
    if (model.form.even) return DecodePart<kMultiply, kValues, kRawBits, true>(model, args...);
    return DecodePart<kMultiply, kValues, kRawBits, false>(model, args...);
  }
}

// `ahead`: prefetch distance in bytes. Writes the kHeadBytes of exceptions that the last states hold to `head`.
template <bool kMultiply>
HWY_INLINE void DecodeBlock(const Sections& sections, const Layout& layout, int64_t number, int8_t* out, const Product& product, int64_t ahead, std::byte* head) {
  const D8 d8;
  const BlockIndex here = sections.block(number);
  const int64_t total = layout.block_rows(number) * layout.cols, first = sections.first_elements(layout, number);
  Bytes planes[2 * kSteps];
  for (int i = 0; i < 2 * kSteps; ++i) planes[i] = hn::LoadU(d8, sections.states + number * 2 * kFormatLanes + i * kGroup);
  Cursor cursor{sections.stream + here.stream, sections.raw + here.raw};
  for (int m = 0; m < sections.header.models; ++m) {
    const Model& model = sections.models[m];
    const int64_t begin = m == 0 ? 0 : first, end = m == 0 && sections.header.models == 2 ? first : total;
    if (begin >= end) continue;
    switch (model.form.values) {
      case 1: DispatchRaw<kMultiply, 1>(model, planes, cursor, begin, end, out, product, ahead); break;
      case 2: DispatchRaw<kMultiply, 2>(model, planes, cursor, begin, end, out, product, ahead); break;
      case 3: DispatchRaw<kMultiply, 3>(model, planes, cursor, begin, end, out, product, ahead); break;
    }
  }
  for (int i = 0; i < kSteps; ++i) hn::StoreU(planes[kSteps + i], d8, reinterpret_cast<uint8_t*>(head) + i * kGroup);
}
