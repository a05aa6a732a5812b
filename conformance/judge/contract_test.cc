#include "conformance/judge/contract.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/base/test_files.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(contract)

namespace {

using testing::has;

/// The message of the Error that parsing throws; empty if it throws none. It must be one line.
std::string message(const std::string& text) {
  try {
    const Json json = parse_json(text, "c.json");
    parse_contract(view(json, "c.json"));
  } catch (const Error& error) {
    std::string what = error.what();
    BOOST_TEST(what.find_first_of("\n\r") == std::string::npos);
    return what;
  }
  return {};
}

std::string with(const std::string& key, const Json& value) {
  Json json = Json::parse(write_contract(builtin_contract("bf16")));
  json[key] = value;
  return json.dump();
}

// parse(write(c)) = c
BOOST_AUTO_TEST_CASE(reads_what_it_writes) {
  for (const std::string& name : builtin_contract_names()) {
    Contract contract = builtin_contract(name);
    contract.chain = 512;
    contract.deterministic = false;
    contract.reduce_order = ReduceOrder::tree;
    const Json json = parse_json(write_contract(contract), "text");
    BOOST_TEST((parse_contract(view(json, "text")) == contract));
    BOOST_TEST((find_contract(name) == builtin_contract(name)));
  }
}

BOOST_AUTO_TEST_CASE(built_in_ones) {
  const Contract bf16 = builtin_contract("bf16");
  BOOST_TEST((bf16.reduce == Dtype::bf16 && bf16.reduce_order == ReduceOrder::ring));
  BOOST_TEST((bf16.p == Dtype::bf16 && bf16.accumulate == Dtype::fp32));
  BOOST_TEST((builtin_contract("bf16-fp32-reduce").reduce == Dtype::fp32));
  const Contract f64 = builtin_contract("f64");
  BOOST_TEST((f64.input == Dtype::f64 && f64.gradient == Dtype::f64 && f64.lse == Dtype::f64));
  BOOST_TEST(site_unit(bf16, Dtype::bf16) == 0x1p-8);
  BOOST_TEST(site_unit(bf16, Dtype::fp32) == 0);
  BOOST_CHECK_THROW(builtin_contract("fp8"), InputError);
  BOOST_CHECK_THROW(find_contract("no/such/file"), InputError);
}

BOOST_AUTO_TEST_CASE(what_may_be_missing) {
  Json json = Json::parse(write_contract(builtin_contract("bf16")));
  json.erase("chain");
  json.erase("deterministic");
  BOOST_TEST(message(json.dump()) == "");
  for (const char* key : {"name", "input", "accumulate", "p", "ds", "o", "partial_o", "lse",
                          "gradient", "reduce", "reduce_order"}) {
    Json less = json;
    less.erase(key);
    BOOST_TEST(has(message(less.dump()), std::string("key '") + key + "' is missing"));
  }
}

BOOST_AUTO_TEST_CASE(errors_say_what_is_allowed) {
  BOOST_TEST(message(with("name", "mine-1.0")) == "");
  BOOST_TEST(has(message(with("p", "bf61")),
                 "c.json: key 'p' is 'bf61'; known are bf16, fp16, fp32, f64"));
  BOOST_TEST(has(message(with("reduce_order", "any")), "known are ring, tree, fixed"));
  BOOST_TEST(has(message(with("softmax", "fp32")), "key 'softmax' is unknown"));
  BOOST_TEST(has(message(with("p", 16)), "a string"));
  BOOST_TEST(has(message(with("chain", -1)), "an integer from 0"));
  BOOST_TEST(has(message(with("chain", 1.5)), "an integer from 0"));
  BOOST_TEST(has(message(with("deterministic", 1)), "true or false"));
  BOOST_TEST(has(message(with("lse", "bf16")), "allowed are fp32, f64"));
  BOOST_TEST(has(message(with("o", "f64")), "more precise than key 'accumulate'"));
  BOOST_TEST(has(message(with("name", "")), "allowed are letters"));
  BOOST_TEST(has(message(with("name", "a\nb")), "allowed are letters"));
  const std::string text = write_contract(builtin_contract("bf16"));
  BOOST_TEST(has(message(text.substr(0, text.size() / 2)), "not valid JSON"));
  BOOST_TEST(has(message("{\"p\": \"bf16\", \"p\": \"fp32\"}"), "key 'p' occurs twice"));
  BOOST_TEST(has(message("{\"chain\": NaN}"), "not valid JSON"));
  BOOST_TEST(has(message("[]"), "an object"));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
