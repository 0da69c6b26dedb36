// tokenizer_config.json beside tokenizer.json: which of them decides is known by the class that transformers loads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "hf/import.hpp"
#include "tests/places.hpp"
#include "text/pipeline.hpp"

namespace peri::hf {
namespace {

namespace fs = std::filesystem;

const std::string kData = std::string(tests::kSourceDir) + "/tests/hf/data/";

// A tokenizer.json with BERT's normalizer.
std::string tokenizer(const char* lowercase, const char* truncation) {
  return format(R"({"truncation":%s,"normalizer":{"type":"BertNormalizer","clean_text":true,)", truncation) +
         format(R"("handle_chinese_chars":true,"strip_accents":null,"lowercase":%s},)", lowercase) +
         R"("pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","unk_token":"[UNK]",)"
         R"("max_input_chars_per_word":9,"continuing_subword_prefix":"##",)"
         R"("vocab":{"[UNK]":0,"[PAD]":1,"a":2,"A":3,"e":4,"\u00e9":5,"\u65e5":6,"##\u65e5":7}}})";
}

// What AutoTokenizer of transformers 4.40 and 5.24 does with these files.
TEST(TokenizerConfig, WinsOverTheTokenizer) {
  const char* left = R"({"direction":"Left","max_length":9,"strategy":"LongestFirst","stride":0})";
  const struct {
    const char *folder, *lowercase, *truncation, *config;
    std::vector<int64_t> ids;  // of the three that the text is cut to
    const char* note;
  } cases[] = {
      {"bert", "true", "null", "", {2, 4, 2}, ""},
      {"bert", "false", "null", "", {2, 4, 2}, "do_lower_case true, strip_accents true"},
      {"bert", "true", "null", R"({"do_lower_case":true,"truncation_side":"right"})", {2, 4, 2}, ""},
      {"bert", "true", "null", R"({"do_lower_case":false})", {3, 5, 2}, "do_lower_case false, strip_accents false"},
      {"bert", "true", "null", R"({"strip_accents":false})", {2, 5, 2}, "strip_accents false"},
      {"bert", "true", "null", R"({"truncation_side":"left"})", {4, 2, 6}, "truncation_side left"},
      {"bert", "true", left, "", {4, 2, 6}, ""},
      {"bert", "true", left, R"({"truncation_side":"right"})", {2, 4, 2}, "truncation_side right"},
      {"bert", "true", left, R"({"tokenize_chinese_chars":false})", {4, 2, 7}, "tokenize_chinese_chars false"},
      {"bert", "true", "null", R"({"do_lower_case":false,"tokenizer_class":"PreTrainedTokenizerFast"})", {2, 4, 2}, ""},
      {"roberta", "true", "null", R"({"do_lower_case":false})", {2, 4, 2}, ""},
      {"roberta",
       "true",
       "null",
       R"({"do_lower_case":false,"tokenizer_class":"BertTokenizerFast"})",
       {3, 5, 2},
       "do_lower_case false, strip_accents false"},
      {"distilbert", "false", "null", "{}", {2, 4, 2}, "do_lower_case true, strip_accents true"},
      {"bert",
       "true",
       "null",
       R"({"do_lower_case":false,"tokenizer_class":"FunnelTokenizer"})",
       {3, 5, 2},
       "do_lower_case false, strip_accents false"},
      {"bert",
       "false",
       "null",
       R"({"tokenizer_class":"SplinterTokenizerFast"})",
       {2, 4, 2},
       "do_lower_case true, strip_accents true"},
      {"bert", "true", "null", R"({"do_lower_case":false,"tokenizer_class":"BigBirdTokenizer"})", {2, 4, 2}, ""},
  };
  for (const auto& c : cases) {
    std::string name = (fs::temp_directory_path() / "peri_rules_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    fs::copy(kData + "tiny_" + c.folder, name, fs::copy_options::recursive);
    const auto put = [&](const std::string& file, const std::string& text) {
      ASSERT_TRUE(write_file_atomic(name + "/" + file, text).ok());
    };
    put("tokenizer.json", tokenizer(c.lowercase, c.truncation));
    if (*c.config) put("tokenizer_config.json", c.config);
    put("sentence_bert_config.json", R"({"max_seq_length":3})");
    Result<ImportedFolder> model = import_folder(name);
    ASSERT_TRUE(model.ok()) << model.error().text();
    const text::TextPipeline pipeline =
        text::TextPipeline::from_sections(model->folder.tokenizer, model->pipeline).value();
    const std::vector<std::string> texts = {"A \u00e9 a\u65e5"};
    const Tensor ids = std::move(pipeline.inputs(texts).value()[0].second);
    EXPECT_TRUE(std::ranges::equal(ids.as<int64_t>(), c.ids)) << c.folder << " " << c.config;
    const std::string head = *c.config
                                 ? "tokenizer_config.json, with the defaults of its class, wins over tokenizer.json: "
                                 : "there is no tokenizer_config.json, and the defaults of the model's class of "
                                   "tokenizer win over tokenizer.json: ";
    const std::vector<std::string> notes = *c.note ? std::vector{head + c.note} : std::vector<std::string>{};
    EXPECT_EQ(model->notes, notes) << c.folder << " " << c.config;
    put("tokenizer_config.json", R"({"truncation_side":"up"})");
    EXPECT_NE(import_folder(name).error().text().find(
                  "tokenizer_config.json: 'truncation_side': unknown side: expected left or right, found up"),
              std::string::npos);
    fs::remove_all(name);
  }
}

// What AutoTokenizer of transformers 4.40 and 4.57 does with these names, and which of them 5.24 takes otherwise.
TEST(TokenizerConfig, ClassesAndArchitecturesThatMakeTheirNormalizer) {
  std::string name = (fs::temp_directory_path() / "peri_rules_XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const auto put = [&](const std::string& file, const std::string& text) {
    ASSERT_TRUE(write_file_atomic(name + "/" + file, text).ok());
  };
  put("model.onnx", "not read");
  const auto expect = [&](const char* what, bool wins, bool of_4) {
    Result<Folder> read = read_folder(name);
    ASSERT_TRUE(read.ok()) << what << ": " << read.error().text();
    text::TokenizerRules want;
    if (wins) want = {.lowercase = false, .strip_accents = false, .splits_han = true};
    EXPECT_EQ(read->rules, want) << what;
    EXPECT_EQ(read->rules_of_4, of_4) << what;
  };
  put("config.json", R"({"model_type":"gpt2"})");
  for (const auto& [of, wins, of_4] : {std::tuple{"Bert", true, false},
                                       {"ConvBert", true, true},
                                       {"DPRContextEncoder", true, true},
                                       {"DPRQuestionEncoder", true, true},
                                       {"DPRReader", true, true},
                                       {"DistilBert", true, false},
                                       {"Electra", true, false},
                                       {"Funnel", true, false},
                                       {"LayoutLM", true, false},
                                       {"Lxmert", true, false},
                                       {"MPNet", true, false},
                                       {"MobileBert", true, false},
                                       {"Realm", true, true},
                                       {"RetriBert", true, true},
                                       {"Splinter", true, false},
                                       {"SqueezeBert", true, false},
                                       {"Albert", false, false},
                                       {"BigBird", false, false},
                                       {"Herbert", false, false},
                                       {"PreTrained", false, false}})
    for (const char* fast : {"", "Fast"}) {
      put("tokenizer_config.json", format(R"({"do_lower_case":false,"tokenizer_class":"%sTokenizer%s"})", of, fast));
      expect(of, wins, of_4);
    }
  put("tokenizer_config.json", R"({"do_lower_case":false})");
  for (const auto& [of, wins, of_4] : {std::tuple{"bert", true, false},
                                       {"convbert", true, false},
                                       {"ernie", true, false},
                                       {"funnel", true, false},
                                       {"dpr", true, true},
                                       {"retribert", true, true},
                                       {"splinter", true, false},
                                       {"visual_bert", true, false},
                                       {"megatron-bert", true, false},
                                       {"mra", false, false},
                                       {"modernbert", false, false},
                                       {"fnet", false, false}}) {
    put("config.json", format(R"({"model_type":"%s"})", of));
    expect(of, wins, of_4);
  }
  fs::remove_all(name);
}

// The note says which versions have it so.
TEST(TokenizerConfig, SaysWhereVersionsDiffer) {
  std::string name = (fs::temp_directory_path() / "peri_rules_XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  fs::copy(kData + "tiny_bert", name, fs::copy_options::recursive);
  ASSERT_TRUE(write_file_atomic(name + "/tokenizer.json", tokenizer("true", "null")).ok());
  ASSERT_TRUE(write_file_atomic(name + "/tokenizer_config.json",
                                R"({"do_lower_case":false,"tokenizer_class":"ConvBertTokenizer"})")
                  .ok());
  const std::string said =
      "tokenizer_config.json, with the defaults of its class, wins over tokenizer.json: "
      "do_lower_case false, strip_accents false; so it does in transformers 4, and not in 5";
  EXPECT_EQ(import_folder(name)->notes, std::vector{said});
  fs::remove_all(name);
}

}  // namespace
}  // namespace peri::hf
