#include "reference/layout/architecture.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(architecture)

namespace {

int64_t count(const Architecture& a, LayerKind kind) {
  return std::count_if(a.layers.begin(), a.layers.end(),
                       [&](const LayerShape& l) { return l.kind == kind; });
}

BOOST_AUTO_TEST_CASE(every_known_model_reads_and_checks) {
  const auto names = known_models();
  BOOST_TEST(names.size() == 8u);
  for (const std::string& name : names) {
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(is_known_model(name));
      const Architecture a = known_architecture(name);
      BOOST_TEST(a.name == name);
      BOOST_CHECK_NO_THROW(check(a));
      BOOST_TEST(a.rms_eps > 0);
      for (int64_t l = 0; l < a.layer_count(); ++l) {
        if (a.layers[l].kind == LayerKind::delta) {
          BOOST_CHECK_THROW(a.rule(l), InputError);
        } else {
          BOOST_TEST(a.layers[l].rope_theta >= 1);
          BOOST_TEST(a.rule(l).window == a.layers[l].window);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(dense_models) {
  const Architecture a = known_architecture("nemotron_14b");
  BOOST_TEST((a.family == Family::dense_gqa));
  BOOST_TEST(a.layer_count() == 40);
  BOOST_TEST(count(a, LayerKind::full) == 40);
  BOOST_TEST(a.hidden == 5120);
  BOOST_TEST(a.mlp == 16384);
  BOOST_TEST(a.vocab == 131072);
  BOOST_TEST(!a.tied);
  BOOST_TEST(!a.qk_norm);
  BOOST_TEST(a.rms_eps == 1e-5);
  BOOST_TEST(a.mask_token.value() == 100);
  BOOST_TEST(a.block_size == 256);
  BOOST_TEST(a.layers[7].kv_elements() == 2 * 8 * 128);
  BOOST_TEST((a.inferred == std::vector<std::string>{"attention.rope_theta"}));
  BOOST_TEST((a.clean_rule() == CleanRule::block_causal));
  BOOST_TEST((a.roles() == std::vector<AttentionRole>{{"both", true, true, true}}));
  BOOST_TEST(!known_architecture("nemotron_3b").mask_token.has_value());
  BOOST_TEST(known_architecture("nemotron_3b").layer_count() == 26);
  BOOST_TEST(known_architecture("nemotron_8b").layer_count() == 34);
}

BOOST_AUTO_TEST_CASE(mixture_with_sliding_layers) {
  const Architecture a = known_architecture("diffusiongemma_26b_a4b");
  BOOST_TEST(a.layer_count() == 30);
  for (int64_t l = 0; l < 30; ++l) {
    const bool full = l % 6 == 5;
    const LayerShape& layer = a.layers[l];
    BOOST_TEST((layer.kind == (full ? LayerKind::full : LayerKind::sliding)));
    BOOST_TEST(layer.window == (full ? 0 : 1024));
    BOOST_TEST(layer.q_heads == 16);
    BOOST_TEST(layer.kv_heads == (full ? 2 : 8));
    BOOST_TEST(layer.head_dim == (full ? 512 : 256));
    BOOST_TEST(layer.value_from_key == full);
    BOOST_TEST(layer.rope_theta == (full ? 1e6 : 1e4));
    BOOST_TEST(layer.rope_fraction == (full ? 0.25 : 1.0));
    BOOST_TEST((a.rule(l) == LayerRule{CleanRule::token_causal, full ? 0 : 1024}));
  }
  BOOST_TEST(a.moe.value().experts == 128);
  BOOST_TEST(a.attention_scale.value() == 1.0);
  BOOST_TEST(a.final_softcap.value() == 30.0);
  BOOST_TEST(a.tied);
  BOOST_TEST((a.roles() == std::vector<AttentionRole>{{"encoder", true, false, false},
                                                      {"decoder", false, true, true}}));
}

BOOST_AUTO_TEST_CASE(hybrid_and_its_alias) {
  const Architecture a = known_architecture("qwen3_8_27b");
  BOOST_TEST(count(a, LayerKind::delta) == 48);
  BOOST_TEST(count(a, LayerKind::full) == 16);
  BOOST_TEST((a.layers[3].kind == LayerKind::full));
  BOOST_TEST((a.layers[63].kind == LayerKind::full));
  BOOST_TEST((a.delta.value() == DeltaShape{16, 48, 128, 4}));
  const Architecture b = known_architecture("qwen3_5_27b");
  BOOST_TEST(b.name == "qwen3_5_27b");
  BOOST_TEST((b.inferred == std::vector<std::string>{"all"}));
  BOOST_TEST((b.layers == a.layers));
}

BOOST_AUTO_TEST_CASE(drafters) {
  const Architecture a = known_architecture("dflash2_muse_glimmer_30b");
  BOOST_TEST(count(a, LayerKind::sliding) == 5);
  BOOST_TEST(a.block_size == 16);
  BOOST_TEST(a.draft.value().feature_width == a.hidden * 5);
  BOOST_TEST(a.draft.value().output_mult == 0.19611613513818404);
  BOOST_TEST(a.mask_token.value() == 201818);
}

BOOST_AUTO_TEST_CASE(an_unknown_name_lists_the_known_ones) {
  for (const std::string bad : {"nemotron", "nemotron_14b.family", "", "a\nb"}) {
    try {
      known_architecture(bad);
      BOOST_ERROR("no error for " << bad);
    } catch (const InputError& error) {
      const std::string text = error.what();
      BOOST_TEST(text.find('\n') == std::string::npos);
      for (const std::string& name : known_models()) {
        BOOST_TEST(text.find(name) != std::string::npos);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(shapes_that_make_no_model) {
  const Architecture good = known_architecture("nemotron_3b");
  const auto rejects = [&](const auto& edit) {
    Architecture a = good;
    edit(a);
    BOOST_CHECK_THROW(check(a), InputError);
  };
  BOOST_CHECK_NO_THROW(check(good));
  rejects([](Architecture& a) { a.hidden = 0; });
  rejects([](Architecture& a) { a.vocab = -1; });
  rejects([](Architecture& a) { a.mlp = (int64_t{1} << 31) + 1; });
  rejects([](Architecture& a) { a.layers.clear(); });
  rejects([](Architecture& a) { a.layers[1].kv_heads = 5; });
  rejects([](Architecture& a) { a.layers[1].head_dim = 127; });
  rejects([](Architecture& a) { a.layers[1].window = 4; });
  rejects([](Architecture& a) { a.layers[1].kind = LayerKind::sliding; });
  rejects([](Architecture& a) { a.layers[1].kind = LayerKind::delta; });
  rejects([](Architecture& a) { a.mask_token = a.vocab; });
  rejects([](Architecture& a) { a.rms_eps = 0; });
  rejects([](Architecture& a) { a.layers[2].rope_fraction = 0; });
  rejects([](Architecture& a) { a.layers[2].rope_fraction = 1.25; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
