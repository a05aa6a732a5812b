#include "reference/layout/ledger.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>

#include "reference/base/error.h"
#include "reference/layout/ledger_rows.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(ledger)

namespace {

constexpr int64_t paper_length = 262144;

LedgerOptions options(const Sequence& s, Scheme scheme, int ranks, const ElementBytes& bytes) {
  LedgerOptions out;
  out.scheme = scheme;
  out.ranks = ranks;
  out.bytes = bytes;
  if (scheme == Scheme::bp || scheme == Scheme::csbp) {
    out.blocks_of_rank = assign_blocks(s, Scheme::csbp, ranks, BlockAssignment::dual_end, {});
  }
  return out;
}

double mean_gib(const char* model, Scheme scheme, int ranks, const ElementBytes& bytes) {
  const Architecture a = known_architecture(model);
  const Sequence s = Sequence::uniform(paper_length, a.block_size);
  return make_ledger(a, s, options(s, scheme, ranks, bytes)).mean_gib();
}

/// A model of the dense family with these windows, 3 query heads, 1 KV head of 4: 8 elements a row.
Architecture dense(const std::vector<int64_t>& windows) {
  Architecture a = known_architecture("nemotron_3b");
  a.layers.clear();
  for (const int64_t w : windows) {
    LayerShape layer;
    layer.kind = w == 0 ? LayerKind::full : LayerKind::sliding;
    layer.window = w;
    layer.q_heads = 3;
    layer.kv_heads = 1;
    layer.head_dim = 4;
    layer.rope_theta = 1e4;
    a.layers.push_back(layer);
  }
  return a;
}

/// The same layers in the two roles of moe_sliding.
Architecture two_roles(const std::vector<int64_t>& windows) {
  Architecture a = dense(windows);
  a.family = Family::moe_sliding;
  return a;
}

// Published traffic of a fully checkpointed step, GiB a GPU, L = 262144. Powers of two and few
// factors: the values are exact, but for those with halo rows.
BOOST_AUTO_TEST_CASE(published_table) {
  const ElementBytes paper = ElementBytes::paper();
  BOOST_TEST(mean_gib("nemotron_14b", Scheme::cp, 8, paper) == 210.0);
  BOOST_TEST(mean_gib("nemotron_14b", Scheme::csbp, 8, paper) == 105.0);
  BOOST_TEST(mean_gib("nemotron_3b", Scheme::cp, 4, paper) == 117.0);
  BOOST_TEST(mean_gib("nemotron_3b", Scheme::csbp, 4, paper) == 58.5);
  BOOST_TEST(mean_gib("nemotron_8b", Scheme::cp, 4, paper) == 153.0);
  BOOST_TEST(mean_gib("nemotron_8b", Scheme::csbp, 4, paper) == 76.5);
  BOOST_TEST(mean_gib("diffusiongemma_26b_a4b", Scheme::cp, 8, paper) == 433.125);
  // 6 passes of 5 full layers, 26.25 GiB, and of 25 layers of 1023 * 14/8 rows of 8192 B
  const double csbp = mean_gib("diffusiongemma_26b_a4b", Scheme::csbp, 8, paper);
  BOOST_TEST(csbp == 26.25 + 6 * 25 * (1023 * 14 / 8.0) * 8192 / 0x1p30);
  BOOST_TEST(std::round(csbp * 100) == 2830);
}

BOOST_AUTO_TEST_CASE(published_table_with_gradients_in_fp32) {
  const ElementBytes run = ElementBytes::as_run();
  BOOST_TEST(mean_gib("nemotron_14b", Scheme::cp, 8, run) == 280.0);
  BOOST_TEST(mean_gib("nemotron_14b", Scheme::csbp, 8, run) == 140.0);
  BOOST_TEST(mean_gib("diffusiongemma_26b_a4b", Scheme::cp, 8, run) == 577.5);
  const double csbp = mean_gib("diffusiongemma_26b_a4b", Scheme::csbp, 8, run);
  BOOST_TEST(std::round(csbp * 100) == 3773);
}

// L = 23, P = 3: q = 7, s = 2, CP shards pad to 16 rows; 2P = 6: q = 3, s = 5, CSBP shards pad
// to 8. One full layer of 8 elements a row; 2 forward passes of 2 B and one backward pass of 4 B.
BOOST_AUTO_TEST_CASE(uneven_shards_are_padded) {
  const Architecture a = dense({0});
  const Sequence s = Sequence::uniform(23, 4);
  for (const auto& [scheme, padded] : {std::pair{Scheme::cp, 16}, {Scheme::csbp, 8}}) {
    const Ledger l = make_ledger(a, s, options(s, scheme, 3, ElementBytes::as_run()));
    BOOST_REQUIRE(l.entries.size() == 1u);
    BOOST_TEST(l.entries[0].padded_rows == padded);
    for (int64_t r = 0; r < 3; ++r) {
      BOOST_TEST(l.entries[0].rows_forward[r] == 2 * padded);
      BOOST_TEST(l.entries[0].bytes_forward[r] == 2 * padded * 8 * 2);
      BOOST_TEST(l.entries[0].bytes_backward[r] == 2 * padded * 8 * 4);
      BOOST_TEST(l.bytes_of_rank(r) == 2 * padded * 8 * (2 + 2 + 4));
    }
    BOOST_TEST(l.total_bytes() == 3 * 2 * padded * 8 * 8);
  }
}

BOOST_AUTO_TEST_CASE(one_rank_and_schemes_without_traffic_send_nothing) {
  const Architecture a = dense({0, 3});
  const Sequence s = Sequence::uniform(23, 4, {{0, 5}, {5, 16}, {17, 23}});
  for (const auto& [scheme, ranks] : {std::pair{Scheme::monolithic, 1},
                                      {Scheme::cp, 1},
                                      {Scheme::csbp, 1},
                                      {Scheme::bp, 1},
                                      {Scheme::bp, 3}}) {
    const Ledger l = make_ledger(a, s, options(s, scheme, ranks, ElementBytes::paper()));
    BOOST_TEST(l.complete());
    BOOST_TEST(l.entries.size() == 2u);
    BOOST_TEST(l.total_bytes() == 0);
  }
  const Ledger csbp = make_ledger(a, s, options(s, Scheme::csbp, 3, ElementBytes::paper()));
  BOOST_TEST(csbp.total_bytes() > 0);
}

// full_recompute: 2 gathers + 1 reduce-scatter; keep_kv and none: 1 + 1
BOOST_AUTO_TEST_CASE(checkpointing_sets_the_passes) {
  const Architecture a = dense({0});
  const Sequence s = Sequence::uniform(32, 4);
  LedgerOptions o = options(s, Scheme::csbp, 2, {3, 5, 4});
  const int64_t elements = 16 * 8;  // padded rows * (P-1) * elements a row
  BOOST_TEST(make_ledger(a, s, o).bytes_of_rank(1) == elements * (3 + 3 + 5));
  for (const Checkpointing c : {Checkpointing::keep_kv, Checkpointing::none}) {
    o.checkpointing = c;
    BOOST_TEST(make_ledger(a, s, o).bytes_of_rank(1) == elements * (3 + 5));
  }
  o.bytes = ElementBytes::f64();
  BOOST_TEST(make_ledger(a, s, o).bytes_of_rank(0) == elements * 16);
}

// A halo goes out from its owner in the forward pass and comes back, as gradients, from its users.
// Blocks {1} on rank 0 and {0} on rank 1 of L = 16, M = 8: token-causal, w = 3, rank 0 needs clean
// 10, 11 for its clean rows and 6, 7 for block 1; rank 1 needs 2, 3 for its clean rows.
BOOST_AUTO_TEST_CASE(halo_rows_are_sent_by_owners_and_returned_by_users) {
  const Sequence s = Sequence::uniform(16, 8);
  LedgerOptions o = options(s, Scheme::csbp, 2, ElementBytes::as_run());
  o.blocks_of_rank = {{1}, {0}};
  o.clean_rule = CleanRule::token_causal;
  const Ledger l = make_ledger(dense({3, 3}), s, o);
  BOOST_REQUIRE(l.entries.size() == 1u);
  const LedgerEntry& e = l.entries[0];
  BOOST_TEST((e.transfer == Transfer::exchange));
  BOOST_TEST((e.layers == std::vector<int64_t>{0, 1}));
  BOOST_TEST((e.rows_forward == std::vector<int64_t>{2, 4}));
  BOOST_TEST((e.rows_backward == std::vector<int64_t>{4, 2}));
  BOOST_TEST(l.bytes_of_rank(0) == 2 * 8 * (2 * 2 * 2 + 4 * 4));
  BOOST_TEST(l.bytes_of_rank(1) == 2 * 8 * (2 * 4 * 2 + 2 * 4));
  // The default rule of the dense family is block-causal: other rows.
  o.clean_rule.reset();
  BOOST_TEST((make_ledger(dense({3}), s, o).entries[0].rows_forward != std::vector<int64_t>{2, 4}));
}

// moe_sliding: the encoder's queries are clean rows, the decoder's corrupted ones. Under CP the
// encoder gathers clean rows only, sliding layers like full ones.
BOOST_AUTO_TEST_CASE(encoder_and_decoder_are_counted_apart) {
  const Sequence s = Sequence::uniform(23, 4);
  const Architecture a = two_roles({3, 0, 3});
  const Ledger cp = make_ledger(a, s, options(s, Scheme::cp, 3, ElementBytes::paper()));
  BOOST_REQUIRE(cp.entries.size() == 4u);
  for (size_t e = 0; e < 4; ++e) {
    BOOST_TEST(cp.entries[e].role == (e < 2 ? "encoder" : "decoder"));
    BOOST_TEST(cp.entries[e].padded_rows == (e < 2 ? 8 : 16));
    BOOST_TEST(cp.entries[e].layers.size() == (e % 2 == 0 ? 2u : 1u));
    BOOST_TEST((cp.entries[e].transfer == Transfer::collective));
  }
  LedgerOptions o = options(s, Scheme::csbp, 3, ElementBytes::paper());
  o.blocks_of_rank = {
      {0, 1}, {2, 3}, {4, 5}};  // far from the clean chunks, so that the roles differ
  const Ledger csbp = make_ledger(a, s, o);
  BOOST_REQUIRE(csbp.entries.size() == 4u);
  const LayerRule rule{CleanRule::token_causal, 3};
  BOOST_TEST(
      (csbp.entries[0].rows_forward == count_halo(s, rule, o.blocks_of_rank, true, false).sent));
  BOOST_TEST(
      (csbp.entries[2].rows_forward == count_halo(s, rule, o.blocks_of_rank, false, true).sent));
  BOOST_TEST((csbp.entries[0].rows_forward != csbp.entries[2].rows_forward));
  BOOST_TEST(csbp.entries[1].padded_rows == 8);
  BOOST_TEST(csbp.entries[3].padded_rows == 8);
}

BOOST_AUTO_TEST_CASE(gaps_are_named_and_never_zero) {
  const Architecture hybrid = known_architecture("qwen3_8_27b");
  const Sequence s = Sequence::uniform(4096, 256);
  const Ledger l = make_ledger(hybrid, s, options(s, Scheme::csbp, 4, ElementBytes::paper()));
  BOOST_TEST(!l.complete());
  BOOST_REQUIRE(l.entries.size() == 2u);
  BOOST_TEST(!l.entries[0].covered);
  BOOST_TEST(l.entries[0].layers.size() == 48u);
  BOOST_TEST(l.entries[0].reason.find("delta layers") != std::string::npos);
  BOOST_CHECK_THROW(l.entries[0].step_bytes(0), InputError);
  BOOST_CHECK_THROW(l.bytes_of_rank(0), InputError);
  BOOST_CHECK_THROW(l.total_bytes(), InputError);
  BOOST_CHECK_THROW(l.mean_gib(), InputError);
  // 16 full layers of 2 * 4 * 256 elements: 3 passes of 2 B of 1024 * 3 rows
  BOOST_TEST(l.entries[1].covered);
  BOOST_TEST(l.entries[1].step_bytes(0) == int64_t{16} * 3 * 2 * 2048 * 1024 * 3);
  BOOST_CHECK_THROW(attention_memory(hybrid, s, l.options, 0, hybrid.roles()[0]), InputError);
  BOOST_CHECK_NO_THROW(attention_memory(hybrid, s, l.options, 3, hybrid.roles()[0]));

  const Architecture drafter = known_architecture("dflash2_qwen3_8_27b");
  for (const Scheme scheme : {Scheme::monolithic, Scheme::cp}) {
    const Ledger d = make_ledger(drafter, s, options(s, scheme, 1, ElementBytes::paper()));
    BOOST_TEST(!d.complete());
    BOOST_CHECK_THROW(d.total_bytes(), InputError);
  }
}

// L = 23, P = 3, M = 4, 3 query heads and 1 KV head of 4; elements of 2 B, gradients 4 B, z 4 B:
// a query row has Q and O of 24 B and z of 12 B, a key row 16 B.
BOOST_AUTO_TEST_CASE(memory) {
  const Architecture a = dense({0, 3});
  const Sequence s = Sequence::uniform(23, 4);
  const AttentionRole role = a.roles()[0];
  const auto of = [&](Scheme scheme, int ranks, int64_t layer) {
    return attention_memory(a, s, options(s, scheme, ranks, ElementBytes::as_run()), layer, role);
  };
  const auto rows = [](const AttentionMemory& m) { return m.q / 24; };

  const AttentionMemory all = of(Scheme::monolithic, 1, 0)[0];
  BOOST_TEST(all.q == 46 * 24);
  BOOST_TEST(all.o == 46 * 24);
  BOOST_TEST(all.lse == 46 * 12);
  BOOST_TEST(all.kv == 46 * 16);
  BOOST_TEST(all.total() == 46 * (24 + 24 + 12 + 16));

  // CP: corrupted chunks 8, 8, 7 and clean chunks 7, 8, 8; shards of 16 rows from 3 ranks
  const auto cp = of(Scheme::cp, 3, 0);
  BOOST_TEST(rows(cp[0]) == 15);
  BOOST_TEST(rows(cp[1]) == 16);
  BOOST_TEST(rows(cp[2]) == 15);
  for (const AttentionMemory& m : cp) {
    BOOST_TEST(m.gathered == 48 * 16);
    BOOST_TEST(m.gathered_gradients == 48 * 32);
    BOOST_TEST(m.replicated == 0);
  }

  // CSBP: blocks {0, 5}, {1, 4}, {2, 3} have 7, 8, 8 rows; clean chunks 4+3, 4+4, 4+4
  const auto csbp = of(Scheme::csbp, 3, 0);
  BOOST_TEST(rows(csbp[0]) == 7 + 7);
  BOOST_TEST(rows(csbp[1]) == 8 + 8);
  BOOST_TEST(rows(csbp[2]) == 8 + 8);
  BOOST_TEST(csbp[0].kv == 14 * 16);
  BOOST_TEST(csbp[0].gathered == 24 * 16);
  BOOST_TEST(csbp[0].gathered_gradients == 24 * 32);
  const LedgerOptions o = options(s, Scheme::csbp, 3, ElementBytes::as_run());
  const HaloRows halo = count_halo(s, {CleanRule::block_causal, 3}, o.blocks_of_rank, true, true);
  const auto sliding = of(Scheme::csbp, 3, 1);
  for (int64_t r = 0; r < 3; ++r) {
    BOOST_TEST(halo.received[r] > 0);
    BOOST_TEST(sliding[r].gathered == halo.received[r] * 16);
    BOOST_TEST(sliding[r].gathered_gradients == halo.received[r] * 32);
  }

  // BP: clean prefixes before blocks 5, 4, 3 are 20, 16, 12 rows; own rows are the corrupted ones
  const auto bp = of(Scheme::bp, 3, 0);
  for (int64_t r = 0; r < 3; ++r) {
    BOOST_TEST(rows(bp[r]) == (r == 0 ? 7 : 8));
    BOOST_TEST(bp[r].kv == rows(bp[r]) * 16);
    BOOST_TEST(bp[r].replicated == (20 - 4 * r) * (24 + 24 + 12 + 16));
    BOOST_TEST(bp[r].gathered == 0);
  }
}

// The two roles hold together what one call with both streams holds, but for the clean K and V,
// which both ask.
BOOST_AUTO_TEST_CASE(memory_of_two_roles) {
  const Architecture one = dense({0});
  const Architecture two = two_roles({0});
  const Sequence s = Sequence::uniform(24, 4);
  for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
    const LedgerOptions o = options(s, scheme, 3, ElementBytes::as_run());
    const auto both = attention_memory(one, s, o, 0, one.roles()[0]);
    const auto encoder = attention_memory(two, s, o, 0, two.roles()[0]);
    const auto decoder = attention_memory(two, s, o, 0, two.roles()[1]);
    for (int64_t r = 0; r < 3; ++r) {
      BOOST_TEST(encoder[r].q + decoder[r].q == both[r].q);
      BOOST_TEST(encoder[r].lse + decoder[r].lse == both[r].lse);
      BOOST_TEST(decoder[r].kv == both[r].kv);
      BOOST_TEST(encoder[r].kv == (scheme == Scheme::bp ? 0 : both[r].kv / 2));
      BOOST_TEST(encoder[r].replicated == both[r].replicated);
      BOOST_TEST(encoder[r].gathered ==
                 (scheme == Scheme::cp ? both[r].gathered / 2 : both[r].gathered));
    }
  }
}

