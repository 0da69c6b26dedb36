// The commands do what they say on a trained model, from its file and from an engine made of it: right answers pass,
// wrong budgets, damaged weights and unknown words fail with their exit codes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/console/arguments.hpp"
#include "plan/engine_file.hpp"
#include "tests/places.hpp"

namespace peri::cli {
namespace {

const std::string kModel = std::string(tests::kSourceDir) + "/models/digits_cnn.onnx";

// A command as typed, always quiet.
Result<Outcome> command(std::string_view name, std::vector<std::string> words) {
  const Command* c = find(name);
  if (!c) return internal_error("no command");
  words.emplace_back("--quiet");
  std::vector<char*> raw;
  for (std::string& w : words) raw.push_back(w.data());
  PERI_ASSIGN(const Arguments arguments, parse_arguments(*c, raw));
  return c->run(arguments);
}
Json json_of(const Result<Outcome>& r) {
  EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().text());
  auto json = parse_json(r.ok() ? r->json : "{}");
  EXPECT_TRUE(json.ok()) << r->json;
  return std::move(json).value();
}

// A protobuf field of bytes, and of a number.
std::string varint(uint64_t v) {
  std::string out;
  for (; v >= 128; v >>= 7) out += static_cast<char>(128 | (v & 127));
  return out += static_cast<char>(v);
}
std::string field(uint64_t number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string field(uint64_t number, uint64_t value) { return varint(number << 3) + varint(value); }

// An ONNX file (onnx.proto3): y[1,1,?,?] = MaxPool(x[1,1,side,side]) with a square window, fields by number.
std::string pool_model(uint64_t side, uint64_t window) {
  std::string shape, kernel = field(1, "kernel_shape") + field(20, 7);
  for (uint64_t d : {uint64_t{1}, uint64_t{1}, side, side}) shape += field(1, field(1, d));
  for (int k = 0; k < 2; ++k) kernel += field(8, window);
  const std::string type = field(2, field(1, field(1, 1) + field(2, shape)));
  const std::string node = field(1, "x") + field(2, "y") + field(4, "MaxPool") + field(5, kernel);
  const std::string graph = field(1, node) + field(2, "g") + field(11, field(1, "x") + type) + field(12, field(1, "y"));
  return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17));
}

class Commands : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / ("peri_commands_" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(folder_);
    engine_ = folder_ + "/digits.engine";
    const auto built = command("build", {kModel, "-o", engine_, "--no-tune", "--no-cache", "--dims", "batch=2"});
    ASSERT_TRUE(built.ok()) << built.error().text();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_, engine_;
};

TEST_F(Commands, InspectTellsWhatAModelNeeds) {
  const Json j = json_of(command("inspect", {kModel}));
  EXPECT_TRUE(j.get_bool("runs").value());
  EXPECT_EQ(j.get_int("parameters").value() * 4, j.get_int("weight_bytes").value());
  EXPECT_GT(j.get_int("arena_bytes").value(), 0);
  EXPECT_GT((*j.get("build_estimate"))->get_double("seconds").value(), 0);
  EXPECT_NE((*j.get("symbols"))->find("batch"), nullptr);
}

TEST_F(Commands, InspectListsOperators) {
  const Json j = json_of(command("inspect", {"--operators"}));
  bool relu = false;
  for (const Json& o : (*j.get("operators"))->items())
    relu = relu ||
           (o.get_string("name", "").value() == "Relu" && (*o.get("versions"))->items().back().as_int().value() == 14);
  EXPECT_TRUE(relu);
  EXPECT_FALSE(command("inspect", {}).ok());
}

TEST_F(Commands, InspectChecksTheWeightsOfAnEngine) {
  EXPECT_TRUE(json_of(command("inspect", {engine_, "--check"})).get_bool("weights_checked").value());
  std::string bytes = read_file(engine_, 1 << 28).value();
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  ASSERT_TRUE(write_file_atomic(engine_, bytes).ok());
  EXPECT_TRUE(command("inspect", {engine_}).ok()) << "weights are not read without --check";
  EXPECT_FALSE(command("inspect", {engine_, "--check"}).ok());
  EXPECT_FALSE(command("verify", {engine_}).ok());
}

