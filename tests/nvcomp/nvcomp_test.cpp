// The codec nvcomp with libraries that pose as nvCOMP and NVIDIA's driver (fake_nvcomp.c, fake_driver.c): where chunks
// begin and end, which bytes are counted, and the messages when something is missing or fails. Only a device can show
// whether the real library is called correctly.
#include <dlfcn.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <fstream>

#include "backends/pass.h"
#include "codecs/modelling/bytes.h"
#include "codecs/read_stream.h"
#include "codecs/registry.h"
#include "reports/record.h"
#include "tests/run_command.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using reports::Status;

namespace {

// The codec looks for both at its first use. The fake driver has the real one's name, so once it is loaded the loader
// takes it for the real one.
void* const kDriver = [] {
  setenv("ECMV_NVCOMP", ECMV_FAKE_NVCOMP, 1);
  return dlopen(ECMV_FAKE_DRIVER, RTLD_NOW);
}();
int alive() { return reinterpret_cast<int (*)()>(dlsym(kDriver, "fake_driver_alive"))(); }

// While it lives, this fails.
struct Fault {
  explicit Fault(const std::string& what) { setenv("ECMV_FAKE_FAIL", what.c_str(), 1); }
  Fault(const Fault&) = delete;
  ~Fault() { unsetenv("ECMV_FAKE_FAIL"); }
};

const codecs::CodecEntry& entry() {
  const codecs::CodecEntry* found = codecs::find_codec("nvcomp");
  if (found == nullptr) SKIP("this build lacks the codec");
  REQUIRE(kDriver != nullptr);
  return *found;
}

backends::Settings settings_of(const std::map<std::string, std::string>& given) {
  std::vector<std::string> errors;
  backends::Settings settings = codecs::resolve_settings(entry().codec->settings, given, errors);
  REQUIRE(errors.empty());
  return settings;
}
backends::CompressedMatrix encode(const datasets::Matrix& matrix,
                                  const std::map<std::string, std::string>& given = {}) {
  const backends::Settings settings = settings_of(given);
  REQUIRE(entry().codec->refuses(matrix.view(), settings) == "");
  return codecs::encode_matrix(entry(), matrix.view(), settings);
}
std::vector<std::byte> decode(const backends::CompressedMatrix& compressed) {
  return codecs::read_stream(*entry().codec, compressed.view()).elements;
}

constexpr int64_t kHeaderBytes = 12;  // of the fake's chunks, before the bytes inverted
const datasets::Shape kThreeChunks = {1, 2500};

// Updates the stored hash, so that the library has to find the damage.
void mend_hash(backends::CompressedMatrix& stored) {
  const auto hash = [](const std::vector<std::byte>& bytes) {
    return datasets::content_hash({{1, static_cast<int64_t>(bytes.size())}, datasets::ElementType::u8, bytes});
  };
  stored.sections[2].bytes.clear();
  codecs::modelling::append<uint64_t>(
      stored.sections[2].bytes, hash(stored.sections[0].bytes) * 0x9E3779B97F4A7C15u ^ hash(stored.sections[1].bytes));
}

}  // namespace

TEST_CASE("chunks begin at multiples of 16, end where they end, and everything is counted") {
  const datasets::Matrix matrix = tests::make_matrix(
      "mixed", kThreeChunks, [](int64_t i) { return i / 1024 == 1 ? 7 : static_cast<int>(i * i % 251) - 125; });
  const backends::CompressedMatrix stored = encode(matrix, {{"chunk_kib", "1"}});
  REQUIRE(stored.sections.size() == 3);
  // 1024 bytes unchanged, 1024 equal ones as one, 452 unchanged.
  const int64_t sizes[] = {kHeaderBytes + 1024, kHeaderBytes + 1, kHeaderBytes + 452};
  const int64_t begins[] = {0, 1040, 1056};
  for (size_t chunk = 0; chunk < 3; ++chunk)
    CHECK(codecs::modelling::load<uint64_t>(stored.sections[1].bytes, 8 * chunk) ==
          static_cast<uint64_t>(begins[chunk] + sizes[chunk]));
  CHECK(stored.sections[0].bytes.size() == static_cast<size_t>(1056 + kHeaderBytes + 452));
  CHECK(stored.sections[0].padding_bytes == 4 + 3);
  CHECK(stored.stored_bytes(backends::Role::index) == 3 * 8 + 8);
  CHECK(stored.stored_bytes() == stored.stored_bytes(backends::Role::payload) + 32);
  CHECK(decode(stored) == matrix.elements);
  CHECK(entry().codec->max_stored_bytes({1, 2500}, stored.settings) == 3 * (1040 + 8) + 8);
  CHECK(alive() == 0);
}

