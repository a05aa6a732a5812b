// The schemes over real processes: every T3 layout at P = the number of processes, bit for bit what
// ranks as threads compute (which T3 holds against the monolithic step), and as many bytes.

#include <boost/test/unit_test.hpp>

#include "conformance/suites/step_data.h"
#include "conformance/suites/suite.h"
#include "reference/parallel/dense_step.h"
#include "reference/parallel/mpi_communicator.h"
#include "reference/parallel/mpi_session.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(mpi_step)

namespace {

/// MPI begins before the first test and ends after the last.
struct Session {
  MpiSession mpi;
};

StepSettings settings_of(const LayoutCase& layout, bool all_options) {
  StepSettings s;
  s.sequence = layout.shape.sequence;
  s.config = two_layers(layout.rule, {.hidden = 8, .head_dim = 4, .mlp = 12, .vocab = 19});
  s.mask_token = 18;
  if (all_options) {
    s.objective = ObjectiveKind::complementary_views;
    s.supervision = Supervision::most;
    s.options.checkpointing = true;
    s.clean_loss = layout.rule.clean == CleanRule::token_causal ? 0.5 : 0;
  }
  return s;
}

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(Session);

BOOST_AUTO_TEST_CASE(processes_compute_what_threads_compute) {
  MpiCommunicator communicator;
  const int r = communicator.rank();
  int64_t cases = 0;
  for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
    for (const LayoutCase& layout : layout_cases(Level::gate, scheme, communicator.size())) {
      const bool all_options = cases++ % 3 == 0;
      const StepProblem problem = make_step(settings_of(layout, all_options));
      const Ownership ownership = layout.ownership(problem.clean_loss);
      const StepRun threads = run_scheme(problem, ownership);
      communicator.clear_log();
      const StepOutcome<double> mine = dense_rank_step(problem.dense, problem.parameters, ownership,
                                                       communicator, problem.options);
      const std::string id = layout.id().str();
      BOOST_REQUIRE_MESSAGE(mine.loss == threads.outcome.loss, id);
      BOOST_REQUIRE_MESSAGE(mine.gradients.values() == threads.outcome.gradients.values(), id);
      BOOST_REQUIRE_MESSAGE(communicator.log() == threads.logs[r], id);
      BOOST_REQUIRE_MESSAGE(
          communicator.bytes_sent("attention") == step_ledger_bytes(problem, ownership)[r], id);
    }
  }
  BOOST_TEST_MESSAGE(cases << " cases on " << communicator.size() << " processes");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
