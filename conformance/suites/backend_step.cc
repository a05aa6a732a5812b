#include "conformance/suites/backend_step.h"

#include "conformance/plugin/tensors.h"
#include "conformance/suites/backend_failure.h"
#include "reference/parallel/thread_communicator.h"

namespace bdlm {
namespace {

/// The structs of the interface for one case; the same for all ranks.
struct StepArrays {
  StepArrays(const DenseCase& c, const ParameterTable& table) {
    const DenseConfig& config = c.config;
    for (const LayerRule& rule : config.rules) {
      windows.push_back(rule.window);
    }
    model.layers = config.layers;
    model.hidden = config.hidden;
    model.q_heads = config.q_heads;
    model.kv_heads = config.kv_heads;
    model.head_dim = config.head_dim;
    model.mlp = config.mlp;
    model.vocab = config.vocab;
    model.rope_theta = config.rope_theta;
    model.rms_epsilon = config.rms_eps;
    model.qk_norm = config.qk_norm ? 1 : 0;
    model.tied_head = config.tied ? 1 : 0;
    model.window = windows.data();
    model.clean_rule =
        config.rules[0].clean == CleanRule::block_causal ? BDLM_BLOCK_CAUSAL : BDLM_TOKEN_CAUSAL;
    const Sequence& sequence = c.example.sequence;
    for (int64_t b = 0; b < sequence.blocks(); ++b) {
      blocks.push_back(sequence.block(b).begin);
    }
    blocks.push_back(sequence.length());
    for (const Interval& document : sequence.documents()) {
      documents.push_back(document.begin);
    }
    documents.push_back(sequence.documents().back().end);
    layout.length = sequence.length();
    layout.blocks = sequence.blocks();
    layout.block_start = blocks.data();
    layout.documents = std::ssize(documents) - 1;
    layout.document_start = documents.data();
    terms.resize(c.views.size());
    for (size_t n = 0; n < c.views.size(); ++n) {
      for (const LossTerm& term : c.views[n].terms) {
        terms[n].push_back({term.stream == Stream::clean ? BDLM_CLEAN : BDLM_CORRUPTED, 0, term.row,
                            term.label, term.weight});
      }
      views.push_back({c.views[n].corrupted_tokens.data(), std::ssize(terms[n]), terms[n].data()});
    }
    for (const ParameterEntry& entry : table.entries()) {
      names.push_back(entry.name.c_str());
    }
  }

  std::vector<int64_t> windows, blocks, documents;
  std::vector<std::vector<bdlm_loss_term>> terms;
  std::vector<bdlm_view> views;
  std::vector<const char*> names;
  bdlm_dense_model model{};
  bdlm_layout layout{};
};

int32_t plugin_scheme(Scheme scheme) {
  switch (scheme) {
    case Scheme::monolithic:
      return BDLM_MONOLITHIC;
    case Scheme::cp:
      return BDLM_CP;
    case Scheme::bp:
      return BDLM_BP;
    case Scheme::csbp:
      break;
  }
  return BDLM_CSBP;
}

}  // namespace

BackendStep run_backend_step(const Backend& backend, const DenseCase& step_case,
                             const DenseParameters<double>& parameters, Scheme scheme, int ranks,
                             const BackendStepOptions& options) {
  if (backend.entries().step == nullptr) {
    require_call("step", Backend::missing_entry(), "");
  }
  const Contract& contract = backend.contract();
  const ParameterTable& table = parameters.table();
  const StepArrays arrays(step_case, table);
  const Dtype gradient_dtype = contract.accumulate == Dtype::f64 ? Dtype::f64 : Dtype::fp32;
  BackendStep out;
  out.loss.resize(ranks);
  out.gradients.resize(ranks);
  out.traffic.resize(ranks);
  RunOptions run_options;
  run_options.time_limit = std::chrono::seconds(30);
  run_ranks(
      ranks,
      [&](Communicator& communicator) {
        const int rank = communicator.rank();
        const std::unique_ptr<Backend> own = Backend::of(backend.entries());
        own->judge_by(contract);
        CallTensors tensors(*own);
        std::vector<const bdlm_tensor*> values;
        std::vector<bdlm_tensor*> gradients;
        for (const ParameterEntry& entry : table.entries()) {
          values.push_back(tensors.input(entry.name, parameters.tensor(entry.name), contract.input,
                                         entry.shape));
          gradients.push_back(
              tensors.output("gradient of " + entry.name, gradient_dtype, entry.shape));
        }
        PluginGroup group(communicator, rank == options.late_rank ? options.late_us : 0);
        bdlm_step_args args{};
        args.size = sizeof args;
        args.model = &arrays.model;
        args.layout = &arrays.layout;
        args.tokens = step_case.example.tokens.data();
        args.view_count = std::ssize(arrays.views);
        args.views = arrays.views.data();
        args.softcap = step_case.config.softcap;
        args.excluded = step_case.config.excluded_logit;
        args.scheme = plugin_scheme(scheme);
        args.checkpointing = options.checkpointing ? 1 : 0;
        args.parameter_count = std::ssize(values);
        args.names = arrays.names.data();
        args.parameters = values.data();
        args.gradients = gradients.data();
        args.loss = &out.loss[rank];
        args.communicator = group.get();
        tensors.protect();
        CallStatus status = own->status(own->entries().step(own->context(), &args));
        if (own->entries().synchronize != nullptr) {
          own->check("synchronize", own->entries().synchronize(own->context(), nullptr));
        }
        using After = CallTensors::After;
        const std::string violation =
            tensors.check(status.ok()                       ? After::success
                          : status.code == BDLM_UNSUPPORTED ? After::refusal
                                                            : After::failure);
        if (status.code == BDLM_COMMUNICATION && !group.error().empty()) {
          status.message += "; " + group.error();
        }
        if (!status.ok() && violation.empty() && group.aborted()) {
          throw GroupAborted(group.error());
        }
        require_call("step", status, violation);
        for (const bdlm_tensor* gradient : gradients) {
          const std::vector<double> numbers = tensors.read(gradient);
          out.gradients[rank].insert(out.gradients[rank].end(), numbers.begin(), numbers.end());
        }
        out.traffic[rank] = group.traffic();
      },
      run_options);
  return out;
}

}  // namespace bdlm
