// Right outputs in files pass, wrong ones are named for what they are.

#include "conformance/golden/judge_outputs.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <functional>

#include "conformance/golden/golden_file.h"
#include "conformance/judge/emulated.h"
#include "conformance/judge/limits.h"
#include "reference/base/test_files.h"
#include "reference/math/cross_entropy.h"
#include "reference/math/merge.h"
#include "reference/parallel/dense_step.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(judging_outputs)

namespace {

const std::string golden = BDLM_GOLDEN_FOLDER;
const std::string bf16_id = "monolithic-P1-L32-M8-h4k2-d16-bf16-gauss-blockcausal-s1";

/// Outputs by name; a user's file.
using Outputs = std::map<std::string, std::vector<double>>;

std::vector<double> both(const ByStream<double>& x) {
  std::vector<double> out = x[0];
  out.insert(out.end(), x[1].begin(), x[1].end());
  return out;
}

/// A pipeline of the contract's roundings.
Outputs emulated(const GoldenCase& c, const Contract& contract, const EmulatedFaults& faults = {}) {
  const AttentionProblem<double> p = problem_of(c);
  const AttentionOutputs x =
      emulate(p, decomposition_of(std::get<AttentionVector>(c.what)), contract, faults);
  return {{"o", both(x.o)},
          {"lse", both(x.lse)},
          {"dq", both(x.dq)},
          {"dk", both(x.dk)},
          {"dv", both(x.dv)}};
}

/// Merges in float.
Outputs merged(const GoldenCase& c, bool average = false) {
  const auto& v = std::get<MergeVector>(c.what);
  const GoldenVector in = make_vector(c, Making::inputs);
  const int64_t rows = v.rows * v.heads;
  Outputs out;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<float> o(v.head_dim, 0);
    float z = LogDomain<float>::empty();
    for (int64_t part = 0; part < v.parts; ++part) {
      const auto from = in.inputs[0].values.begin() + (part * rows + row) * v.head_dim;
      const std::vector<float> other(from, from + v.head_dim);
      if (average && part > 0) {
        for (int64_t i = 0; i < v.head_dim; ++i) {
          o[i] = (o[i] + other[i]) / 2;
        }
        continue;
      }
      merge_unchecked<float>(v.head_dim, o.data(), z, other.data(),
                             static_cast<float>(in.inputs[1].values[part * rows + row]));
    }
    const Dtype dtype = builtin_contract(c.contract).o;
    for (const float x : o) {
      out["o"].push_back(round_to(x, dtype));
    }
    out["lse"].push_back(z);
  }
  return out;
}

/// The reference's own cross-entropy in T.
template <class T>
Outputs cross_entropy(const GoldenCase& c) {
  const auto& v = std::get<CrossEntropyVector>(c.what);
  const GoldenVector in = make_vector(c, Making::inputs);
  const auto as = [&](size_t n) {
    return std::vector<T>(in.inputs[n].values.begin(), in.inputs[n].values.end());
  };
  const std::vector<T> hidden = as(0);
  const std::vector<T> head = as(1);
  const std::vector<T> weights = as(3);
  const std::vector<int64_t> labels(in.inputs[2].values.begin(), in.inputs[2].values.end());
  const CrossEntropyOptions options{v.excluded, v.softcap, 4};
  Outputs out;
  for (int64_t row = 0; row < v.rows; ++row) {
    const T loss =
        cross_entropy_forward<T>({1, v.hidden, v.vocab}, &hidden[row * v.hidden], head.data(),
                                 {&labels[row], 1}, {&weights[row], 1}, options);
    out["row_loss"].push_back(loss);
  }
  std::vector<T> d_hidden(hidden.size(), 0);
  std::vector<T> d_head(head.size(), 0);
  cross_entropy_backward<T>({v.rows, v.hidden, v.vocab}, hidden.data(), head.data(), labels,
                            weights, T(v.upstream), d_hidden.data(), d_head.data(), options);
  out["d_hidden"] = {d_hidden.begin(), d_hidden.end()};
  out["d_head"] = {d_head.begin(), d_head.end()};
  return out;
}

