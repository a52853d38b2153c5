// A loaded codec: encodes into the program's memory, decodes, states bounds.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "codecs/compressed_matrix.h"
#include "codecs/loaded/adapt.h"
#include "codecs/loaded/calls.h"
#include "codecs/loaded/text.h"

namespace ecmv::codecs::loaded {
namespace {

static_assert(static_cast<int>(datasets::ElementType::i8) == ECMV_I8 &&
              static_cast<int>(datasets::ElementType::bf16) == ECMV_BF16 &&
              static_cast<int>(datasets::ElementType::f64) == ECMV_F64 &&
              static_cast<int>(datasets::ElementType::u64) == ECMV_U64 &&
              static_cast<int>(datasets::ElementType::f8_e4m3) == ECMV_F8_E4M3);
static_assert(static_cast<int>(Role::payload) == ECMV_PAYLOAD && static_cast<int>(Role::table) == ECMV_TABLE &&
              static_cast<int>(Role::index) == ECMV_INDEX && static_cast<int>(Role::scale) == ECMV_SCALE);

// A petabyte. A larger declared bound is a mistake, and sums of bounds must not overflow.
constexpr int64_t kMostBytes = int64_t{1} << 50;
// A guard after every section while encode() runs finds a library that writes too far.
constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xE5};

ecmv_matrix matrix_table(const datasets::MatrixView& matrix) {
  return {sizeof(ecmv_matrix),
          matrix.shape.rows,
          matrix.shape.cols,
          static_cast<uint32_t>(matrix.type),
          static_cast<uint32_t>(datasets::element_bytes(matrix.type)),
          matrix.elements.data()};
}

[[noreturn]] void fail(const CodecTables& tables, const std::string& what) {
  throw std::runtime_error("The codec '" + std::string(tables.codec.id) + "' " + what);
}

// Throws if the library returned a sentence.
void check(const CodecTables& tables, const char* returned, const char* function) {
  if (returned != nullptr) fail(tables, std::string(function) + ": " + sentence(returned));
}

std::string refuses(const CodecTables& tables, datasets::MatrixView matrix, const Settings& settings) {
  const ecmv_matrix table = matrix_table(matrix);
  const SettingValues values = setting_values(tables, settings);
  const CarefulCall call(tables, "refuses", table.rows, table.cols);
  const char* reason = tables.codec.refuses(&table, values.values);
  return reason == nullptr ? "" : sentence(reason);
}

int64_t max_stored_bytes(const CodecTables& tables, datasets::Shape shape, const Settings& settings) {
  int64_t bytes = -1;
  const CarefulCall call(tables, "max_stored_bytes", shape.rows, shape.cols);
  check(tables, tables.codec.max_stored_bytes(shape.rows, shape.cols, setting_values(tables, settings).values, &bytes),
        "has no bound");
  if (bytes < 0 || bytes > kMostBytes) fail(tables, "declares a bound of " + std::to_string(bytes) + " bytes.");
  return bytes;
}

// Receives what encode() writes. After the first error, which is kept, it hands out nothing.
class Output : public ecmv_output {
 public:
  explicit Output(int64_t bound) : ecmv_output{sizeof(ecmv_output), add, shrink}, bound_(bound) {
    sections_.reserve(ECMV_MAX_SECTIONS);
  }

  // The sections. Throws the first error, if there was one.
  std::vector<Section> take(const CodecTables& tables, const char* returned) {
    if (out_of_memory_) throw std::bad_alloc();
    if (!fault_.empty()) fail(tables, fault_);
    check(tables, returned, "could not encode");
    for (Section& section : sections_) {
      const auto guard = section.bytes.end() - kGuardBytes;
      if (std::any_of(guard, section.bytes.end(), [](std::byte b) { return b != kGuard; }))
        fail(tables, "wrote past the end of its section '" + std::string(section.name) + "'.");
      section.bytes.resize(section.bytes.size() - kGuardBytes);
      // A section that was shrunk much keeps its first allocation.
      if (section.bytes.capacity() - section.bytes.size() > section.bytes.size() / 8) section.bytes.shrink_to_fit();
    }
    return std::move(sections_);
  }

 private:
  static uint8_t* add(ecmv_output* output, const char* name, uint32_t role, int64_t byte_count,
                      int64_t padding_bytes) noexcept {
    auto& self = *static_cast<Output*>(output);
    try {
      return self.add_section(name, role, byte_count, padding_bytes);
    } catch (...) {  // nothing else is thrown in here
      self.out_of_memory_ = true;
      return nullptr;
    }
  }
  static void shrink(ecmv_output* output, int64_t byte_count) noexcept {
    static_cast<Output*>(output)->shrink_last_section(byte_count);
  }