TEST_F(Commands, InspectTellsThePrecisionOfAnEngine) {
  EXPECT_EQ(json_of(command("inspect", {engine_})).get_string("precision").value(), "f32");
  const std::string half = folder_ + "/half.engine";
  ASSERT_TRUE(
      command("build", {kModel, "-o", half, "--no-tune", "--no-cache", "--dims", "batch=2", "--dtype", "bf16"}).ok());
  EXPECT_EQ(json_of(command("inspect", {half})).get_string("precision").value(), "bf16");
}

TEST_F(Commands, VerifyComparesWithTheReference) {
  const auto good = command("verify", {kModel, "--no-tune", "--no-cache", "--dims", "batch=3", "--bisect"});
  const Json j = json_of(good);
  EXPECT_EQ(good->code, 0) << good->summary;
  EXPECT_EQ(j.get_array("outputs").value()->size(), 2u);
  for (const Json& step : **j.get_array("bisect")) EXPECT_EQ(step.get_string("why").value(), "");
  const auto engine = command("verify", {engine_, "--seed", "5"});
  ASSERT_TRUE(engine.ok()) << engine.error().text();
  EXPECT_EQ(engine->code, 0) << engine->summary;
  const auto strict = command("verify", {engine_, "--max-error", "1e-13"});
  ASSERT_TRUE(strict.ok());
  EXPECT_EQ(strict->code, 3);
}

TEST_F(Commands, WhatIsForSuitesIsNotIgnoredForAModel) {
  for (const char* flag : {"--memory", "--filter", "--min-passed", "--at-once"}) {
    const auto r = command("verify", {kModel, flag, "1"});
    ASSERT_FALSE(r.ok()) << flag;
    EXPECT_EQ(r.error().kind, ErrorKind::kUsage) << r.error().text();
    EXPECT_NE(r.error().text().find("is for --suite"), std::string::npos) << r.error().text();
  }
}

// 200 bytes of model, 16 Tflop of reference: refused before anything of it runs.
TEST_F(Commands, VerifyRefusesAReferenceOfHours) {
  const std::string model = folder_ + "/pool.onnx";
  ASSERT_TRUE(write_file_atomic(model, pool_model(4000, 2000)).ok());
  const auto r = command("verify", {model, "--no-tune", "--no-cache"});
  ASSERT_FALSE(r.ok()) << r->summary;
  EXPECT_NE(r.error().text().find("found 16 Tflop"), std::string::npos) << r.error().text();
  for (const char* way : {"--onnxruntime", "--steps-only"})
    EXPECT_NE(r.error().text().find(way), std::string::npos) << r.error().text();
}

TEST_F(Commands, BisectNamesTheStepThatIsWrong) {
  // The second step's clip gets another upper end: the step does what its region says, which is not what the source
  // says.
  plan::LoadedEngine loaded = plan::load_engine(engine_).value();
  std::vector<Tensor> weights;
  for (const plan::Weight& w : loaded.program.weights)
    weights.push_back(
        Tensor::view(w.dtype, w.dims, loaded.weight_bytes.subspan(w.offset, w.bytes), loaded.file).value());
  std::string& payload = loaded.program.steps[1].variants[0].payload;
  const size_t at = payload.find("[6.0]");
  ASSERT_NE(at, std::string::npos);
  payload.replace(at, 5, "[0.1]");
  const std::string wrong = folder_ + "/wrong.engine";
  ASSERT_TRUE(plan::write_engine(wrong, loaded.program, weights).ok());
  const auto r = command("verify", {wrong, "--bisect"});
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->code, 3) << r->summary;
  EXPECT_NE(r->summary.find("first step outside its bound is 1, '" + loaded.program.steps[1].name + "'"),
            std::string::npos)
      << r->summary;
  const auto alone = command("verify", {wrong, "--steps-only"});
  ASSERT_TRUE(alone.ok()) << alone.error().text();
  EXPECT_EQ(alone->code, 0) << "each step does what its region says";
  EXPECT_NE(alone->summary.find("the outputs were not compared"), std::string::npos) << alone->summary;
  EXPECT_EQ(command("verify", {wrong, "--steps-only", "--onnxruntime"}).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(command("verify", {wrong, "--steps-only", "--seed", "1", "--seed", "2"}).error().kind, ErrorKind::kUsage);
  const auto right = command("verify", {engine_, "--bisect"});
  ASSERT_TRUE(right.ok()) << right.error().text();
  EXPECT_NE(right->summary.find("is within its own bound"), std::string::npos) << right->summary;
}

