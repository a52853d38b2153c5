// Sections of compressed matrices, and files of them, through the C interface.
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/library/library_handles.h"

using namespace ecmv::tests;

namespace {

ecmv_stored_section section_of(const Matrix& matrix, size_t number) {
  ecmv_stored_section section = {};
  section.struct_bytes = sizeof(section);
  REQUIRE(error_of(ecmv_section_of(matrix.get(), number, &section)) == "");
  return section;
}

std::vector<ecmv_stored_section> sections_of(const Matrix& matrix) {
  std::vector<ecmv_stored_section> all;
  for (size_t i = 0; i < ecmv_section_count(matrix.get()); ++i) all.push_back(section_of(matrix, i));
  return all;
}

ecmv_description describe(const Matrix& matrix) {
  ecmv_description description = {};
  description.struct_bytes = sizeof(description);
  REQUIRE(error_of(ecmv_describe(matrix.get(), &description)) == "");
  return description;
}

std::vector<int8_t> decode(const Matrix& matrix) {
  std::vector<int8_t> out(weights().size());
  REQUIRE(error_of(ecmv_decode(matrix.get(), out.data(), out.size())) == "");
  return out;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

struct Close {
  void operator()(ecmv_file* file) const { ecmv_close_file(file); }
};
using Opened = std::unique_ptr<ecmv_file, Close>;

Opened open_file(const std::string& path) {
  ecmv_file* file = nullptr;
  REQUIRE(error_of(ecmv_open_file(path.c_str(), &file)) == "");
  return Opened(file);
}

}  // namespace

TEST_CASE("every codec's sections make its matrix again") {
  int matrices = 0;
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i) {
    INFO(ecmv_codec_id(i));
    const Matrix matrix = encode(ecmv_codec_id(i), "i8", weights().data());
    if (matrix == nullptr) continue;
    ++matrices;
    const std::vector<ecmv_stored_section> sections = sections_of(matrix);
    int64_t stored = 0;
    for (const ecmv_stored_section& section : sections) stored += static_cast<int64_t>(section.bytes);
    ecmv_sizes sizes = {};
    sizes.struct_bytes = sizeof(sizes);
    REQUIRE(ecmv_sizes_of(matrix.get(), &sizes) == ECMV_OK);
    CHECK(stored == sizes.stored);

    const ecmv_description description = describe(matrix);
    CHECK(description.codec == std::string(ecmv_codec_id(i)));
    CHECK(description.element_type == std::string("i8"));
    CHECK((description.rows == kRows && description.cols == kCols));
    ecmv_compressed_matrix* again = nullptr;
    REQUIRE(error_of(ecmv_from_sections(&description, sections.data(), sections.size(), &again)) == "");
    const Matrix owned(again);
    CHECK(decode(owned) == weights());
    CHECK(sections_of(owned).size() == sections.size());
    for (size_t s = 0; s < sections.size(); ++s) {
      const ecmv_stored_section one = section_of(owned, s);
      CHECK(one.name == std::string(sections[s].name));
      CHECK(one.role == std::string(sections[s].role));
      CHECK((one.padding == sections[s].padding && one.alignment == sections[s].alignment));
    }
  }
  CHECK(matrices > 0);
  CHECK(ecmv_section_count(nullptr) == 0);
}

