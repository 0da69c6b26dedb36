// Our GEMM and convolution kernels beside oneDNN's on the shapes of ResNet-50, BERT and MobileNet: best time of several
// interleaved rounds, GFLOP/s and share of the measured FMA peak. With --cold every run takes other weights, as a
// network whose weights do not fit the cache does. Usage: gemm_bench [--cold] [--threads N] [--avx2] [--only TEXT]
// [--ours]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "device/target.hpp"
#include "kernels/cpu/conv/conv.hpp"
#include "kernels/cpu/conv/winograd.hpp"
#include "kernels/cpu/gemm/gemm.hpp"
#include "kernels/vendor/library.hpp"
#include "oneapi/dnnl/dnnl.hpp"

extern "C" void omp_set_num_threads(int);  // of libgomp, which runs oneDNN

namespace cpu = peri::kernels::cpu;

namespace {

struct Options {
  bool cold = false, ours_only = false;
  int threads = 2;
  cpu::Isa isa = cpu::Isa::kAvx2;
  std::string only;
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Threads that spin between runs of one batch and end with it, so that nothing of ours runs beside oneDNN's threads.
class Crew {
 public:
  explicit Crew(int threads) {
    for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Crew() {
    stop_ = true;
    for (auto& t : threads_) t.join();
  }
  void run(int64_t tasks, const std::function<void(int64_t)>& fn) {
    fn_ = &fn;
    tasks_ = tasks;
    next_ = 0;
    left_ = static_cast<int>(threads_.size());
    ++round_;
    take();
    while (left_.load() != 0) __builtin_ia32_pause();
  }

 private:
  void take() {
    for (int64_t t = next_++; t < tasks_; t = next_++) (*fn_)(t);
  }
  void work() {
    int seen = 0;
    for (;;) {
      while (round_.load() == seen) {
        if (stop_) return;
        __builtin_ia32_pause();
      }
      ++seen;
      take();
      --left_;
    }
  }
  std::vector<std::thread> threads_;
  const std::function<void(int64_t)>* fn_ = nullptr;
  int64_t tasks_ = 0;
  std::atomic<int64_t> next_{0};
  std::atomic<int> left_{0}, round_{0};
  std::atomic<bool> stop_{false};
};

using Floats = std::unique_ptr<float, decltype(&std::free)>;

Floats floats(int64_t n) {
  float* p = static_cast<float*>(std::aligned_alloc(64, (static_cast<size_t>(n) * 4 + 127) / 64 * 64));
  for (int64_t i = 0; i < n; ++i) p[i] = static_cast<float>((i * 2654435761u >> 8) & 0xffff) / 65536.0f - 0.5f;
  return {p, &std::free};
}

// One contender: runs once with weight copy `copy`.
using Run = std::function<void(Crew*, int64_t copy)>;

struct Case {
  std::string name;
  double flops = 0;
  int64_t copies = 1;
  Run ours, dnnl;
  bool ours_beside = false;  // the other contender is ours too
};

double best(const Run& run, int64_t copies, Crew* crew) {
  double best = 1e9, spent = 0;
  for (int64_t i = 0; i < 20 || (spent < 0.05 && i < 400) || i < copies; ++i) {
    const double t0 = seconds();
    run(crew, i % copies);
    const double t = seconds() - t0;
    best = std::min(best, t);
    spent += t;
    if (spent > 0.4) break;
  }
  return best;
}

void measure(const Case& c, const Options& options, double peak) {
  if (!options.only.empty() && c.name.find(options.only) == std::string::npos) return;
  double ours = 1e9, dnnl = 1e9;
  for (int round = 0; round < 4; ++round) {
    {
      Crew crew(options.threads);
      ours = std::min(ours, best(c.ours, c.copies, &crew));
    }
    if (!options.ours_only) {
      Crew crew(c.ours_beside ? options.threads : 1);
      dnnl = std::min(dnnl, best(c.dnnl, c.copies, &crew));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its threads stop spinning
    }
  }
  std::printf("%-34s %9.1f us %7.1f GF/s %5.1f %%", c.name.c_str(), ours * 1e6, c.flops / ours / 1e9,
              100 * c.flops / ours / 1e9 / peak);
  if (!options.ours_only)
    std::printf("   %s %9.1f us %7.1f GF/s   x%.2f", c.ours_beside ? "direct" : "dnnl", dnnl * 1e6,
                c.flops / dnnl / 1e9, dnnl / ours);
  std::printf("\n");
  std::fflush(stdout);
}

int64_t copies_for(const Options& options, int64_t weight_floats) {
  return options.cold ? std::clamp<int64_t>(100'000'000 / (weight_floats * 4 + 1), 2, 200) : 1;
}

dnnl::engine& engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}
dnnl::stream& stream() {
  static dnnl::stream s(engine());
  return s;
}
using Md = dnnl::memory::desc;
using Dt = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

dnnl::memory filled(const Md& md) {
  dnnl::memory m(md, engine());
  float* p = static_cast<float*>(m.get_data_handle());
  for (size_t i = 0; i < md.get_size() / 4; ++i) p[i] = 0.25f;
  return m;
}

using Args = std::unordered_map<int, dnnl::memory>;

Run dnnl_run(const dnnl::primitive& p, Args args, const Md& weights, int64_t copies) {
  std::vector<dnnl::memory> w;
  for (int64_t i = 0; i < copies; ++i) w.push_back(filled(weights));
  return [p, args, w](Crew*, int64_t copy) mutable {
    args.insert_or_assign(DNNL_ARG_WEIGHTS, w[static_cast<size_t>(copy)]);
    p.execute(stream(), args);
    stream().wait();
  };
}

Case gemm_case(const Options& o, int64_t m, int64_t k, int64_t n, bool gelu = false) {
  Case c;
  c.name = "gemm " + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n) + (gelu ? " gelu" : "");
  c.flops = 2.0 * static_cast<double>(m * n * k);
  c.copies = copies_for(o, k * n);
  auto plan = std::make_shared<cpu::GemmPlan>(cpu::plan_gemm({.m = m, .n = n, .k = k}, o.isa));
  const int64_t packed = cpu::packed_b_floats(k, n, o.isa);
  auto a = std::make_shared<Floats>(floats(m * k)), y = std::make_shared<Floats>(floats(m * n));
  auto b = std::make_shared<Floats>(floats(packed * c.copies)), bias = std::make_shared<Floats>(floats(n));
  c.ours = [=](Crew* crew, int64_t copy) {
    cpu::GemmArgs args{.a = a->get(), .lda = k, .b = b->get() + copy * packed, .c = y->get(), .ldc = n, .epilogue = {}};
    cpu::add_bias(args.epilogue, bias->get());
    if (gelu) cpu::add_activation(args.epilogue, cpu::Activation::kGelu);
    crew->run(plan->tasks, [&](int64_t t) { cpu::run_task(*plan, args, t, nullptr); });
  };
  if (o.ours_only) return c;
  dnnl::post_ops ops;
  if (gelu) ops.append_eltwise(dnnl::algorithm::eltwise_gelu_erf, 0, 0);
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  const Md src({m, k}, Dt::f32, Tag::ab), dst({m, n}, Dt::f32, Tag::ab), bias_md({n}, Dt::f32, Tag::a);
  const dnnl::inner_product_forward::primitive_desc pd(engine(), dnnl::prop_kind::forward_inference, src,
                                                       Md({n, k}, Dt::f32, Tag::any), bias_md, dst, attr);
  c.dnnl = dnnl_run(dnnl::inner_product_forward(pd),
                    {{DNNL_ARG_SRC, filled(src)}, {DNNL_ARG_BIAS, filled(bias_md)}, {DNNL_ARG_DST, filled(dst)}},
                    pd.weights_desc(), c.copies);
  return c;
}

Case conv_case(const Options& o, const char* name, cpu::ConvShape s) {
  Case c;
  c.name = std::string(name) + " n" + std::to_string(s.n) + " " + std::to_string(s.ic) + ">" + std::to_string(s.oc) +
           "@" + std::to_string(s.oh()) + " k" + std::to_string(s.kh) + " s" + std::to_string(s.sh) +
           (s.groups > 1 ? " g" + std::to_string(s.groups) : "") + (s.x_form == cpu::XForm::kNchw ? " nchw" : "");
  const int64_t oh = s.oh(), ow = s.ow(), icg = s.ic / s.groups, weights = s.oc * icg * s.kh * s.kw;
  c.flops = 2.0 * static_cast<double>(s.n * oh * ow * s.oc * icg * s.kh * s.kw);
  c.copies = copies_for(o, weights);
  auto plan = std::make_shared<cpu::ConvPlan>(cpu::plan_conv(s, o.isa));
  const int64_t packed = cpu::packed_conv_floats(s, o.isa), scratch = (plan->scratch_floats + 31) / 16 * 16;
  auto x = std::make_shared<Floats>(floats(s.n * s.ih * s.iw * s.ic)),
       y = std::make_shared<Floats>(floats(s.n * oh * ow * s.oc));
  auto w = std::make_shared<Floats>(floats(packed * c.copies)), bias = std::make_shared<Floats>(floats(s.oc));
  c.ours = [=](Crew* crew, int64_t copy) {
    cpu::ConvArgs args{.x = x->get(), .w = w->get() + copy * packed, .y = y->get(), .epilogue = {}};
    cpu::add_bias(args.epilogue, bias->get());
    cpu::add_activation(args.epilogue, cpu::Activation::kRelu);
    crew->run(plan->tasks, [&](int64_t t) {
      static thread_local Floats memory = {nullptr, &std::free};
      static thread_local int64_t have = 0;
      if (have < scratch) {
        memory = floats(scratch);
        have = scratch;
      }
      cpu::run_task(*plan, args, t, memory.get());
    });
  };
  if (o.ours_only) return c;
  dnnl::post_ops ops;
  ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  const bool first = s.ic <= 4;
  const Md src({s.n, s.ic, s.ih, s.iw}, Dt::f32, first ? Tag::nchw : Tag::any),
      dst({s.n, s.oc, oh, ow}, Dt::f32, Tag::any);
  const Md bias_md({s.oc}, Dt::f32, Tag::a);
  const Md w_md = s.groups > 1 ? Md({s.groups, s.oc / s.groups, icg, s.kh, s.kw}, Dt::f32, Tag::any)
                               : Md({s.oc, icg, s.kh, s.kw}, Dt::f32, Tag::any);
  const dnnl::convolution_forward::primitive_desc pd(
      engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, src, w_md, bias_md, dst,
      {s.sh, s.sw}, {s.dh - 1, s.dw - 1}, {s.top, s.left}, {s.bottom, s.right}, attr);
  c.dnnl = dnnl_run(
      dnnl::convolution_forward(pd),
      {{DNNL_ARG_SRC, filled(pd.src_desc())}, {DNNL_ARG_BIAS, filled(bias_md)}, {DNNL_ARG_DST, filled(pd.dst_desc())}},
      pd.weights_desc(), c.copies);
  return c;
}

Case winograd_case(const Options& o, cpu::ConvShape s, int64_t m) {
  Options direct = o;
  direct.ours_only = true;
  Case c = conv_case(direct, ("F" + std::to_string(m)).c_str(), s);
  c.dnnl = c.ours;  // beside our own direct sum
  c.ours_beside = true;
  auto plan = std::make_shared<cpu::WinogradPlan>(cpu::plan_winograd(s, m, o.isa));
  const int64_t packed = cpu::packed_winograd_floats(s, m, o.isa), scratch = (plan->scratch_floats + 31) / 16 * 16;
  auto x = std::make_shared<Floats>(floats(s.n * s.ih * s.iw * s.ic)),
       y = std::make_shared<Floats>(floats(s.n * s.oh() * s.ow() * s.oc));
  auto w = std::make_shared<Floats>(floats(packed * c.copies)), bias = std::make_shared<Floats>(floats(s.oc));
  c.ours = [=](Crew* crew, int64_t copy) {
    cpu::ConvArgs args{.x = x->get(), .w = w->get() + copy * packed, .y = y->get(), .epilogue = {}};
    cpu::add_bias(args.epilogue, bias->get());
    cpu::add_activation(args.epilogue, cpu::Activation::kRelu);
    crew->run(plan->tasks, [&](int64_t t) {
      static thread_local Floats memory = {nullptr, &std::free};
      static thread_local int64_t have = 0;
      if (have < scratch) {
        memory = floats(scratch);
        have = scratch;
      }
      cpu::run_task(*plan, args, t, memory.get());
    });
  };
  return c;
}

cpu::ConvShape square(int64_t n, int64_t ic, int64_t oc, int64_t image, int64_t kernel, int64_t stride = 1,
                      int64_t groups = 1) {
  cpu::ConvShape s{
      .n = n, .ih = image, .iw = image, .ic = ic, .oc = oc, .kh = kernel, .kw = kernel, .sh = stride, .sw = stride};
  s.top = s.left = s.bottom = s.right = kernel / 2;
  s.groups = groups;
  return s;
}

// The rate of a product that stays in L1: what the FMA units sustain, measured through our own tile.
double measured_peak(const Options& o) {
  const cpu::GemmPlan plan = cpu::plan_gemm({.m = 12, .n = cpu::tile_table(o.isa).lanes * 2, .k = 200}, o.isa);
  auto a = floats(12 * 200), b = floats(cpu::packed_b_floats(200, plan.shape.n, o.isa));
  double best = 1e9;
  Crew crew(o.threads);
  for (int i = 0; i < 40; ++i) {
    const double t0 = seconds();
    crew.run(o.threads, [&](int64_t) {
      float c[12 * 32];
      const cpu::GemmArgs args{.a = a.get(), .lda = 200, .b = b.get(), .c = c, .ldc = plan.shape.n, .epilogue = {}};
      for (int r = 0; r < 2000; ++r) cpu::run_task(plan, args, 0, nullptr);
    });
    best = std::min(best, seconds() - t0);
  }
  return o.threads * 2000 * 2.0 * 12 * 200 * static_cast<double>(plan.shape.n) / best / 1e9;
}

void run_gemms(const Options& o, double peak) {
  const int64_t shapes[][3] = {
      {1, 768, 768},    {1, 2048, 1000},   {4, 768, 3072},    {8, 384, 1536},   {16, 768, 768},    {128, 384, 384},
      {128, 384, 1536}, {128, 768, 768},   {128, 768, 3072},  {128, 3072, 768}, {128, 1024, 4096}, {128, 4096, 1024},
      {1024, 768, 768}, {1024, 768, 3072}, {1024, 3072, 768}, {197, 192, 768},  {50, 512, 2048}};
  for (const auto& s : shapes) measure(gemm_case(o, s[0], s[1], s[2]), o, peak);
  measure(gemm_case(o, 128, 768, 3072, true), o, peak);
}

void run_convs(const Options& o, double peak) {
  for (int64_t n : {1, 8}) {
    for (const auto& [channels, image] : {std::pair{64, 56}, {128, 28}, {256, 14}, {512, 7}}) {
      for (int64_t m : {2, 4}) measure(winograd_case(o, square(n, channels, channels, image, 3), m), o, peak);
    }
    cpu::ConvShape stem = square(n, 3, 64, 224, 7, 2);
    stem.x_form = cpu::XForm::kNchw;
    measure(conv_case(o, "stem", stem), o, peak);
    measure(conv_case(o, "3x3", square(n, 64, 64, 56, 3)), o, peak);
    measure(conv_case(o, "3x3", square(n, 128, 128, 28, 3)), o, peak);
    measure(conv_case(o, "3x3", square(n, 256, 256, 14, 3)), o, peak);
    measure(conv_case(o, "3x3", square(n, 512, 512, 7, 3)), o, peak);
    measure(conv_case(o, "3x3", square(n, 128, 128, 56, 3, 2)), o, peak);
    measure(conv_case(o, "1x1", square(n, 64, 256, 56, 1)), o, peak);
    measure(conv_case(o, "1x1", square(n, 256, 64, 56, 1)), o, peak);
    measure(conv_case(o, "1x1", square(n, 512, 128, 28, 1)), o, peak);
    measure(conv_case(o, "1x1", square(n, 128, 512, 28, 1)), o, peak);
    measure(conv_case(o, "1x1", square(n, 1024, 256, 14, 1)), o, peak);
    measure(conv_case(o, "1x1", square(n, 256, 1024, 14, 1)), o, peak);
    measure(conv_case(o, "1x1", square(n, 2048, 512, 7, 1)), o, peak);
    measure(conv_case(o, "1x1", square(n, 512, 2048, 7, 1)), o, peak);
    measure(conv_case(o, "1x1", square(n, 1024, 2048, 14, 1, 2)), o, peak);
    measure(conv_case(o, "1x1", square(n, 16, 64, 112, 1)), o, peak);
    measure(conv_case(o, "1x1", square(n, 64, 24, 56, 1)), o, peak);
    measure(conv_case(o, "1x1", square(n, 40, 240, 28, 1)), o, peak);
    measure(conv_case(o, "1x1", square(n, 480, 112, 14, 1)), o, peak);
    measure(conv_case(o, "dw", square(n, 16, 16, 112, 3, 1, 16)), o, peak);
    measure(conv_case(o, "dw", square(n, 64, 64, 112, 3, 2, 64)), o, peak);
    measure(conv_case(o, "dw", square(n, 72, 72, 56, 3, 1, 72)), o, peak);
    measure(conv_case(o, "dw", square(n, 120, 120, 28, 5, 1, 120)), o, peak);
    measure(conv_case(o, "dw", square(n, 480, 480, 14, 3, 1, 480)), o, peak);
    measure(conv_case(o, "dw", square(n, 960, 960, 7, 5, 1, 960)), o, peak);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  const auto found = cpu::best_isa(peri::device::this_cpu());
  if (!found.ok()) {
    std::fprintf(stderr, "this machine has no AVX2\n");
    return 2;
  }
  o.isa = *found;
  if (const peri::Status there = peri::kernels::vendor::open_onednn(); !there.ok()) {
    std::fprintf(stderr, "%s\n", there.error().text().c_str());
    return 2;
  }
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--cold") {
      o.cold = true;
    } else if (arg == "--ours") {
      o.ours_only = true;
    } else if (arg == "--avx2") {
      o.isa = cpu::Isa::kAvx2;
    } else if (arg == "--threads" && i + 1 < argc) {
      o.threads = std::atoi(argv[++i]);
    } else if (arg == "--only" && i + 1 < argc) {
      o.only = argv[++i];
    } else {
      std::fprintf(stderr, "gemm_bench [--cold] [--threads N] [--avx2] [--only TEXT] [--ours]\n");
      return 2;
    }
  }
  omp_set_num_threads(o.threads);
  if (o.isa == cpu::Isa::kAvx2) setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  const double peak = measured_peak(o);
  std::printf("%s, %d threads, peak %.1f GFLOP/s%s\n", std::string(cpu::isa_name(o.isa)).c_str(), o.threads, peak,
              o.cold ? ", cold weights" : "");
  run_gemms(o, peak);
  run_convs(o, peak);
  return 0;
}