  uint8_t* add_section(const char* name, uint32_t role, int64_t byte_count, int64_t padding_bytes) {
    if (!fault_.empty() || out_of_memory_) return nullptr;
    if (name == nullptr || !is_name(name))
      return refuse("names a section with something that is no lower_snake_case name.");
    const std::string section = "its section '" + std::string(name) + "'";
    if (role > ECMV_SCALE)
      return refuse("gives " + section + " a role " + std::to_string(role) + " that there is not.");
    if (byte_count < 0 || padding_bytes < 0 || padding_bytes > byte_count)
      return refuse("asks for " + std::to_string(byte_count) + " bytes for " + section + ", of which " +
                    std::to_string(padding_bytes) + " are padding.");
    if (sections_.size() == ECMV_MAX_SECTIONS)
      return refuse("stores more than " + std::to_string(int{ECMV_MAX_SECTIONS}) + " sections.");
    if (std::any_of(sections_.begin(), sections_.end(), [&](const Section& other) { return other.name == name; }))
      return refuse("stores " + section + " twice.");
    if (byte_count > bound_ - total_)
      return refuse("stores at least " + std::to_string(total_) + " + " + std::to_string(byte_count) +
                    " bytes, more than the declared bound of " + std::to_string(bound_) + ".");
    Section fresh{interned(name), static_cast<Role>(role), 64,
                  std::vector<std::byte>(static_cast<size_t>(byte_count) + kGuardBytes), padding_bytes};
    std::fill(fresh.bytes.end() - kGuardBytes, fresh.bytes.end(), kGuard);
    total_ += byte_count;
    sections_.push_back(std::move(fresh));
    return reinterpret_cast<uint8_t*>(sections_.back().bytes.data());
  }

  void shrink_last_section(int64_t byte_count) {
    if (!fault_.empty() || out_of_memory_) return;
    if (sections_.empty()) return void(refuse("shrinks a section before it has added one."));
    Section& last = sections_.back();
    const auto now = static_cast<int64_t>(last.bytes.size() - kGuardBytes);
    if (byte_count < last.padding_bytes || byte_count > now)
      return void(refuse("shrinks its section '" + std::string(last.name) + "' from " + std::to_string(now) + " to " +
                         std::to_string(byte_count) + " bytes."));
    // The guard moves with the end: bytes after the new end may have been written before.
    std::copy(last.bytes.end() - kGuardBytes, last.bytes.end(), last.bytes.begin() + byte_count);
    last.bytes.resize(static_cast<size_t>(byte_count) + kGuardBytes);
    total_ -= now - byte_count;
  }

  uint8_t* refuse(std::string fault) {
    fault_ = std::move(fault);
    return nullptr;
  }

  int64_t bound_, total_ = 0;
  std::vector<Section> sections_;
  std::string fault_;
  bool out_of_memory_ = false;
};

CompressedMatrix encode(const CodecTables& tables, datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = make_compressed(matrix, settings);
  const ecmv_matrix table = matrix_table(matrix);
  Output output(max_stored_bytes(tables, shape_in_bytes(matrix), settings));
  const char* returned = nullptr;
  {
    const SettingValues values = setting_values(tables, settings);
    const CarefulCall call(tables, "encode", table.rows, table.cols);
    returned = tables.codec.encode(&table, values.values, &output);
  }
  compressed.sections = output.take(tables, returned);
  return compressed;
}

void decode(const CodecTables& tables, const CompressedView& view, std::span<std::byte> out) {
  const CompressedTable compressed(tables, view);
  const CarefulCall call(tables, "decode", view.shape.rows, view.shape.cols);
  if (const char* returned = tables.codec.decode(&compressed.table(), out.data(), static_cast<int64_t>(out.size()));
      returned != nullptr)
    throw MalformedStream(sentence(returned));
}

ErrorBound error_bound(const CodecTables& tables, datasets::MatrixView matrix, const Settings& settings) {
  const ecmv_matrix table = matrix_table(matrix);
  ErrorBound bound{-1, -1};
  const CarefulCall call(tables, "error_bound", table.rows, table.cols);
  check(tables,
        tables.codec.error_bound(&table, setting_values(tables, settings).values, &bound.relative, &bound.absolute),
        "has no error bound");
  if (!(bound.relative >= 0 && bound.absolute >= 0) || !std::isfinite(bound.relative + bound.absolute))
    fail(tables, "declares an error bound that is no number from 0 on.");
  return bound;
}

double ideal_bits(const CodecTables& tables, datasets::MatrixView matrix, const Settings& settings) {
  const ecmv_matrix table = matrix_table(matrix);
  double bits = -1;
  const CarefulCall call(tables, "ideal_bits_per_element", table.rows, table.cols);
  check(tables, tables.codec.ideal_bits_per_element(&table, setting_values(tables, settings).values, &bits),
        "knows no ideal bits");
  if (!(bits >= 0) || !std::isfinite(bits))
    fail(tables, "gives ideal bits of an element that are no number from 0 on.");
  return bits;
}

SettingInfo setting_info(const ecmv_setting& setting) {
  SettingInfo info;
  info.name = setting.name;
  info.unit = setting.unit == nullptr ? "" : setting.unit;
  info.help = setting.help;
  if (setting.choice_count == 0) {
    info.default_value = setting.default_value;
    info.min = setting.min;
    info.max = setting.max;
    return info;
  }
  for (int64_t i = 0; i < setting.choice_count; ++i) info.choices.push_back(setting.choices[i]);
  info.default_value = std::string(info.choices[static_cast<size_t>(setting.default_value)]);
  return info;
}

}  // namespace

