#include "conformance/judge/contract.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

constexpr Dtype all_dtypes[] = {Dtype::bf16, Dtype::fp16, Dtype::fp32, Dtype::f64};
constexpr ReduceOrder all_orders[] = {ReduceOrder::ring, ReduceOrder::tree, ReduceOrder::fixed};

/// The sites in the order in which they are written.
struct Site {
  const char* key;
  Dtype Contract::*dtype;
};
constexpr Site sites[] = {
    {"input", &Contract::input},   {"accumulate", &Contract::accumulate},
    {"p", &Contract::p},           {"ds", &Contract::ds},
    {"o", &Contract::o},           {"partial_o", &Contract::partial_o},
    {"lse", &Contract::lse},       {"gradient", &Contract::gradient},
    {"reduce", &Contract::reduce},
};

template <class Value, size_t n>
Value named(const JsonView& object, const char* key, const Value (&values)[n]) {
  const JsonView at = get(object, key);
  const std::string text = as_string(at);
  std::vector<std::string> names;
  for (const Value value : values) {
    if (text == name(value)) {
      return value;
    }
    names.emplace_back(name(value));
  }
  throw InputError(join(place(at), " is '", printable(text, 60), "'; known are ", listed(names)));
}

Contract uniform(const char* name, Dtype dtype) {
  Contract contract;
  contract.name = name;
  for (const Site& site : sites) {
    contract.*site.dtype = dtype;
  }
  return contract;
}

}  // namespace

std::string_view name(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return "bf16";
    case Dtype::fp16:
      return "fp16";
    case Dtype::fp32:
      return "fp32";
    case Dtype::f64:
      return "f64";
  }
  throw LogicError(join("dtype ", static_cast<int>(dtype), " does not exist"));
}

const char* name(ReduceOrder order) {
  switch (order) {
    case ReduceOrder::ring:
      return "ring";
    case ReduceOrder::tree:
      return "tree";
    case ReduceOrder::fixed:
      return "fixed";
  }
  throw LogicError(join("reduce order ", static_cast<int>(order), " does not exist"));
}

std::vector<std::string> builtin_contract_names() {
  return {"bf16", "bf16-fp32-reduce", "fp32", "f64"};
}

Contract builtin_contract(std::string_view name) {
  if (name == "fp32") {
    return uniform("fp32", Dtype::fp32);
  }
  if (name == "f64") {
    return uniform("f64", Dtype::f64);
  }
  Contract contract;
  contract.name = name;
  if (name == "bf16") {
    contract.reduce = Dtype::bf16;
    contract.reduce_order = ReduceOrder::ring;
    return contract;
  }
  require(name == "bf16-fp32-reduce", "unknown contract '", printable(name, 60), "'; known are ",
          listed(builtin_contract_names()));
  return contract;
}

Contract parse_contract(const JsonView& json) {
  std::vector<std::string> known{"name", "reduce_order", "chain", "deterministic"};
  for (const Site& site : sites) {
    known.emplace_back(site.key);
  }
  reject_unknown_keys(json, known);
  Contract contract;
  contract.name = get_string(json, "name");
  const bool plain = std::all_of(contract.name.begin(), contract.name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  require(plain && !contract.name.empty(), place(get(json, "name")), " is '",
          printable(contract.name, 60), "'; allowed are letters, digits, '.', '_' and '-'");
  for (const Site& site : sites) {
    contract.*site.dtype = named(json, site.key, all_dtypes);
  }
  contract.reduce_order = named(json, "reduce_order", all_orders);
  contract.chain = get_int_or(json, "chain", 0, int64_t{1} << 40, 0);
  contract.deterministic = get_bool_or(json, "deterministic", true);
  require(unit_roundoff(contract.lse) <= unit_roundoff(Dtype::fp32), place(get(json, "lse")),
          " is ", name(contract.lse), "; allowed are fp32, f64");
  for (const Site& site : sites) {
    const bool free = site.dtype == &Contract::input || site.dtype == &Contract::lse;
    require(free || unit_roundoff(contract.*site.dtype) >= unit_roundoff(contract.accumulate),
            place(get(json, site.key)), " is ", name(contract.*site.dtype),
            ", more precise than key 'accumulate', which is ", name(contract.accumulate));
  }
  return contract;
}

Contract read_contract(const std::string& path) {
  const Json document = read_json_file(path);
  return parse_contract(view(document, printable(path, 400)));
}

Contract find_contract(const std::string& name_or_path) {
  const std::vector<std::string> names = builtin_contract_names();
  if (std::find(names.begin(), names.end(), name_or_path) != names.end()) {
    return builtin_contract(name_or_path);
  }
  std::error_code error;
  if (!std::filesystem::exists(name_or_path, error)) {
    std::string known;
    for (const std::string& name : names) {
      known += join(known.empty() ? "" : ", ", name);
    }
    throw InputError(join("contract '", printable(name_or_path, 400),
                          "' is no file and no built-in one; these are ", known));
  }
  return read_contract(name_or_path);
}

std::string write_contract(const Contract& contract) {
  nlohmann::ordered_json json;
  json["name"] = contract.name;
  for (const Site& site : sites) {
    json[site.key] = name(contract.*site.dtype);
  }
  json["reduce_order"] = name(contract.reduce_order);
  json["chain"] = contract.chain;
  json["deterministic"] = contract.deterministic;
  return json.dump(2) + "\n";
}

double site_unit(const Contract& contract, Dtype site) {
  return unit_roundoff(site) > unit_roundoff(contract.accumulate) ? unit_roundoff(site) : 0;
}

}  // namespace bdlm