TEST_CASE("matrices of every type and of lengths around a chunk come back") {
  for (const int64_t length : {1, 2, 1023, 1024, 1025, 2047, 2048, 2049, 5000})
    for (const char* method : {"ans", "bitcomp", "gdeflate", "lz4", "zstd"}) {
      INFO(length << " elements by " << method);
      const datasets::Matrix bytes = tests::gaussian_matrix({length, 1}, 4), floats = tests::bf16_matrix({1, length});
      CHECK(decode(encode(bytes, {{"chunk_kib", "1"}, {"method", method}})) == bytes.elements);
      CHECK(decode(encode(floats, {{"chunk_kib", "1"}, {"method", method}})) == floats.elements);
    }
  for (const datasets::Matrix& matrix : tests::typed_matrices()) {
    INFO(tests::describe(matrix));
    CHECK(decode(encode(matrix)) == matrix.elements);
  }
}

TEST_CASE("a matrix without elements takes neither library nor device") {
  for (const datasets::Shape shape : {datasets::Shape{0, 0}, {0, 5}, {5, 0}}) {
    const backends::CompressedMatrix stored = encode(tests::gaussian_matrix(shape, 4));
    CHECK(stored.stored_bytes() == 8);
    CHECK(entry().codec->max_stored_bytes(shape, stored.settings) == 8);
    CHECK(decode(stored).empty());
  }
}

