#include "conformance/golden/judge_outputs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "conformance/golden/golden_file.h"
#include "conformance/golden/manifest.h"
#include "conformance/golden/sha256.h"
#include "conformance/judge/judge_attention.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

namespace fs = std::filesystem;

/// "(2, 32, 4)"
std::string text_of(const std::vector<int64_t>& shape) {
  std::string out = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    out += join(i == 0 ? "" : ", ", shape[i]);
  }
  return out + ")";
}

TensorResult failed(const std::string& tensor, const std::string& detail) {
  return {tensor, Verdict::fail, Reason::file, {}, detail};
}

/// The values of a tensor of the user's, or what is wrong with it.
std::optional<std::vector<double>> read_output(const SafetensorsFile& file, const OutputTensor& t,
                                               CaseResult& result) {
  const TensorInfo* info = file.find(t.name);
  if (info == nullptr) {
    result.add(failed(t.name, join("the file has no tensor '", t.name, "'")));
    return std::nullopt;
  }
  if (info->shape != t.shape) {
    result.add(failed(t.name, join("its shape is ", text_of(info->shape), "; the vector's is ",
                                   text_of(t.shape))));
    return std::nullopt;
  }
  const bool floating = info->dtype == DType::f64 || info->dtype == DType::f32 ||
                        info->dtype == DType::f16 || info->dtype == DType::bf16;
  if (!floating) {
    result.add(failed(
        t.name, join("its dtype is ", name(info->dtype), "; allowed are F64, F32, F16, BF16")));
    return std::nullopt;
  }
  return file.read<double>(t.name);
}

/// Of a row and head; 1 of the outputs that have one number for these.
int64_t channels_of(const OutputTensor& t) {
  return t.name == "lse" || t.shape.size() < 2 ? 1 : t.shape.back();
}

ByStream<double> halves(const std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  return {std::vector<double>(values.begin(), middle), std::vector<double>(middle, values.end())};
}

void judge_attention_file(const GoldenCase& c, const SafetensorsFile& file,
                          const std::vector<OutputTensor>& right, CaseResult& result) {
  const auto& v = std::get<AttentionVector>(c.what);
  const bool backward =
      file.find("dq") != nullptr || file.find("dk") != nullptr || file.find("dv") != nullptr;
  AttentionProblem<double> problem = problem_of(c);
  if (!backward) {
    problem.d_o = {};
  }
  const Decomposition decomposition = decomposition_of(v);
  // The units of each tensor come with the bounds; values and bounds are the vector's.
  ExpectedAttention expected =
      expected_attention(problem, decomposition, builtin_contract(c.contract));
  AttentionOutputs got;
  constexpr const char* names[] = {"o", "lse", "dq", "dk", "dv"};  // by OutputKind
  bool complete = true;
  for (const AttentionOutput& output : attention_outputs) {
    const std::string name = names[static_cast<size_t>(output.kind)];
    ExpectedTensor& to = expected.*output.expected;
    if (name[0] == 'd' && !backward) {
      continue;
    }
    const OutputTensor& t = find_output(right, name, c.id);
    require<FileError>(
        t.value.size() == to.value[0].size() * 2 && t.deviation.size() == t.value.size(), c.id,
        ": the stored vector has another shape than this version's");
    to.value = halves(t.value);
    to.bound = halves(t.bound);
    to.deviation = halves(t.deviation);
    const auto values = read_output(file, t, result);
    complete = complete && values.has_value();
    if (values) {
      got.*output.got = halves(*values);
    }
  }
  if (!complete) {
    return;
  }
  for (TensorResult& t :
       judge_attention(problem, decomposition, expected, got, v.data == DataKind::gauss)) {
    result.add(std::move(t));
  }
  if (!backward) {
    result.add({"dQ, dK, dV",
                Verdict::unsupported,
                Reason::null_entry,
                {},
                "the file has the forward alone"});
  }
}

/// The coarsest u behind an output of the other families.
Dtype coarsest(const GoldenCase& c, const std::string& output, const Contract& contract) {
  std::vector<Dtype> sites{contract.accumulate};
  if (std::holds_alternative<MergeVector>(c.what) && output == "o") {
    sites.insert(sites.end(), {contract.o, contract.partial_o});
  } else if (std::holds_alternative<CrossEntropyVector>(c.what) && output != "row_loss") {
    sites.push_back(contract.ds);
    if (output == "d_hidden") {
      sites.push_back(contract.gradient);
    }
  }
  return *std::max_element(sites.begin(), sites.end(),
                           [](Dtype a, Dtype b) { return unit_roundoff(a) < unit_roundoff(b); });
}

