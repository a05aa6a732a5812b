#include "conformance/suites/subject.h"

#include "reference/schedule/plan_builder.h"

namespace bdlm {

std::vector<RankPlan> plans_of(const Subject& subject, const PlanSetting& setting) {
  std::vector<RankPlan> plans = build_plans(setting.sequence, setting.ownership, setting.rule);
  if (subject.plans) {
    subject.plans(setting, plans);
  }
  return plans;
}

}  // namespace bdlm