TEST_CASE("sections that are no stream of the codec end in a status and a sentence") {
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i) {
    const Matrix matrix = encode(ecmv_codec_id(i), "i8", weights().data());
    if (matrix == nullptr || sections_of(matrix).empty()) continue;
    INFO(ecmv_codec_id(i));
    const ecmv_description described = describe(matrix);
    const auto makes = [&](const ecmv_description& description, const std::vector<ecmv_stored_section>& sections) {
      auto* made = reinterpret_cast<ecmv_compressed_matrix*>(const_cast<ecmv_description*>(&described));
      const ecmv_status status = ecmv_from_sections(&description, sections.data(), sections.size(), &made);
      CHECK(made == nullptr);
      return status;
    };
    std::vector<ecmv_stored_section> sections = sections_of(matrix);
    for (size_t s = 0; s < sections.size(); ++s) {
      if (sections[s].bytes == 0) continue;
      std::vector<ecmv_stored_section> cut = sections;
      cut[s].bytes = cut[s].padding = 0;
      CHECK(makes(described, cut) == ECMV_MALFORMED);
      CHECK(std::string(ecmv_last_error()).ends_with("."));
    }
    CHECK(makes(described, {}) == ECMV_MALFORMED);
    ecmv_description other = described;
    ++other.format_version;
    expect(makes(other, sections), ECMV_MALFORMED, "of its format here, and this is ");
    other = described;
    other.rows = -1;
    expect(makes(other, sections), ECMV_INVALID_ARGUMENT, "There is no matrix of -1 rows");
    other = described;
    other.codec = "no_such_codec";
    expect(makes(other, sections), ECMV_INVALID_ARGUMENT, "There is no codec 'no_such_codec'.");
    sections[0].alignment = 3;
    expect(makes(described, sections), ECMV_MALFORMED, "no power of two");
    sections[0].alignment = 64;
    sections[0].padding = sections[0].bytes + 1;
    expect(makes(described, sections), ECMV_MALFORMED, "more padding than bytes");
    sections[0].padding = 0;
    sections[0].role = "tables";
    expect(makes(described, sections), ECMV_MALFORMED, "There is no role 'tables'");
    sections[0].role = "table";
    sections[0].name = "No name";
    expect(makes(described, sections), ECMV_MALFORMED, "no lower_snake_case name");
    sections[0].struct_bytes = 8;
    expect(makes(described, sections), ECMV_INVALID_ARGUMENT, "The field struct_bytes of the section is 8");
    expect(ecmv_from_sections(nullptr, nullptr, 0, nullptr), ECMV_INVALID_ARGUMENT, "The argument 'matrix' is NULL.");
    ecmv_stored_section one = {};
    one.struct_bytes = sizeof(one);
    expect(ecmv_section_of(matrix.get(), 1000, &one), ECMV_INVALID_ARGUMENT, "There is no section 1000");
    expect(ecmv_section_of(nullptr, 0, &one), ECMV_INVALID_ARGUMENT, "The argument 'matrix' is NULL.");
  }
}

TEST_CASE("sections with a known hash are taken without the codec, and no others are") {
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i) {
    const Matrix matrix = encode(ecmv_codec_id(i), "i8", weights().data());
    if (matrix == nullptr || sections_of(matrix).empty()) continue;
    INFO(ecmv_codec_id(i));
    ecmv_description described = describe(matrix);
    CHECK(described.hash != 0);
    CHECK(described.hash == describe(encode(ecmv_codec_id(i), "i8", weights().data())).hash);
    std::vector<ecmv_stored_section> sections = sections_of(matrix);
    const auto make = [&](const ecmv_description& description) {
      ecmv_compressed_matrix* made = nullptr;
      const ecmv_status status = ecmv_from_sections(&description, sections.data(), sections.size(), &made);
      CHECK((status == ECMV_OK) == (made != nullptr));
      return Matrix(made);
    };
    const Matrix again = make(described);
    REQUIRE(again != nullptr);
    CHECK(decode(again) == weights());
    CHECK(describe(again).hash == described.hash);

    std::vector<std::vector<uint8_t>> bytes;
    for (ecmv_stored_section& section : sections) {
      const auto* begin = static_cast<const uint8_t*>(section.place);
      bytes.emplace_back(begin, begin + section.bytes);
      section.place = bytes.back().data();
    }
    for (std::vector<uint8_t>& section : bytes) {
      if (section.empty()) continue;
      section[section.size() / 2] ^= 4;
      CHECK(make(described) == nullptr);
      CHECK(std::string(ecmv_last_error()) == "The sections are not those that the description's hash is of.");
      section[section.size() / 2] ^= 4;
    }
    ++sections[0].padding, --described.rows;
    CHECK(make(described) == nullptr);
    --sections[0].padding, ++described.rows;
    // A caller of the first version has no hash, whatever stands behind his struct.
    described.hash = 1;
    CHECK(make(described) == nullptr);
    described.struct_bytes = 56;
    CHECK(make(described) != nullptr);
    ecmv_description older = {};
    older.struct_bytes = 56;
    older.hash = 77;
    REQUIRE(error_of(ecmv_describe(matrix.get(), &older)) == "");
    CHECK(older.hash == 77);
  }
}

