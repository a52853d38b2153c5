// See matrix_file.h.
#include "experiments/library/matrix_file.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "datasets/files/safetensors.h"
#include "datasets/source.h"

namespace ecmv::library {
namespace {

using nlohmann::json;

constexpr const char *kMatrices = "ecmv.matrices", *kVersion = "ecmv.version", *kThisVersion = "1";
constexpr const char* kNoUtf8 = "The name of a matrix is not UTF-8.";

datasets::FileBytes open_bytes(const std::string& path) {
  try {
    return datasets::FileBytes(path);
  } catch (const datasets::DatasetError& error) {
    throw Failure(ECMV_INVALID_ARGUMENT, error.what());
  }
}

// Over the description without its hash and the bytes of all sections, in hexadecimal. A changed file may still decode,
// to another matrix.
template <typename Sections>
std::string hash_of(json description, const Sections& sections) {
  description.erase("hash");
  const std::string text = description.dump();
  uint64_t hash = backends::hash_of(std::as_bytes(std::span(text)));
  for (const auto& section : sections)
    hash = hash * 0x9E3779B97F4A7C15u + backends::hash_of(std::span<const std::byte>(section.bytes));
  char hexadecimal[17];
  std::snprintf(hexadecimal, sizeof(hexadecimal), "%016llx", static_cast<unsigned long long>(hash));
  return hexadecimal;
}

std::string tensor_name(const std::string& matrix, std::string_view section) {
  return matrix + "." + std::string(section);
}

json description_of(const NamedMatrix& named) {
  const backends::CompressedMatrix& matrix = *named.matrix;
  json sections = json::array();
  for (const backends::Section& section : matrix.sections)
    sections.push_back({{"name", section.name},
                        {"role", backends::role_name(section.role)},
                        {"alignment", section.align_bytes},
                        {"padding", section.padding_bytes}});
  json description = {{"name", named.name},
                      {"codec", matrix.codec},
                      {"settings", matrix.settings.to_string()},
                      {"format_version", matrix.format_version},
                      {"type", datasets::element_type_name(matrix.type)},
                      {"rows", matrix.shape.rows},
                      {"cols", matrix.shape.cols},
                      {"sections", sections}};
  description["hash"] = hash_of(description, matrix.sections);
  return description;
}

// The header of the file: its length and the JSON text, filled up with spaces.
std::string header_of(const std::vector<NamedMatrix>& matrices) try {
  json header = json::object(), described = json::array();
  size_t end = 0;
  for (const NamedMatrix& named : matrices) {
    described.push_back(description_of(named));
    for (const backends::Section& section : named.matrix->sections) {
      json& tensor = header[tensor_name(named.name, section.name)];
      if (!tensor.is_null())
        throw Failure(ECMV_INVALID_ARGUMENT,
                      "Two sections would be the tensor '" + tensor_name(named.name, section.name) + "' of the file.");
      const size_t begin = end;
      end += section.bytes.size();
      tensor = {{"dtype", "U8"}, {"shape", {section.bytes.size()}}, {"data_offsets", {begin, end}}};
    }
  }
  header["__metadata__"] = {{kVersion, kThisVersion}, {kMatrices, described.dump()}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return length + text;
} catch (const json::exception&) {
  throw Failure(ECMV_INVALID_ARGUMENT, kNoUtf8);
}

void write_to(const std::string& path, const std::string& header, const std::vector<NamedMatrix>& matrices) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const NamedMatrix& named : matrices)
    for (const backends::Section& section : named.matrix->sections)
      file.write(reinterpret_cast<const char*>(section.bytes.data()),
                 static_cast<std::streamsize>(section.bytes.size()));
  file.close();
  if (!file) throw Failure(ECMV_FAILED, "The file " + path + " cannot be written.");
}

// Numbers of other types would be converted, whatever they are.
int64_t integer(const json& number) {
  if (!number.is_number_integer()) throw Failure(ECMV_MALFORMED, "The file has a number that is no integer.");
  return number.get<int64_t>();
}

MatrixParts parts_from(const json& described, const std::string& name, const datasets::Safetensors& file) {
  MatrixParts parts{.codec = described.at("codec"),
                    .settings = described.at("settings"),
                    .element_type = described.at("type"),
                    .format_version = static_cast<uint32_t>(integer(described.at("format_version"))),
                    .shape = {integer(described.at("rows")), integer(described.at("cols"))},
                    .sections = {}};
  for (const json& section : described.at("sections")) {
    const std::string tensor = tensor_name(name, section.at("name").get<std::string>());
    const datasets::TensorView* found = file.find(tensor);
    if (found == nullptr || found->dtype != "U8")
      throw Failure(ECMV_MALFORMED, "The file has no tensor '" + tensor + "' of bytes.");
    parts.sections.push_back({.name = section.at("name"),
                              .role = section.at("role"),
                              .align_bytes = integer(section.at("alignment")),
                              .padding_bytes = integer(section.at("padding")),
                              .bytes = found->bytes});
  }
  return parts;
}

}  // namespace

