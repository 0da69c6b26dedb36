// Model folders: what their JSON files say is read, hostile values are refused with file and key, and weights that are
// pickles are refused by name and by content.
#include "hf/folder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "hf/foreign.hpp"
#include "hf/safetensors.hpp"

namespace peri::hf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModules =
    R"([{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},)"
    R"({"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},)"
    R"({"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"}])";

class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "peri_folder_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir_ = name;
    fs::create_directories(dir_ + "/1_Pooling");
    put("config.json", R"({"model_type":"bert","hidden_size":384})");
  }
  void TearDown() override { fs::remove_all(dir_); }
  void put(const std::string& name, std::string_view bytes) const {
    ASSERT_TRUE(write_file_atomic(dir_ + "/" + name, bytes).ok());
  }
  std::string error() const {
    Result<Folder> f = read_folder(dir_);
    return f.ok() ? "ok" : f.error().text();
  }
  void expect_error(const char* part) const {
    EXPECT_NE(error().find(part), std::string::npos) << "wanted " << part << ", got " << error();
  }
  std::string dir_;
};

TEST_F(FolderTest, ReadsASentenceModel) {
  put("modules.json", kModules);
  put("1_Pooling/config.json",
      R"({"word_embedding_dimension":384,"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true})");
  put("sentence_bert_config.json", R"({"max_seq_length":256,"do_lower_case":false})");
  put("tokenizer.json", "{}");
  const Folder f = read_folder(dir_ + "//").value();
  EXPECT_EQ(f.model_type, "bert");
  EXPECT_EQ(f.pooling, Pooling::kMean);
  EXPECT_EQ(f.pooling_width, 384);
  EXPECT_TRUE(f.normalize);
  EXPECT_EQ(f.max_sequence, 256);
  EXPECT_EQ(f.tokenizer, "{}");
  put("1_Pooling/config.json", R"({"embedding_dimension":384,"pooling_mode":"cls"})");
  EXPECT_EQ(read_folder(dir_).value().pooling, Pooling::kCls);
}

TEST_F(FolderTest, APoolingThatIsOffIsNone) {
  put("modules.json", kModules);
  put("1_Pooling/config.json", R"({"embedding_dimension":384,"pooling_mode_cls_token":false})");
  EXPECT_EQ(read_folder(dir_).value().pooling, Pooling::kMean) << "the default";
  put("1_Pooling/config.json", R"({"embedding_dimension":384,"pooling_mode_mean_tokens":false})");
  EXPECT_NE(read_folder(dir_).error().text().find("1_Pooling/config.json: no pooling is set"), std::string::npos);
}

TEST_F(FolderTest, APlainModelHasNoPooling) {
  const Folder f = read_folder(dir_).value();
  EXPECT_EQ(f.pooling, Pooling::kNone);
  EXPECT_FALSE(f.normalize);
  EXPECT_FALSE(f.max_sequence);
  EXPECT_EQ(f.tokenizer, "");
}

TEST_F(FolderTest, RefusesConfigsByKey) {
  const std::pair<const char*, const char*> configs[] = {
      {"", "config.json: not valid JSON"},
      {"[]", "'model_type'"},
      {"{}", "config.json: 'model_type': member is missing"},
      {R"({"model_type":1})", "'model_type': wrong kind"},
      {R"({"model_type":"bert","auto_map":{"AutoModel":"x.Y"}})", "'auto_map': the model brings Python code"},
      {R"({"model_type":"bert","quantization_config":{}})", "quantised weights"},
      {R"({"model_type":"bert","model_type":"bert"})", "duplicate key"},
  };
  for (const auto& [text, part] : configs) {
    put("config.json", text);
    expect_error(part);
  }
  fs::remove(dir_ + "/config.json");
  expect_error("it has no config.json");
  put("config.json", std::string(5 << 20, ' '));
  expect_error("config.json: file is too large");
}