SettingValues setting_values(const CodecTables& tables, const Settings& settings) {
  SettingValues out;
  for (size_t i = 0; i < tables.settings.size(); ++i) {
    const ecmv_setting& setting = tables.settings[i];
    if (setting.choice_count == 0) {
      out.values[i] = settings.integer(setting.name);
      continue;
    }
    const std::string& chosen = settings.text(setting.name);
    while (out.values[i] < setting.choice_count && chosen != setting.choices[out.values[i]]) ++out.values[i];
    if (out.values[i] == setting.choice_count)
      throw std::logic_error("The setting '" + std::string(setting.name) + "' has no choice '" + chosen + "'.");
  }
  return out;
}

CompressedTable::CompressedTable(const CodecTables& tables, const CompressedView& view) {
  if (view.settings != nullptr) settings_ = setting_values(tables, *view.settings);
  sections_.reserve(view.sections.size());
  for (const SectionView& section : view.sections)
    sections_.push_back({sizeof(ecmv_section), interned(section.name), static_cast<uint32_t>(section.role), 0,
                         reinterpret_cast<const uint8_t*>(section.bytes.data()),
                         static_cast<int64_t>(section.bytes.size())});
  for (const ecmv_section& section : sections_) pointers_.push_back(&section);
  table_ = {sizeof(ecmv_compressed),
            view.shape.rows,
            view.shape.cols,
            static_cast<uint32_t>(view.type),
            static_cast<uint32_t>(datasets::element_bytes(view.type)),
            settings_.values,
            pointers_.data(),
            static_cast<int64_t>(pointers_.size())};
}

std::unique_ptr<LoadedCodec> make_codec(CodecTables from) {
  auto loaded = std::make_unique<LoadedCodec>();
  loaded->tables = std::move(from);
  const CodecTables* tables = &loaded->tables;
  const ecmv_codec& table = tables->codec;
  Codec& codec = loaded->codec;
  codec.summary = table.summary;
  codec.source = table.source;
  codec.format_version = table.format_version;
  codec.lossless = table.lossy == 0;
  codec.portable_bytes = table.bytes_vary == 0;
  for (const ecmv_setting& setting : tables->settings) codec.settings.push_back(setting_info(setting));
  codec.refuses = [tables](datasets::MatrixView matrix, const Settings& settings) {
    return refuses(*tables, matrix, settings);
  };
  codec.encode = [tables](datasets::MatrixView matrix, const Settings& settings) {
    return encode(*tables, matrix, settings);
  };
  codec.decode = [tables](const CompressedView& view, std::span<std::byte> out) { decode(*tables, view, out); };
  // Estimates ask too, where nobody expects an exception; encode() asks again and reports the error.
  codec.max_stored_bytes = [tables](datasets::Shape shape, const Settings& settings) -> int64_t {
    try {
      return max_stored_bytes(*tables, shape, settings);
    } catch (const std::runtime_error&) {
      return 0;
    }
  };
  if (table.lossy != 0)
    codec.error_bound = [tables](datasets::MatrixView matrix, const Settings& settings) {
      return error_bound(*tables, matrix, settings);
    };
  if (table.ideal_bits_per_element != nullptr)
    codec.ideal_bits_per_element = [tables](datasets::MatrixView matrix, const Settings& settings) {
      return ideal_bits(*tables, matrix, settings);
    };
  add_kernels(*loaded);
  add_gpu_kernels(*loaded);
  return loaded;
}

}  // namespace ecmv::codecs::loaded
