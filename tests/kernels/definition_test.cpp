// Kernels of single ops give what the definition gives, within its radius, whatever the order of their tasks: with NaN
// and infinities where these may stand, at sizes around a task's; a bad index of the data is an error of the run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.hpp"
#include "device/target.hpp"
#include "kernels/entry.hpp"

namespace peri::kernels {
namespace {

struct Case {
  std::string kernel, graph;
  double specials = 0;        // share of NaN and infinities among floats
  int64_t low = 0, high = 0;  // of integers
  double scale = 1;
  int64_t step = 0;  // integers of each part of the first axis lie so much further on
};

Tensor values(const ir::Type& type, const Case& c, Rng& rng) {
  const std::vector<int64_t> dims = eval(*type.shape, {}).value();
  Tensor t = Tensor::zeros(type.dtype, dims).value();
  const double inf = std::numeric_limits<double>::infinity();
  for (int64_t k = 0; k < t.numel(); ++k) {
    if (!is_float(type.dtype)) {
      const int64_t part = c.step != 0 ? k / (t.numel() / dims[0]) : 0;
      t.set_i64(k, c.low + rng.below(c.high - c.low) + part * c.step);
    } else if (rng.uniform() < c.specials) {
      const double kinds[] = {std::nan(""), inf, -inf, -0.0};
      t.set_f64(k, kinds[rng.below(4)]);
    } else {
      t.set_f64(k, c.scale * (2 * rng.uniform() - 1));
    }
  }
  return t;
}

struct Ran {
  Status status = Ok{};
  std::vector<Tensor> results;
  std::vector<ops::RefTensor> wanted;
};

Ran run(const Case& c, uint64_t seed, bool backwards) {
  Ran out;
  auto parsed = ir::parse_graph(c.graph);
  EXPECT_TRUE(parsed.ok()) << c.graph;
  ir::Graph g = std::move(parsed).value();
  EXPECT_TRUE(ops::infer_graph(g).ok());
  Rng rng(seed);
  std::vector<Tensor> in;
  std::vector<ops::RefTensor> ref;
  std::vector<const void*> reads;
  for (const ir::Value* v : g.inputs) {
    in.push_back(values(v->type, c, rng));
    ref.push_back(ops::to_ref(in.back()));
    reads.push_back(in.back().data());
  }
  const double u = g.outputs[0]->type.dtype == DType::kF64 ? 0x1p-53 : 0x1p-24;
  if (auto wanted = ops::run_reference(g, ref, {u}); wanted.ok()) out.wanted = std::move(wanted).value();
  const Problem problem{&g, std::vector<bool>(g.inputs.size())};
  const std::vector<Tensor> constants(g.inputs.size());
  const Kernel* kernel = find(c.kernel);
  EXPECT_NE(kernel, nullptr) << c.kernel;
  auto offers = kernel->offer(problem, device::this_cpu());
  EXPECT_TRUE(offers.ok()) << offers.error().text();
  Packed packed;
  auto instance = kernel->instantiate(problem, (*offers)[0].config, {constants, &packed, &device::this_cpu()});
  EXPECT_TRUE(instance.ok()) << instance.error().text();
  std::vector<void*> writes;
  for (const ir::Value* v : g.outputs) {
    out.results.push_back(Tensor::zeros(v->type.dtype, eval(*v->type.shape, {}).value()).value());
    writes.push_back(out.results.back().mutable_data());
  }
  std::vector<std::byte> room((*instance)->workspace_bytes() + (*instance)->scratch_bytes() + 256);
  std::byte* memory = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64;
  const Args args = {reads, writes, memory, memory + ((*instance)->workspace_bytes() + 63) / 64 * 64};
  for (int phase = 0; phase < (*instance)->phases(); ++phase)
    for (int64_t t = 0, n = (*instance)->tasks(phase); t < n; ++t)
      (*instance)->run_task(phase, backwards ? n - 1 - t : t, args);
  out.status = (*instance)->finish(args);
  return out;
}

void check(const Case& c) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(c.kernel + ": " + c.graph + " seed=" + std::to_string(seed));
    const Ran ran = run(c, seed, seed % 2 == 0);
    ASSERT_TRUE(ran.status.ok()) << ran.status.error().text();
    ASSERT_EQ(ran.wanted.size(), ran.results.size());
    for (size_t k = 0; k < ran.results.size(); ++k) {
      const ops::RefTensor &want = ran.wanted[k], got = ops::to_ref(ran.results[k]);
      ASSERT_EQ(want.dims, got.dims);
      if (!want.floating()) {
        EXPECT_EQ(want.i, got.i);
        continue;
      }
      for (size_t at = 0; at < want.f.size(); ++at) {
        const double w = want.f[at], v = got.f[at], r = want.r(static_cast<int64_t>(at));
        const bool same = std::isnan(w) ? std::isnan(v) : v == w || std::fabs(v - w) <= r + 1e-6 * std::fabs(w);
        ASSERT_TRUE(same) << "at " << at << ": " << v << " in place of " << w << " +- " << r;
      }
    }
  }
}