/// The step in double on ranks of its own.
Outputs step(const GoldenCase& c, Scheme scheme, int ranks) {
  StepProblem problem = make_step(std::get<StepVector>(c.what).settings);
  for (double& x : problem.parameters.values()) {
    x = round_to(x, builtin_contract(c.contract).input);
  }
  const StepResult<double> result = dense_step(problem.dense, problem.parameters, scheme, ranks);
  Outputs out{{"loss", {result.loss}}};
  const ParameterTable& table = result.gradients.table();
  for (size_t n = 0; n < table.entries().size(); ++n) {
    const double* from = result.gradients[n];
    out[table.entries()[n].name] = {from, from + table.entries()[n].size};
  }
  return out;
}

/// The right values, rounded once to a float or to `dtype`.
Outputs rounded(const GoldenCase& c, Dtype dtype) {
  Outputs out;
  const std::string path = join(golden, '/', c.family(), '/', c.id, ".safetensors");
  for (const OutputTensor& t : read_golden_outputs(SafetensorsFile(path), path)) {
    for (const double x : t.value) {
      out[t.name].push_back(round_to(x, dtype));
    }
  }
  return out;
}

void write(const std::string& path, const GoldenCase& c, const Outputs& outputs) {
  const std::string stored = join(golden, '/', c.family(), '/', c.id, ".safetensors");
  std::vector<TensorData> tensors;
  for (const OutputTensor& t : read_golden_outputs(SafetensorsFile(stored), stored)) {
    const auto it = outputs.find(t.name);
    if (it != outputs.end()) {
      tensors.push_back({{t.name, DType::f64, t.shape}, rounded_bytes(DType::f64, it->second, "")});
    }
  }
  write_safetensors(path, tensors);
}

CaseResult judged(const GoldenCase& c, const Outputs& outputs) {
  const testing::Directory folder;
  const std::string path = folder.path.string() + "/x.safetensors";
  write(path, c, outputs);
  return judge_output_file(c, path, golden);
}

/// "dk FAIL scale" of the worst tensor.
std::string worst(const CaseResult& result) {
  for (const TensorResult& t : result.tensors) {
    if (t.verdict == result.verdict && t.verdict != Verdict::pass) {
      return join(t.tensor, ' ', name(t.verdict), ' ', name(t.reason));
    }
  }
  return join(name(result.verdict), ' ', result.detail);
}

// Every stored vector under its own contract; structured data may be vacuous, and says so.
BOOST_AUTO_TEST_CASE(right_outputs_do_not_fail) {
  for (const GoldenCase& c : golden_cases()) {
    if (!c.stored) {
      continue;
    }
    const Contract contract = builtin_contract(c.contract);
    Outputs outputs;
    if (std::holds_alternative<AttentionVector>(c.what)) {
      outputs = emulated(c, contract);
    } else if (std::holds_alternative<MergeVector>(c.what)) {
      outputs = merged(c);
    } else if (std::holds_alternative<CrossEntropyVector>(c.what)) {
      outputs = cross_entropy<float>(c);
    } else {
      outputs = step(c, Scheme::csbp, 4);
    }
    const CaseResult result = judged(c, outputs);
    BOOST_TEST((result.verdict < Verdict::fail), c.id << ": " << worst(result));
    const auto* attention = std::get_if<AttentionVector>(&c.what);
    if (attention != nullptr && attention->data == DataKind::gauss) {
      BOOST_TEST((result.verdict <= Verdict::marginal), c.id << ": " << worst(result));
    }
  }
}

// What is right in double is a rounding away from what is right in 113 bits: cross-entropy by other
// code, and steps under every scheme by the same code in another scalar.
BOOST_AUTO_TEST_CASE(double_agrees) {
  for (const GoldenCase& c : golden_cases()) {
    Outputs got;
    if (std::holds_alternative<CrossEntropyVector>(c.what) && c.stored) {
      got = cross_entropy<double>(c);
    } else if (std::holds_alternative<StepVector>(c.what)) {
      got = step(c, Scheme::cp, 3);
    }
    const Outputs right = got.empty() ? Outputs{} : rounded(c, Dtype::f64);
    for (const auto& [tensor, values] : right) {
      double largest = 0;
      double apart = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        largest = std::max(largest, std::abs(values[i]));
        apart = std::max(apart, std::abs(values[i] - got.at(tensor)[i]));
      }
      BOOST_TEST(apart <= limits::step_relative * largest, c.id << ' ' << tensor);
    }
  }
}

