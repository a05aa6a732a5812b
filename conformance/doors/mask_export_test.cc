// Every form of a mask is the mask.

#include "conformance/doors/mask_export.h"

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(mask_exports)

namespace {

struct Mask {
  Sequence sequence;
  LayerRule rule;
};

std::vector<Mask> masks() {
  const Sequence plain = Sequence::uniform(17, 4);
  const Sequence documents = Sequence::uniform(23, 3, {{0, 5}, {5, 6}, {6, 20}});
  std::vector<Mask> out;
  for (const CleanRule clean : {CleanRule::block_causal, CleanRule::token_causal}) {
    for (const int64_t window : {0, 1, 5, 100}) {
      out.push_back({plain, {clean, window}});
      out.push_back({documents, {clean, window}});
    }
  }
  return out;
}

bool sees(const Mask& m, int64_t q, int64_t k) {
  const int64_t length = m.sequence.length();
  return visible(m.sequence, m.rule, q < length ? Stream::clean : Stream::corrupted, q % length,
                 k < length ? Stream::clean : Stream::corrupted)
      .contains(k % length);
}

BOOST_AUTO_TEST_CASE(dense_and_intervals) {
  for (const Mask& m : masks()) {
    const int64_t length = m.sequence.length();
    const TensorData dense = dense_mask(m.sequence, m.rule).at(0);
    const TensorData intervals = interval_mask(m.sequence, m.rule).at(0);
    const auto* ends = reinterpret_cast<const int64_t*>(intervals.bytes.data());
    for (int64_t q = 0; q < 2 * length; ++q) {
      for (int64_t k = 0; k < 2 * length; ++k) {
        const bool right = sees(m, q, k);
        BOOST_TEST((dense.bytes[q * 2 * length + k] == std::byte{1}) == right);
        const int64_t at = (q * 2 + k / length) * 2;
        BOOST_TEST((ends[at] <= k % length && k % length < ends[at + 1]) == right);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(packed_sequences) {
  int64_t expressed = 0;
  for (const Mask& m : masks()) {
    for (const char* text : {"corrupted-corrupted", "clean-clean", "corrupted-clean"}) {
      const MaskPart part = parse_mask_part(text);
      PackedMask packed;
      try {
        packed = packed_mask(m.sequence, m.rule, part);
      } catch (const InputError&) {
        const bool may = part.query == Stream::corrupted && part.key == Stream::corrupted;
        BOOST_TEST(!may);
        BOOST_TEST((part.query == Stream::corrupted || m.rule.clean == CleanRule::block_causal));
        continue;
      }
      ++expressed;
      std::set<std::pair<int64_t, int64_t>> pairs;
      for (size_t n = 0; n + 1 < packed.cu_q.size(); ++n) {
        for (int64_t i = packed.cu_q[n]; i < packed.cu_q[n + 1]; ++i) {
          for (int64_t j = packed.cu_k[n]; j < packed.cu_k[n + 1]; ++j) {
            const bool late = packed.causal && j > i;
            const bool early = packed.window_left >= 0 && j < i - packed.window_left;
            if (!late && !early) {
              pairs.emplace(packed.rows[i], packed.keys[j]);
            }
          }
        }
      }
      for (int64_t q = 0; q < m.sequence.length(); ++q) {
        for (int64_t k = 0; k < m.sequence.length(); ++k) {
          const bool right = visible(m.sequence, m.rule, part.query, q, part.key).contains(k);
          BOOST_TEST((pairs.count({q, k}) == 1) == right);
        }
      }
    }
  }
  BOOST_TEST(expressed == 16 + 8);
  // One block a document: block-causal is all on all.
  const Sequence one = Sequence::uniform(8, 8, {{0, 3}, {3, 8}});
  BOOST_TEST(packed_mask(one, {}, {Stream::clean, Stream::clean}).cu_q.size() == 3u);
  BOOST_CHECK_THROW(packed_mask(one, {}, {Stream::clean, Stream::corrupted}), InputError);
  BOOST_CHECK_THROW(parse_mask_part("clean"), InputError);
  BOOST_CHECK_THROW(parse_mask_format("png"), InputError);
  BOOST_CHECK_THROW(dense_mask(Sequence::uniform(1 << 20, 32), {}), InputError);
}

// The Python source, run where there is a Python.
BOOST_AUTO_TEST_CASE(flex_source) {
  if (std::system("python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null") !=
      0) {
    BOOST_TEST_MESSAGE("no python3: the source is not run");
    return;
  }
  const auto folder = std::filesystem::temp_directory_path();
  for (const Mask& m : masks()) {
    const std::string base = (folder / join("bdlm-mask-", getpid())).string();
    {
      std::ofstream source(base + ".py");
      source << flex_mask(m.sequence, m.rule)
             << "\nprint(\"\".join(str(int(sees(q, k))) for q in range(2 * LENGTH)"
                " for k in range(2 * LENGTH)), end=\"\")\n";
    }
    BOOST_TEST_REQUIRE(std::system(("python3 " + base + ".py >" + base + ".txt").c_str()) == 0);
    std::string text;
    std::ifstream(base + ".txt") >> text;
    std::string right;
    for (int64_t q = 0; q < 2 * m.sequence.length(); ++q) {
      for (int64_t k = 0; k < 2 * m.sequence.length(); ++k) {
        right += sees(m, q, k) ? '1' : '0';
      }
    }
    BOOST_TEST(text == right);
    std::filesystem::remove(base + ".py");
    std::filesystem::remove(base + ".txt");
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
