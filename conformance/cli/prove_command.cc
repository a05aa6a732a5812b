// bdlm prove: shows on a real text that the schemes compute one loss and one set of gradients.

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "conformance/cli/command.h"
#include "conformance/cli/options.h"
#include "conformance/cli/prose.h"
#include "conformance/cli/prove_model.h"
#include "conformance/cli/prove_mpi.h"
#include "conformance/report/write_report.h"
#include "conformance/suites/step_data.h"
#include "conformance/suites/suite.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct ProveOptions {
  std::string text;
  int64_t length = 0;  // 0: 2,048, or the whole text if it is shorter
  std::vector<std::string> schemes;
  std::vector<int> ranks;
  ModelOptions model;
  int64_t block = 32;
  std::vector<std::string> documents;
  int64_t prompt = 0;
  std::string assignment = "dual-end";
  std::string objective = "masked_block";
  double clean_loss = 0;
  bool checkpointing = false;
  uint64_t seed = 1;
  std::string transport = "threads";
  std::string json;
};

/// A scheme, its ranks, and what came out.
struct Row {
  Ownership ownership;
  StepVerdict verdict;
  int64_t exact_cases = 0;
  int64_t exact_equal = 0;
  std::string exact_detail;

  bool right() const {
    return !verdict.nonfinite && verdict.worst <= 1 && verdict.bytes_differ.empty() &&
           exact_equal == exact_cases;
  }
};

std::string read_text(const ProveOptions& options) {
  if (options.text.empty()) {
    return prose();
  }
  const std::string shown = printable(options.text);
  std::error_code error;
  require<FileError>(!std::filesystem::is_directory(options.text, error), shown,
                     ": cannot be read: it is a directory");
  errno = 0;
  std::ifstream file(options.text, std::ios::binary);
  require<FileError>(file.good(), shown, ": cannot be read: ", std::strerror(errno));
  std::string text;
  // No more than what a double-precision proof could take.
  constexpr size_t most = size_t{1} << 26;
  text.resize(most + 1);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  require<FileError>(!file.bad(), shown, ": cannot be read: ", std::strerror(errno));
  text.resize(static_cast<size_t>(file.gcount()));
  require<FileError>(text.size() <= most, shown, ": has more than ", most, " bytes");
  return text;
}

StepSettings settings_of(const ProveOptions& options) {
  const std::string text = read_text(options);
  const std::string source = options.text.empty() ? "the built-in text" : printable(options.text);
  const auto bytes = static_cast<int64_t>(text.size());
  require(bytes >= options.block, source, " has ", bytes, " bytes, fewer than a block of ",
          options.block);
  const int64_t length = options.length > 0 ? options.length : std::min<int64_t>(bytes, 2048);
  require(length <= bytes, "--length is ", length, "; ", source, " has ", bytes, " bytes");
  require(length >= options.block, "--length is ", length, "; it must be at least a block, ",
          options.block);
  StepSettings s;
  s.config = make_config(options.model);
  s.sequence = Sequence::uniform(length, options.block, parse_documents(options.documents));
  require(options.prompt >= 0 && options.prompt < length, "--prompt is ", options.prompt,
          "; allowed is 0 to ", length - 1, ", as some token must be supervised");
  s.prompt = options.prompt;
  s.mask_token = s.config.vocab - 1;
  for (int64_t i = 0; i < length; ++i) {
    const auto token = static_cast<int64_t>(static_cast<unsigned char>(text[i]));
    require(token < s.mask_token, source, " has byte ", token, " at ", i,
            ", which a vocabulary of ", s.config.vocab,
            ", its last id the mask token, has no token for; --vocab 257 takes every byte");
    s.tokens.push_back(token);
  }
  s.objective = parse_objective(options.objective);
  s.clean_loss = options.clean_loss;
  s.options.checkpointing = options.checkpointing;
  s.seed = options.seed;
  return s;
}

