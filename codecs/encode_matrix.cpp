// The door for what encoders make, those of the tree and of loaded libraries: what it lets in is the matrix that was
// asked for, in sections that are all that a decoder gets.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>

#include "codecs/compressed_matrix.h"
#include "codecs/ecmv_codec.h"
#include "codecs/loaded/text.h"
#include "codecs/registry.h"

namespace ecmv::codecs {
namespace {

// The names of sections are not counted in a size, so they may say little: all names of a matrix together, and how many
// different ones a codec ever uses.
constexpr size_t kMostNameCharacters = 160, kMostNames = 32;

// Counts the different names that a codec has used in this process.
size_t names_of_codec(std::string_view id, const std::vector<Section>& sections) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::string, std::set<std::string, std::less<>>, std::less<>>;
  const std::scoped_lock lock(mutex);
  auto& names = (*all)[std::string(id)];
  for (const Section& section : sections)
    if (names.size() <= kMostNames && !names.contains(section.name)) names.emplace(section.name);
  return names.size();
}

// Completes "The codec ..."; empty if all is well.
std::string fault_of_names(std::string_view id, const std::vector<Section>& sections) {
  if (sections.size() > ECMV_MAX_SECTIONS)
    return "stores more than " + std::to_string(int{ECMV_MAX_SECTIONS}) + " sections.";
  size_t characters = 0;
  for (size_t i = 0; i < sections.size(); ++i) {
    const std::string_view name = sections[i].name;
    if (!loaded::is_name(name)) return "names a section with something that is no lower_snake_case name.";
    for (size_t before = 0; before < i; ++before)
      if (sections[before].name == name) return "stores its section '" + std::string(name) + "' twice.";
    characters += name.size();
  }
  if (characters > kMostNameCharacters)
    return "names its sections in " + std::to_string(characters) + " characters. Names are not counted in the size, " +
           "so all of a matrix have at most " + std::to_string(kMostNameCharacters) + ".";
  if (names_of_codec(id, sections) > kMostNames)
    return "has used more than " + std::to_string(kMostNames) + " different names of sections. They are not counted " +
           "in the size, so they must not depend on what is stored.";
  return {};
}

std::string fault_of_sections(const std::vector<Section>& sections) {
  for (const Section& section : sections) {
    const std::string name = "its section '" + std::string(section.name) + "'";
    if (section.role > Role::scale) return "gives " + name + " a role that there is not.";
    if (section.padding_bytes < 0 || section.padding_bytes > static_cast<int64_t>(section.bytes.size()))
      return "declares " + std::to_string(section.padding_bytes) + " bytes of padding in " + name + ", which has " +
             std::to_string(section.bytes.size()) + ".";
  }
  return {};
}

std::string shape_text(datasets::Shape shape, datasets::ElementType type) {
  return std::to_string(shape.rows) + " x " + std::to_string(shape.cols) + " elements of " +
         std::string(datasets::element_type_name(type));
}

std::string fault_of(const CodecEntry& entry, const CompressedMatrix& compressed, datasets::MatrixView matrix,
                     const Settings& settings) {
  if (compressed.shape != matrix.shape || compressed.type != matrix.type)
    return "encodes a matrix of " + shape_text(matrix.shape, matrix.type) + " as one of " +
           shape_text(compressed.shape, compressed.type) + ".";
  if (compressed.settings != settings) return "changed the settings that it was to encode with.";
  if (entry.codec->max_stored_bytes == nullptr) return "declares no bound of what it stores.";
  if (std::string fault = fault_of_names(entry.id, compressed.sections); !fault.empty()) return fault;
  return fault_of_sections(compressed.sections);
}

}  // namespace

CompressedMatrix encode_matrix(const CodecEntry& entry, datasets::MatrixView matrix, const Settings& settings) {
  const uint64_t source = datasets::content_hash(matrix);
  CompressedMatrix compressed = entry.codec->encode(matrix, settings);
  const std::string codec = "The codec '" + std::string(entry.id) + "' ";
  if (datasets::content_hash(matrix) != source)
    throw std::runtime_error(codec + "changed the matrix that it was to encode.");
  if (const std::string fault = fault_of(entry, compressed, matrix, settings); !fault.empty())
    throw std::runtime_error(codec + fault);
  compressed.codec = entry.id;
  compressed.format_version = entry.codec->format_version;
  compressed.source_hash = source;
  return compressed;
}

}  // namespace ecmv::codecs
