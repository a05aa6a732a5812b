#include "conformance/worker/protocol.h"

#include <nlohmann/json.hpp>

#include "conformance/report/read_report.h"
#include "reference/base/json_file.h"

namespace bdlm {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string line_of(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

}  // namespace

std::string write_message(const WorkerReady& message) {
  const auto contract = [](const Contract& c) { return OrderedJson::parse(write_contract(c)); };
  return line_of({{"ready", message.backend},
                  {"about", message.about},
                  {"declared", contract(message.declared)},
                  {"contract", contract(message.contract)}});
}

std::string write_message(const WorkerRefusal& message) {
  return line_of({{"refusal", message.error}});
}

WorkerMessage parse_message(std::string_view line, const std::string& source) {
  const Json document = parse_json(line, source);
  const JsonView json = view(document, source);
  if (find(json, "ready")) {
    reject_unknown_keys(json, {"ready", "about", "declared", "contract"});
    return WorkerReady{get_string(json, "ready"), get_string(json, "about"),
                       parse_contract(get_object(json, "declared")),
                       parse_contract(get_object(json, "contract"))};
  }
  if (find(json, "refusal")) {
    reject_unknown_keys(json, {"refusal"});
    return WorkerRefusal{get_string(json, "refusal")};
  }
  if (find(json, "fault")) {
    reject_unknown_keys(json, {"fault", "guard"});
    return WorkerFault{get_string(json, "fault"), get_bool(json, "guard")};
  }
  return read_case(json);
}

}  // namespace bdlm