/// Every scheme on every number of ranks; what cannot be divided is an error before anything runs.
std::vector<Row> rows_of(const ProveOptions& options, const StepSettings& settings,
                         const std::vector<int>& ranks) {
  std::vector<Row> rows;
  const OwnershipOptions how{parse_assignment(options.assignment), settings.clean_loss > 0,
                             settings.config.rules};
  // Monolithic is always there: it is what the others are held against.
  for (const Scheme scheme :
       parse_schemes(options.schemes, {Scheme::cp, Scheme::bp, Scheme::csbp})) {
    for (const int p : ranks) {
      rows.push_back({divide(settings.sequence, scheme, p, how), {}, 0, 0, ""});
    }
  }
  return rows;
}

/// The scheme on as many ranks in rational arithmetic, on sequences small enough for it.
void prove_exactly(Row& row) {
  const int64_t p = row.ownership.ranks;
  const Shape shape{Sequence::uniform(3 * (2 * p + 1) - 1, 3), 3, "", ""};
  for (const LayerRule& rule :
       {LayerRule{CleanRule::block_causal, 0}, LayerRule{CleanRule::token_causal, 4}}) {
    const CaseResult result = judge_exact(
        {shape, rule, row.ownership.scheme, row.ownership.ranks, row.ownership.assignment});
    ++row.exact_cases;
    if (result.verdict == Verdict::pass) {
      ++row.exact_equal;
    } else {
      row.exact_detail = result.detail;
    }
  }
}

void print_head(std::ostream& out, const StepSettings& s, const ProveOptions& options) {
  const DenseConfig& c = s.config;
  out << (options.text.empty() ? "built-in text" : printable(options.text)) << ": "
      << s.sequence.length() << " bytes as tokens, " << s.sequence.blocks() << " blocks of "
      << options.block << ", " << name(s.objective)
      << (s.clean_loss > 0 ? " with a clean next-token loss" : "") << '\n'
      << "model: " << c.layers << " layers, hidden " << c.hidden << ", heads " << c.q_heads << ':'
      << c.kv_heads << " x " << c.head_dim << ", mlp " << c.mlp << ", vocabulary " << c.vocab
      << ", " << name(c.rules.front().clean) << " clean rows, " << ParameterTable(c).size()
      << " parameters, all double\n\n";
}

void print_table_head(std::ostream& out, const StepBaseline& baseline) {
  char line[200];
  std::snprintf(line, sizeof line, "%-10s %3s  %-17s  %9s  %9s  %9s  %15s\n", "scheme", "P", "loss",
                "difference", "/bound", "exact", "attention bytes");
  out << line;
  std::snprintf(line, sizeof line, "%-10s %3d  %.15f\n", "monolithic", 1, baseline.one.loss);
  out << line << std::flush;
}

void print_row(std::ostream& out, const Row& row) {
  const StepVerdict& v = row.verdict;
  char line[256];
  char worst[32];
  std::snprintf(worst, sizeof worst, "%.2e", v.nonfinite ? NAN : v.worst_relative);
  char exact[32];
  std::snprintf(exact, sizeof exact, "%lld of %lld ==", static_cast<long long>(row.exact_equal),
                static_cast<long long>(row.exact_cases));
  std::snprintf(line, sizeof line, "%-10s %3d  %.15f  %9s  %9.4f  %9s  %15lld %-9s %s\n",
                name(row.ownership.scheme), row.ownership.ranks, v.loss, worst,
                v.nonfinite ? NAN : v.worst, exact, static_cast<long long>(v.bytes),
                v.bytes_differ.empty() ? "= ledger" : "DIFFER", row.right() ? "" : "WRONG");
  out << line;
  if (!row.right()) {
    out << "    worst tensor: " << v.worst_tensor
        << (v.bytes_differ.empty() ? "" : "; " + v.bytes_differ)
        << (row.exact_detail.empty() ? "" : "; exact: " + row.exact_detail) << '\n';
  }
  out << std::flush;
}