BOOST_AUTO_TEST_CASE(wrong_outputs_are_named) {
  const GoldenCase& c = find_golden_case(bf16_id);
  const Contract contract = builtin_contract(c.contract);
  const Outputs right = emulated(c, contract);
  const auto with = [&](const std::string& tensor,
                        const std::function<void(std::vector<double>&)>& f) {
    Outputs x = right;
    f(x.at(tensor));
    return worst(judged(c, x));
  };
  BOOST_TEST(with("dk", [](auto& x) {
               for (double& v : x) {
                 v *= 1.01;
               }
             }) == "dK FAIL scale");
  BOOST_TEST(with("dv", [](auto& x) { x[700] *= 1.05; }) == "dV FAIL bound");
  BOOST_TEST(with("o", [](auto& x) { x[5] = std::nan(""); }) == "O FAIL nonfinite");
  BOOST_TEST(with("lse", [](auto& x) {
               for (double& v : x) {
                 v += 1e-3;
               }
             }) == "LSE FAIL bound");
  EmulatedFaults missing;
  missing.missing_key = MissingKey{Stream::corrupted, 20, Stream::clean, 3};
  BOOST_TEST(worst(judged(c, emulated(c, contract, missing))) == "O FAIL bound");
  EmulatedFaults truncated;
  truncated.rounding = Rounding::truncate;
  BOOST_TEST((judged(c, emulated(c, contract, truncated)).verdict == Verdict::fail));
}

/// Heads of rows (R, Hq, width) at other places: head h of `x` becomes head to(h).
std::vector<double> moved_heads(const std::vector<double>& x, int64_t heads, int64_t width,
                                const std::function<int64_t(int64_t)>& to) {
  std::vector<double> out(x.size());
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()) / width; ++i) {
    const int64_t at = i / heads * heads + to(i % heads);
    std::copy_n(&x[i * width], width, &out[at * width]);
  }
  return out;
}

// Query head h on KV head h % Hkv: the vectors flagged gqa_map fail it, and no others could.
BOOST_AUTO_TEST_CASE(a_modulo_map_of_heads_fails_where_flagged) {
  int flagged = 0;
  for (const GoldenCase& c : golden_cases()) {
    const auto* v = std::get_if<AttentionVector>(&c.what);
    if (v == nullptr || !c.stored || v->data == DataKind::equal_maxima) {
      continue;
    }
    const int64_t heads = v->heads.q_heads, kv = v->heads.kv_heads, d = v->heads.head_dim;
    const auto to = [=](int64_t h) { return h % kv * (heads / kv) + h / kv; };
    const auto back = [=](int64_t h) { return h % (heads / kv) * kv + h / (heads / kv); };
    AttentionProblem<double> p = problem_of(c);
    for (auto* values : {&p.q, &p.d_o}) {
      for (auto& stream : *values) {
        stream = moved_heads(stream, heads, d, to);
      }
    }
    const AttentionOutputs x = emulate(p, decomposition_of(*v), builtin_contract(c.contract), {});
    const auto unmoved = [&](const ByStream<double>& values, int64_t width) {
      return moved_heads(both(values), heads, width, back);
    };
    const CaseResult result = judged(c, {{"o", unmoved(x.o, d)},
                                         {"lse", unmoved(x.lse, 1)},
                                         {"dq", unmoved(x.dq, d)},
                                         {"dk", both(x.dk)},
                                         {"dv", both(x.dv)}});
    const bool says = std::find(c.flags.begin(), c.flags.end(), "gqa_map") != c.flags.end();
    BOOST_TEST((result.verdict == Verdict::fail) == says, c.id << ' ' << worst(result));
    flagged += says ? 1 : 0;
  }
  BOOST_TEST(flagged >= 15);
}

BOOST_AUTO_TEST_CASE(other_families_fail_where_they_are_wrong) {
  for (const GoldenCase& c : golden_cases()) {
    if (const auto* merge = std::get_if<MergeVector>(&c.what)) {
      if (merge->parts == 2) {
        BOOST_TEST((judged(c, merged(c, true)).verdict == Verdict::fail), c.id);
      }
    } else if (c.stored && !std::holds_alternative<AttentionVector>(c.what)) {
      for (const auto& [tensor, values] : rounded(c, Dtype::fp32)) {
        Outputs x = rounded(c, Dtype::fp32);
        for (double& v : x[tensor]) {
          v *= 1.01;
        }
        BOOST_TEST((judged(c, x).verdict == Verdict::fail), c.id << ' ' << tensor);
      }
    }
  }
}

