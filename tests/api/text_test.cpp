// Texts through the public interface: the tokenizer of the folder travels in the engine and makes the inputs of a run.
// label: cpu
#include <gtest/gtest.h>
#include <unistd.h>
#include <peri/peri.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/places.hpp"

namespace {

constexpr const char* kTokenizer =
    R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":1,"content":"[CLS]","single_word":false,)"
    R"("lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":{"type":"BertNormalizer",)"
    R"("clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},)"
    R"("pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"BertProcessing","sep":["[SEP]",2],)"
    R"("cls":["[CLS]",1]},"decoder":null,"model":{"type":"WordPiece","unk_token":"[UNK]",)"
    R"("continuing_subword_prefix":"##","max_input_chars_per_word":100,)"
    R"("vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"hello":3,"world":4,"a":5,"##b":6}}})";

// A tiny encoder's folder, with or without a tokenizer.
class Texts : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("peri_texts_" + std::to_string(getpid()));
    std::filesystem::copy(std::string(peri::tests::kSourceDir) + "/tests/hf/data/tiny_bert", folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  peri::Result<peri::Engine> build() const {
    peri::BuildOptions options;
    options.tune = options.verify = false;
    options.threads = 1;
    return peri::Engine::build(folder_.string(), options);
  }
  std::filesystem::path folder_;
};

TEST_F(Texts, BecomeTheInputsOfARun) {
  std::ofstream(folder_ / "tokenizer.json") << kTokenizer;
  auto engine = build();
  ASSERT_TRUE(engine.ok()) << engine.error().text;
  auto session = peri::Session::create(*engine);
  ASSERT_TRUE(session.ok());
  const std::vector<std::string> texts = {"Hello world", "ab"};
  auto inputs = session->inputs_of(texts);
  ASSERT_TRUE(inputs.ok()) << inputs.error().text;
  const std::vector<peri::Port> ports = engine->inputs();
  ASSERT_EQ(inputs->size(), ports.size());
  for (size_t k = 0; k < ports.size(); ++k) {
    const std::span<const int64_t> ids = inputs->at(k).as<int64_t>();
    ASSERT_EQ(inputs->at(k).dims, (std::vector<int64_t>{2, 4})) << ports[k].name;
    const std::vector<int64_t> row(ids.begin(), ids.begin() + 4);
    if (ports[k].name == "input_ids") {
      EXPECT_EQ(row, (std::vector<int64_t>{1, 3, 4, 2}));
      EXPECT_EQ(ids[5], 5);
      EXPECT_EQ(ids[6], 6);
    }
  }
  auto answers = session->run(*inputs);
  ASSERT_TRUE(answers.ok()) << answers.error().text;
  EXPECT_EQ(answers->at(0).dims[0], 2);
  EXPECT_EQ(session->inputs_of({}).error().kind, PERI_ERROR_USAGE);
  // BERT's normalisation drops a NUL, and it ends no text.
  const std::string whole("hello\0world", 11);
  const auto ids_of = [&](const std::string& text) {
    const std::vector<std::string> one = {text};
    const auto made = session->inputs_of(one);
    EXPECT_TRUE(made.ok()) << made.error().text;
    return made.ok() ? std::vector<int64_t>(made->at(0).as<int64_t>().begin(), made->at(0).as<int64_t>().end())
                     : std::vector<int64_t>();
  };
  EXPECT_EQ(ids_of(whole), ids_of("helloworld"));
  EXPECT_FALSE(session->set_prompt("hello "));
  EXPECT_EQ(ids_of("world"), (std::vector<int64_t>{1, 3, 4, 2}));
  EXPECT_EQ(session->set_prompt({}, "query")->kind, PERI_ERROR_USAGE) << "the model has no prompts";
  EXPECT_EQ(session->set_prompt("a", "query")->kind, PERI_ERROR_USAGE) << "one of them";
  EXPECT_EQ(session->set_prompt("\xff")->kind, PERI_ERROR_INVALID);
  EXPECT_EQ(ids_of("world"), (std::vector<int64_t>{1, 3, 4, 2})) << "what is refused changes nothing";
  EXPECT_FALSE(session->set_prompt({}));
  EXPECT_EQ(ids_of("world"), (std::vector<int64_t>{1, 4, 2}));
  EXPECT_NE(ids_of(whole), ids_of("hello"));
}