TEST_CASE("matrices of every codec come back from one file, also to several threads") {
  const File file;
  std::vector<Matrix> matrices;
  std::vector<std::string> names;
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i)
    if (Matrix matrix = encode(ecmv_codec_id(i), "i8", weights().data())) {
      names.push_back("layers." + std::to_string(matrices.size()) + ".weight");
      matrices.push_back(std::move(matrix));
    }
  std::vector<const char*> texts;
  std::vector<const ecmv_compressed_matrix*> handles;
  for (size_t i = 0; i < names.size(); ++i) texts.push_back(names[i].c_str()), handles.push_back(matrices[i].get());
  REQUIRE(error_of(ecmv_save(file.path.c_str(), texts.data(), handles.data(), names.size())) == "");
  CHECK(!std::filesystem::exists(file.path + ".part"));

  const Opened opened = open_file(file.path);
  CHECK(ecmv_file_name(opened.get(), names.size()) == nullptr);
  std::vector<ecmv_compressed_matrix*> loaded(names.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < names.size(); ++i)
    threads.emplace_back([&, i] { (void)ecmv_load(opened.get(), ecmv_file_name(opened.get(), i), &loaded[i]); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < names.size(); ++i) {
    INFO(names[i]);
    CHECK(ecmv_file_name(opened.get(), i) == names[i]);
    const Matrix matrix(loaded[i]);
    REQUIRE(matrix != nullptr);
    CHECK(decode(matrix) == weights());
    CHECK(describe(matrix).settings == std::string(describe(matrices[i]).settings));
    ecmv_compressed_matrix* trusted = nullptr;
    REQUIRE(error_of(ecmv_load_trusted(opened.get(), names[i].c_str(), &trusted)) == "");
    CHECK(decode(Matrix(trusted)) == weights());
  }
  ecmv_compressed_matrix* none = nullptr;
  expect(ecmv_load(opened.get(), "layers", &none), ECMV_INVALID_ARGUMENT, "The file has no matrix 'layers'.");
  const char* twice[] = {"a", "a"};
  expect(ecmv_save(file.path.c_str(), twice, std::vector{handles[0], handles[0]}.data(), 2), ECMV_INVALID_ARGUMENT,
         "Two matrices have the name 'a'.");
  const char* bad[] = {"\xFF"};
  expect(ecmv_save(file.path.c_str(), bad, handles.data(), 1), ECMV_INVALID_ARGUMENT, "is not UTF-8.");
  expect(ecmv_save("/nowhere/file", texts.data(), handles.data(), 1), ECMV_FAILED, "cannot be written");
}

