// Kernels decode alike whatever the reference accepts. Streams are damaged at random; if codecs/read_stream.h, the door
// for foreign streams, still accepts one, every kernel of this CPU must give the same matrix.
#include <algorithm>
#include <cstdlib>

#include "codecs/read_stream.h"
#include "tests/kernels/places.h"
#include "tests/test_matrices.h"
#include "tests/test_settings.h"

using namespace ecmv;
using namespace ecmv::tests;

namespace {

// Streams for each matrix and choice of settings: 100 take 15 s in all, and many minutes on an emulated CPU.
#if defined(__aarch64__)
constexpr int kStreams = 8;
#else
constexpr int kStreams = 100;
#endif

// One to four bytes of one section, half of the time among its first 64, where headers are; or its length.
void damage(backends::CompressedMatrix& stored, tests::Random& random) {
  backends::Section& section = stored.sections[random.next() % stored.sections.size()];
  if (section.bytes.empty() || random.next() % 16 == 0) {
    section.bytes.resize(random.next() % (section.bytes.size() + 9));
    return;
  }
  const size_t range = random.next() % 2 == 0 ? section.bytes.size() : std::min<size_t>(section.bytes.size(), 64);
  for (uint64_t bytes = 1 + random.next() % 4; bytes > 0; --bytes)
    section.bytes[random.next() % range] ^=
        static_cast<std::byte>(random.next() % 2 == 0 ? 1u << random.next() % 8 : 1 + random.next() % 255);
}

void decode_by_every_kernel(const codecs::CodecEntry& entry, const backends::CompressedMatrix& stored,
                            const datasets::Matrix& matrix, Devices& devices) {
  for (auto& device : devices) {
    device->select();
    const auto uploaded = device->upload(stored);
    for (const backends::Kernel& kernel : entry.kernels(device->info().backend))
      for (const backends::Policy& policy : kernel.policies) {
        if (kernel.op != backends::Op::decode) continue;
        if (!kernel.refuses(uploaded->view(), device->info(), policy).empty()) continue;
        INFO(kernel.variant << "/" << policy.name << " on " << device->info().backend << " "
                            << device->info().simd_target);
        backends::PassPlan plan;
        plan.kernel = &kernel;
        plan.op = kernel.op;
        plan.policy = &policy;
        plan.layers = {uploaded.get()};
        plan.scales = {1};
        const auto pass = prepare_in_any_form(*device, plan);
        pass->poison_outputs(0);
        pass->run();
        CHECK(std::ranges::equal(pass->decoded(), matrix.view().i8()));
        CHECK(pass->broken_guards() == "");
        CHECK(uploaded->broken_guards() == "");
      }
  }
}

}  // namespace

TEST_CASE("a damaged stream that the reference accepts is decoded alike by every kernel") {
  const codecs::CodecEntry& entry = each_codec();
  Devices cpus = devices(Place::cpu, 1);
  if (!has_kernels(entry, cpus)) return;
  tests::Random random{7};
  int accepted = 0;
  for (const backends::Settings& settings : tests::settings_to_test(*entry.codec))
    for (const datasets::Matrix& matrix :
         {tests::gaussian_matrix({33, 131}, 4), tests::gaussian_matrix({32, 512}, 9), tests::bf16_matrix({32, 512}),
          tests::bf16_matrix({33, 131}, 1e-38), tests::f8_matrix({32, 512}), tests::ternary_matrix({32, 512})}) {
      if (!entry.codec->refuses(matrix.view(), settings).empty()) continue;
      const backends::CompressedMatrix whole = codecs::encode_matrix(entry, matrix.view(), settings);
      if (whole.sections.empty()) continue;
      for (int i = 0; i < kStreams; ++i) {
        backends::CompressedMatrix stored = whole;
        damage(stored, random);
        datasets::Matrix decoded;
        try {
          decoded = codecs::read_stream(*entry.codec, stored.view());
        } catch (const codecs::MalformedStream&) {
          continue;
        }
        ++accepted;
        INFO(entry.id << " [" << settings.to_string() << "], " << tests::describe(matrix) << ", damage " << i);
        decode_by_every_kernel(entry, stored, decoded, cpus);
      }
    }
  INFO(entry.id);
  if (kStreams >= 100) CHECK(accepted > 0);  // of a few, a strict decoder may refuse all
}