std::string description_text(const NamedMatrix& named) try {
  return description_of(named).dump();
} catch (const json::exception&) {
  throw Failure(ECMV_INVALID_ARGUMENT, kNoUtf8);
}

void save_matrices(const std::string& path, const std::vector<NamedMatrix>& matrices) {
  std::set<std::string> names;
  for (const NamedMatrix& named : matrices)
    if (!names.insert(named.name).second)
      throw Failure(ECMV_INVALID_ARGUMENT, "Two matrices have the name '" + named.name + "'.");
  const std::string header = header_of(matrices), part = path + ".part";
  std::error_code error;
  try {
    write_to(part, header, matrices);
  } catch (...) {
    std::filesystem::remove(part, error);
    throw;
  }
  std::filesystem::rename(part, path, error);
  if (!error) return;
  const std::string reason = error.message();
  std::filesystem::remove(part, error);
  throw Failure(ECMV_FAILED, "The file " + path + " cannot be written: " + reason + ".");
}

MatrixFile::MatrixFile(const std::string& path) : bytes_(open_bytes(path)) {
  try {
    const datasets::Safetensors file = datasets::parse_safetensors(bytes_.bytes());
    const auto version = file.metadata.find(kVersion), described = file.metadata.find(kMatrices);
    if (version == file.metadata.end() || described == file.metadata.end())
      throw Failure(ECMV_MALFORMED,
                    "The file " + path + " is none of compressed matrices: its metadata lack '" + kMatrices + "'.");
    if (version->second != kThisVersion)
      throw Failure(ECMV_MALFORMED, "The file " + path + " has another version of the format than 1.");
    for (const json& one : json::parse(described->second)) {
      const std::string name = one.at("name");
      if (!by_name_.emplace(name, all_.size()).second)
        throw Failure(ECMV_MALFORMED, "The file " + path + " has the matrix '" + name + "' twice.");
      all_.push_back({name, one.at("hash"), one.dump(), parts_from(one, name, file)});
    }
  } catch (const datasets::DatasetError& error) {
    throw Failure(ECMV_MALFORMED, path + ": " + error.what());
  } catch (const json::exception&) {
    throw Failure(ECMV_MALFORMED,
                  "The metadata '" + std::string(kMatrices) + "' of " + path + " are not as ecmv_save writes them.");
  }
}

std::unique_ptr<ecmv_compressed_matrix> MatrixFile::load(const std::string& name, Trust trust) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) throw Failure(ECMV_INVALID_ARGUMENT, "The file has no matrix '" + name + "'.");
  const Stored& stored = all_[found->second];
  if (hash_of(json::parse(stored.description), stored.parts.sections) != stored.hash)
    throw Failure(ECMV_MALFORMED, "The matrix '" + name + "' has other bytes than were written.");
  return join(stored.parts, trust);
}

}  // namespace ecmv::library