TEST_CASE("damaged streams are refused before the library gets them") {
  const backends::CompressedMatrix whole = encode(tests::gaussian_matrix(kThreeChunks, 4), {{"chunk_kib", "1"}});
  const auto message = [&](auto damage) {
    backends::CompressedMatrix stored = whole;
    damage(stored);
    try {
      (void)decode(stored);
    } catch (const codecs::MalformedStream& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto end = [](backends::CompressedMatrix& stored, size_t chunk, uint64_t value) {
    codecs::modelling::store_word(stored.sections[1].bytes, 8 * chunk, 8, value);
  };
  CHECK(message([](auto&) {}) == "");
  CHECK_THAT(message([](auto& s) { s.sections.pop_back(); }), ContainsSubstring("do not fit its shape"));
  CHECK_THAT(message([](auto& s) { s.shape.cols = 3500; }), ContainsSubstring("do not fit its shape"));
  CHECK_THAT(message([&](auto& s) { end(s, 0, 0); }), ContainsSubstring("Chunk 0 of the stream has no place"));
  CHECK_THAT(message([&](auto& s) { end(s, 1, 1040); }), ContainsSubstring("Chunk 1 of the stream has no place"));
  CHECK_THAT(message([&](auto& s) { end(s, 1, ~uint64_t{0}); }),
             ContainsSubstring("Chunk 1 of the stream has no place"));
  CHECK_THAT(message([&](auto& s) { end(s, 2, ~uint64_t{0} - 14); }),
             ContainsSubstring("Chunk 2 of the stream has no"));
  CHECK_THAT(message([](auto& s) { s.sections[0].bytes.resize(s.sections[0].bytes.size() + 1); }),
             ContainsSubstring("do not fill its payload"));
  for (const size_t section : {0, 1, 2})
    CHECK_THAT(message([&](auto& s) { s.sections[section].bytes[0] ^= std::byte{1}; }),
               ContainsSubstring("its hash is another one"));
  // With the right hash but no valid stream, the library finds the error.
  CHECK_THAT(message([](auto& s) {
               s.sections[0].bytes[1] ^= std::byte{1};
               mend_hash(s);
             }),
             ContainsSubstring("nvCOMP 6.0.0 did not decompress chunk 0: status 12"));
  CHECK_THAT(message([](auto& s) { s.shape.cols = 2499; }), ContainsSubstring("did not decompress chunk 2"));
  CHECK(alive() == 0);
}

TEST_CASE("every call that fails ends in a sentence, and leaves nothing on the device") {
  const datasets::Matrix matrix = tests::gaussian_matrix(kThreeChunks, 4);
  const backends::CompressedMatrix stored = encode(matrix, {{"chunk_kib", "1"}});
  const std::string driver = "failed: status 999, a fault that was asked for.", status = "status 10, invalid value.";
  const auto fails_in = [&](const std::string& what, auto call, const std::string& sentence) {
    INFO(what);
    const Fault fault(what);
    CHECK_THROWS_MATCHES(call(), std::runtime_error, MessageMatches(ContainsSubstring(sentence)));
    CHECK(alive() == 0);
  };
  const auto encoding = [&] { (void)codecs::encode_matrix(entry(), matrix.view(), stored.settings); };
  const auto decoding = [&] { (void)decode(stored); };
  for (const char* what : {"cuCtxPushCurrent_v2", "cuStreamCreate", "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2",
                           "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"}) {
    fails_in(what, encoding, driver);
    fails_in(what, decoding, driver);
  }
  fails_in("CompressGetRequiredAlignments", encoding,
           "nvCOMP 6.0.0 did not say how its buffers are aligned: " + status);
  fails_in("CompressGetMaxOutputChunkSize", encoding, "did not say how long chunks become: " + status);
  fails_in("CompressGetTempSize", encoding, "did not say what memory it needs: " + status);
  fails_in("CompressAsync", encoding, "did not compress the chunks: " + status);
  fails_in("bad_chunk", encoding, "did not compress chunk 2: " + status);
  fails_in("long_chunk", encoding, "made chunk 2 1037 bytes long, and at most 1036");
  fails_in("alignment", encoding, "multiples of 4096, 4096 and 4096 bytes");
  fails_in("DecompressGetRequiredAlignments", decoding, "did not say how its buffers are aligned: " + status);
  fails_in("DecompressGetTempSize", decoding, "did not say what memory it needs: " + status);
  fails_in("DecompressAsync", decoding, "did not decompress the chunks: " + status);
  fails_in("bad_chunk", decoding, "did not decompress chunk 2: status 12");
  fails_in("short_chunk", decoding, "Chunk 2 of the stream has 451 bytes decompressed, and should have 452");
  fails_in("alignment", decoding, "multiples of 4096, 4096 and 4096 bytes");
  CHECK(decode(stored) == matrix.elements);
}

TEST_CASE("the kernel says what the library did not do", "[emulator]") {
  if (entry().kernels("emulator").empty()) SKIP("This build has no emulator.");
  const auto device = backends::find_backend("emulator")->open({1, "wave32"});
  const backends::CompressedMatrix stored = encode(tests::gaussian_matrix({30, 100}, 4), {{"chunk_kib", "1"}});
  const auto uploaded = device->upload(stored);
  const backends::Kernel& kernel = entry().kernels("emulator").front();
  backends::PassPlan plan;
  plan.kernel = &kernel;
  plan.op = kernel.op;
  plan.policy = &kernel.policies[0];
  plan.layers = {uploaded.get()};
  plan.scales = {1};
  {
    const Fault fault("DecompressGetTempSize");
    CHECK_THROWS_MATCHES(backends::prepare(*device, plan), backends::Refused,
                         MessageMatches(ContainsSubstring("nvCOMP 6.0.0 did not say what memory it needs")));
  }
  const auto pass = backends::prepare(*device, plan);
  {
    const Fault fault("DecompressAsync");
    CHECK_THROWS_MATCHES(pass->run(), std::runtime_error,
                         MessageMatches(ContainsSubstring("nvCOMP 6.0.0 did not decompress the chunks: status 10")));
  }
  pass->run();  // the failure is reported once
  const Fault fault("alignment");
  CHECK_THAT(kernel.refuses(uploaded->view(), device->info(), *plan.policy), ContainsSubstring("multiples of 4096"));
}

namespace {

struct Library {
  std::string file = ECMV_FAKE_NVCOMP, fault = {};
};

// Records of decoding with that library: in the emulator by the kernel, on `scalar` by the reference decoder.
std::vector<reports::CaseRecord> run_with(const Library& library, const std::string& backend,
                                          const std::string& settings = "") {
  constexpr int kFine = 0, kNothingRan = 6;
  tests::Command ecmv;
  ecmv.environment = {
      {"ECMV_NVCOMP", library.file}, {"LD_LIBRARY_PATH", ECMV_FAKE_DRIVER_FOLDER}, {"ECMV_FAKE_FAIL", library.fault}};
  const int code = ecmv({"run", "--codec", "nvcomp" + settings, "--op", "decode", "--d", "64", "--layers", "2",
                         "--sigma", "4", "--backend", backend, "--threads", "1", "--profile", "-o", "r.jsonl"});
  INFO(ecmv.err);
  std::vector<reports::CaseRecord> records = reports::read_records(ecmv.folder / "r.jsonl").cases;
  CHECK(!records.empty());
  const bool ran = std::ranges::any_of(records, [](const auto& record) { return record.status == Status::ok; });
  CHECK(code == (ran ? kFine : kNothingRan));
  return records;
}

}  // namespace

TEST_CASE("a run verifies what the library decodes, told or not how it was made", "[emulator]") {
  if (entry().kernels("emulator").empty()) SKIP("This build has no emulator.");
  int verified = 0;
  for (const char* settings : {"", ":chunk_kib=1", ":states=2"})
    for (const auto& record : run_with({}, "emulator", settings)) {
      INFO(record.kernel.policy << ": " << record.reason);
      CHECK(record.status == Status::ok);
      ++verified;
    }
  CHECK(verified >= 6);
  for (const auto& record : run_with({}, "scalar")) CHECK(record.status == Status::ok);
  // Only ANS is told.
  int refused = 0;
  for (const auto& record : run_with({}, "emulator", ":method=zstd")) {
    INFO(record.kernel.policy << ": " << record.reason);
    CHECK(record.status == (record.kernel.policy == "inferred" ? Status::ok : Status::refused));
    if (record.status != Status::refused) continue;
    ++refused;
    CHECK_THAT(record.reason, ContainsSubstring("only ANS can be told"));
  }
  CHECK(refused == 1);
}

TEST_CASE("a run without what nvCOMP takes records the reason and goes on") {
  (void)entry();
  const tests::Command folder;
  const std::string text = (folder.folder / "text.so").string();
  std::ofstream(text) << "text";
  const std::tuple<Library, const char*, const char*> lacking[] = {
      {{"/nowhere/libnvcomp.so.6"}, "", "ECMV_NVCOMP names /nowhere/libnvcomp.so.6, which the loader does not take: "},
      {{text}, "", "text.so, which the loader does not take: "},
      {{ECMV_FAKE_NVCOMP_51}, "", "is version 5.1.0, and this program knows 6."},
      {{ECMV_FAKE_NVCOMP_70}, "", "is version 7.0.0, and this program knows 6."},
      {{ECMV_FAKE_NVCOMP_WITHOUT_VERSION}, "", "has no nvcompGetProperties."},
      {{ECMV_FAKE_NVCOMP, "nvcompGetProperties"}, "", "does not say its version (status 10)."},
      {{ECMV_FAKE_NVCOMP_WITHOUT_DECOMPRESS}, "", "has no nvcompBatchedANSDecompressAsync."},
      {{ECMV_FAKE_NVCOMP_ONLY_ANS}, ":method=zstd", "has no nvcompBatchedZstdDecompressAsync."},
      {{ECMV_FAKE_NVCOMP, "no_device"}, "", "the driver shows none here."},
      {{ECMV_FAKE_NVCOMP, "cuInit"}, "", "Starting the driver failed: status 999, a fault that was asked for."},
      {{ECMV_FAKE_NVCOMP, "cuDeviceGetCount"}, "", "Counting devices failed: status 999"},
      {{ECMV_FAKE_NVCOMP, "cuDeviceGet"}, "", "Asking for the first device failed: status 999"},
      {{ECMV_FAKE_NVCOMP, "cuDevicePrimaryCtxRetain"}, "", "Opening the first device failed: status 999"},
      {{}, ":method=lz4,states=1", "only ANS has states."}};
  for (const auto& [library, settings, reason] : lacking) {
    INFO(library.file << " " << library.fault << settings);
    for (const auto& record : run_with(library, "scalar", settings)) {
      CHECK(record.status == Status::refused);
      CHECK_THAT(record.reason, ContainsSubstring(reason));
    }
  }
}

TEST_CASE("without nvCOMP the other codecs of a run are measured all the same") {
  (void)entry();
  if (codecs::find_codec("raw_int8") == nullptr) SKIP("this build lacks the codec");
  tests::Command ecmv;
  ecmv.environment = {{"ECMV_NVCOMP", "/nowhere/libnvcomp.so.6"}};
  CHECK(ecmv({"run", "--codec", "nvcomp,raw_int8", "--op", "decode", "--d", "64", "--layers", "1", "--backend",
              "scalar", "--threads", "1", "--profile", "-o", "r.jsonl"}) == 0);
  for (const auto& record : reports::read_records(ecmv.folder / "r.jsonl").cases) {
    INFO(record.codec.id << ": " << record.reason);
    CHECK(record.status == (record.codec.id == "nvcomp" ? Status::refused : Status::ok));
  }
}

TEST_CASE("the list of codecs says why one cannot work here") {
  (void)entry();
  tests::Command ecmv;
  ecmv.environment = {{"ECMV_NVCOMP", "/nowhere/libnvcomp.so.6"}};
  CHECK(ecmv({"list", "codecs", "nvcomp"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("unavailable") && ContainsSubstring("ECMV_NVCOMP names"));
  ecmv.environment = {{"ECMV_NVCOMP", ECMV_FAKE_NVCOMP}, {"LD_LIBRARY_PATH", ECMV_FAKE_DRIVER_FOLDER}};
  CHECK(ecmv({"list", "codecs", "nvcomp"}) == 0);
  CHECK_THAT(ecmv.out, !ContainsSubstring("unavailable"));
}