// The same with "a." as the package of modules.
std::string of_sentence_transformers(std::string text) {
  for (size_t at = 0; (at = text.find("\"a.", at)) != text.npos;)
    text.replace(at + 1, 1, "sentence_transformers.models");
  return text;
}

TEST_F(FolderTest, RefusesModulesWeLack) {
  const std::pair<const char*, const char*> modules[] = {
      {"{}", "modules.json: wrong kind"},
      {"[]", "modules.json: 0 modules"},
      {R"([{"type":"a.Pooling","path":"1_Pooling"}])", "order of modules"},
      {R"([{"type":"a.Transformer","path":"0_T"}])", "folder of its own"},
      {R"([{"type":"a.Transformer","path":""},{"type":"a.Dense","path":"2_Dense"}])",
       "module \"a.Dense\" is not supported"},
      {R"([{"type":"a.Transformer","path":""},{"type":"a.Normalize","path":""}])",
       "order of modules, with \"a.Normalize\""},
      {R"([{"type":"custom_st.Transformer","path":""}])",
       "module \"custom_st.Transformer\" is not one of sentence_transformers: Python code of its own is never run"},
      {R"([{"type":"a.Transformer","path":""},{"type":"a.Pooling","path":"../out"}])", "leads out of its folder"},
      {R"([{"type":"a.Transformer","path":""},{"type":"a.Pooling","path":"/etc"}])", "leads out of its folder"},
      {R"([{"type":"a.Transformer","path":""},{"type":"a.Pooling","path":"absent"}])", "cannot open"},
  };
  for (const auto& [text, part] : modules) {
    put("modules.json", of_sentence_transformers(text));
    expect_error(of_sentence_transformers(part).c_str());
  }
  put("modules.json", kModules);
  const std::pair<const char*, const char*> poolings[] = {
      {R"({"pooling_mode":"lasttoken"})", "1_Pooling/config.json: pooling \"lasttoken\" is not supported"},
      {R"({"pooling_mode_mean_tokens":true,"pooling_mode_max_tokens":true})", "several kinds"},
      {R"({"pooling_mode_weightedmean_tokens":true})", "weightedmean"},
      {R"({"pooling_mode_mean_tokens":1})", "'pooling_mode_mean_tokens'"},
      {R"({"word_embedding_dimension":0})", "size out of range"},
      {R"({"word_embedding_dimension":-384})", "size out of range"},
      {R"({"word_embedding_dimension":1e18})", "size out of range"},
      {R"([])", "wrong kind"},
  };
  for (const auto& [text, part] : poolings) {
    put("1_Pooling/config.json", text);
    expect_error(part);
  }
}

TEST_F(FolderTest, ATransformerInAFolderOfItsOwnIsToldWithoutAConfig) {
  put("modules.json",
      R"([{"idx":0,"name":"0","path":"0_Transformer","type":"sentence_transformers.models.Transformer"}])");
  fs::remove(dir_ + "/config.json");
  expect_error("modules.json: transformer in a folder of its own, \"0_Transformer\" is not supported; move its files");
}

TEST_F(FolderTest, ASecondNormalisationChangesNothing) {
  const std::string once = kModules;
  put("modules.json",
      once.substr(0, once.size() - 1) +
          R"(,{"idx":3,"name":"3","path":"3_Normalize","type":"sentence_transformers.models.Normalize"}])");
  put("1_Pooling/config.json", R"({"pooling_mode_mean_tokens":true})");
  EXPECT_TRUE(read_folder(dir_).value().normalize);
}

TEST_F(FolderTest, RefusesSequencesOutOfRange) {
  for (const char* bad : {"0", "-1", "99999999999", "1.5", "\"256\""}) {
    put("sentence_bert_config.json", format("{\"max_seq_length\":%s}", bad));
    expect_error("sentence_bert_config.json: 'max_seq_length'");
  }
  put("sentence_bert_config.json", R"({"max_seq_length":null})");
  EXPECT_EQ(error(), "ok");
}

