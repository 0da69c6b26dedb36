// Products of one left side done together give, bit for bit, what each gives alone, in every order of their tasks.
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.hpp"
#include "device/target.hpp"
#include "kernels/entry.hpp"
#include "ops/entry.hpp"

namespace peri::kernels {
namespace {

struct Region {
  ir::Graph graph;
  std::vector<bool> constant;
};

// Products of x [m, k] with weights of the widths given, each with a bias, a relu behind the second.
Region products(int64_t m, int64_t k, const std::vector<int64_t>& widths) {
  Region p;
  ir::Value* x = p.graph.add_input("x", {DType::kF32, Shape{Dim(m), Dim(k)}});
  p.constant = {false};
  for (size_t n = 0; n < widths.size(); ++n) {
    const std::string name = std::to_string(n);
    ir::Value* w = p.graph.add_input("w" + name, {DType::kF32, Shape{Dim(k), Dim(widths[n])}});
    ir::Value* b = p.graph.add_input("b" + name, {DType::kF32, Shape{Dim(widths[n])}});
    p.constant.insert(p.constant.end(), 2, true);
    ir::Value* y = p.graph.add("add", {p.graph.add("matmul", {x, w})->out(), b})->out();
    if (n == 1) y = p.graph.add("relu", {y})->out();
    p.graph.mark_output(y, "y" + name);
  }
  EXPECT_TRUE(ops::infer_graph(p.graph).ok());
  return p;
}

std::vector<Tensor> seeded(const ir::Graph& g) {
  Rng rng(11);
  std::vector<Tensor> out;
  for (const ir::Value* v : g.inputs) {
    Tensor t = *Tensor::zeros(DType::kF32, dims_of(*v));
    for (int64_t n = 0; n < t.numel(); ++n) t.mutable_as<float>()[n] = static_cast<float>(rng.uniform() - 0.5);
    out.push_back(std::move(t));
  }
  return out;
}

// Results of a kernel's first offer, its tasks run forwards or backwards.
std::vector<Tensor> run(std::string_view name, const Region& p, const std::vector<Tensor>& in, bool backwards) {
  const Kernel* kernel = find(name);
  const device::Target target = device::this_cpu();
  std::vector<Tensor> constants(in.size()), out;
  std::vector<const void*> in_p;
  std::vector<void*> out_p;
  for (size_t k = 0; k < in.size(); ++k) {
    if (p.constant[k]) constants[k] = in[k];
    in_p.push_back(p.constant[k] ? nullptr : in[k].data());
  }
  for (const ir::Value* v : p.graph.outputs) out.push_back(*Tensor::zeros(DType::kF32, dims_of(*v)));
  for (Tensor& t : out) out_p.push_back(t.mutable_data());
  Packed packed;
  const auto offers = kernel->offer({&p.graph, p.constant}, target);
  EXPECT_TRUE(offers.ok()) << offers.error().text();
  auto made =
      kernel->instantiate({&p.graph, p.constant}, (*offers)[0].config, {constants, &packed, &target, nullptr, false});
  EXPECT_TRUE(made.ok()) << made.error().text();
  std::vector<std::byte> scratch((*made)->scratch_bytes() + 64);
  const int64_t tasks = (*made)->tasks(0);
  for (int64_t k = 0; k < tasks; ++k)
    (*made)->run_task(0, backwards ? tasks - 1 - k : k, {in_p, out_p, nullptr, scratch.data()});
  return out;
}

TEST(Siblings, GiveTheBitsOfEachAlone) {
  for (const int64_t m : {1, 7, 128, 301}) {
    const std::vector<int64_t> widths = {48, 17, 200};
    const Region all = products(m, 96, widths);
    const std::vector<Tensor> in = seeded(all.graph);
    const std::vector<Tensor> together = run("gemm_siblings_f32", all, in, false),
                              backwards = run("gemm_siblings_f32", all, in, true);
    for (size_t n = 0; n < widths.size(); ++n) {
      Region one{all.graph.clone(), all.constant};
      one.graph.outputs = {one.graph.outputs[n]};
      one.graph.output_names = {one.graph.output_names[n]};
      one.graph.erase_dead();
      const Tensor alone = run("gemm_f32", one, in, false)[0];
      EXPECT_EQ(std::memcmp(alone.data(), together[n].data(), alone.bytes().size()), 0) << m << " " << n;
      EXPECT_EQ(std::memcmp(alone.data(), backwards[n].data(), alone.bytes().size()), 0) << m << " " << n;
    }
  }
}

TEST(Siblings, RefuseWhatIsNotSeveralProductsOfOneLeftSide) {
  const Kernel* kernel = find("gemm_siblings_f32");
  const device::Target target = device::this_cpu();
  for (const char* text :
       {"graph { input x: f32[4,8]; input w: f32[8,8]; y = matmul(x, w); output y }",
        "graph { input x: f32[4,8]; input z: f32[4,8]; input w: f32[8,8]; a = matmul(x, w); b = matmul(z, w); output "
        "a; "
        "output b }",
        "graph { input x: f32[8,8]; input w: f32[8,8]; a = matmul(x, w); b = matmul(a, w); output a; output b }",
        "graph { input x: f32[4,8]; input w: f32[8,8]; a = matmul(x, w); b = relu(x); output a; output b }"}) {
    auto g = ir::parse_graph(text);
    ASSERT_TRUE(g.ok() && ops::infer_graph(*g).ok()) << text;
    std::vector<bool> constant;
    for (const ir::Value* v : g->inputs) constant.push_back(v->name == "w");
    const auto offers = kernel->offer({&*g, constant}, target);
    ASSERT_FALSE(offers.ok()) << text;
    EXPECT_EQ(offers.error().kind, ErrorKind::kRefused);
  }
}

}  // namespace
}  // namespace peri::kernels
