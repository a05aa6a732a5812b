#include "optimized/cpu/step.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "optimized/cpu/dense_pass.h"
#include "optimized/cpu/plugin_communicator.h"
#include "reference/base/error.h"
#include "reference/layout/ownership.h"
#include "reference/layout/sequence.h"

namespace bdlm::cpu {
namespace {

Sequence read_sequence(const bdlm_layout* layout) {
  require(layout != nullptr && layout->block_start != nullptr && layout->document_start != nullptr,
          "the layout, its blocks or its documents are missing");
  require(layout->blocks >= 1 && layout->documents >= 1, "the layout has ", layout->blocks,
          " blocks and ", layout->documents, " documents; at least 1 each is needed");
  require(layout->block_start[layout->blocks] == layout->length, "the blocks end at ",
          layout->block_start[layout->blocks], "; the length is ", layout->length);
  std::vector<Interval> documents;
  for (int64_t d = 0; d < layout->documents; ++d) {
    documents.push_back({layout->document_start[d], layout->document_start[d + 1]});
  }
  return Sequence::with_blocks(
      layout->length, {layout->block_start, layout->block_start + layout->blocks}, documents);
}

Scheme read_scheme(int32_t scheme) {
  switch (scheme) {
    case BDLM_MONOLITHIC:
      return Scheme::monolithic;
    case BDLM_CP:
      return Scheme::cp;
    case BDLM_BP:
      return Scheme::bp;
    case BDLM_CSBP:
      return Scheme::csbp;
    default:
      throw InputError(join("scheme is ", scheme, "; known are 0 (monolithic), 1 (CP), 2 (BP) and ",
                            "3 (CSBP)"));
  }
}

Stream read_stream(int32_t stream) {
  require(stream == BDLM_CLEAN || stream == BDLM_CORRUPTED, "a loss term has stream ", stream,
          "; known are 0 (clean) and 1 (corrupted)");
  return stream == BDLM_CLEAN ? Stream::clean : Stream::corrupted;
}

void check_tokens(const int64_t* tokens, int64_t length, int64_t vocab) {
  require(tokens != nullptr, "tokens are missing");
  for (int64_t i = 0; i < length; ++i) {
    require(0 <= tokens[i] && tokens[i] < vocab, "token ", i, " is ", tokens[i], "; allowed is [0,",
            vocab, ")");
  }
}

void check_view(const bdlm_view& view, const Model& model, const Sequence& sequence,
                int64_t excluded) {
  check_tokens(view.corrupted_tokens, sequence.length(), model.vocab);
  require(view.term_count >= 0 && (view.term_count == 0 || view.terms != nullptr), "a view has ",
          view.term_count, " terms, which are missing");
  for (int64_t t = 0; t < view.term_count; ++t) {
    const bdlm_loss_term& term = view.terms[t];
    const Stream stream = read_stream(term.stream);
    require(0 <= term.row && term.row < sequence.length() && !sequence.is_padding(term.row),
            "a loss term names row ", term.row, ", which is padding or beyond the sequence of ",
            sequence.length());
    require(0 <= term.label && term.label < model.vocab && term.label != excluded, "the label of ",
            name(stream), " row ", term.row, " is ", term.label,
            "; it must be below the vocabulary size ", model.vocab,
            " and not the class that is left out of the softmax, ", excluded);
    require(std::isfinite(term.weight), "the weight of ", name(stream), " row ", term.row, " is ",
            term.weight, "; it must be finite");
    require(stream == Stream::corrupted || model.rules[0].clean == CleanRule::token_causal,
            "clean row ", term.row,
            " carries a loss and the model is block-causal, so that the row sees the token that it "
            "should predict");
  }
}

/// The rows of a rank, and the terms of the rows that it counts.
PassInput pass_input(const Sequence& sequence, const int64_t* clean_tokens, const bdlm_view& view,
                     const RowSet& rows, const RowSet& counted) {
  PassInput input;
  for (const Segment& segment : rows.segments()) {
    const int64_t* tokens = segment.stream == Stream::clean ? clean_tokens : view.corrupted_tokens;
    for (int64_t row = segment.rows.begin; row < segment.rows.end; ++row) {
      input.tokens.push_back(tokens[row]);
      input.positions.push_back(sequence.position(row));
    }
  }
  for (int64_t t = 0; t < view.term_count; ++t) {
    const bdlm_loss_term& term = view.terms[t];
    const Stream stream = read_stream(term.stream);
    if (counted.find(stream, term.row) >= 0) {
      const int64_t stored = rows.find(stream, term.row);
      require<LogicError>(stored >= 0, "the rank counts the loss of ", name(stream), " row ",
                          term.row, ", which it does not hold");
      input.terms.push_back({stored, term.label, term.weight});
    }
  }
  return input;
}

}  // namespace

void step(const bdlm_step_args& args, const Formats& formats) {
  require(args.size >= sizeof(args), "the arguments have ", args.size, " bytes; this version has ",
          sizeof(args));
  const Model model = read_model(args.model);
  const Sequence sequence = read_sequence(args.layout);
  const Scheme scheme = read_scheme(args.scheme);
  PluginCommunicator communicator(args.communicator);
  require(args.communicator != nullptr || scheme == Scheme::monolithic,
          "the communicator is missing; only the monolithic scheme can do without");
  require(args.softcap >= 0 && std::isfinite(args.softcap), "the softcap is ", args.softcap,
          "; it must be finite and not negative");
  require(-1 <= args.excluded && args.excluded < model.vocab, "the excluded class is ",
          args.excluded, "; it must be -1 or below the vocabulary size ", model.vocab);
  require(args.loss != nullptr, "there is no place for the loss");
  check_tokens(args.tokens, sequence.length(), model.vocab);
  require(args.view_count >= 1 && args.views != nullptr, "there are ", args.view_count,
          " views; at least 1 is needed");
  const std::span<const bdlm_view> views(args.views, args.view_count);
  OwnershipOptions options;
  options.rules = model.rules;
  for (const bdlm_view& view : views) {
    check_view(view, model, sequence, args.excluded);
    options.clean_loss = options.clean_loss || std::any_of(view.terms, view.terms + view.term_count,
                                                           [](const bdlm_loss_term& term) {
                                                             return term.stream == BDLM_CLEAN;
                                                           });
  }
  const Ownership ownership = divide(sequence, scheme, communicator.size(), options);
  const ParameterList list(model);
  const std::vector<TensorView> given = find_tensors(list, args.parameter_count, args.names,
                                                     args.parameters, "parameter", formats.input);
  const std::vector<TensorView> wanted = find_tensors(list, args.parameter_count, args.names,
                                                      args.gradients, "gradient", Element::fp32);

  ParameterValues parameters(list);
  load(given, parameters);
  ParameterValues gradients(list);
  const int rank = communicator.rank();
  const LayerPlans plans = layer_plans(model, sequence, ownership, rank);
  double loss = 0;
  for (const bdlm_view& view : views) {
    RankAttention attention(model, plans, communicator);
    const PassInput input =
        pass_input(sequence, args.tokens, view, plans[0]->rows, ownership.counted[rank]);
    loss += dense_pass(model, {args.softcap, args.excluded}, parameters, input, attention,
                       args.checkpointing != 0, gradients);
  }
  communicator.all_reduce(
      {gradients.data().data(), std::ssize(gradients.data()), element_type<float>()}, "parameters");
  communicator.all_reduce({&loss, 1, element_type<double>()}, "loss");
  store(gradients, wanted);
  *args.loss = loss;
}

}  // namespace bdlm::cpu
