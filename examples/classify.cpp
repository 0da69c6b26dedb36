// Builds an engine from a classifier (ONNX), saves it, and names the class of an image read from a file of raw floats,
// or of a grey image if none is given.   usage: classify MODEL.onnx ENGINE [IMAGE.f32]
#include <peri/peri.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

static int complain(const peri::Error& error) {
  std::fprintf(stderr, "%s\n", error.text.c_str());
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: classify MODEL.onnx ENGINE [IMAGE.f32]\n");
    return 2;
  }

  peri::BuildOptions options;
  options.dims = {{"batch", 1}};
  options.engine_path = argv[2];
  auto engine = peri::Engine::build(argv[1], options);
  if (!engine) return complain(engine.error());

  // One image: the sizes that are not fixed (the batch) are 1.
  if (engine->inputs().size() != 1) {
    std::fprintf(stderr, "this example takes models with one input\n");
    return 1;
  }
  const peri::Port input = engine->inputs()[0];
  std::vector<int64_t> dims = input.dims;
  size_t count = 1;
  for (int64_t& d : dims) count *= static_cast<size_t>(d = std::max<int64_t>(d, 1));
  std::vector<float> image(count, 0.5f);
  if (argc > 3) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(argv[3], "rb"), std::fclose);
    if (!file || std::fread(image.data(), sizeof(float), count, file.get()) != count) {
      std::fprintf(stderr, "%s does not hold %zu floats\n", argv[3], count);
      return 1;
    }
  }

  auto session = peri::Session::create(*engine);
  if (!session) return complain(session.error());
  auto outputs = session->run({peri::View::of(std::span(image), dims)});
  if (!outputs) return complain(outputs.error());

  const std::span<const float> scores = outputs->at(0).as<float>();
  if (scores.empty()) {
    std::fprintf(stderr, "the first output holds no f32\n");
    return 1;
  }
  const auto best = std::max_element(scores.begin(), scores.end());
  std::printf("class %zd of %zu, score %.4f\n", best - scores.begin(), scores.size(), static_cast<double>(*best));
  if (std::fflush(stdout) != 0) {  // a full disk, say
    std::perror("standard output");
    return 1;
  }
  return 0;
}