TEST_F(Commands, VerifyComparesWithFiles) {
  const std::string out = folder_ + "/out";
  ASSERT_TRUE(command("run", {engine_, "--input", "image=random:3", "--output-dir", out}).ok());
  const auto same = command("verify", {engine_, "--input", "image=random:3", "--reference-dir", out});
  ASSERT_TRUE(same.ok()) << same.error().text();
  EXPECT_EQ(same->code, 0);
  const auto other = command("verify", {engine_, "--input", "image=random:4", "--reference-dir", out});
  ASSERT_TRUE(other.ok()) << other.error().text();
  EXPECT_EQ(other->code, 3);
  EXPECT_EQ(command("verify", {engine_, "--reference-dir", out}).error().kind, ErrorKind::kUsage);
}

TEST_F(Commands, ExplainReadsTheProof) {
  const Json j = json_of(command("explain", {engine_}));
  ASSERT_FALSE(j.get_array("layers").value()->empty());
  for (const Json& layer : **j.get_array("layers")) {
    EXPECT_GT(layer.get_double("floor_ms").value(), 0);
    ASSERT_NE(layer.find("ms"), nullptr);
    if (!layer.find("ms")->is_null())  // not timed
      EXPECT_GE(layer.get_double("ms").value(), layer.get_double("floor_ms").value());
    EXPECT_FALSE((*layer.get("step"))->get_array("origins").value()->empty());
  }
  ASSERT_TRUE(std::filesystem::remove(engine_ + ".proof"));
  EXPECT_EQ(command("explain", {engine_}).error().kind, ErrorKind::kIo);
}

// The proof beside the engine with one text of it replaced.
void change_proof(const std::string& engine, const std::string& from, const std::string& to) {
  std::string text = read_file(engine + ".proof", size_t{1} << 26).value();
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  ASSERT_TRUE(write_file_atomic(engine + ".proof", text.replace(at, from.size(), to)).ok());
}

TEST_F(Commands, ExplainRefusesAProofOfAnotherMachineUnlessToldToCompare) {
  change_proof(engine_, "\"cpu\": \"", "\"cpu\": \"Another ");
  const auto refused = command("explain", {engine_});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kRefused);
  EXPECT_NE(refused.error().text().find("another machine"), std::string::npos) << refused.error().text();
  EXPECT_NE(refused.error().text().find("--compare"), std::string::npos) << refused.error().text();
  EXPECT_TRUE(command("explain", {engine_, "--compare"}).ok());
}

TEST_F(Commands, AProofOfAnotherFormIsRefused) {
  change_proof(engine_, "\"form\": 5", "\"format\": 2");
  for (const char* name : {"explain", "replay"}) {
    const auto refused = std::string(name) == "explain" ? command("explain", {engine_})
                                                        : command("replay", {"region @0", "--from", engine_});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
    EXPECT_NE(refused.error().text().find("another version"), std::string::npos) << refused.error().text();
  }
}

