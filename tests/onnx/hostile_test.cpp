// What a broken or hostile model gets: an error of the right kind that names the place, quickly, whatever the file
// says.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/rng.hpp"
#include "tests/onnx/models.hpp"

namespace peri::onnx::tests {
namespace {

using P = pb::TensorProto;
using A = pb::AttributeProto;

void expect(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
}
template <class Model>
void refuses(const Model& m, const std::string& part) {
  expect(error(m), part);
}

std::string varint(uint64_t v) {
  std::string out;
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  return out + static_cast<char>(v);
}
std::string field(int number, const std::string& payload) {
  return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(payload.size()) + payload;
}

TEST(Hostile, EveryPrefixIsRefused) {
  const std::string good = relu_model().SerializeAsString();
  ASSERT_EQ(error(good), "accepted");
  int accepted = 0;
  for (size_t n = 0; n < good.size(); ++n) accepted += error(good.substr(0, n)) == "accepted";
  // A cut between the graph and what follows it leaves a whole message; nothing else may pass.
  EXPECT_LE(accepted, 1);
}

TEST(Hostile, EveryFlippedByteIsSurvived) {
  const std::string good = relu_model().SerializeAsString();
  for (size_t n = 0; n < good.size(); ++n) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[n] = static_cast<char>(bad[n] ^ (1 << bit));
      auto r = load(bad);
      if (!r.ok()) EXPECT_NE(r.error().kind, ErrorKind::kInternal) << r.error().text();
    }
  }
}

