// The reader against the generated protobuf code: the same fields of the same models, and every way to store a tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/rng.hpp"
#include "onnx/proto_reader.hpp"
#include "tests/onnx/models.hpp"
#include "tests/places.hpp"

namespace peri::onnx::tests {
namespace {

using P = pb::TensorProto;

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void same_tensor(const pb::TensorProto& want, Body body, const char* base) {
  auto got = read_tensor(body, base);
  ASSERT_TRUE(got.ok()) << got.error().text();
  EXPECT_EQ(got->name, want.name());
  EXPECT_EQ(got->data_type, want.data_type());
  EXPECT_EQ(got->dims, std::vector<int64_t>(want.dims().begin(), want.dims().end()));
  EXPECT_EQ(got->raw.has_value(), want.has_raw_data());
  EXPECT_EQ(got->raw.value_or(""), want.raw_data());
  EXPECT_EQ(got->float_count, want.float_data_size());
  EXPECT_EQ(got->int32_count, want.int32_data_size());
  EXPECT_EQ(got->int64_count, want.int64_data_size());
}

void same_node(const pb::NodeProto& want, Body body, const char* base) {
  auto got = read_node(body, base);
  ASSERT_TRUE(got.ok()) << got.error().text();
  EXPECT_EQ(got->op, want.op_type());
  EXPECT_EQ(got->name, want.name());
  EXPECT_TRUE(std::equal(got->inputs.begin(), got->inputs.end(), want.input().begin(), want.input().end()));
  EXPECT_TRUE(std::equal(got->outputs.begin(), got->outputs.end(), want.output().begin(), want.output().end()));
  ASSERT_EQ(got->attrs.size(), static_cast<size_t>(want.attribute_size()));
  for (int k = 0; k < want.attribute_size(); ++k) {
    const AttrRecord& a = got->attrs[static_cast<size_t>(k)];
    const pb::AttributeProto& w = want.attribute(k);
    EXPECT_EQ(a.name, w.name());
    EXPECT_EQ(static_cast<int>(a.type), static_cast<int>(w.type()));
    EXPECT_EQ(a.i, w.i());
    EXPECT_EQ(a.f, w.f());
    EXPECT_EQ(a.s, w.s());
    EXPECT_TRUE(std::equal(a.ints.begin(), a.ints.end(), w.ints().begin(), w.ints().end()));
    EXPECT_TRUE(std::equal(a.floats.begin(), a.floats.end(), w.floats().begin(), w.floats().end()));
    if (w.has_t()) same_tensor(w.t(), a.message, base);
  }
}

void same_value(const pb::ValueInfoProto& want, Body body, const char* base) {
  auto got = read_value(body, base);
  ASSERT_TRUE(got.ok()) << got.error().text();
  EXPECT_EQ(got->name, want.name());
  const auto& type = want.type().tensor_type();
  EXPECT_EQ(got->elem_type, type.elem_type());
  ASSERT_EQ(got->shape.has_value(), type.has_shape());
  if (!got->shape) return;
  ASSERT_EQ(got->shape->size(), static_cast<size_t>(type.shape().dim_size()));
  for (size_t a = 0; a < got->shape->size(); ++a) {
    const auto& d = type.shape().dim(static_cast<int>(a));
    EXPECT_EQ((*got->shape)[a].value.has_value(), d.has_dim_value());
    if (d.has_dim_value()) EXPECT_EQ(*(*got->shape)[a].value, d.dim_value());
    EXPECT_EQ((*got->shape)[a].param, d.dim_param());
  }
}

TEST(Reader, AgreesWithProtobufOnTheModelsOfTheTree) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(peri::tests::kSourceDir) + "/models")) {
    if (entry.path().extension() != ".onnx") continue;
    SCOPED_TRACE(entry.path().filename().string());
    ++files;
    const std::string bytes = read(entry.path());
    pb::ModelProto want;
    ASSERT_TRUE(want.ParseFromString(bytes));
    auto got = read_model(bytes);
    ASSERT_TRUE(got.ok()) << got.error().text();
    EXPECT_EQ(got->ir_version, want.ir_version());
    EXPECT_EQ(got->producer, want.producer_name());
    ASSERT_TRUE(got->graph.has_value());
    const GraphRecord& g = *got->graph;
    ASSERT_EQ(g.nodes.size(), static_cast<size_t>(want.graph().node_size()));
    ASSERT_EQ(g.initializers.size(), static_cast<size_t>(want.graph().initializer_size()));
    ASSERT_EQ(g.inputs.size(), static_cast<size_t>(want.graph().input_size()));
    for (int k = 0; k < want.graph().node_size(); ++k)
      same_node(want.graph().node(k), g.nodes[static_cast<size_t>(k)], bytes.data());
    for (int k = 0; k < want.graph().initializer_size(); ++k)
      same_tensor(want.graph().initializer(k), g.initializers[static_cast<size_t>(k)], bytes.data());
    for (int k = 0; k < want.graph().input_size(); ++k)
      same_value(want.graph().input(k), g.inputs[static_cast<size_t>(k)], bytes.data());
  }
  EXPECT_GE(files, 12);
}