JudgedBy judged_by(const GoldenCase& c, const std::string& output) {
  if (output == "lse") {
    return JudgedBy::lse;
  }
  const bool bound = std::holds_alternative<StepVector>(c.what) || output == "row_loss";
  return bound ? JudgedBy::bound : JudgedBy::every_limit;
}

void judge_other_file(const GoldenCase& c, const SafetensorsFile& file,
                      const std::vector<OutputTensor>& right, CaseResult& result) {
  const Contract contract = builtin_contract(c.contract);
  const auto* merge = std::get_if<MergeVector>(&c.what);
  const bool gaussian = merge == nullptr || merge->kind == MergeKind::gauss;
  for (const OutputTensor& t : right) {
    const auto values = read_output(file, t, result);
    if (!values) {
      continue;
    }
    ExpectedTensor expected;
    expected.value[0] = t.value;
    expected.bound[0] = t.bound;
    expected.deviation[0] = t.deviation;
    expected.deviation[0].resize(t.value.size(), 0);
    expected.channels = channels_of(t);
    expected.unit = unit_roundoff(coarsest(c, t.name, contract));
    expected.accumulate_unit = unit_roundoff(contract.accumulate);
    const ByStream<double> got{*values, {}};
    result.add(
        judge_values(t.name, judged_by(c, t.name), expected, got, gaussian,
                     [&](const Place& at) { return "[" + index_text(at.element, t.shape) + "]"; }));
  }
}

/// Right values that someone has changed judge nothing.
void check_digest(const std::string& path, const std::string& expected) {
  const std::string digest = sha256_of_file(path);
  require<FileError>(digest == expected, path, ": the digest is ", digest, ", the manifest has ",
                     expected.empty() ? "none" : expected);
}

}  // namespace

CaseResult judge_output_file(const GoldenCase& c, const std::string& path,
                             const std::string& golden) {
  CaseResult result;
  result.id = c.id;
  result.tier = "files";
  try {
    const SafetensorsFile file(path);
    std::vector<OutputTensor> right;
    if (golden.empty() || !c.stored) {
      right = make_vector(c).outputs;
    } else {
      const std::string stored = golden_path(golden, c);
      right = read_golden_outputs(SafetensorsFile(stored), stored);
    }
    if (std::holds_alternative<AttentionVector>(c.what)) {
      judge_attention_file(c, file, right, result);
    } else {
      judge_other_file(c, file, right, result);
    }
  } catch (const FileError& error) {
    result.verdict = Verdict::fail;
    result.reason = Reason::file;
    result.detail = error.what();
  }
  return result;
}

std::vector<CaseResult> judge_outputs(const OutputsOptions& options) {
  std::error_code error;
  require(fs::is_directory(options.folder, error), "--outputs is '", printable(options.folder, 400),
          "', which is no folder");
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(options.folder)) {
    if (entry.path().extension() == ".safetensors") {
      files.insert(entry.path().stem().string());
    }
  }
  require(
      !files.empty(), "--outputs ", printable(options.folder, 400),
      " holds no safetensors file; its files are ID.safetensors, as bdlm golden list shows ids");
  std::map<std::string, std::string> digests;
  if (!options.golden.empty()) {
    for (const ManifestEntry& entry : read_manifest(options.golden + "/manifest.json")) {
      digests[entry.id] = entry.sha256;
    }
  }
  std::vector<CaseResult> out;
  for (const GoldenCase& c : select_golden_cases(options.ids, false)) {
    if (files.erase(c.id) == 1) {
      if (!options.golden.empty() && c.stored) {
        check_digest(golden_path(options.golden, c), digests[c.id]);
      }
      out.push_back(
          judge_output_file(c, join(options.folder, '/', c.id, ".safetensors"), options.golden));
    } else if (c.stored) {
      CaseResult missing;
      missing.id = c.id;
      missing.tier = "files";
      missing.verdict = Verdict::skipped;
      missing.detail = "there is no file of this name";
      out.push_back(std::move(missing));
    }
  }
  for (const std::string& file : files) {
    const auto& all = golden_cases();
    const bool known =
        std::any_of(all.begin(), all.end(), [&](const GoldenCase& c) { return c.id == file; });
    if (!known && glob_match(options.ids, file)) {
      CaseResult stranger;
      stranger.id = printable(file);
      stranger.tier = "files";
      stranger.verdict = Verdict::fail;
      stranger.reason = Reason::file;
      stranger.detail = "no golden vector has this id; bdlm golden list shows those that there are";
      out.push_back(std::move(stranger));
    }
  }
  return out;
}

}  // namespace bdlm
