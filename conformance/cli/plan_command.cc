// bdlm plan: who owns what, how even the work is, what moves and what it takes in memory.

#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "conformance/cli/command.h"
#include "conformance/cli/options.h"
#include "conformance/cli/plan_verify.h"
#include "conformance/report/write_report.h"
#include "reference/base/error.h"
#include "reference/base/text.h"
#include "reference/layout/config_json.h"
#include "reference/layout/ledger.h"

namespace bdlm {
namespace {

using OrderedJson = nlohmann::ordered_json;
constexpr double gib = 1024.0 * 1024.0 * 1024.0;

struct PlanOptions {
  std::string model;
  int64_t context = 0;
  int64_t ranks = 0;
  std::vector<std::string> schemes;
  int64_t block = 0;  // 0: the model's
  std::string assignment = "dual-end";
  std::string profile = "paper";
  std::string checkpointing = "full-recompute";
  std::string clean;  // empty: the model's
  std::vector<std::string> documents;
  std::string json;
  std::string dump;
  int64_t layer = 0;
};

template <class Value>
Value parse_word(const char* option, const std::string& text,
                 const std::vector<std::pair<std::string, Value>>& words) {
  std::string known;
  for (const auto& [word, value] : words) {
    if (text == word) {
      return value;
    }
    known += (known.empty() ? "" : ", ") + word;
  }
  throw InputError(join(option, " is '", text, "'; allowed are ", known));
}

/// Everything about one scheme.
struct SchemePlan {
  Ownership ownership;
  Ledger ledger;
  /// Attended pairs of a forward pass by rank, all attention layers together.
  std::vector<int64_t> pairs;
  double imbalance = 1;
  /// The rank whose attention tensors of one layer are largest, and that layer.
  AttentionMemory memory;
  int64_t memory_layer = 0;
};

std::vector<int64_t> pairs_by_rank(const Architecture& model, const Sequence& sequence,
                                   const Ownership& ownership, CleanRule clean) {
  std::map<int64_t, int64_t> layers_by_window;
  for (const LayerShape& layer : model.layers) {
    if (layer.kind != LayerKind::delta) {
      ++layers_by_window[layer.window];
    }
  }
  std::vector<int64_t> out(ownership.ranks, 0);
  const auto add = [](int64_t& sum, int64_t layers, int64_t n) {
    int64_t product = 0;
    require(
        !__builtin_mul_overflow(layers, n, &product) && !__builtin_add_overflow(sum, product, &sum),
        "a rank attends more than 2^63 pairs; a smaller --context has fewer");
  };
  for (const auto& [window, layers] : layers_by_window) {
    const LayerRule rule{clean, window};
    for (int r = 0; r < ownership.ranks; ++r) {
      for (const Segment& segment : ownership.rows[r].segments()) {
        for (const Stream key : {Stream::corrupted, Stream::clean}) {
          add(out[r], layers,
              pairs(visible_bands(sequence, rule, segment.stream, segment.rows, key)));
        }
      }
    }
  }
  return out;
}

std::vector<LayerRule> rules_of(const Architecture& model, CleanRule clean) {
  std::vector<LayerRule> rules;
  for (const LayerShape& layer : model.layers) {
    if (layer.kind != LayerKind::delta) {
      rules.push_back({clean, layer.window});
    }
  }
  return rules;
}

SchemePlan make_plan(const Architecture& model, const Sequence& sequence, Scheme scheme,
                     const PlanOptions& options, const LedgerOptions& base, CleanRule clean) {
  SchemePlan plan;
  const int ranks = scheme == Scheme::monolithic ? 1 : static_cast<int>(options.ranks);
  plan.ownership = divide(sequence, scheme, ranks,
                          {parse_assignment(options.assignment), false, rules_of(model, clean)});
  LedgerOptions ledger_options = base;
  ledger_options.scheme = scheme;
  ledger_options.ranks = ranks;
  ledger_options.blocks_of_rank = plan.ownership.blocks;
  plan.ledger = make_ledger(model, sequence, ledger_options);
  plan.pairs = pairs_by_rank(model, sequence, plan.ownership, clean);
  const int64_t most = *std::max_element(plan.pairs.begin(), plan.pairs.end());
  double mean = 0;
  for (const int64_t n : plan.pairs) {
    mean += static_cast<double>(n) / ranks;
  }
  plan.imbalance = static_cast<double>(most) / mean;
  for (int64_t layer = 0; layer < model.layer_count(); ++layer) {
    const bool first_of_kind = std::find(model.layers.begin(), model.layers.begin() + layer,
                                         model.layers[layer]) == model.layers.begin() + layer;
    if (model.layers[layer].kind == LayerKind::delta || !first_of_kind) {
      continue;
    }
    for (const AttentionRole& role : model.roles()) {
      for (const AttentionMemory& memory :
           attention_memory(model, sequence, ledger_options, layer, role)) {
        if (memory.total() > plan.memory.total()) {
          plan.memory = memory;
          plan.memory_layer = layer;
        }
      }
    }
  }
  return plan;
}

/// GiB that the covered entries send, mean over ranks.
double covered_gib(const Ledger& ledger) {
  double bytes = 0;
  for (const LedgerEntry& entry : ledger.entries) {
    if (entry.covered) {
      for (int64_t r = 0; r < ledger.options.ranks; ++r) {
        bytes += static_cast<double>(entry.step_bytes(r));
      }
    }
  }
  return bytes / static_cast<double>(ledger.options.ranks) / gib;
}

OrderedJson intervals_json(const IntervalSet& set) {
  OrderedJson out = OrderedJson::array();
  for (const Interval& i : set) {
    out.push_back({i.begin, i.end});
  }
  return out;
}

OrderedJson scheme_json(const SchemePlan& plan, const Architecture& model) {
  const Ledger& ledger = plan.ledger;
  const AttentionMemory& m = plan.memory;
  OrderedJson out;
  out["name"] = name(plan.ownership.scheme);
  out["ranks"] = plan.ownership.ranks;
  out["traffic_gib_per_gpu"] =
      ledger.complete() ? OrderedJson(ledger.mean_gib()) : OrderedJson(nullptr);
  out["covered_traffic_gib_per_gpu"] = covered_gib(ledger);
  out["transfers"] = OrderedJson::array();
  for (const LedgerEntry& entry : ledger.entries) {
    OrderedJson e;
    e["role"] = entry.role;
    e["layers"] = entry.layers;
    e["kind"] = name(entry.shape.kind);
    e["covered"] = entry.covered;
    if (entry.covered) {
      e["transfer"] = name(entry.transfer);
      e["padded_rows"] = entry.padded_rows;
      e["forward_passes"] = entry.forward_passes;
      e["bytes_forward_by_rank"] = entry.bytes_forward;
      e["bytes_backward_by_rank"] = entry.bytes_backward;
    } else {
      e["reason"] = entry.reason;
    }
    out["transfers"].push_back(e);
  }
  out["pairs_by_rank"] = plan.pairs;
  out["pairs_max_over_mean"] = plan.imbalance;
  out["attention_memory"] = {{"layer", plan.memory_layer},
                             {"kind", name(model.layers[plan.memory_layer].kind)},
                             {"total_bytes", m.total()},
                             {"q_bytes", m.q},
                             {"kv_bytes", m.kv},
                             {"o_bytes", m.o},
                             {"lse_bytes", m.lse},
                             {"gathered_bytes", m.gathered},
                             {"gathered_gradient_bytes", m.gathered_gradients},
                             {"replicated_bytes", m.replicated}};
  out["owners"] = OrderedJson::array();
  for (int r = 0; r < plan.ownership.ranks; ++r) {
    OrderedJson o;
    o["rank"] = r;
    o["corrupted"] = intervals_json(plan.ownership.rows[r].rows(Stream::corrupted));
    o["clean"] = intervals_json(plan.ownership.rows[r].rows(Stream::clean));
    out["owners"].push_back(o);
  }
  return out;
}

std::string text_of(const IntervalSet& set) {
  std::string out;
  for (size_t i = 0; i < set.size(); ++i) {
    if (i == 4 && set.size() > 5) {
      return out + join(" and ", set.size() - i, " more");
    }
    out += join(i > 0 ? " " : "", set[i]);
  }
  return out.empty() ? "nothing" : out;
}

void print(std::ostream& out, const std::vector<SchemePlan>& plans, const std::string& heading) {
  out << heading;
  char line[200];
  std::snprintf(line, sizeof line, "\n%-11s %5s  %17s  %14s  %16s\n", "scheme", "ranks", "traffic",
                "pairs", "attention memory");
  out << line;
  std::snprintf(line, sizeof line, "%-11s %5s  %17s  %14s  %16s\n", "", "", "GiB/GPU and step",
                "max/mean", "GiB a layer");
  out << line;
  bool partial = false;
  for (const SchemePlan& plan : plans) {
    partial = partial || !plan.ledger.complete();
    std::snprintf(line, sizeof line, "%-11s %5d  %16.2f%s  %14.4f  %16.2f\n",
                  name(plan.ownership.scheme), plan.ownership.ranks,
                  // Halves away from zero, as published tables round.
                  std::round(covered_gib(plan.ledger) * 100) / 100,
                  plan.ledger.complete() ? " " : "*", plan.imbalance,
                  static_cast<double>(plan.memory.total()) / gib);
    out << line;
  }
  if (partial) {
    for (const LedgerEntry& entry : plans.front().ledger.entries) {
      if (!entry.covered) {
        out << "* without " << entry.layers.size() << ' ' << name(entry.shape.kind)
            << " layers: " << entry.reason << '\n';
      }
    }
  }
  out << "\ntraffic: bytes sent for attention, mean over ranks. pairs: attended (query, key) pairs "
         "of "
         "a rank.\nattention memory: Q, K, V, O, log-sum-exp of the largest layer on the fullest "
         "rank, with what it\ngathers or replicates.\n";
  for (const SchemePlan& plan : plans) {
    out << '\n' << name(plan.ownership.scheme) << ": who holds which rows\n";
    for (int r = 0; r < plan.ownership.ranks; ++r) {
      if (r == 16) {
        out << "  and " << plan.ownership.ranks - r << " more ranks (all of them in --json)\n";
        break;
      }
      const RowSet& rows = plan.ownership.rows[r];
      out << "  rank " << r << "  corrupted " << text_of(rows.rows(Stream::corrupted)) << "  clean "
          << text_of(rows.rows(Stream::clean)) << '\n';
    }
  }
}

/// Writes the rank programs of one layer under the one scheme that was asked for.
void dump(const PlanOptions& options, const Architecture& model, const Sequence& sequence,
          const std::vector<SchemePlan>& plans, const ElementBytes& bytes, CleanRule clean) {
  require(plans.size() == 1, "--dump writes the plan of one scheme, and there are ", plans.size(),
          "; choose one by --scheme");
  require(options.layer < model.layer_count(), "--layer is ", options.layer, "; the model has ",
          model.layer_count(), " layers");
  const LayerShape& layer = model.layers[options.layer];
  require(layer.kind != LayerKind::delta, "layer ", options.layer, " has no attention");
  // K and V of all heads.
  const int64_t elements = 2 * layer.kv_heads * layer.head_dim;
  dump_plan(options.dump, sequence, {clean, layer.window}, plans[0].ownership,
            elements * bytes.gather, elements * bytes.scatter);
}

int plan(const PlanOptions& options) {
  require(!options.model.empty() && options.context > 0 && options.ranks > 0,
          "--model, --context and --ranks are required; bdlm plan --help shows what there is");
  const Architecture model = find_architecture(options.model);
  require(model.family != Family::drafter, "model '", model.name,
          "' is a drafter, whose rows are anchors and not a sequence; plans are made for "
          "dense_gqa, moe_sliding and hybrid_delta");
  const int64_t block = options.block > 0 ? options.block : model.block_size;
  require(options.context / block < int64_t{1} << 26, "--context ", options.context,
          " has more than 2^26 blocks of ", block, "; larger blocks make fewer");
  const Sequence sequence =
      Sequence::uniform(options.context, block, parse_documents(options.documents));
  const CleanRule clean = options.clean.empty()
                              ? model.clean_rule()
                              : parse_word<CleanRule>("--clean", options.clean,
                                                      {{"block-causal", CleanRule::block_causal},
                                                       {"token-causal", CleanRule::token_causal}});
  LedgerOptions base;
  base.bytes = parse_word<ElementBytes>("--profile", options.profile,
                                        {{"paper", ElementBytes::paper()},
                                         {"as-run", ElementBytes::as_run()},
                                         {"f64", ElementBytes::f64()}});
  base.checkpointing = parse_word<Checkpointing>("--checkpointing", options.checkpointing,
                                                 {{"full-recompute", Checkpointing::full_recompute},
                                                  {"keep-kv", Checkpointing::keep_kv},
                                                  {"none", Checkpointing::none}});
  base.clean_rule = clean;

  check_report_paths({options.json});
  std::optional<ReportSink> sink = open_report(options.json, std::cout);
  std::vector<SchemePlan> plans;
  for (const Scheme scheme :
       parse_schemes(options.schemes, {Scheme::monolithic, Scheme::cp, Scheme::bp, Scheme::csbp})) {
    plans.push_back(make_plan(model, sequence, scheme, options, base, clean));
  }
  const std::string heading =
      join(printable(model.name), " (", name(model.family), "), ", model.layer_count(), " layers, ",
           options.context, " tokens in ", sequence.blocks(), " blocks of ", block, ", ",
           name(clean), " clean rows",
           options.documents.empty() ? "" : join(", ", options.documents.size(), " documents"),
           ", ", options.assignment, " blocks\nprofile ", options.profile, ": K,V ",
           base.bytes.gather, " bytes an element, their gradients ", base.bytes.scatter,
           "; checkpointing ", options.checkpointing, "\n");
  print(is_standard_output(options.json) ? std::cerr : std::cout, plans, heading);
  if (!options.dump.empty()) {
    dump(options, model, sequence, plans, base.bytes, clean);
  }
  if (!options.json.empty()) {
    OrderedJson out;
    out["format"] = "bdlm-plan-1";
    out["model"] = model.name;
    out["family"] = name(model.family);
    out["inferred"] = model.inferred;
    out["layers"] = model.layer_count();
    out["context"] = options.context;
    out["ranks"] = options.ranks;
    out["block"] = block;
    out["blocks"] = sequence.blocks();
    out["documents"] = OrderedJson::array();
    for (const Interval& document : sequence.documents()) {
      out["documents"].push_back({document.begin, document.end});
    }
    out["clean_rule"] = name(clean);
    out["assignment"] = options.assignment;
    out["profile"] = options.profile;
    out["element_bytes"] = {{"gather", base.bytes.gather}, {"scatter", base.bytes.scatter}};
    out["checkpointing"] = options.checkpointing;
    out["schemes"] = OrderedJson::array();
    for (const SchemePlan& p : plans) {
      out["schemes"].push_back(scheme_json(p, model));
    }
    sink->write(out.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
    sink->close();
  }
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, int& status) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command =
      app.add_subcommand("plan", "Who owns what, balance, traffic and memory of a model");
  add_text(*command, "--model", options->model, "A known name, or a config.json");
  add_integer(*command, "--context", options->context, 1, int64_t{1} << 30,
              "Tokens of the sequence");
  add_integer(*command, "--ranks", options->ranks, 1, 4096, "Ranks that share it");
  add_words(*command, "--scheme", options->schemes, "monolithic, cp, bp, csbp, or all");
  add_integer(*command, "--block", options->block, 1, int64_t{1} << 30,
              "Block size; default is the model's");
  add_words(*command, "--documents", options->documents, "Packed documents: 0:5,5:16");
  add_text(*command, "--assignment", options->assignment,
           "dual-end, contiguous or balanced; default dual-end");
  add_text(*command, "--clean", options->clean,
           "block-causal or token-causal clean rows; default is the model's");
  add_text(*command, "--profile", options->profile,
           "Element sizes: paper (bf16, the default), as-run (gradients fp32), f64");
  add_text(*command, "--checkpointing", options->checkpointing,
           "full-recompute (the default), keep-kv or none");
  add_text(*command, "--json", options->json, "Write the plan as JSON; - is standard output");
  add_text(*command, "--dump", options->dump,
           "Write the rank programs of one layer under one scheme, which plan verify reads");
  add_integer(*command, "--layer", options->layer, 0, 100000, "With --dump: the layer; default 0");
  add_plan_verify(*command, status);
  command->callback([options, command, &status] {
    if (command->get_subcommands().empty()) {
      status = plan(*options);
    }
  });
}

}  // namespace bdlm
