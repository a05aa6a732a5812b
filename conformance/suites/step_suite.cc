// T3: does the distributed code in double agree with monolithic? Whole training steps: the loss and
// the gradient of every parameter.

#include "conformance/suites/step_data.h"
#include "conformance/suites/suite.h"
#include "reference/objective/draws.h"

namespace bdlm {
namespace {

struct StepSuiteCase {
  LayoutCase layout;
  StepSettings settings;
  /// The word by which the id tells settings apart.
  std::string word;
};

DenseConfig small_model(const LayerRule& rule) {
  return two_layers(rule, {.hidden = 12, .head_dim = 4, .mlp = 16, .vocab = 23});
}

CaseResult judge(const StepSuiteCase& c, const Subject& subject) {
  const StepProblem problem = make_step(c.settings);
  const Ownership ownership = c.layout.ownership(problem.clean_loss);
  const StepBaseline baseline = make_baseline(problem);
  const StepVerdict verdict =
      compare(problem, ownership, baseline, run_scheme(problem, ownership, subject));
  CaseResult result = case_result(verdict);
  for (const double x : baseline.one.gradients.values()) {
    if (x != 0) {
      return result;
    }
  }
  result.verdict = std::max(result.verdict, Verdict::mistrusted);
  result.detail = "every gradient is zero";
  return result;
}

std::vector<StepSuiteCase> variants(const LayoutCase& layout, Level level) {
  StepSettings base;
  base.sequence = layout.shape.sequence;
  base.config = small_model(layout.rule);
  base.mask_token = 22;
  std::vector<StepSuiteCase> out;
  const auto add = [&](const std::string& word, auto edit) {
    StepSettings s = base;
    edit(s);
    out.push_back({layout, s, word});
  };
  const bool token_causal = layout.rule.clean == CleanRule::token_causal;
  add("views", [](StepSettings& s) {
    s.objective = ObjectiveKind::complementary_views;
    s.supervision = Supervision::most;
  });
  add("checkpointing", [](StepSettings& s) { s.options.checkpointing = true; });
  if (token_causal) {
    add("cleanloss", [](StepSettings& s) { s.clean_loss = 0.5; });
  }
  if (level == Level::quick) {
    return out;
  }
  add("onetoken", [](StepSettings& s) {
    s.supervision = Supervision::one;
    s.noise = 1;
  });
  add("firsthalf", [](StepSettings& s) { s.supervision = Supervision::first_half; });
  add("noise1", [](StepSettings& s) { s.noise = 1; });
  add("noisefloor", [](StepSettings& s) { s.noise = min_noise; });
  add("options", [](StepSettings& s) {
    s.config.qk_norm = true;
    s.config.tied = true;
    s.config.softcap = 5;
    s.config.excluded_logit = s.mask_token;
    s.supervision = Supervision::most;
  });
  add("viewscheckpointing", [](StepSettings& s) {
    s.objective = ObjectiveKind::complementary_views;
    s.options.checkpointing = true;
  });
  if (token_causal) {
    add("viewscleanloss", [](StepSettings& s) {
      s.objective = ObjectiveKind::complementary_views;
      s.clean_loss = 1;
      s.options.checkpointing = true;
    });
  }
  return out;
}

}  // namespace

std::vector<SuiteCase> step_cases(const Selection& selection) {
  std::vector<StepSuiteCase> cases;
  for (const LayoutCase& layout : selected_layouts(selection)) {
    StepSettings s;
    s.sequence = layout.shape.sequence;
    s.config = small_model(layout.rule);
    s.mask_token = 22;
    cases.push_back({layout, s, "masked"});
  }
  for (const int ranks : selection.ranks.empty() ? rank_counts(selection.level) : selection.ranks) {
    // One document, and two with padding behind: a shifted label must not cross documents.
    const Shape one{Sequence::uniform(3 * (2 * ranks + 1) - 1, 3), 3, "", ""};
    const Shape two = shape_of_documents(21, 2, {5, 11});
    for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
      const auto add = [&](const Shape& shape, const LayerRule& rule) {
        if (scheme == Scheme::cp || shape.sequence.blocks() >= ranks) {
          const auto more =
              variants({shape, rule, scheme, ranks, BlockAssignment::dual_end}, selection.level);
          cases.insert(cases.end(), more.begin(), more.end());
        }
      };
      add(one, {CleanRule::block_causal, 0});
      add(one, {CleanRule::token_causal, 4});
      add(two, {CleanRule::token_causal, 3});
    }
  }
  std::vector<SuiteCase> out;
  for (const StepSuiteCase& c : cases) {
    CaseId id = c.layout.id();
    id.word("dtype", "f64").word("step", "step" + c.word);
    id.number("s", static_cast<int64_t>(c.settings.seed));
    out.push_back({id.str(), "T3", c.layout.scheme, c.layout.ranks,
                   [c](const Subject& subject) { return judge(c, subject); }, true});
  }
  return out;
}

}  // namespace bdlm