BOOST_AUTO_TEST_CASE(inputs_that_make_no_ledger) {
  const Architecture a = dense({0});
  const Sequence s = Sequence::uniform(32, 4);
  const LedgerOptions good = options(s, Scheme::csbp, 2, ElementBytes::paper());
  BOOST_CHECK_NO_THROW(make_ledger(a, s, good));
  const auto rejects = [&](const auto& edit) {
    LedgerOptions o = good;
    edit(o);
    BOOST_CHECK_THROW(make_ledger(a, s, o), InputError);
  };
  rejects([](LedgerOptions& o) { o.ranks = 0; });
  rejects([](LedgerOptions& o) { o.ranks = 3; });
  rejects([](LedgerOptions& o) { o.blocks_of_rank[0].pop_back(); });
  rejects([](LedgerOptions& o) { o.scheme = Scheme::monolithic; });
  rejects([](LedgerOptions& o) { o.bytes.gather = 0; });
  rejects([](LedgerOptions& o) { o.bytes.gather = int64_t{1} << 60; });
  Ledger l = make_ledger(a, s, good);
  BOOST_CHECK_THROW(l.bytes_of_rank(2), InputError);
  BOOST_CHECK_THROW(l.bytes_of_rank(-1), InputError);
  BOOST_CHECK_THROW(attention_memory(a, s, good, 1, a.roles()[0]), InputError);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