TEST_F(FolderTest, TextsAreLowercasedAsTheFolderSays) {
  EXPECT_FALSE(read_folder(dir_)->lowercase);
  put("sentence_roberta_config.json", R"({"max_seq_length":8,"do_lower_case":true})");
  EXPECT_TRUE(read_folder(dir_)->lowercase);
  EXPECT_EQ(read_folder(dir_)->max_sequence, 8);
  put("sentence_bert_config.json", R"({"max_seq_length":9})");  // the first of their names
  EXPECT_FALSE(read_folder(dir_)->lowercase);
  EXPECT_EQ(read_folder(dir_)->max_sequence, 9);
  put("sentence_bert_config.json", R"({"do_lower_case":"yes"})");
  expect_error("sentence_bert_config.json: 'do_lower_case'");
}

TEST_F(FolderTest, TheTokenizersOwnLimit) {
  const std::string file = "tokenizer_config.json";
  EXPECT_FALSE(read_folder(dir_)->model_max);
  put(file, R"({"model_max_length":512,"added_tokens_decoder":{"0":{"content":"[PAD]"}}})");
  EXPECT_EQ(read_folder(dir_)->model_max, 512);
  for (const char* none : {R"({})", R"({"model_max_length":null})", R"({"model_max_length":1e30})",
                           R"({"model_max_length":1000000000000000019884624838656})"}) {
    put(file, none);
    EXPECT_FALSE(read_folder(dir_)->model_max) << none;
  }
  for (const char* bad : {"0", "-1", "\"512\"", "1.5"}) {
    put(file, format(R"({"model_max_length":%s})", bad));
    expect_error("tokenizer_config.json: 'model_max_length'");
  }
}

TEST_F(FolderTest, TheDefaultPromptIsThatOfItsName) {
  const std::string file = "config_sentence_transformers.json";
  put(file, R"({"prompts":{"query":"query: ","other":"x"},"default_prompt_name":"query"})");
  EXPECT_EQ(read_folder(dir_)->prompt, "") << "a model without pooling";
  put("modules.json", kModules);
  put("1_Pooling/config.json", R"({"embedding_dimension":384,"pooling_mode":"mean"})");
  EXPECT_EQ(read_folder(dir_)->prompt, "query: ");
  EXPECT_TRUE(read_folder(dir_)->pools_prompt);
  EXPECT_EQ(read_folder(dir_)->prompts,
            (std::vector<std::pair<std::string, std::string>>{{"query", "query: "}, {"other", "x"}}));
  put("1_Pooling/config.json", R"({"embedding_dimension":384,"pooling_mode":"mean","include_prompt":false})");
  EXPECT_FALSE(read_folder(dir_)->pools_prompt);
  for (const char* none :
       {R"({"prompts":{"query":"query: "},"default_prompt_name":null})", R"({"prompts":{"query":"query: "}})"}) {
    put(file, none);
    EXPECT_EQ(read_folder(dir_)->prompt, "") << none;
  }
  put(file, R"({"prompts":{"query":"query: "},"default_prompt_name":"passage"})");
  expect_error("config_sentence_transformers.json: 'default_prompt_name': the default prompt is not among the prompts");
  put(file, R"({"prompts":{"query":7},"default_prompt_name":"query"})");
  expect_error("config_sentence_transformers.json: 'query': wrong kind");
  put(file, R"({"prompts":["query: "]})");
  expect_error("config_sentence_transformers.json: 'prompts': wrong kind");
}

TEST_F(FolderTest, APointerOfGitLfsIsNamed) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
  for (const char* name : {"tokenizer.json", "config.json"}) {
    put(name, pointer);
    expect_error((std::string(name) + ": not the file itself: found a pointer to a file of Git LFS; fetch").c_str());
  }
  put("model.safetensors", pointer);
  EXPECT_NE(Weights::open_folder(dir_).error().text().find("model.safetensors: not the file itself: found a pointer"),
            std::string::npos);
  fs::remove(dir_ + "/model.safetensors");
  put("model.safetensors.index.json", pointer);
  EXPECT_NE(Weights::open_folder(dir_).error().text().find("index.json: not the file itself: found a pointer"),
            std::string::npos);
}