TEST_F(Texts, AreEmbeddedByAModelThatPools) {
  std::ofstream(folder_ / "tokenizer.json") << kTokenizer;
  const std::vector<std::string> texts = {"Hello world", "ab"};
  auto tokens = build();
  ASSERT_TRUE(tokens.ok()) << tokens.error().text;
  const auto none = peri::Session::create(*tokens)->embed(texts);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, PERI_ERROR_UNSUPPORTED) << "it answers tokens";
  std::filesystem::create_directory(folder_ / "1_Pooling");
  std::ofstream(folder_ / "1_Pooling/config.json") << R"({"pooling_mode_mean_tokens":true})";
  std::ofstream(folder_ / "modules.json")
      << R"([{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},)"
      << R"({"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"}])";
  auto engine = build();
  ASSERT_TRUE(engine.ok()) << engine.error().text;
  auto session = peri::Session::create(*engine);
  const auto made = session->embed(texts);
  ASSERT_TRUE(made.ok()) << made.error().text;
  ASSERT_EQ(made->dims.size(), 2u);
  ASSERT_EQ(made->dims[0], 2);
  const std::vector<float> rows(made->as<float>().begin(), made->as<float>().end());
  const auto run = session->run(*session->inputs_of(texts));
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(rows, std::vector<float>(run->at(0).as<float>().begin(), run->at(0).as<float>().end()));
  std::vector<float> mine(rows.size());
  ASSERT_TRUE(session->embed(texts, peri::View::of(std::span(mine))).ok());
  EXPECT_EQ(mine, rows);
  EXPECT_NE(engine->describe()->find("\"takes_texts\":true"), std::string::npos);
}

TEST_F(Texts, WithoutATokenizerAreRefused) {
  auto engine = build();
  ASSERT_TRUE(engine.ok()) << engine.error().text;
  auto session = peri::Session::create(*engine);
  const std::vector<std::string> texts = {"hello"};
  const auto none = session->inputs_of(texts);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, PERI_ERROR_USAGE);
  EXPECT_NE(none.error().text.find("tokenizer"), std::string::npos) << none.error().text;
}

TEST_F(Texts, MisuseInCIsNamed) {
  std::ofstream(folder_ / "tokenizer.json") << kTokenizer;
  auto engine = build();
  ASSERT_TRUE(engine.ok()) << engine.error().text;
  peri_session* session = nullptr;
  ASSERT_EQ(peri_session_create(engine->handle(), 1, &session), nullptr);
  const size_t count = peri_engine_input_count(engine->handle());
  std::vector<peri_tensor> in(count);
  const char* texts[] = {"hello", nullptr};
  const auto kind = [](peri_error* e) {
    const int k = e ? static_cast<int>(peri_error_get_kind(e)) : 0;
    peri_error_free(e);
    return k;
  };
  EXPECT_EQ(kind(peri_session_texts(session, texts, 1, in.data(), count)), PERI_ERROR_USAGE)
      << "struct_size is not set";
  for (peri_tensor& t : in) t.struct_size = sizeof t;
  EXPECT_EQ(kind(peri_session_texts(session, texts, 2, in.data(), count)), PERI_ERROR_USAGE) << "a text is NULL";
  EXPECT_EQ(kind(peri_session_texts(session, texts, 1, in.data(), count - 1)), PERI_ERROR_USAGE);
  EXPECT_EQ(kind(peri_session_texts(nullptr, texts, 1, in.data(), count)), PERI_ERROR_USAGE);
  EXPECT_EQ(kind(peri_session_texts(session, texts, 1, in.data(), count)), 0);
  EXPECT_EQ(in[0].rank, 2u);
  const int64_t ends_at_nul = in[0].dims[1];
  const peri_string sized[] = {{"hello", 5}, {nullptr, 0}, {nullptr, 3}};
  EXPECT_EQ(kind(peri_session_texts_of(session, sized, 2, in.data(), count)), 0);
  EXPECT_EQ(in[0].dims[1], ends_at_nul);
  EXPECT_EQ(kind(peri_session_texts_of(session, sized, 3, in.data(), count)), PERI_ERROR_USAGE) << "a text is NULL";
  EXPECT_EQ(kind(peri_session_texts_of(nullptr, sized, 1, in.data(), count)), PERI_ERROR_USAGE);
  EXPECT_EQ(kind(peri_session_embed_of(session, sized, 1, nullptr)), PERI_ERROR_USAGE);
  EXPECT_EQ(kind(peri_session_set_prompt(nullptr, sized, nullptr)), PERI_ERROR_USAGE);
  EXPECT_EQ(kind(peri_session_set_prompt(session, &sized[2], nullptr)), PERI_ERROR_USAGE) << "the text is NULL";
  EXPECT_EQ(kind(peri_session_set_prompt(session, &sized[1], nullptr)), 0);
  peri_session_free(session);
}

}  // namespace
