#include "reference/model/dense_parameters.h"

#include <boost/test/unit_test.hpp>

namespace bdlm {
BOOST_AUTO_TEST_SUITE(dense_parameters_suite)

namespace {

DenseConfig config() {
  return {.layers = 2,
          .hidden = 6,
          .q_heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .mlp = 10,
          .vocab = 7,
          .qk_norm = true,
          .rules = {LayerRule{}, LayerRule{}}};
}

// Names and shapes are those of a Hugging Face checkpoint; tensors lie one after another.
BOOST_AUTO_TEST_CASE(tensors_have_checkpoint_names) {
  const ParameterTable table(config());
  BOOST_TEST(table.entries().size() == 25u);
  const auto shape = [&](const char* name) { return table.find(name).shape; };
  BOOST_TEST((shape("model.embed_tokens.weight") == std::vector<int64_t>{7, 6}));
  BOOST_TEST((shape("model.layers.0.self_attn.q_proj.weight") == std::vector<int64_t>{32, 6}));
  BOOST_TEST((shape("model.layers.1.self_attn.v_proj.weight") == std::vector<int64_t>{16, 6}));
  BOOST_TEST((shape("model.layers.1.self_attn.k_norm.weight") == std::vector<int64_t>{8}));
  BOOST_TEST((shape("model.layers.1.self_attn.o_proj.weight") == std::vector<int64_t>{6, 32}));
  BOOST_TEST((shape("model.layers.0.mlp.down_proj.weight") == std::vector<int64_t>{6, 10}));
  BOOST_TEST((shape("model.norm.weight") == std::vector<int64_t>{6}));
  BOOST_TEST((shape("lm_head.weight") == std::vector<int64_t>{7, 6}));
  int64_t offset = 0;
  for (const ParameterEntry& entry : table.entries()) {
    BOOST_TEST(entry.offset == offset);
    offset += entry.size;
  }
  BOOST_TEST(table.size() == offset);
}

BOOST_AUTO_TEST_CASE(options_add_and_remove_tensors) {
  DenseConfig tied = config();
  tied.tied = true;
  tied.qk_norm = false;
  const ParameterTable table(tied);
  BOOST_TEST(table.entries().size() == 20u);
  BOOST_TEST(table.head == table.embedding);
  BOOST_CHECK_THROW(table.find("lm_head.weight"), InputError);
  BOOST_CHECK_THROW(table.find("model.layers.0.self_attn.q_norm.weight"), InputError);
}

// Parameters are a function of the seed; no tensor repeats another.
BOOST_AUTO_TEST_CASE(random_parameters_follow_the_seed) {
  const DenseParameters<double> a = random_parameters(config(), 1);
  BOOST_TEST((a.values() == random_parameters(config(), 1).values()));
  BOOST_TEST((a.values() != random_parameters(config(), 2).values()));
  BOOST_TEST(a.tensor("model.layers.0.self_attn.k_proj.weight")[0] !=
             a.tensor("model.layers.0.self_attn.v_proj.weight")[0]);
  BOOST_TEST(a.cast<float>().values()[5] == static_cast<float>(a.values()[5]));
}

BOOST_AUTO_TEST_CASE(bad_configurations_are_errors) {
  const auto broken = [](auto change) {
    DenseConfig c = config();
    change(c);
    BOOST_CHECK_THROW(check(c), InputError);
  };
  check(config());
  broken([](DenseConfig& c) { c.kv_heads = 3; });
  broken([](DenseConfig& c) { c.head_dim = 5; });
  broken([](DenseConfig& c) { c.layers = 3; });
  broken([](DenseConfig& c) { c.vocab = 0; });
  broken([](DenseConfig& c) { c.softcap = -1; });
  broken([](DenseConfig& c) { c.excluded_logit = 7; });
  broken([](DenseConfig& c) { c.rules[1].window = -2; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