TEST(Hostile, NotAModel) {
  refuses(std::string(), "empty");
  refuses(std::string("\x1f\x8b\x08 not a model"), "damaged ONNX data");
  refuses(std::string("PK\x03\x04"), "ONNX data");
  refuses(varint(1 << 3) + varint(8), "no graph");
  refuses(std::string(100, '\xff'), "damaged");
  refuses(varint(7 << 3 | 3) + varint(7 << 3 | 4), "wire type");  // a group
  refuses(varint(7 << 3 | 2) + std::string("\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "longer than its message");
  refuses(varint(7 << 3) + varint(1), "wrong wire type");
  pb::ModelProto m = relu_model();
  refuses(m.SerializeAsString() + field(7, std::string("\x08")), "damaged");  // a second, broken piece of the graph
  refuses(m.SerializeAsString() + "\x50" + std::string(10, '\x80') + "\1", "64 bits");  // an 11-byte varint
}

TEST(Hostile, FieldsGivenTwiceMergeAsInProtobuf) {
  pb::ModelProto m = relu_model();
  const std::string twice = m.SerializeAsString() + field(7, std::string());
  EXPECT_EQ(error(twice), "accepted");
  const int64_t version = m.opset_import(0).version();
  EXPECT_EQ(error(m.SerializeAsString() + field(8, std::string("\x10") + static_cast<char>(version))), "accepted");
  EXPECT_EQ(error(m.SerializeAsString() + field(8, std::string("\x10") + static_cast<char>(version - 1))), "accepted");
}

TEST(Hostile, TensorData) {
  const auto with = [](const std::function<void(P*)>& change) {
    pb::ModelProto m = model();
    untyped_output(m, "w");
    change(initializer(m, "w", {2, 2}, std::string(16, '\0')));
    return m;
  };
  EXPECT_EQ(error(with([](P*) {})), "accepted");
  refuses(with([](P* t) { t->set_raw_data(std::string(15, '\0')); }),
          "expected 16 bytes for its type and dims, found 15 bytes");
  refuses(with([](P* t) { t->set_raw_data(std::string(17, '\0')); }), "'w'");
  refuses(with([](P* t) { t->set_dims(0, -2); }), "negative");
  refuses(with([](P* t) { t->set_dims(0, int64_t{1} << 62), t->set_dims(1, 16); }), "overflow");
  refuses(with([](P* t) { t->set_dims(0, int64_t{1} << 32), t->set_dims(1, int64_t{1} << 32); }), "overflow");
  refuses(with([](P* t) { t->set_dims(0, int64_t{1} << 40), t->set_dims(1, 1); }), "wrong size");
  refuses(with([](P* t) { t->add_float_data(1); }), "twice");
  refuses(with([](P* t) { t->clear_raw_data(); }), "wrong size");
  refuses(with([](P* t) {
            t->clear_raw_data();
            t->add_int32_data(1);
          }),
          "does not belong");
  refuses(with([](P* t) {
            t->clear_raw_data();
            t->add_string_data("x");
          }),
          "does not belong");
  refuses(with([](P* t) { t->set_data_type(0); }), "no element type");
  refuses(with([](P* t) { t->set_data_type(99); }), "unknown element type 99");
  refuses(with([](P* t) { t->set_data_type(P::FLOAT6E2M3); }), "expected 3 bytes");
  refuses(with([](P* t) { t->set_data_type(P::STRING); }), "string tensor");
  refuses(with([](P* t) { t->mutable_segment()->set_begin(0); }), "segments");
  refuses(with([](P* t) {
            t->set_data_type(P::INT4);
            t->clear_raw_data();
            t->add_int32_data(1);
          }),
          "expected 2 values");
  refuses(with([](P* t) {
            for (int i = 0; i < 40; ++i) t->add_dims(1);
          }),
          "rank");
  EXPECT_EQ(error(with([](P* t) {
              t->set_data_type(P::INT4);
              t->clear_raw_data();
              t->set_dims(1, 1);
              t->set_dims(0, 3);
              t->add_int32_data(0x21);
              t->add_int32_data(0x03);
            })),
            "accepted");
}

TEST(Hostile, SparseTensors) {
  const auto with = [](std::vector<int64_t> indices, std::vector<int64_t> dims, bool pairs = false) {
    pb::ModelProto m = model();
    untyped_output(m, "w");
    auto* s = m.mutable_graph()->add_sparse_initializer();
    s->mutable_values()->set_name("w");
    s->mutable_values()->set_data_type(P::FLOAT);
    s->mutable_values()->add_dims(2);
    s->mutable_values()->add_float_data(1);
    s->mutable_values()->add_float_data(2);
    s->mutable_indices()->set_data_type(P::INT64);
    s->mutable_indices()->add_dims(2);
    if (pairs) s->mutable_indices()->add_dims(2);
    for (int64_t i : indices) s->mutable_indices()->add_int64_data(i);
    for (int64_t d : dims) s->add_dims(d);
    return m;
  };
  EXPECT_EQ(error(with({0, 5}, {2, 3})), "accepted");
  EXPECT_EQ(error(with({0, 1, 1, 2}, {2, 3}, true)), "accepted");
  refuses(with({5, 0}, {2, 3}), "ascending");
  refuses(with({4, 4}, {2, 3}), "ascending");
  refuses(with({0, 6}, {2, 3}), "outside");
  refuses(with({-1, 2}, {2, 3}), "outside");
  refuses(with({0, 1, 1, 3}, {2, 3}, true), "outside");
  refuses(with({0, 5, 6}, {2, 3}), "wrong size");
  refuses(with({0, 5}, {int64_t{1} << 40}), "too large when written out");
  refuses(with({0, 5}, {int64_t{1} << 40, int64_t{1} << 40}), "overflow");
}

TEST(Hostile, NamesAndOrder) {
  const auto with = [](const std::function<void(pb::ModelProto&)>& change) {
    pb::ModelProto m = relu_model();
    change(m);
    return m;
  };
  using M = pb::ModelProto&;
  refuses(with([](M m) { m.mutable_graph()->mutable_node(0)->set_input(0, "y"); }), "cycle");
  refuses(with([](M m) {
            m.mutable_graph()->mutable_node(0)->set_input(0, "b");
            node(m, "Relu", {"y"}, {"b"});
          }),
          "cycle");
  refuses(with([](M m) { m.mutable_graph()->mutable_node(0)->set_input(0, "nowhere"); }),
          "'act': input 'nowhere' is not defined");
  refuses(with([](M m) { node(m, "Relu", {"x"}, {"y"}); }), "'y' is made twice");
  refuses(with([](M m) { node(m, "Relu", {"x"}, {"x"}); }), "'x' is made twice");
  refuses(with([](M m) { m.mutable_graph()->mutable_node(0)->clear_output(); }), "no output");
  refuses(with([](M m) { m.mutable_graph()->mutable_node(0)->set_output(0, ""); }), "no output");
  refuses(with([](M m) { m.mutable_graph()->mutable_node(0)->clear_op_type(); }), "no operator");
  refuses(with([](M m) { m.mutable_graph()->mutable_output(0)->set_name("z"); }), "output 'z' is not defined");
  refuses(with([](M m) { *m.mutable_graph()->add_input() = m.graph().input(0); }), "input is given twice");
  refuses(with([](M m) { m.mutable_graph()->clear_output(); }), "no output");
  refuses(with([](M m) { m.mutable_graph()->mutable_input(0)->clear_name(); }), "has no name");
  refuses(with([](M m) { m.mutable_graph()->mutable_node(0)->set_name(std::string("a\0b", 3)); }), "UTF-8");
  refuses(with([](M m) { m.mutable_graph()->mutable_node(0)->set_name("\xff\xfe"); }), "UTF-8");
  refuses(with([](M m) { m.mutable_graph()->mutable_node(0)->set_name(std::string(1 << 20, 'n')); }), "65536");
  refuses(with([](M m) {
            for (int i = 1; i < 3; ++i) initializer(m, "w", {i}, std::string(4 * static_cast<size_t>(i), '\0'));
          }),
          "twice, with another type or shape");
  refuses(with([](M m) { initializer(m, "y", {1}, std::string(4, '\0')); }), "'y' is made twice");
  refuses(with([](M m) { m.clear_graph(); }), "no graph");
  refuses(with([](M m) { m.clear_opset_import(); }), "no operator set");
  refuses(with([](M m) { m.clear_ir_version(); }), "no IR version");
}

TEST(Hostile, TypesAndAttributes) {
  const auto with = [](const std::string& op, const std::function<void(pb::NodeProto*, pb::ModelProto&)>& change) {
    pb::ModelProto m = model();
    input(m, "x", {"2", "3"});
    untyped_output(m, "y");
    change(node(m, op, {"x"}, {"y"}), m);
    return m;
  };
  using N = pb::NodeProto*;
  using M = pb::ModelProto&;
  refuses(with("Relu", [](N n, M) { attr(n, "alpha", A::FLOAT); }), "Relu has no attribute 'alpha'");
  refuses(with("Elu", [](N n, M) { attr(n, "alpha", A::INT)->set_i(1); }), "wrong type: expected float, found int");
  refuses(with("Elu", [](N n, M) { attr(n, "alpha", A::FLOAT)->set_i(1); }), "another type than it says");
  refuses(with("Elu",
               [](N n, M) {
                 attr(n, "alpha", A::FLOAT);
                 attr(n, "alpha", A::FLOAT);
               }),
          "given twice");
  refuses(with("Elu", [](N n, M) { attr(n, "alpha", A::FLOAT)->set_ref_attr_name("a"); }), "outside of a function");
  refuses(with("Elu", [](N n, M) { attr(n, "", A::FLOAT); }), "no name");
  refuses(with("Cast", [](N, M) {}), "needs its attribute 'to'");
  refuses(with("Cast", [](N n, M) { attr(n, "to", A::INT)->set_i(1 << 20); }), "unknown element type");
  refuses(with("Cast", [](N n, M) { attr(n, "to", A::INT)->set_i(int64_t{1} << 33); }), "out of range");
  refuses(with("Relu", [](N n, M) { n->clear_input(); }), "needs its input");
  refuses(with("Relu", [](N n, M) { n->add_input("x"); }), "too many inputs");
  refuses(with("Relu", [](N n, M) { n->add_output("z"); }), "too many outputs");
  refuses(with("Transpose",
               [](N n, M) {
                 auto* a = attr(n, "perm", A::INTS);
                 a->add_ints(0);
                 a->add_ints(0);
               }),
          "y");
  refuses(with("Relu", [](N, M m) { m.mutable_graph()->mutable_input(0)->clear_type(); }), "has no type");
  refuses(
      with("Relu",
           [](N, M m) { m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape(); }),
      "rank");
  refuses(with("Relu", [](N, M m) { m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_sequence_type(); }),
          "opaque values");
  refuses(with("Relu",
               [](N, M m) {
                 m.mutable_graph()
                     ->mutable_input(0)
                     ->mutable_type()
                     ->mutable_tensor_type()
                     ->mutable_shape()
                     ->mutable_dim(0)
                     ->set_dim_value(-5);
               }),
          "negative");
  refuses(with("Constant", [](N n, M) { n->clear_input(); }), "exactly one value");
}

TEST(Hostile, SizesBeyondAnyMachine) {
  pb::ModelProto m = relu_model({"4294967296", "4294967296"});
  refuses(m, "overflows");
  refuses(relu_model({"8388608", "16777216"}), "too large");
  refuses(relu_model({"1099511627776", "1024", "n"}), "too large");
  EXPECT_EQ(error(relu_model({"1099511627776", "0"})), "accepted");
  m = relu_model();
  m.set_ir_version(int64_t{1} << 31);
  refuses(m, "IR version");
  m = relu_model({"n", "4"});
  initializer(m, "w", {4}, std::string(16, '\0'));
  input(m, "w", {"5"});
  refuses(m, "'w': an initializer contradicts");
  m.mutable_graph()
      ->mutable_input(1)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param("k");
  EXPECT_EQ(error(m), "accepted");
}

TEST(Hostile, AttributesOfOldVersionsKeepTheirType) {
  pb::ModelProto m = model(9);
  input(m, "x", {"2", "3"});
  untyped_output(m, "y");
  auto* n = node(m, "Squeeze", {"x"}, {"y"});
  attr(n, "axes", A::INT)->set_i(0);
  refuses(m, "'axes' of Squeeze has the wrong type: expected ints, found int");
}

TEST(Hostile, DeepGraphs) {
  pb::GraphProto inner;
  inner.add_output()->set_name("r");
  node(&inner, "Relu", {"x"}, {"r"});
  std::string g = inner.SerializeAsString();
  for (int depth = 0; depth < 3000; ++depth) {  // If { then_branch { If { ... } } }
    const std::string a = field(1, std::string("then_branch")) + varint(20 << 3) + varint(5) + field(6, g);
    g = field(1, field(1, std::string("c")) + field(2, std::string("r")) + field(4, std::string("If")) + field(5, a)) +
        field(12, field(1, std::string("r")));
  }
  pb::ModelProto m = model();
  input(m, "x", {"2"}), input(m, "c", {}, P::BOOL);
  refuses(m.SerializeAsString() + field(7, g), "nested deeper");
}

TEST(Hostile, Functions) {
  const auto function = [](pb::ModelProto& m, const std::string& name, const std::vector<std::string>& calls) {
    auto* f = m.add_functions();
    f->set_name(name);
    f->set_domain("mine");
    f->add_input("x");
    f->add_output("y" + std::to_string(calls.size()));
    std::string last = "x";
    int n = 0;
    for (const std::string& call : calls) {
      const std::string next = "y" + std::to_string(++n);
      node(f, call, {last}, {next})->set_domain(call == "Relu" ? "" : "mine");
      last = next;
    }
  };
  const auto base = [] {
    pb::ModelProto m = model();
    auto* o = m.add_opset_import();
    o->set_domain("mine");
    o->set_version(1);
    input(m, "x", {"2"});
    untyped_output(m, "y");
    node(m, "f0", {"x"}, {"y"})->set_domain("mine");
    return m;
  };
  pb::ModelProto circle = base();
  function(circle, "f0", {"f1"}), function(circle, "f1", {"f2"}), function(circle, "f2", {"f0"});
  refuses(circle, "circle");
  pb::ModelProto self = base();
  function(self, "f0", {"f0"});
  refuses(self, "circle");
  pb::ModelProto bomb = base();
  for (int i = 0; i < 30; ++i)
    function(bomb, "f" + std::to_string(i), {"f" + std::to_string(i + 1), "f" + std::to_string(i + 1)});
  function(bomb, "f30", {"Relu"});
  refuses(bomb, "too many nodes");
  pb::ModelProto huge = base();  // 2^99 does not wrap
  for (int i = 0; i < 99; ++i)
    function(huge, "f" + std::to_string(i), {"f" + std::to_string(i + 1), "f" + std::to_string(i + 1)});
  function(huge, "f99", {"Relu"});
  refuses(huge, "too many nodes");
  pb::ModelProto deep = base();
  for (int i = 0; i < 150; ++i) function(deep, "f" + std::to_string(i), {"f" + std::to_string(i + 1)});
  function(deep, "f150", {"Relu"});
  refuses(deep, "nested deeper");
  pb::ModelProto twice = base();
  function(twice, "f0", {"Relu"}), function(twice, "f0", {"Relu"});
  refuses(twice, "defined twice");
  pb::ModelProto undefined = base();
  function(undefined, "f0", {"Relu"});
  undefined.mutable_functions(0)->mutable_node(0)->set_input(0, "outer");
  refuses(undefined, "'outer' is not defined (in function mine.f0)");
  pb::ModelProto arity = base();
  function(arity, "f0", {"Relu"});
  arity.mutable_graph()->mutable_node(0)->add_input("x");
  refuses(arity, "too many inputs");
  pb::ModelProto missing = base();
  refuses(missing, "mine.f0 of opset 1");
}

TEST(Hostile, ManyNodesOfOneNameAreCheap) {
  pb::ModelProto m = model(9);
  input(m, "x", {"2", "1"});
  untyped_output(m, "y20000");
  std::string last = "x";
  for (int i = 1; i <= 20000; ++i) {
    const std::string next = "y" + std::to_string(i);
    auto* n = node(m, i % 2 ? "Squeeze" : "Unsqueeze", {last}, {next});
    n->set_name("same");
    attr(n, "axes", A::INTS)->add_ints(1);
    last = next;
  }
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_GE(r->graph.nodes.size(), 20000u);
}

TEST(Hostile, RandomDamageNeverCrashes) {
  pb::ModelProto m = relu_model();
  initializer(m, "w", {2}, std::string(8, '\1'));
  auto* t = initializer(m, "i", {3}, "", P::INT32);
  t->clear_raw_data();
  for (int i = 0; i < 3; ++i) t->add_int32_data(i);
  auto* n = node(m, "Squeeze", {"y"}, {"z"});
  attr(n, "axes", A::INTS)->add_ints(0);
  const std::string good = m.SerializeAsString();
  Rng rng(5);
  for (int round = 0; round < 30000; ++round) {
    std::string bad = good;
    for (int64_t flips = 1 + rng.below(6); flips > 0; --flips)
      bad[static_cast<size_t>(rng.below(static_cast<int64_t>(bad.size())))] = static_cast<char>(rng.below(256));
    auto r = load(bad);
    if (!r.ok()) ASSERT_NE(r.error().kind, ErrorKind::kInternal) << "round " << round << ": " << r.error().text();
  }
}

}  // namespace
}  // namespace peri::onnx::tests
