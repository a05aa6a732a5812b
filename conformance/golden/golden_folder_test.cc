// The stored vectors are what is made anew, and what is changed in them is found.

#include "conformance/golden/golden_folder.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "conformance/golden/golden_file.h"
#include "conformance/golden/manifest.h"
#include "reference/base/test_files.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(golden_folder)

namespace {

namespace fs = std::filesystem;
const std::string stored = BDLM_GOLDEN_FOLDER;

/// A small vector of each family.
const std::vector<std::string> few{
    "monolithic-P1-L16-M4-h4k2-d16-bf16-gauss-blockcausal-docs1.1.1.13-s1",
    "merge-h1k1-d4-parts2-rows18-fp32-edges-s1",
    "cross_entropy-hidden16-rows12-vocab48-bf16-excluded47-s1",
    "step-L23-M3-fp32-blockcausal-masked-s1"};

BOOST_AUTO_TEST_CASE(what_is_stored_is_what_is_made) {
  for (const std::string& line : check_golden_folder(stored, "*", false)) {
    BOOST_ERROR(line);
  }
}

BOOST_AUTO_TEST_CASE(every_flag_is_used_and_known) {
  std::set<std::string> known;
  for (const GoldenFlag& flag : golden_flags()) {
    BOOST_TEST(known.insert(flag.name).second, flag.name);
  }
  std::set<std::string> used;
  std::set<std::string> ids;
  for (const GoldenCase& c : golden_cases()) {
    BOOST_TEST(ids.insert(c.id).second, c.id);
    for (const std::string& flag : c.flags) {
      BOOST_TEST(known.count(flag) == 1u, c.id << ": " << flag);
      used.insert(flag);
    }
  }
  BOOST_TEST((used == known), "a flag that no vector has");
}

/// A copy of the folder with one byte of one file changed.
std::vector<std::string> with_flipped_byte(const std::string& id, const std::string& tensor) {
  const testing::Directory folder;
  fs::copy(stored, folder.path.string(), fs::copy_options::recursive);
  const GoldenCase& c = find_golden_case(id);
  const std::string path = join(folder.path.string(), '/', c.family(), '/', id, ".safetensors");
  int64_t at = 0;
  {
    const SafetensorsFile file(path);
    const TensorInfo& info = file.tensor(tensor);
    int64_t data = 0;
    for (const TensorInfo& t : file.tensors()) {
      data = std::max(data, t.offset + t.bytes);
    }
    // The lowest bit of the last element, or of what lies in its highest byte for floats.
    at = static_cast<int64_t>(fs::file_size(path)) - data + info.offset + info.bytes - 2;
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 16));
  file.close();
  return check_golden_folder(folder.path.string(), id, false);
}

// In inputs and right values any bit counts: the digest finds it, and so does the comparison, which
// says where. Of H, a bit that changes it by more than its tolerance.
BOOST_AUTO_TEST_CASE(a_flipped_bit_is_found) {
  const std::vector<std::pair<std::string, std::string>> flips{
      {few[0], "k"},       {few[0], "expected.dk"},
      {few[0], "h.dq"},    {few[0], "sigma.o"},
      {few[1], "o_parts"}, {few[1], "expected.lse"},
      {few[2], "head"},    {few[3], "expected.lm_head.weight"}};
  for (const auto& [id, tensor] : flips) {
    const std::vector<std::string> lines = with_flipped_byte(id, tensor);
    BOOST_TEST(lines.size() == 2u, id << ' ' << tensor);
    BOOST_TEST((!lines.empty() && lines[0].find("digest") != std::string::npos));
    const std::string bare =
        tensor.substr(tensor.find('.') == std::string::npos ? 0 : tensor.find('.') + 1);
    BOOST_TEST((lines.size() == 2 && lines[1].find(bare) != std::string::npos), tensor);
  }
}

BOOST_AUTO_TEST_CASE(a_missing_or_strange_file_is_found) {
  const testing::Directory folder;
  fs::copy(stored, folder.path.string(), fs::copy_options::recursive);
  const GoldenCase& c = find_golden_case(few[1]);
  const std::string path = join(folder.path.string(), "/merge/", c.id, ".safetensors");
  fs::rename(path, join(folder.path.string(), "/merge/other.safetensors"));
  const std::vector<std::string> lines = check_golden_folder(folder.path.string(), few[1], false);
  BOOST_TEST(lines.size() == 2u);
  BOOST_TEST((lines[0].find("other.safetensors: no vector") != std::string::npos));
  BOOST_TEST((lines.back().find("cannot open") != std::string::npos));
}

// Inputs alone are the same as those of the whole vector, and cost no evaluation.
BOOST_AUTO_TEST_CASE(inputs_do_not_depend_on_what_else_is_made) {
  for (const std::string& id : few) {
    const GoldenCase& c = find_golden_case(id);
    const GoldenVector all = make_vector(c);
    const GoldenVector inputs = make_vector(c, Making::inputs);
    BOOST_TEST(inputs.outputs.empty());
    BOOST_TEST_REQUIRE(inputs.inputs.size() == all.inputs.size());
    for (size_t n = 0; n < all.inputs.size(); ++n) {
      BOOST_TEST((bytes_of(inputs.inputs[n]) == bytes_of(all.inputs[n])), all.inputs[n].name);
    }
    BOOST_TEST((inputs.parameters == all.parameters));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