OrderedJson to_json(const Row& row) {
  const StepVerdict& v = row.verdict;
  const auto number = [](double x) {
    return std::isfinite(x) ? OrderedJson(x) : OrderedJson(std::isnan(x) ? "nan" : "inf");
  };
  return {{"scheme", name(row.ownership.scheme)},
          {"ranks", row.ownership.ranks},
          {"loss", number(v.loss)},
          {"loss_difference", number(v.loss_difference)},
          {"worst_over_bound", number(v.nonfinite ? NAN : v.worst)},
          {"worst_tensor", v.worst_tensor},
          {"worst_relative_difference", number(v.worst_relative)},
          {"exact_cases", row.exact_cases},
          {"exact_equal", row.exact_equal},
          {"attention_bytes", v.bytes},
          {"bytes_equal_ledger", v.bytes_differ.empty()},
          {"verdict", row.right() ? "PASS" : "FAIL"}};
}

int report(const ProveOptions& options, const StepSettings& settings, const StepBaseline& baseline,
           const std::vector<Row>& rows, std::ostream& out, std::optional<ReportSink>& sink) {
  const auto right =
      std::count_if(rows.begin(), rows.end(), [](const Row& r) { return r.right(); });
  out << '\n'
      << "difference: the largest of any gradient, over its tensor's largest value; /bound: the\n"
         "largest difference over its bound (2e-13 of the tensor, or 16 times what another order "
         "of\n"
         "keys does to the monolithic step). exact: attention forward and backward of the scheme "
         "in\n"
         "rational arithmetic on small sequences, full and sliding, equal in every digit.\n\n"
      << right << " of " << rows.size() << " runs have the monolithic loss and gradients"
      << (right == static_cast<int64_t>(rows.size()) ? ".\n" : ": NOT PROVEN.\n");
  if (sink) {
    const DenseConfig& c = settings.config;
    const RunInfo info = run_info(options.seed);
    OrderedJson json;
    json["format"] = "bdlm-prove-1";
    json["commit"] = info.commit;
    json["device"] = info.device;
    json["versions"] = info.versions;
    json["text"] = options.text.empty() ? "built-in" : options.text;
    json["tokens"] = settings.sequence.length();
    json["block"] = options.block;
    json["documents"] = OrderedJson::array();
    for (const Interval& document : settings.sequence.documents()) {
      json["documents"].push_back({document.begin, document.end});
    }
    json["prompt"] = options.prompt;
    json["assignment"] = options.assignment;
    json["clean_rule"] = name(c.rules.front().clean);
    json["windows"] = OrderedJson::array();
    for (const LayerRule& rule : c.rules) {
      json["windows"].push_back(rule.window);
    }
    json["objective"] = name(settings.objective);
    json["clean_loss"] = settings.clean_loss;
    json["checkpointing"] = options.checkpointing;
    json["transport"] = options.transport;
    json["seed"] = options.seed;
    json["model"] = {{"layers", c.layers},     {"hidden", c.hidden},
                     {"q_heads", c.q_heads},   {"kv_heads", c.kv_heads},
                     {"head_dim", c.head_dim}, {"mlp", c.mlp},
                     {"vocab", c.vocab},       {"parameters", ParameterTable(c).size()}};
    json["loss"] = baseline.one.loss;
    json["runs"] = OrderedJson::array();
    for (const Row& row : rows) {
      json["runs"].push_back(to_json(row));
    }
    json["summary"] = {{"pass", right}, {"fail", static_cast<int64_t>(rows.size()) - right}};
    sink->write(json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
    sink->close();
  }
  return right == static_cast<int64_t>(rows.size()) ? 0 : 1;
}

int views_of(const StepSettings& settings) {
  return settings.objective == ObjectiveKind::complementary_views ? 2 : 1;
}

int prove_with_threads(const ProveOptions& options) {
  const StepSettings settings = settings_of(options);
  std::vector<Row> rows =
      rows_of(options, settings, options.ranks.empty() ? std::vector<int>{2, 4, 8} : options.ranks);
  int most = 1;
  for (const Row& row : rows) {
    most = std::max(most, row.ownership.ranks);
  }
  check_memory(settings.config, settings.sequence.length(), most, views_of(settings), false);
  std::optional<ReportSink> sink = open_report(options.json, std::cout);
  std::ostream& out = is_standard_output(options.json) ? std::cerr : std::cout;
  const StepProblem problem = make_step(settings);
  print_head(out, settings, options);
  Progress progress(true);
  progress.show("monolithic step, twice");
  const StepBaseline baseline = make_baseline(problem);
  print_table_head(out, baseline);
  for (Row& row : rows) {
    progress.show(join(name(row.ownership.scheme), " on ", row.ownership.ranks, " ranks"));
    row.verdict = compare(problem, row.ownership, baseline, run_scheme(problem, row.ownership));
    prove_exactly(row);
    print_row(out, row);
  }
  return report(options, settings, baseline, rows, out, sink);
}

/// The same with ranks as processes: every process of mpirun comes here, the first one reports.
int prove_with_mpi(const ProveOptions& options) {
  MpiRanks mpi;
  return mpi.guarded([&] {
    require(options.ranks.empty() || options.ranks == std::vector<int>{mpi.size()},
            "--ranks with --transport mpi must be the number of processes, ", mpi.size());
    const StepSettings settings = settings_of(options);
    std::vector<Row> rows = rows_of(options, settings, {mpi.size()});
    check_memory(settings.config, settings.sequence.length(), mpi.size(), views_of(settings), true);
    const bool first = mpi.rank() == 0;
    std::optional<ReportSink> sink;
    if (first) {
      sink = open_report(options.json, std::cout);
    }
    const StepProblem problem = make_step(settings);
    std::ostream& out = is_standard_output(options.json) ? std::cerr : std::cout;
    std::optional<StepBaseline> baseline;
    if (first) {
      print_head(out, settings, options);
      baseline = make_baseline(problem);
      print_table_head(out, *baseline);
    }
    for (Row& row : rows) {
      const StepRun run = mpi.run(problem, row.ownership);
      if (first) {
        row.verdict = compare(problem, row.ownership, *baseline, run);
        prove_exactly(row);
        print_row(out, row);
      }
    }
    return first ? report(options, settings, *baseline, rows, out, sink) : 0;
  });
}

int prove(const ProveOptions& options) {
  require(options.transport == "threads" || options.transport == "mpi", "--transport is '",
          printable(options.transport), "'; allowed are threads, mpi");
  return options.transport == "mpi" ? prove_with_mpi(options) : prove_with_threads(options);
}

}  // namespace