TEST_F(Commands, BenchTellsWhenItsSamplesDisagree) {
  const auto unstable = command("bench", {engine_, "--seconds", "0.05", "--tolerance", "0"});
  ASSERT_TRUE(unstable.ok()) << unstable.error().text();
  EXPECT_EQ(unstable->code, 5);
  EXPECT_NE(unstable->summary.find("not stable"), std::string::npos) << unstable->summary;
  EXPECT_EQ(command("bench", {engine_, "--seconds", "0.05", "--tolerance", "1000000"})->code, 0);
}

TEST_F(Commands, ReplayTriesAProblemAgain) {
  const Json j = json_of(command(
      "replay",
      {"graph { input x: f32[16,32]; input w: f32[32,8]; y = matmul(x, w); output y; } seed=11", "--budget", "1"}));
  EXPECT_EQ(j.get_int("seed").value(), 11);
  ASSERT_FALSE(j.get_array("candidates").value()->empty());
  EXPECT_FALSE(command("replay", {"graph { input x: f32[n,32]; y = relu(x); output y; }"}).ok()) << "an open dimension";
  EXPECT_EQ(command("replay", {"region @0"}).error().kind, ErrorKind::kUsage);
}

TEST_F(Commands, ReplayOfAStepIsTheProblemOfTheProof) {
  const auto proof = parse_json(*read_file(engine_ + ".proof", size_t{1} << 24));
  ASSERT_TRUE(proof.ok());
  const Json& step = (*proof->get_array("steps"))->front();
  const std::string name(*step.get_string("name")), problem(*step.get_string("problem"));
  const Json by_name = json_of(command("replay", {name, "--from", engine_, "--budget", "1"}));
  EXPECT_EQ(*by_name.get_string("problem"), problem);
  const Json by_text = json_of(command("replay", {problem + " seed=3", "--budget", "1"}));
  EXPECT_EQ(*by_text.get_string("hash"), *by_name.get_string("hash"));
  EXPECT_EQ(by_text.get_int("seed").value(), 3);
  EXPECT_EQ(command("replay", {"relu x=f32[4] colour=2"}).error().kind, ErrorKind::kUsage);
}

TEST_F(Commands, DoctorKnowsTheMachine) {
  const Json j = json_of(command("doctor", {"--threads", "1"}));
  EXPECT_FALSE(j.get_array("kernels").value()->empty());
  EXPECT_TRUE(j.get_array("in_the_way").ok());
  EXPECT_GE((*j.get("limits"))->get_int("usable").value(), 1);
  EXPECT_GT((*j.get("peaks"))->get_array("copy_gbs").value()->size(), 2u);
  const Json& nvidia = **j.get("nvidia");
  EXPECT_EQ(nvidia.get_array("libraries").value()->size(), 6u);
  for (const Json& library : *nvidia.get_array("libraries").value())
    EXPECT_NE(library.get_string("path").ok(), library.get_string("reason").ok()) << "one of both";
  EXPECT_NE(nvidia.get_array("gpus").value()->empty(), nvidia.get_string("no_gpu").ok() == false);
}

TEST_F(Commands, DoctorMeasuresWithNoMoreThreadsThanCpus) {
  const Json j = json_of(command("doctor", {"--threads", "1000"}));
  const int64_t usable = (*j.get("limits"))->get_int("usable").value();
  EXPECT_EQ(j.get_int("threads").value(), usable);
  EXPECT_EQ((*j.get("peaks"))->get_int("threads").value(), usable);
  EXPECT_EQ((*j.get("ceilings"))->get_int("threads").value(), usable);
  bool said = false;
  for (const Json& line : *j.get_array("in_the_way").value())
    said = said || line.as_string().value().find("1000 threads were asked for") != std::string::npos;
  EXPECT_TRUE(said);
}