TEST_F(FolderTest, FilesOfDeeperFoldersMayBeLinksAsThoseAboveThem) {
  put("modules.json", kModules);
  put("elsewhere", R"({"pooling_mode":"cls"})");
  fs::create_symlink(dir_ + "/elsewhere", dir_ + "/1_Pooling/config.json");
  EXPECT_EQ(read_folder(dir_).value().pooling, Pooling::kCls);
  fs::remove(dir_ + "/1_Pooling/config.json");
  fs::create_symlink("/dev/null", dir_ + "/1_Pooling/config.json");
  expect_error("1_Pooling/config.json: not a file: expected a regular file, found a device");
  fs::remove_all(dir_ + "/1_Pooling");
  fs::create_symlink("/etc", dir_ + "/1_Pooling");
  expect_error("symlink");
}

TEST_F(FolderTest, WhatIsNotSupportedHasARemedy) {
  const char* const remedy = "; export the model to ONNX, which then has its modules";
  put("modules.json", kModules);
  put("1_Pooling/config.json", R"({"pooling_mode_mean_sqrt_len_tokens":true})");
  expect_error(
      "1_Pooling/config.json: pooling \"pooling_mode_mean_sqrt_len_tokens\" is not supported: expected mean, cls or "
      "max");
  expect_error(remedy);
  put("modules.json",
      R"([{"type":"sentence_transformers.models.Transformer","path":""},{"type":"sentence_transformers.models.Dense","path":"2_Dense"}])");
  expect_error(
      "modules.json: module \"sentence_transformers.models.Dense\" is not supported: expected Transformer, Pooling and "
      "Normalize");
  expect_error(remedy);
}

TEST_F(FolderTest, PicklesAreRefusedByNameAndContent) {
  const auto weights_error = [&] { return Weights::open_folder(dir_).error().text(); };
  EXPECT_NE(weights_error().find("no weights in the folder"), std::string::npos) << weights_error();
  put("pytorch_model.bin", "x");
  EXPECT_NE(weights_error().find("pytorch_model.bin: this is a PyTorch pickle by its name"), std::string::npos)
      << weights_error();
  EXPECT_NE(weights_error().find("safe_serialization=True"), std::string::npos);
  const std::pair<std::string, const char*> contents[] = {
      {std::string("PK\x03\x04") + std::string(100, 'x'), "a zip archive"},
      {std::string("\x80\x02}q\x00(X\x05\x00", 9) + std::string(100, 'x'), "a Python pickle"},
      {std::string(257, 'a') + "ustar" + std::string(200, '\0'), "a tar archive"},
      {"\x89HDF\r\n\x1a\n" + std::string(100, 'x'), "an HDF5 file"},
      {"GGUF" + std::string(100, 'x'), "a GGUF file"},
  };
  for (const auto& [bytes, part] : contents) {
    put("model.safetensors", bytes);
    EXPECT_NE(weights_error().find(part), std::string::npos) << weights_error();
    EXPECT_EQ(Weights::open_folder(dir_).error().kind, ErrorKind::kUnsupported);
  }
  // A header of 0x0280 bytes begins like a pickle and is none.
  put("model.safetensors", std::string("\x80\x02\0\0\0\0\0\0", 8) + "{}" + std::string(0x27e, ' '));
  EXPECT_TRUE(Weights::open_folder(dir_).ok()) << weights_error();
  EXPECT_TRUE(foreign_name("model.pt"));
  EXPECT_FALSE(foreign_name("model.safetensors"));
}

}  // namespace
}  // namespace peri::hf
