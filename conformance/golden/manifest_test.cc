#include "conformance/golden/manifest.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(manifests)

namespace {

Json stored() {
  return read_json_file(join(BDLM_GOLDEN_FOLDER, "/manifest.json"));
}

/// What is wrong with the stored manifest after an edit.
template <class F>
std::string error_of(F edit) {
  Json json = stored();
  edit(json);
  try {
    parse_manifest(view(json, "m.json"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

BOOST_AUTO_TEST_CASE(the_stored_one_is_read) {
  const std::vector<ManifestEntry> entries =
      read_manifest(join(BDLM_GOLDEN_FOLDER, "/manifest.json"));
  BOOST_TEST(entries.size() == golden_cases().size());
  for (size_t i = 0; i < entries.size(); ++i) {
    BOOST_TEST(entries[i].id == golden_cases()[i].id);
    BOOST_TEST(entries[i].file.empty() == !golden_cases()[i].stored);
    BOOST_TEST(entries[i].flags == golden_cases()[i].flags);
  }
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_said) {
  const auto begins = [](const std::string& text, const std::string& with) {
    BOOST_TEST(text.substr(0, with.size()) == with);
  };
  begins(error_of([](Json& j) { j["format"] = "bdlm-golden-2"; }),
         "m.json: key 'format' is 'bdlm-golden-2'; allowed is bdlm-golden-1");
  begins(error_of([](Json& j) { j["vectors"][1]["id"] = j["vectors"][0]["id"]; }),
         "m.json: key 'vectors[1].file' is ");
  begins(error_of([](Json& j) { j["vectors"][1] = j["vectors"][0]; }),
         "m.json: key 'vectors[1]' has the id 'monolithic-P1-L32-M8");
  begins(error_of([](Json& j) { j["vectors"][0]["file"] = "../../etc/passwd"; }),
         "m.json: key 'vectors[0].file' is '../../etc/passwd'; it must be 'attention/");
  begins(error_of([](Json& j) { j["vectors"][0]["id"] = "../x"; }),
         "m.json: key 'vectors[0].id' is '../x'; allowed are up to 200 letters");
  begins(error_of([](Json& j) { j["vectors"][0]["sha256"] = "ABC"; }),
         "m.json: key 'vectors[0].sha256' is 'ABC'; a digest is 64 hexadecimal digits");
  begins(error_of([](Json& j) { j["vectors"][0]["flags"].push_back("no_such_flag"); }),
         "m.json: key 'vectors[0].flags[7]' is 'no_such_flag', which key 'flags' does not define");
  begins(error_of([](Json& j) { j["vectors"][0]["contract"] = "fp8"; }),
         "m.json: key 'vectors[0].contract' is 'fp8', which key 'contracts' does not define");
  begins(error_of([](Json& j) {
           j["vectors"][0]["inputs"][0]["shape"] = {1 << 20, 1 << 20};
         }),
         "m.json: key 'vectors[0].inputs[0].shape' has more than 4294967296 elements");
  begins(error_of([](Json& j) { j["vectors"][0]["inputs"][0]["dtype"] = "F8"; }),
         "m.json: key 'vectors[0].inputs[0].dtype' is 'F8'; known are F64");
  begins(error_of([](Json& j) { j["vectors"][0]["inputs"][1]["name"] = "q"; }),
         "m.json: key 'vectors[0].inputs[1]' names tensor 'q' a second time");
  begins(error_of([](Json& j) { j["vectors"][0]["intervals"][0] = {0, 5, 3, 0, 0, 8}; }),
         "m.json: key 'vectors[0].intervals[0][2]' is 3");
  begins(error_of([](Json& j) { j["vectors"][0].erase("outputs"); }),
         "m.json: key 'vectors[0].outputs' is missing");
  begins(error_of([](Json& j) { j["vectors"][0]["surprise"] = 1; }), "m.json: ");
  begins(error_of([](Json& j) { j["contracts"]["bf16"]["p"] = "f64"; }), "m.json: ");
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
