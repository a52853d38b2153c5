// The decoding loop of tans, in plain C++ without intrinsics: included inside a namespace, by cpu.cpp as portable code and by simd.cpp once for
// each instruction set, because the variable shifts and masks of BMI2 (AVX2 and up) make the same loop faster.
// One 64-bit window of the stream serves four symbols (at most 4 * 12 of its 57 sure bits), and only the position
// links one window to the next: the table look-ups of the lanes overlap.

struct BlockState {
  uint32_t states[kMaxLanes];
  const uint8_t* bits;
  uint64_t position;  // in bits
};

inline uint64_t LoadWindow(const uint8_t* bits, uint64_t position) {
  static_assert(std::endian::native == std::endian::little, "Kernels read little-endian words in one piece.");
  uint64_t word;
  std::memcpy(&word, bits + (position >> 3), 8);
  return word >> (position & 7);
}

inline void BeginBlock(BlockState& block, const uint8_t* bytes, int lanes) {
  for (int lane = 0; lane < lanes; ++lane) block.states[lane] = bytes[2 * lane] | static_cast<uint32_t>(bytes[2 * lane + 1]) << 8;
  block.bits = bytes + 2 * lanes;
  block.position = 0;
}

// Takes one symbol from the window; an escape fetches windows of its own.
template <class Symbol>
inline void DecodeSymbol(const Entry* table, const uint8_t* bits, uint32_t& state, uint64_t& window, uint64_t& position, Symbol& out) {
  const Entry entry = table[state];
  const uint32_t count = entry >> 28;
  const uint32_t base = entry >> 16 & 0xFFF;
  if (sizeof(Symbol) == 2 && count == kEscapeMark) [[unlikely]] {
    const uint32_t escaped_count = entry & 0xFFFF;
    window = LoadWindow(bits, position);
    state = base + (static_cast<uint32_t>(window) & ((1u << escaped_count) - 1));
    out = static_cast<Symbol>(window >> escaped_count);
    position += escaped_count + kEscapeBits;
    window = LoadWindow(bits, position);
    return;
  }
  out = static_cast<Symbol>(entry);
  state = base + (static_cast<uint32_t>(window) & ((1u << count) - 1));
  window >>= count;
  position += count;
}

// Decodes `steps` steps: steps * kLanes symbols.
template <int kLanes, class Symbol>
inline void DecodeSteps(BlockState& block, const Entry* table, int64_t steps, Symbol* out) {
  constexpr int kUnroll = kLanes < 4 ? 4 / kLanes : 1;  // steps a window
  constexpr int kGroups = kLanes < 4 ? 1 : kLanes / 4;
  uint32_t states[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) states[lane] = block.states[lane];
  const uint8_t* bits = block.bits;
  uint64_t position = block.position;
  int64_t step = 0;
  for (; step + kUnroll <= steps; step += kUnroll) {
    for (int group = 0; group < kGroups; ++group) {
      uint64_t window = LoadWindow(bits, position);
      for (int j = 0; j < 4; ++j) DecodeSymbol(table, bits, states[(4 * group + j) % kLanes], window, position, out[4 * group + j]);
    }
    out += kUnroll * kLanes;
  }
  for (; step < steps; ++step, out += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) {
      uint64_t window = LoadWindow(bits, position);
      DecodeSymbol(table, bits, states[lane], window, position, out[lane]);
    }
  for (int lane = 0; lane < kLanes; ++lane) block.states[lane] = states[lane];
  block.position = position;
}

inline constexpr int64_t kPieceElements = 2048;
inline constexpr int64_t kTableBytes = sizeof(Entry) << kMaxTableBits;

// Decodes the blocks of a call piece by piece: sink(first element within the block, block's first row, piece, elements).
// `pieces` has room for kPieceElements and 64 bytes more.
template <int kLanes, class Symbol, class Sink>
inline void DecodeBlocks(const backends::KernelCall& call, const Layout& layout, const Entry* table, Symbol* piece, const Sink& sink) {
  const auto* offsets = reinterpret_cast<const uint8_t*>(call.matrix->sections[kBlockOffsets].bytes.data());
  const auto* payload = reinterpret_cast<const uint8_t*>(call.matrix->sections[kPayload].bytes.data());
  const int64_t end = (call.row_end + layout.rows_per_block - 1) / layout.rows_per_block;
  for (int64_t number = call.row_begin / layout.rows_per_block; number < end; ++number) {
    BlockState block;
    uint64_t offset = 0;
    for (int i = 0; i < 8; ++i) offset |= uint64_t{offsets[8 * number + i]} << (8 * i);
    BeginBlock(block, payload + offset, kLanes);
    const int64_t elements = block_elements(layout, call.matrix->shape, number);
    for (int64_t begin = 0; begin < elements; begin += kPieceElements) {
      const int64_t count = std::min(kPieceElements, elements - begin);
      constexpr int64_t kStep = kLanes * static_cast<int64_t>(sizeof(Symbol));
      DecodeSteps<kLanes, Symbol>(block, table, (count + kStep - 1) / kStep, piece);
      sink(begin, number * layout.rows_per_block, reinterpret_cast<const int8_t*>(piece), count);
    }
  }
}

template <class Symbol, class Sink>
inline void DispatchLanes(const backends::KernelCall& call, const Layout& layout, const Entry* table, std::byte* piece, const Sink& sink) {
  auto* symbols = reinterpret_cast<Symbol*>(piece);
  switch (layout.lanes) {
    case 1: return DecodeBlocks<1, Symbol>(call, layout, table, symbols, sink);
    case 2: return DecodeBlocks<2, Symbol>(call, layout, table, symbols, sink);
    case 4: return DecodeBlocks<4, Symbol>(call, layout, table, symbols, sink);
    case 8: return DecodeBlocks<8, Symbol>(call, layout, table, symbols, sink);
    case 16: return DecodeBlocks<16, Symbol>(call, layout, table, symbols, sink);
    case 32: return DecodeBlocks<32, Symbol>(call, layout, table, symbols, sink);
    case 64: return DecodeBlocks<64, Symbol>(call, layout, table, symbols, sink);
  }
}

// Everything of a call but the output: builds the table in the scratch and decodes.
template <class Sink>
inline void DecodeCall(const backends::KernelCall& call, const Sink& sink) {
  const Layout layout = layout_of(call.matrix->shape, *call.matrix->settings);
  if (layout.blocks == 0) return;
  auto* table = reinterpret_cast<Entry*>(call.scratch);
  {
    Model model;
    trusted_model(call.matrix->sections[kAlphabet].bytes, layout, model);
    build_table(model, layout.even_spread, table);
  }
  if (layout.pairs)
    DispatchLanes<uint16_t>(call, layout, table, call.scratch + kTableBytes, sink);
  else
    DispatchLanes<uint8_t>(call, layout, table, call.scratch + kTableBytes, sink);
}

inline void DecodeToMemory(const backends::KernelCall& call) {
  const int64_t cols = call.matrix->shape.cols;
  DecodeCall(call, [&](int64_t begin, int64_t row, const int8_t* piece, int64_t count) {
    std::memcpy(call.decoded + (row - call.row_begin) * cols + begin, piece, static_cast<size_t>(count));
  });
}