// `first` and `second` say at which nodes NaN goes the way of yes.
std::string forest(const std::string& mode, const std::string& other, int first, int second, const std::string& x) {
  return "graph { input x: " + x +
         "; y, z = tree_ensemble_classifier(x) {classlabels_int64s=[7, -3, 5], "
         "nodes_treeids=[0, 0, 0, 0, 0, 1], nodes_nodeids=[0, 1, 2, 3, 4, 0], nodes_featureids=[1, 0, 2, 0, 0, 0], "
         "nodes_modes=[\"" +
         mode + "\", \"LEAF\", \"" + other +
         "\", \"LEAF\", \"LEAF\", \"LEAF\"], "
         "nodes_missing_value_tracks_true=[" +
         std::to_string(first) + ", 0, " + std::to_string(second) +
         ", 0, 0, "
         "0], nodes_values=[0.25, 0.0, -0.5, 0.0, 0.0, 0.0], nodes_truenodeids=[1, 0, 3, 0, 0, 0], "
         "nodes_falsenodeids=[2, 0, 4, 0, 0, 0], class_treeids=[0, 0, 0, 1], class_nodeids=[1, 3, 4, 0], "
         "class_ids=[0, 1, 2, 1], class_weights=[1.5, 2.0, 0.25, 0.125]}; output y; output z }";
}

