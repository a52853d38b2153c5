// See matrix_parts.h.
#include "experiments/library/matrix_parts.h"

#include <bit>
#include <mutex>
#include <set>

#include "backends/cpu/team.h"
#include "codecs/ecmv_codec.h"
#include "codecs/loaded/text.h"
#include "codecs/read_stream.h"
#include "experiments/library/encoding.h"

namespace ecmv::library {
namespace {

constexpr int64_t kMostAlignment = 4096;
// As many different names as a codec may use, and as long as the names of a matrix may be together (encode_matrix.cpp).
constexpr size_t kMostNames = 32, kMostNameCharacters = 160;

[[noreturn]] void malformed(const std::string& sentence) { throw Failure(ECMV_MALFORMED, sentence); }

// Names of sections outlive their matrix, since passes show them. Of every codec only so many are kept.
std::string_view kept_name(const std::string& codec, const std::string& name) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::string, std::set<std::string, std::less<>>, std::less<>>;
  if (!codecs::loaded::is_name(name) || name.size() > kMostNameCharacters)
    malformed("A section has a name that is no lower_snake_case name.");
  const std::scoped_lock lock(mutex);
  auto& names = (*all)[codec];
  if (names.size() >= kMostNames && !names.contains(name))
    malformed("The codec '" + codec + "' has no section '" + name + "'.");
  return *names.insert(name).first;
}

backends::Role role_of(const std::string& name) {
  for (const auto role : {backends::Role::payload, backends::Role::table, backends::Role::index, backends::Role::scale})
    if (backends::role_name(role) == name) return role;
  malformed("There is no role '" + name + "' of a section; there are payload, table, index and scale.");
}

backends::Section section_of(const std::string& codec, const MatrixParts::Part& part, Trust trust) {
  const std::string who = "The section '" + part.name + "' ";
  if (part.align_bytes < 1 || part.align_bytes > kMostAlignment ||
      !std::has_single_bit(static_cast<uint64_t>(part.align_bytes)))
    malformed(who + "has an alignment that is no power of two up to " + std::to_string(kMostAlignment) + ".");
  if (part.padding_bytes < 0 || part.padding_bytes > static_cast<int64_t>(part.bytes.size()))
    malformed(who + "has more padding than bytes.");
  backends::Section section{.name = kept_name(codec, part.name),
                            .role = role_of(part.role),
                            .align_bytes = static_cast<uint32_t>(part.align_bytes),
                            .bytes = {},
                            .padding_bytes = part.padding_bytes};
  if (trust != Trust::elsewhere) section.bytes.assign(part.bytes.begin(), part.bytes.end());
  return section;
}

}  // namespace

uint64_t hash_of(const backends::CompressedMatrix& matrix) {
  std::vector<uint64_t> sections;
  for (const backends::Section& section : matrix.sections) sections.push_back(backends::hash_of(section.bytes));
  return hash_of(matrix, sections);
}

uint64_t hash_of(const backends::CompressedMatrix& matrix, std::span<const uint64_t> sections) {
  std::string text;
  const auto add = [&](std::string_view part) { text.append(part).append(" "); };
  for (const std::string& part : {matrix.codec, matrix.settings.to_string()}) add(part);
  add(datasets::element_type_name(matrix.type));
  for (const int64_t number : {int64_t{matrix.format_version}, matrix.shape.rows, matrix.shape.cols})
    add(std::to_string(number));
  for (const backends::Section& section : matrix.sections) {
    add(section.name), add(backends::role_name(section.role));
    add(std::to_string(section.align_bytes)), add(std::to_string(section.padding_bytes));
  }
  uint64_t hash = backends::hash_of(std::as_bytes(std::span(text)));
  for (const uint64_t section : sections) hash = hash * 0x9E3779B97F4A7C15u + section;
  return std::max<uint64_t>(1, hash);
}

std::unique_ptr<ecmv_compressed_matrix> join(const MatrixParts& parts, Trust trust) {
  const codecs::CodecEntry& entry = codec_entry(parts.codec);
  const std::string who = "The codec '" + parts.codec + "' ";
  if (parts.format_version != entry.codec->format_version)
    malformed(who + "stores version " + std::to_string(entry.codec->format_version) +
              " of its format here, and this is " + std::to_string(parts.format_version) + ".");
  expect_shape(parts.shape.rows, parts.shape.cols);
  if (parts.sections.size() > ECMV_MAX_SECTIONS) malformed(who + "has fewer sections.");
  auto made = std::make_unique<ecmv_compressed_matrix>();
  made->entry = &entry;
  backends::CompressedMatrix& matrix = made->matrix;
  matrix.codec = entry.id;
  matrix.format_version = entry.codec->format_version;
  matrix.settings = parse_settings(entry, parts.settings);
  matrix.shape = parts.shape;
  matrix.type = element_type(parts.element_type);
  std::set<std::string> names;
  for (const MatrixParts::Part& part : parts.sections) {
    if (!names.insert(part.name).second) malformed("The section '" + part.name + "' is there twice.");
    matrix.sections.push_back(section_of(parts.codec, part, trust));
  }
  if (trust != Trust::none) return made;
  try {
    const backends::cpu::Team::Share share;
    matrix.source_hash = codecs::check_stream(*entry.codec, matrix.view());
  } catch (const codecs::MalformedStream& error) {
    malformed(who + "does not take these sections. " + error.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    malformed(who + "does not take these sections: " + error.what());
  }
  return made;
}

bool knows_hash(const ecmv_description& description) { return description.struct_bytes >= kDescriptionWithHashBytes; }
uint64_t known_hash(const ecmv_description& description) { return knows_hash(description) ? description.hash : 0; }

MatrixParts parts_of(const ecmv_description& description, const ecmv_stored_section* sections, size_t count) {
  expect_struct(description.struct_bytes, kFirstDescriptionBytes, "description");
  MatrixParts parts{.codec = &given(description.codec, "description->codec"),
                    .settings = description.settings == nullptr ? "" : description.settings,
                    .element_type = &given(description.element_type, "description->element_type"),
                    .format_version = description.format_version,
                    .shape = {description.rows, description.cols},
                    .sections = {}};
  if (count > 0) need(sections, "sections");
  const char* next = reinterpret_cast<const char*>(sections);
  for (size_t i = 0; i < count; ++i) {
    const auto& section = *reinterpret_cast<const ecmv_stored_section*>(next);
    expect_struct(section.struct_bytes, kFirstSectionBytes, "section");
    if (section.struct_bytes != sections->struct_bytes)
      throw Failure(ECMV_INVALID_ARGUMENT, "All sections have the same struct_bytes.");
    if (section.bytes > 0) need(section.place, "sections[].place");
    parts.sections.push_back({.name = &given(section.name, "sections[].name"),
                              .role = &given(section.role, "sections[].role"),
                              .align_bytes = static_cast<int64_t>(section.alignment),
                              .padding_bytes = static_cast<int64_t>(section.padding),
                              .bytes = {static_cast<const std::byte*>(section.place), section.bytes}});
    next += section.struct_bytes;
  }
  return parts;
}

}  // namespace ecmv::library
