// What the library says names its own options: no message that leaves it tells a program of flags of the command line.
// label: cpu
#include "api/option_names.hpp"

#include <gtest/gtest.h>
#include <peri/peri.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <vector>

#include "api/handles.hpp"
#include "tests/places.hpp"

namespace peri::api {
namespace {

namespace fs = std::filesystem;

// The first flag in a text, whole commands left out; "": none.
std::string flag_in(const std::string& text) {
  static const std::regex command("'peri [^']*'|peri [a-z-][^;,]*"), flag("(^|[ ('])(--[a-z][a-z-]*)");
  std::smatch found;
  const std::string rest = std::regex_replace(text, command, "");
  return std::regex_search(rest, found, flag) ? found[2].str() : "";
}

TEST(OptionNames, FlagsBecomeOptions) {
  for (const auto& [flags, options] : std::initializer_list<std::pair<const char*, const char*>>{
           {"give the number of its elements: --dims x=N", "give the number of its elements: the option dims \"x=N\""},
           {"give its size: --dims NAME=N", "give its size: the option dims"},
           {"--backend cuda: driver is not found; build for the CPU with --backend cpu",
            "the option backend \"cuda\": driver is not found; build for the CPU with the option backend \"cpu\""},
           {"--dtype is not an element type", "the option dtype is not an element type"},
           {"widen --min-shapes and --max-shapes of its build",
            "widen the option min_dims and the option max_dims of its build"},
           {"build it for values without elements: --min-shapes image:0x1x8x8",
            "build it for values without elements: the option min_dims \"image.0=0\""},
           {"--min-shapes 'x.y:2x0x0'", "the option min_dims \"x.y.1=0\", \"x.y.2=0\""},
           {"--min-shapes x:2x8 is larger", "the option min_dims \"x.0=2\", \"x.1=8\" is larger"},
           {"widen --max-shapes a:b:4x20; or --shapes x:1xy, once",
            "widen the option max_dims \"a:b.0=4\", \"a:b.1=20\"; or the option dims x:1xy, once"},
           {"build with --disable-pass fold and report this",
            "build with the option disabled_passes \"fold\" and report this"},
           {"peri build MODEL --backend cuda -o ENGINE, or leave --device out",
            "peri build MODEL --backend cuda -o ENGINE, or leave the option device out"},
           {"give its manifest: --kernel FILE, or build again", "give its manifest: peri_kernel_add(), or build again"},
           {"the file --locked-by-me and a--dims stay", "the file --locked-by-me and a--dims stay"}})
    EXPECT_EQ(in_words_of_library(flags), options);
}

TEST(OptionNames, TheLogNamesNoFlag) {
  std::string told;
  const Log log{[](void* user, peri_log_level, const char* message) { *static_cast<std::string*>(user) = message; },
                &told};
  ASSERT_TRUE(log.tell(PERI_LOG_INFO, "give its size: --dims NAME=N").ok());
  EXPECT_EQ(told, "give its size: the option dims");
}

// Every literal of the rooms that stand behind the library.
TEST(OptionNames, EveryFlagThatARoomNamesIsAnOption) {
  static const std::regex literal(R"re("((?:[^"\\]|\\.)*)")re"), alone("--[^ ]*");
  int64_t seen = 0;
  for (const auto& file : fs::recursive_directory_iterator(std::string(tests::kSourceDir) + "/src")) {
    const std::string path = file.path().string(), extension = file.path().extension().string();
    const std::string room = fs::relative(file.path(), std::string(tests::kSourceDir) + "/src").begin()->string();
    if ((extension != ".cpp" && extension != ".hpp") || room == "cli" || room == "serve" || room == "python") continue;
    if (path.ends_with("api/option_names.cpp") || path.ends_with("build/servable.cpp")) continue;  // the list; a server
    if (path.ends_with("build/explain_page.cpp") || path.ends_with("build/replay.cpp")) continue;  // styles; a command
    if (path.ends_with("compile/other_files.cpp")) continue;  // a command of another program
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      if (line.find("#include") != std::string::npos) continue;
      line = line.substr(0, line.find(" // "));
      for (std::sregex_iterator at(line.begin(), line.end(), literal), end; at != end; ++at) {
        const std::string text = (*at)[1];
        if (text.find("--") == std::string::npos || std::regex_match(text, alone)) continue;  // a word of a command
        ++seen;
        EXPECT_EQ(flag_in(in_words_of_library(text)), "") << path << ": " << text;
      }
    }
  }
  EXPECT_GT(seen, 20);
}

peri_build_options quick() {
  peri_build_options o = {};
  o.struct_size = sizeof o;
  o.no_tune = o.no_verify = o.no_cache = o.threads = 1;
  return o;
}

std::string said(peri_error* error, peri_error_part part) {
  const std::string text = peri_error_get(error, part);
  peri_error_free(error);
  return text;
}

TEST(OptionNames, ErrorsOfCallsNameNoFlag) {
  const std::string model = std::string(tests::kSourceDir) + "/models/digits_cnn.onnx";
  const peri_fixed none = {"none", "1"};
  const peri_dim four = {"batch", 4}, eight = {"batch", 8};
  peri_build_options wrong[] = {quick(), quick(), quick(), quick(), quick(), quick()};
  wrong[0].fixed = &none;
  wrong[0].fixed_count = 1;
  for (const size_t k : {size_t{1}, size_t{2}}) {
    wrong[k].max_dims = &four;
    (k == 1 ? wrong[k].dims : wrong[k].min_dims) = &eight;
    wrong[k].max_dim_count = (k == 1 ? wrong[k].dim_count : wrong[k].min_dim_count) = 1;
  }
  wrong[3].dtype = "f17";
  wrong[4].device = "cuda:99";
  wrong[5].backend = "cpu";
  wrong[5].device = "cuda:0";
  for (const peri_build_options& o : wrong) {
    peri_engine* engine = nullptr;
    const std::string text = said(peri_engine_build(model.c_str(), &o, &engine), PERI_ERROR_TEXT);
    EXPECT_NE(text, "");
    EXPECT_EQ(flag_in(text), "") << text;
  }
  peri_build_options narrow = quick();
  narrow.max_dims = &four;
  narrow.max_dim_count = 1;
  peri_engine* engine = nullptr;
  ASSERT_EQ(peri_engine_build(model.c_str(), &narrow, &engine), nullptr);
  peri_session* session = nullptr;
  ASSERT_EQ(peri_session_create(engine, 1, &session), nullptr);
  std::vector<float> image(64 * 5);
  const int64_t dims[] = {5, 1, 8, 8};
  const peri_tensor in = {sizeof in, PERI_F32, PERI_DEVICE_HOST, dims, 4, image.data(), image.size() * 4, 0};
  peri_tensor out = {};
  out.struct_size = sizeof out;
  EXPECT_EQ(said(peri_session_run(session, &in, 1, &out, 1, nullptr), PERI_ERROR_REMEDY),
            "widen the option min_dims and the option max_dims of its build, or leave them out: then any size runs");
  peri_session_free(session);
  peri_engine_free(engine);
}

}  // namespace
}  // namespace peri::api