TEST_CASE("truncated, foreign and changed files end in a status and a sentence") {
  const File file;
  Matrix matrix;
  for (size_t i = 0; matrix == nullptr && ecmv_codec_id(i) != nullptr; ++i)
    matrix = encode(ecmv_codec_id(i), "i8", weights().data());
  if (matrix == nullptr) SKIP("No codec of this build stores int8 elements.");
  const char* name = "w";
  const ecmv_compressed_matrix* handle = matrix.get();
  REQUIRE(error_of(ecmv_save(file.path.c_str(), &name, &handle, 1)) == "");
  const std::string whole = read(file.path);
  const auto status_of = [&](const std::string& bytes) {
    write(file.path, bytes);
    ecmv_file* opened = nullptr;
    ecmv_status status = ecmv_open_file(file.path.c_str(), &opened);
    CHECK((opened != nullptr) == (status == ECMV_OK));
    const Opened owned(opened);
    ecmv_compressed_matrix* made = nullptr;
    if (status != ECMV_OK) return status;
    const ecmv_status of_trusted = ecmv_load_trusted(opened, "w", &made);
    const Matrix trusted(made);
    status = ecmv_load(opened, "w", &made);
    const Matrix loaded(made);
    CHECK((made != nullptr) == (status == ECMV_OK));
    CHECK(of_trusted == status);  // whatever was changed here changes the hash
    return status;
  };
  CHECK(status_of(whole) == ECMV_OK);
  for (const size_t bytes : {size_t{0}, size_t{7}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    INFO(bytes << " of " << whole.size() << " bytes");
    CHECK((status_of(whole.substr(0, bytes)) != ECMV_OK));
    CHECK(std::string(ecmv_last_error()).ends_with("."));
  }
  CHECK(status_of(whole + "x") == ECMV_MALFORMED);
  for (size_t at = whole.size() - 1; at > whole.size() / 2; at -= whole.size() / 32) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    INFO("byte " << at);
    expect(status_of(changed), ECMV_MALFORMED, "The matrix 'w' has other bytes than were written.");
  }
  std::string turned = whole;  // [512, 64] of the same bytes
  turned.replace(turned.find(R"(\"rows\":64)"), 11, R"(\"rows\":99)");
  expect(status_of(turned), ECMV_MALFORMED, "The matrix 'w' has other bytes than were written.");
  // A byte of the header: another name, number or form, and never a crash.
  for (size_t at = 0; at < whole.size() && at < 2000; at += 3) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x01);
    (void)status_of(changed);
  }
  const std::string foreign = R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(foreign.size());
  expect(status_of(length + foreign), ECMV_MALFORMED, "its metadata lack 'ecmv.matrices'.");
  std::string other = whole;
  other.replace(other.find(R"("ecmv.version":"1")"), 18, R"("ecmv.version":"2")");
  expect(status_of(other), ECMV_MALFORMED, "has another version of the format than 1.");
  ecmv_file* none = nullptr;
  expect(ecmv_open_file("/nowhere/file", &none), ECMV_INVALID_ARGUMENT, "/nowhere/file");
  expect(ecmv_open_file(nullptr, &none), ECMV_INVALID_ARGUMENT, "The argument 'path' is NULL.");
  CHECK(ecmv_file_name(nullptr, 0) == nullptr);
  ecmv_close_file(nullptr);
}

TEST_CASE("what a file says of a matrix can be had for a file of one's own") {
  need_codec("raw_int8");
  const Matrix matrix = encode("raw_int8", "i8", weights().data());
  std::string text(8192 + 2, 'x');
  REQUIRE(error_of(ecmv_describe_in_file(matrix.get(), "a\"b", text.data(), text.size())) == "");
  text.resize(std::strlen(text.c_str()));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("\"codec\":\"raw_int8\""));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("\"name\":\"a\\\"b\""));
  const File file;
  const char* const name = "a\"b";
  const ecmv_compressed_matrix* const saved = matrix.get();
  REQUIRE(error_of(ecmv_save(file.path.c_str(), &name, &saved, 1)) == "");
  std::string quoted;  // the metadata are a text within JSON
  for (const char c : text) quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  CHECK_THAT(read(file.path), Catch::Matchers::ContainsSubstring("[" + quoted + "]"));
  char small[16];
  expect(ecmv_describe_in_file(matrix.get(), "a", small, sizeof(small)), ECMV_INVALID_ARGUMENT, "bytes.");
  expect(ecmv_describe_in_file(matrix.get(), "\xff", text.data(), text.size()), ECMV_INVALID_ARGUMENT, "not UTF-8");
  expect(ecmv_describe_in_file(matrix.get(), "a", nullptr, 9999), ECMV_INVALID_ARGUMENT, "'text' is NULL");
}