bool is_file_failure(const CaseResult& result) {
  return result.verdict == Verdict::fail && result.reason == Reason::file;
}

BOOST_AUTO_TEST_CASE(what_is_missing_or_misshapen_is_said) {
  const GoldenCase& c = find_golden_case(bf16_id);
  Outputs right = emulated(c, builtin_contract(c.contract));
  Outputs forward{{"o", right["o"]}, {"lse", right["lse"]}};
  BOOST_TEST((judged(c, forward).verdict == Verdict::unsupported));
  forward["dq"] = right["dq"];
  const CaseResult half = judged(c, forward);
  BOOST_TEST(is_file_failure(half));
  BOOST_TEST(half.detail == "dk: the file has no tensor 'dk'");

  const testing::Directory folder;
  const std::string path = folder.path.string() + "/x.safetensors";
  const std::vector<double> few{1, 2};
  write_safetensors(
      path, {{{"o", DType::f32, {2}}, rounded_bytes(DType::f32, few, "")},
             {{"lse", DType::i64, {2, 32, 4}}, std::vector<std::byte>(size_t{2} * 32 * 4 * 8)}});
  const CaseResult shape = judge_output_file(c, path, golden);
  BOOST_TEST_REQUIRE(shape.tensors.size() == 2u);
  BOOST_TEST(shape.tensors[0].detail == "its shape is (2); the vector's is (2, 32, 4, 16)");
  BOOST_TEST(shape.tensors[1].detail == "its dtype is I64; allowed are F64, F32, F16, BF16");
  const CaseResult none = judge_output_file(c, folder.path.string() + "/none.safetensors", golden);
  BOOST_TEST(is_file_failure(none));
  BOOST_TEST(none.detail.find("cannot open") != std::string::npos);
  std::ofstream(folder.path / "garbage.safetensors") << "no tensors";
  BOOST_TEST(
      is_file_failure(judge_output_file(c, folder.path.string() + "/garbage.safetensors", golden)));
}

BOOST_AUTO_TEST_CASE(a_folder) {
  const testing::Directory folder;
  BOOST_CHECK_THROW(judge_outputs({folder.path.string(), "*", golden}), InputError);
  BOOST_CHECK_THROW(judge_outputs({folder.path.string() + "/none", "*", golden}), InputError);
  const GoldenCase& c = find_golden_case(bf16_id);
  write(folder.path.string() + "/" + c.id + ".safetensors", c,
        emulated(c, builtin_contract(c.contract)));
  write(folder.path.string() + "/unknown.safetensors", c, {});
  const std::vector<CaseResult> results = judge_outputs({folder.path.string(), "*", golden});
  const Summary summary = summarize(results);
  BOOST_TEST(summary[Verdict::pass] == 1);
  BOOST_TEST(summary[Verdict::fail] == 1);
  BOOST_TEST(summary[Verdict::skipped] > 40);
  // Vectors that are not those of the manifest judge nothing.
  const testing::Directory copy;
  const std::filesystem::path place = copy.path / "attention";
  std::filesystem::create_directory(place);
  std::filesystem::copy(golden + "/manifest.json", copy.path / "manifest.json");
  const std::string vector = c.id + ".safetensors";
  std::filesystem::copy(golden + "/attention/" + vector, place / vector);
  BOOST_TEST(judge_outputs({folder.path.string(), c.id, copy.path.string()}).size() == 1u);
  std::ofstream(place / vector, std::ios::app) << 'x';
  BOOST_CHECK_THROW(judge_outputs({folder.path.string(), c.id, copy.path.string()}), FileError);
  std::filesystem::remove(copy.path / "manifest.json");
  BOOST_CHECK_THROW(judge_outputs({folder.path.string(), c.id, copy.path.string()}), FileError);
  // Without the stored vectors the verdict is the same.
  const std::vector<CaseResult> anew = judge_outputs({folder.path.string(), c.id, ""});
  BOOST_TEST((anew.size() == 1 && anew[0].verdict == Verdict::pass));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