TEST_F(Commands, VerifySuiteSaysWhatFailed) {
  const std::string dir = folder_ + "/suite/bad";
  std::filesystem::create_directories(dir + "/test_data_set_0");
  ASSERT_TRUE(write_file_atomic(dir + "/model.onnx", "no model").ok());
  const auto r = command("verify", {"--suite", folder_ + "/suite"});
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->code, 3);
  EXPECT_EQ(json_of(r).get_int("failed").value(), 1);
  EXPECT_EQ(command("verify", {"--suite", folder_ + "/none"}).error().kind, ErrorKind::kUsage);
}

// The case has no inputs and fails after it was built: what ran, or would have, is told all the same.
TEST_F(Commands, VerifySuiteSaysWhatItsRunsWere) {
  const std::string dir = folder_ + "/runs/one";
  std::filesystem::create_directories(dir + "/test_data_set_0");
  std::filesystem::copy(kModel, dir + "/model.onnx");
  const auto told = [&](const std::string& flag, const std::string& value) {
    return json_of(command("verify", {"--suite", folder_ + "/runs", "--no-cache", flag, value}));
  };
  const auto has = [](const Json& j, const char* list, const char* name) {
    return (*(*j.get("runs"))->get(list))->find(name) != nullptr;
  };
  const Json plain = told("--threads", "1"), reference = told("--provider", "reference");
  EXPECT_GT((*plain.get("runs"))->get_int("steps").value(), 0);
  EXPECT_EQ((*plain.get("runs"))->get_int("threads").value(), 1);
  EXPECT_TRUE(has(plain, "executors", "cpu"));
  EXPECT_TRUE(has(plain, "providers", "peri"));
  EXPECT_FALSE(has(reference, "providers", "peri"));
  EXPECT_TRUE(has(reference, "executors", "reference"));
  EXPECT_TRUE(has(told("--backend", "null"), "executors", "null"));
}

TEST_F(Commands, CasesOfASuiteAtOnceAreToldInOrder) {
  for (int k = 0; k < 30; ++k) {
    const std::string dir = folder_ + format("/many/case%02d", k);
    std::filesystem::create_directories(dir + "/test_data_set_0");
    if (k % 10)
      ASSERT_TRUE(write_file_atomic(dir + "/model.onnx", "no model").ok());
    else
      std::filesystem::copy(kModel, dir + "/model.onnx");
  }
  for (const char* at_once : {"1", "3"}) {
    const Json j = json_of(command("verify", {"--suite", folder_ + "/many", "--at-once", at_once, "--no-cache"}));
    EXPECT_EQ(j.get_int("failed").value(), 30) << "what is not a model, or has no inputs";
    int k = 0;
    for (const Json& one : *j.get_array("not_passed").value())
      EXPECT_EQ(*one.get_string("case"), format("case%02d", k++)) << at_once;
    const Json* const conv = (*j.get("operators"))->find("Conv");
    ASSERT_NE(conv, nullptr);
    EXPECT_EQ(conv->get_int("cases").value(), 3);
    EXPECT_EQ(conv->get_int("passed").value(), 0);
  }
}

TEST_F(Commands, AMisspeltInputIsNamedWithTheRightOne) {
  const auto r = command("run", {engine_, "--input", "imgae=random:1"});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().message, "the model has no input 'imgae'");
  EXPECT_EQ(r.error().remedy, "did you mean 'image'?");
}

TEST_F(Commands, WhatCannotBeWrittenIsSaidBeforeTheWork) {
  const std::vector<std::vector<std::string>> lines = {
      {"missing.onnx", "-o", folder_ + "/none/x.engine"},
      {"missing.onnx", "-o", folder_ + "/x.engine", "--lock", folder_ + "/none/x.lock"}};
  for (const auto& words : lines) {
    const auto r = command("build", words);
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().kind, ErrorKind::kIo);
    EXPECT_EQ(r.error().file, folder_ + "/none") << "the folder is looked at before the model";
  }
}

}  // namespace
}  // namespace peri::cli