void add_prove_command(CLI::App& app, int& status) {
  auto options = std::make_shared<ProveOptions>();
  CLI::App* command = app.add_subcommand(
      "prove", "Show on a text that every scheme computes one loss and one set of gradients");
  constexpr int64_t most = int64_t{1} << 26;
  add_text(*command, "--text", options->text, "A file whose bytes are the tokens");
  add_integer(*command, "--length", options->length, 1, most,
              "Tokens to take; default 2048, or all of a shorter text");
  add_words(*command, "--scheme", options->schemes, "cp, bp, csbp, or all");
  add_integers(*command, "--ranks", options->ranks, 1, 256, "Numbers of ranks; default 2,4,8");
  add_integer(*command, "--block", options->block, 1, most, "Block size; default 32");
  add_words(*command, "--documents", options->documents, "Packed documents: 0:512,512:2048");
  add_integer(*command, "--prompt", options->prompt, 0, most,
              "Leading tokens that are not supervised");
  add_text(*command, "--assignment", options->assignment,
           "dual-end, contiguous or balanced; default dual-end");
  add_text(*command, "--objective", options->objective,
           "masked_block (the default) or complementary_views");
  add_number(*command, "--clean-loss", options->clean_loss, 0, 1e6,
             "Weight of the clean next-token loss; needs --clean token-causal");
  command
      ->add_flag("--checkpointing", options->checkpointing,
                 "Compute each layer's activations again in the backward")
      ->disable_flag_override();
  add_integer(*command, "--seed", options->seed, 0, std::numeric_limits<int64_t>::max(),
              "Seed of parameters and draws; default 1");
  add_text(*command, "--transport", options->transport,
           "threads (the default), or mpi under mpirun");
  add_text(*command, "--json", options->json, "Write the proof as JSON; - is standard output");
  add_model_options(*command, options->model);
  command->callback([options, &status] { status = prove(*options); });
}

}  // namespace bdlm