TEST(Reader, DamagedBytesAreReadAsProtobufReadsThemOrRefused) {
  const std::string good = relu_model({"n", "4"}).SerializeAsString();
  Rng rng(3);
  int both = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (int64_t flips = 1 + rng.below(3); flips > 0; --flips)
      bad[static_cast<size_t>(rng.below(static_cast<int64_t>(bad.size())))] = static_cast<char>(rng.below(256));
    auto got = read_model(bad);
    pb::ModelProto want;
    if (!got.ok() || !want.ParseFromString(bad)) continue;  // ours is stricter: wire types, UTF-8, groups
    ++both;
    EXPECT_EQ(got->ir_version, want.ir_version()) << round;
    EXPECT_EQ(got->graph ? got->graph->nodes.size() : 0, static_cast<size_t>(want.graph().node_size())) << round;
  }
  EXPECT_GT(both, 1000);
}

// Every type, once by raw bytes and once by its typed field.
TEST(Reader, TypedAndRawDataAreTheSameTensor) {
  int types = 0;
  for (int i = 1; i < kDTypeCount; ++i) {
    const DType t = static_cast<DType>(i);
    const int onnx = dtype_to_onnx(t);
    if (t == DType::kString || t == DType::kC64 || t == DType::kC128) continue;
    ++types;
    Tensor want = Tensor::zeros(t, {3}).value();
    want.set_f64(0, 1);
    want.set_f64(1, 0);
    want.set_f64(2, is_signed(t) ? -1 : 1);
    P p;
    p.add_dims(3);
    p.set_data_type(onnx);
    const auto* bytes = reinterpret_cast<const uint8_t*>(want.bytes().data());
    const auto bits = [&](int64_t k) {
      uint64_t v = 0;
      __builtin_memcpy(&v, bytes + k * dtype_size(t), static_cast<size_t>(dtype_size(t)));
      return v;
    };
    if (dtype_bits(t) == 6) {
      for (int64_t k = 0; k < 3; ++k) p.add_int32_data(f32_to_f6(t, static_cast<float>(want.f64(k))));
    } else if (dtype_bits(t) < 8) {
      for (size_t k = 0; k < want.bytes().size(); ++k) p.add_int32_data(bytes[k]);
    } else {
      for (int64_t k = 0; k < 3; ++k) {
        switch (t) {
          case DType::kF32: p.add_float_data(static_cast<float>(want.f64(k))); break;
          case DType::kF64: p.add_double_data(want.f64(k)); break;
          case DType::kI64: p.add_int64_data(want.i64(k)); break;
          case DType::kU32:
          case DType::kU64: p.add_uint64_data(bits(k)); break;
          default: p.add_int32_data(is_integer(t) ? static_cast<int32_t>(want.i64(k)) : static_cast<int32_t>(bits(k)));
        }
      }
    }
    pb::ModelProto m = model();
    untyped_output(m, "typed");
    untyped_output(m, "raw");
    p.set_name("typed");
    *m.mutable_graph()->add_initializer() = p;
    initializer(m, "raw", {3}, std::string(reinterpret_cast<const char*>(bytes), want.bytes().size()), onnx);
    auto r = load(m);
    ASSERT_TRUE(r.ok()) << dtype_name(t) << ": " << r.error().text();
    EXPECT_TRUE(r->graph.find("typed")->constant->same_content(want)) << dtype_name(t);
    EXPECT_TRUE(r->graph.find("raw")->constant->same_content(want)) << dtype_name(t);
  }
  EXPECT_GE(types, 22);
}

TEST(Reader, ComplexAndStringData) {
  pb::ModelProto m = model();
  untyped_output(m, "c");
  untyped_output(m, "s");
  P* c = initializer(m, "c", {2}, "", P::COMPLEX64);
  c->clear_raw_data();
  for (float v : {1.f, 2.f, 3.f, 4.f}) c->add_float_data(v);
  P* s = initializer(m, "s", {2}, "", P::STRING);
  s->clear_raw_data();
  s->add_string_data("a");
  s->add_string_data(std::string("\0b", 2));
  auto r = load(m);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->graph.find("c")->constant->as<float>().data()[3], 4.f);
  EXPECT_EQ(r->graph.find("s")->constant->string_values()[1], std::string("\0b", 2));
}

TEST(Reader, WritesWhatProtobufReads) {
  const std::vector<float> values = {1, -2, 3};
  P p;
  ASSERT_TRUE(p.ParseFromString(write_tensor(Tensor::of_f32({3, 1}, values), "name")));
  EXPECT_EQ(p.name(), "name");
  EXPECT_EQ(p.data_type(), P::FLOAT);
  EXPECT_EQ(p.dims_size(), 2);
  EXPECT_EQ(p.raw_data(), std::string(reinterpret_cast<const char*>(values.data()), 12));
  ASSERT_TRUE(p.ParseFromString(write_tensor(Tensor::strings({2}, {"x", ""}).value(), "")));
  EXPECT_EQ(p.string_data_size(), 2);
}

}  // namespace
}  // namespace peri::onnx::tests