TEST(Definition, TreesGoWhereTheDefinitionGoes) {
  for (const char* mode : {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"})
    for (const char* other : {mode, "BRANCH_EQ", "BRANCH_GT"})
      for (const auto& [first, second] : {std::pair{0, 0}, {0, 1}, {1, 0}, {1, 1}})
        for (const char* x : {"f32[37,3]", "f32[1,3]", "f64[37,3]", "f64[1,3]"})
          check({.kernel = "trees", .graph = forest(mode, other, first, second, x), .specials = 0.2});
}

// A set of categories, as its splits are written: several ways lead to one branch, short ones and long ones.
TEST(Definition, TreesWhoseBranchesHaveSeveralParents) {
  for (const char* x : {"f32[40,2]", "f32[3,2]", "f64[40,2]"})
    check({.kernel = "trees",
           .graph = "graph { input x: " + std::string(x) +
                    "; y = tree_ensemble_regressor(x) {nodes_treeids=[0, 0, 0, 0, 0, 0, 0], nodes_nodeids=[0, 1, 2, 3, "
                    "4, 5, 6], nodes_featureids=[0, 0, 0, 1, 0, 0, 0], nodes_modes=[\"BRANCH_EQ\", \"BRANCH_GT\", "
                    "\"BRANCH_EQ\", \"BRANCH_LEQ\", \"LEAF\", \"LEAF\", \"LEAF\"], nodes_values=[0.5, 0.25, -0.5, "
                    "0.125, 0.0, 0.0, 0.0], nodes_truenodeids=[3, 3, 3, 4, 0, 0, 0], nodes_falsenodeids=[1, 2, 6, 5, "
                    "0, 0, 0], target_treeids=[0, 0, 0], target_nodeids=[4, 5, 6], target_ids=[0, 0, 0], "
                    "target_weights=[1.5, -2.0, 0.25]}; output y }",
           .specials = 0.2});
}

// Numbers between -1 and 1, in no order.
std::string numbers(int64_t count, int step) {
  std::string out;
  for (int64_t k = 0; k < count; ++k)
    out += (k ? ", " : "") + std::to_string(static_cast<double>((k * step) % 41 - 20) / 20);
  return "[" + out + "]";
}

// A machine of 5 features whose vectors fill no block of any instruction set; of `classes` classes, or a regressor.
std::string machine(const std::string& kind, int64_t vectors, int64_t classes, const std::string& more) {
  const std::string attrs = "kernel_type=\"" + kind +
                            "\", kernel_params=[0.25, 0.5, 3.0], support_vectors=" + numbers(5 * vectors, 17) +
                            ", coefficients=" + numbers(vectors * std::max<int64_t>(1, classes - 1), 7) + more;
  if (classes == 0)
    return "graph { input x: f32[39,5]; y = svm_regressor(x) {n_supports=" + std::to_string(vectors) +
           ", rho=[0.375], " + attrs + "}; output y }";
  std::string each, labels;
  for (int64_t k = 0; k < classes; ++k) {
    each += (k ? ", " : "") + std::to_string(k + 1 < classes ? vectors / classes : vectors - k * (vectors / classes));
    labels += (k ? ", " : "") + std::to_string(50 - 7 * k);
  }
  return "graph { input x: f32[39,5]; y, z = svm_classifier(x) {classlabels_ints=[" + labels +
         "], vectors_per_class=[" + each + "], rho=" + numbers(classes * (classes - 1) / 2, 11) + ", " + attrs +
         "}; output y; output z }";
}

TEST(Definition, SupportVectorsVoteAsTheDefinitionDoes) {
  for (const char* kind : {"LINEAR", "POLY", "RBF", "SIGMOID"})
    for (const int64_t vectors : {3, 16, 37, 70}) {
      check({.kernel = "support_vectors_f32", .graph = machine(kind, vectors, 0, "")});
      for (const int64_t classes : {2, 3}) {
        check({.kernel = "support_vectors_f32", .graph = machine(kind, vectors, classes, "")});
        const std::string pairs = numbers(classes * (classes - 1) / 2, 19);
        const std::string likely = ", prob_a=" + pairs + ", prob_b=" + pairs;
        check({.kernel = "support_vectors_f32", .graph = machine(kind, vectors, classes, likely)});
      }
    }
}

TEST(Definition, EachKernelGivesWhatItsOpMeans) {
  const Case cases[] = {
      {"rotary_f32",
       "graph { input x: f32[2,3,5,8]; input c: f32[10,3]; input s: f32[10,3]; input p: i64[2,5]; y = "
       "rotary_embedding(x, c, s, p) {rotary_embedding_dim=6}; output y }",
       0, 0, 10},
      {"deform",
       "graph { input x: f32[1,4,9,7]; input w: f32[7,4,3,3]; input o: f32[1,18,9,7]; y = "
       "deform_conv(x, w, o) {pads=[1, 1, 1, 1]}; output y }",
       0, 0, 0, 4},
      {"deform",
       "graph { input x: f32[2,2,12,11]; input w: f32[1,2,1,2]; input o: f32[2,4,12,10]; y = "
       "deform_conv(x, w, o); output y }",
       0, 0, 0, 40},
      {"grid_sample_f32", "graph { input x: f32[2,3,9,7]; input g: f32[2,8,9,2]; y = grid_sample(x, g); output y }", 0,
       0, 0, 1.3},
      {"grid_sample_f32",
       "graph { input x: f32[1,2,4,5,3]; input g: f32[1,2,3,11,3]; y = grid_sample(x, g) "
       "{padding_mode=\"reflection\"}; output y }",
       0, 0, 0, 3},
      {"lrn_f32", "graph { input x: f32[2,9,3,100]; y = lrn(x) {alpha=0.5, size=5}; output y }"},
      {"det_f32", "graph { input x: f32[300,5,5]; y = det(x); output y }"},
      {"eye_like", "graph { input x: f32[5,9]; y = eye_like(x) {k=3, dtype=3}; output y }"},
      {"affine_grid_f32",
       "graph { input t: f32[2,3,4]; const s: i64[5] = [2, 1, 3, 1, 40]; y = affine_grid(t, s); "
       "output y }"},
      {"losses_f32",
       "graph { input x: f32[9000,3]; input t: i64[9000]; input w: f32[3]; y = "
       "negative_log_likelihood_loss(x, t, w) {reduction=\"sum\"}; output y }",
       0, 0, 3},
      {"label_table",
       "graph { input x: i64[50]; y = label_encoder(x) {keys_int64s=[3, 1, 3, 40], values_floats=[0.5, "
       "1.5, 2.5, 3.5], default_float=9.0}; output y }",
       0, -2, 6},
      {"few_rows_f32", "graph { input x: f32[2,37]; input w: f32[37,150]; y = matmul(x, w); output y }"},
      {"few_rows_f32", "graph { input x: f32[1,500]; input w: f32[500,70]; y = matmul(x, w); output y }"},
      {"scan",
       "graph { input x: f32[2,7,300]; const a: i64[] = [1]; y = cum_sum(x, a) {exclusive=1, reverse=1}; output "
       "y }"},
      {"scan", "graph { input x: i32[2,7,30]; const a: i64[] = [1]; y = cum_prod(x, a) {reverse=1}; output y }", 0, -9,
       9},
      {"arg_max_typed", "graph { input x: i64[30,77]; y = arg_max(x) {axis=1, select_last_index=1}; output y }", 0, -3,
       3},
      {"arg_max_typed", "graph { input x: u8[30,70]; y = arg_min(x) {axis=1}; output y }", 0, 0, 9},
      {"max_pool_typed",
       "graph { input x: f32[2,3,7,8]; v, i = max_pool(x) {kernel_shape=[3, 2], dilations=[2, 3], "
       "pads=[1, 0, 2, 1], storage_order=1}; output v; output i }",
       0.1},
      {"max_roi_pool_f32",
       "graph { input x: f32[1,20,30,41]; const r: f32[2,5] = [0.0, 1.0, 2.0, 30.0, 25.0, 0.0, "
       "-4.0, 3.0, 50.0, 60.0]; y = max_roi_pool(x, r) {pooled_shape=[7,5]}; output y }",
       0.02},
      {"gather", "graph { input x: f32[5,9]; input i: i32[7]; y = gather(x, i) {axis=1}; output y }", 0, -9, 9},
      {"elementwise_typed", "graph { input x: f64[2000]; a = tanh(x); b = exp(x); c = add(a, b); output c }", 0.05, 0,
       0, 30},
      {"elementwise_typed", "graph { input x: f32[2000]; input y: f32[2000]; z = mod(x, y) {fmod=1}; output z }", 0.05,
       0, 0, 1000}};
  for (const Case& c : cases) check(c);
}

// NaN and infinities of any input, those that zeros of the padding or weights of nothing are multiplied with too.
TEST(Definition, AttentionOfFloat64) {
  const Case cases[] = {
      {"attention_f64",
       "graph { input q: f64[2,5,6,8]; input k: f64[2,2,8,9]; input v: f64[2,2,9,8]; input m: f64[2,1,1,9]; y = "
       "attention(q, k, v, m) {k_layout=\"bhds\", q_layout=\"bshd\", scale=0.5, softcap=2.0}; output y }",
       0, 0, 0, 3},
      {"attention_f64",
       "graph { input q: f64[2,37,3,8]; input k: f64[2,37,3,8]; input v: f64[2,37,3,8]; input m: bool[37,1]; y = "
       "attention(q, k, v, m) {causal=1, k_layout=\"bshd\", q_layout=\"bshd\", v_layout=\"bshd\", "
       "y_layout=\"bshd\", zero_hidden_rows=1}; output y }",
       0, 0, 2},
      {"attention_f64",
       "graph { input q: f64[1,2,40,4]; input k: f64[1,2,9000,4]; input v: f64[1,2,9000,3]; input m: f32[40,9000]; y "
       "= attention(q, k, v, m) {causal=1, past=dims[7]}; output y }"},
      {"attention_f64",
       "graph { input q: f64[1,1,9,4]; input k: f64[1,1,5,4]; input v: f64[1,1,5,3]; y = attention(q, k, v) "
       "{causal=1}; output y }"},
  };
  for (const Case& c : cases) check(c);
}

TEST(Definition, WhatIsNoNumberGoesWhereTheDefinitionLeadsIt) {
  const Case cases[] = {
      {"conv_open_f32",
       "graph { input x: f32[2,12,9,43]; input w: f32[34,6,3,3]; input b: f32[34]; c = conv(x, w, b) {group=2, "
       "pads=[1,2,3,1], strides=[2,1], dilations=[1,2]}; y = relu(c); output y }",
       0.003},
      {"conv_open_f32",
       "graph { input x: f32[1,3,5,4]; input w: f32[2,3,5,3]; y = conv(x, w) {pads=[4,5,3,2], strides=[1,3]}; output "
       "y }",
       0.02},
      {"conv_open_f32", "graph { input x: f32[2,3,5,7]; input w: f32[4,3,1,1]; y = conv(x, w); output y }", 0.1},
      {"few_rows_f32", "graph { input x: f32[3,37]; input w: f32[37,150]; y = matmul(x, w); output y }", 0.01},
      {"lrn_f32", "graph { input x: f32[2,9,3,100]; y = lrn(x) {alpha=0.5, size=4}; output y }", 0.02},
      {"losses_f32",
       "graph { input x: f32[900,3]; input t: i64[900]; input w: f32[3]; y = negative_log_likelihood_loss(x, t, w) "
       "{reduction=\"none\"}; output y }",
       0.1, 0, 3},
      {"rotary_f32",
       "graph { input x: f32[2,5,24]; input c: f32[2,5,4]; input s: f32[2,5,4]; y = rotary_embedding(x, c, s) "
       "{interleaved=1, num_heads=3}; output y }",
       0.05},
      {"affine_grid_f32",
       "graph { input t: f32[9,2,3]; const s: i64[4] = [9, 1, 3, 5]; y = affine_grid(t, s); output y }", 0.1},
      {"det_f32", "graph { input x: f32[300,3,3]; y = det(x); output y }", 0.02}};
  for (const Case& c : cases) check(c);
}

TEST(Definition, FewOfManyAreTheFirstOfTheLargest) {
  for (const char* largest : {"0", "1"})
    for (const char* count : {"5", "60"}) {  // a sorted list, a selection
      const std::string end = std::string("; const k: i64[1] = [") + count +
                              "]; y, i = top_k(x, k) {largest=" + largest + "}; output y; output i }";
      check({"top_k", "graph { input x: f32[40,333]" + end, 0.05});
      check({"top_k", "graph { input x: f32[3,5000]" + end, 0.6});
      check({"top_k", "graph { input x: f32[9,64]" + end, 0, 0, 0, 0});   // all are zero
      check({"top_k", "graph { input x: f32[9,900]" + end, 0, 0, 0, 0});  // many are zero
      check({"top_k", "graph { input x: i32[40,333]" + end, 0, -9, 9});
      check({"top_k", "graph { input x: i64[40,333]" + end, 0, -9, 9});
      check({"top_k", "graph { input x: i64[2,900]" + end, 0, -1000000, 1000000});
    }
}

TEST(Definition, FewOfShortRowsAreTheFirstOfTheLargest) {
  for (const char* largest : {"0", "1"})
    for (const char* count : {"1", "2", "4", "5"})
      for (const char* shape : {"5", "300,7", "200,16", "100,37", "90,64", "40,128", "40,129"}) {
        const std::string graph = std::string("graph { input x: f32[") + shape + "]; const k: i64[1] = [" + count +
                                  "]; y, i = top_k(x, k) {largest=" + largest + "}; output y; output i }";
        for (const double specials : {0.0, 0.1, 0.9, 1.0}) check({"top_k", graph, specials});
        check({"top_k", graph, 0, 0, 0, 0});  // all are zero
      }
}

TEST(Definition, RowsAreNamedByIndicesOfTheirRange) {
  for (const char* slice : {"", ",4", ",3", ",2,2"})
    for (const char* type : {"f32", "u8", "i64"})
      for (const char* index : {"i64", "i32"}) {
        const std::string x = std::string(type) + "[50" + slice + "]", i = std::string(index) + "[700,1]";
        const std::string graph = "graph { input x: " + x + "; input i: " + i + "; y = gather_nd(x, i); output y }";
        check({"pick", graph, 0, -50, 49});
      }
  // A list by batches, and one by two indices, go another way.
  check({"pick", "graph { input x: f32[3,50]; input i: i64[3,90,1]; y = gather_nd(x, i) {batch_dims=1}; output y }", 0,
         -50, 49});
  check({"pick", "graph { input x: f32[50,50]; input i: i64[900,2]; y = gather_nd(x, i); output y }", 0, -50, 49});
}

TEST(Definition, ElementsGoToPlacesOfTheirPartOrOfAny) {
  const std::string graph =
      "graph { input x: f32[6,1,64,64]; input i: i64[6,1,64,64]; y = max_unpool(x, i) {kernel_shape=[2,2], "
      "strides=[2,2]}; output y }";
  check({"max_unpool", graph, 0, 0, 128 * 128, 1, 128 * 128});
  check({"max_unpool", graph, 0, 0, 6 * 128 * 128, 1, 0});
  check({"max_unpool", graph, 0, 0, 128 * 128 + 1, 1, 128 * 128 - 1});
}

TEST(Definition, SumsAndProductsOfBytes) {
  for (const char* op : {"add", "mul"})
    for (const char* other : {"u8[2,9,7,11]", "u8[9,1,1]", "u8[11]", "u8[2,1,7,1]", "u8[]"}) {
      const std::string text = std::string("graph { input x: u8[2,9,7,11]; input w: ") + other +
                               "; const s: f32[] = [0.5]; const z: u8[] = [128]; const t: f32[] = [0.25]; const v: "
                               "u8[] = [3]; const q: f32[] = [1.0]; a = from_bytes(x, s, z); b = from_bytes(w, t, v); "
                               "c = " +
                               op + "(b, a); y = to_bytes(c, q, v); output y }";
      check({"byte_pairs", text, 0, 0, 256});
    }
}

TEST(Definition, ThinConvolutions) {
  const std::string shapes[] = {
      "input x: f32[2,6,5,9,37]; input w: f32[6,1,3,3,3]; input b: f32[6]; y = conv(x, w, b) {group=6, "
      "pads=[1,1,1,1,1,1]}",
      "input x: f32[1,4,9,8,50]; input w: f32[8,2,3,2,5]; y = conv(x, w) {group=2, strides=[2,1,3], "
      "dilations=[1,3,2], pads=[2,1,4,0,2,9]}",
      "input x: f32[1,3,9,7]; input w: f32[7,3,3,5]; y = conv(x, w) {auto_pad=\"SAME_LOWER\", strides=[2,2]}",
      "input x: f32[1,8,3,130]; input w: f32[8,8,1,7]; y = conv(x, w) {pads=[0,3,0,3]}",
      "input x: f32[1,2,400,170]; input w: f32[2,1,5,3]; y = conv(x, w) {group=2, pads=[2,1,2,1]}"};
  for (const std::string& text : shapes) check({"conv_thin_f32", "graph { " + text + "; output y }"});
}

TEST(Definition, ProductsWhoseRowsArePackedOrNot) {
  for (const char* type : {"f64", "i64", "i32"})
    for (const auto& [a, b] :
         {std::pair{"[33,40]", "[40,130]"}, std::pair{"[7,300]", "[300,16]"}, std::pair{"[2,64,9]", "[9,70]"}})
      check({"matmul_typed",
             std::string("graph { input a: ") + type + a + "; input b: " + type + b + "; y = matmul(a, b); output y }",
             0, -50, 50});
}

TEST(Definition, AnIndexOutOfRangeIsAnErrorOfTheRun) {
  const Case cases[] = {
      {"rotary_f32",
       "graph { input x: f32[1,1,2,4]; input c: f32[3,2]; input s: f32[3,2]; input p: i64[1,2]; y = "
       "rotary_embedding(x, c, s, p); output y }",
       0, 3, 9},
      {"losses_f32", "graph { input x: f32[4,3]; input t: i64[4]; y = negative_log_likelihood_loss(x, t); output y }",
       0, 3, 9},
      {"gather", "graph { input x: f32[5,9]; input i: i64[7]; y = gather(x, i) {axis=1}; output y }", 0, 9, 20},
      {"max_unpool",
       "graph { input x: f32[1,1,2,2]; input i: i64[1,1,2,2]; y = max_unpool(x, i) {kernel_shape=[2,2], "
       "strides=[2,2]}; output y }",
       0, 16, 20}};
  for (const Case& c : cases) {
    const Status status = run(c, 1, false).status;
    ASSERT_FALSE(status.ok()) << c.kernel;
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalid);
  }
}

}  // namespace
}  // namespace peri::kernels
