#include "conformance/mutants/backend_mutants.h"

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <set>

#include "conformance/suites/suite_test_support.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(backend_mutants_of_the_plug_in)

namespace {

BOOST_AUTO_TEST_CASE(names_are_unique) {
  std::set<std::string> names;
  for (const BackendMutant& mutant : backend_mutants()) {
    BOOST_TEST(names.insert(mutant.name).second, mutant.name);
    BOOST_TEST((!mutant.kind.empty() && !mutant.what.empty()), mutant.name);
  }
  BOOST_TEST(names.size() >= 60u);
}

// Each is killed by the tier that it is meant for, in the cases that it names.
BOOST_AUTO_TEST_CASE(every_mutant_is_killed) {
  const std::unique_ptr<Backend> right = Backend::load(BDLM_CPU_PLUGIN);
  for (const BackendMutant& mutant : backend_mutants()) {
    Selection selection;
    selection.tiers = {mutant.tier};
    selection.ids = mutant.cases;
    const std::unique_ptr<Backend> wrong = Backend::of(mutant.make(right->entries()));
    const CaseResult r = first_failure(select_backend_cases(selection), *wrong);
    BOOST_TEST((r.verdict == Verdict::fail),
               mutant.name << ": " << r.id << ' ' << name(r.verdict) << ' ' << r.detail);
    std::printf("%-28s %s %-10s %s: %s\n", mutant.name.c_str(), r.tier.c_str(),
                std::string(name(r.reason)).c_str(), r.id.c_str(), r.detail.substr(0, 150).c_str());
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
