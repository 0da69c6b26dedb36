// Tokenizer files that lie or that we lack are refused by name; hostile texts cost linear time; small answers by hand.
#include "text/tokenizer.hpp"

#include <gtest/gtest.h>

namespace peri::text {
namespace {

// A small tokenizer.json with one section replaced: replace("\"normalizer\":null", "...").
std::string file(std::string_view from = {}, std::string_view to = {}) {
  std::string s =
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":1,"content":"[CLS]","single_word":false,)"
      R"("lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":{"type":"BertNormalizer",)"
      R"("clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},)"
      R"("pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"BertProcessing","sep":["[SEP]",2],)"
      R"("cls":["[CLS]",1]},"decoder":null,"model":{"type":"WordPiece","unk_token":"[UNK]",)"
      R"("continuing_subword_prefix":"##","max_input_chars_per_word":100,)"
      R"("vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"un":3,"##aff":4,"##able":5,"hello":6,",":7,"a":8,"##a":9}}})";
  if (from.empty()) return s;
  const size_t at = s.find(from);
  PERI_CHECK(at != s.npos, "test edits what is there");
  return s.replace(at, from.size(), to);
}

std::string error_of(const std::string& json) {
  Result<Tokenizer> t = Tokenizer::from_json(json);
  return t.ok() ? "ok" : t.error().text();
}

using Ids = std::vector<int64_t>;

// An added token that takes the white space around it leaves none of it for the next; one that would have to end before
// what is taken is passed over.
TEST(Tokenizer, WhiteSpaceIsTakenOnce) {
  const auto with = [](const std::string& tokens) {
    return Tokenizer::from_json(file(R"("special":true}])", R"("special":true},)" + tokens + "]")).value();
  };
  const auto white = [](int id, const char* content, bool left, bool right) {
    return format(R"({"id":%d,"content":"%s","single_word":false,"lstrip":%s,"rstrip":%s,"normalized":false,)"
                  R"("special":false})",
                  id, content, left ? "true" : "false", right ? "true" : "false");
  };
  const Tokenizer both = with(white(10, "\\n", true, true));
  EXPECT_EQ(both.encode("a\n\na").value().ids, (Ids{1, 8, 10, 8, 2}));
  EXPECT_EQ(both.encode("a \n \n a\n").value().ids, (Ids{1, 8, 10, 8, 10, 2}));
  EXPECT_EQ(with(white(10, "\\n", false, true)).encode("a\n\na").value().ids, (Ids{1, 8, 10, 10, 8, 2}));
  const Tokenizer crossing = with(white(10, "\\n", true, true) + "," + white(11, "\\t", true, false));
  EXPECT_EQ(crossing.encode("a\n\t\na").value().ids, (Ids{1, 8, 10, 8, 2}));
}

TEST(Tokenizer, PiecesByHand) {
  const Tokenizer t = Tokenizer::from_json(file()).value();
  EXPECT_EQ(t.encode("Hello,  UNAFFABLE").value().ids, (Ids{1, 6, 7, 3, 4, 5, 2}));
  EXPECT_EQ(t.encode("unx").value().ids, (Ids{1, 0, 2}));
  EXPECT_EQ(t.encode("").value().ids, (Ids{1, 2}));
  EXPECT_EQ(t.encode("a[CLS]a").value().ids, (Ids{1, 8, 1, 8, 2}));
  const Encoding pair = t.encode_pair("a", "a a").value();
  EXPECT_EQ(pair.ids, (Ids{1, 8, 2, 8, 8, 2}));
  EXPECT_EQ(pair.type_ids, (Ids{0, 0, 0, 1, 1, 1}));
  EncodeOptions bare;
  bare.special_tokens = false;
  EXPECT_EQ(t.encode("a", bare).value().ids, (Ids{8}));
  EXPECT_EQ(t.max_id(), 9u);
  EXPECT_EQ(t.token_id("hello"), 6u);
  EXPECT_FALSE(t.token_id("absent"));
}

TEST(Tokenizer, OptionsTruncateAndPad) {
  const Tokenizer t = Tokenizer::from_json(file()).value();
  EncodeOptions options;
  options.max_length = 4;
  EXPECT_EQ(t.encode("a a a a", options).value().ids, (Ids{1, 8, 8, 2}));
  options.max_length = 1;
  EXPECT_FALSE(t.encode("a", options).ok());
  options.max_length = -1;
  EXPECT_FALSE(t.encode("a", options).ok());
  options = {};
  options.padding = Padding::kLongest;
  const std::vector<std::string> texts = {"a a", ""};
  const std::vector<Encoding> batch = t.encode_batch(texts, options).value();
  EXPECT_EQ(batch[1].ids, (Ids{1, 2, 0, 0}));
  EXPECT_EQ(batch[1].attention_mask, (Ids{1, 1, 0, 0}));
}

TEST(Tokenizer, TextMustBeUtf8) {
  const Tokenizer t = Tokenizer::from_json(file()).value();
  for (const char* bad : {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80"})
    EXPECT_FALSE(t.encode(bad).ok()) << bad;
}

TEST(Tokenizer, WhatWeLackIsRefusedByName) {
  const struct {
    const char *from, *to, *part;
  } cases[] = {
      {R"("type":"WordPiece")", R"("type":"BPE")", "model \"BPE\" is not supported"},
      {R"("type":"WordPiece")", R"("type":"Unigram")", "model \"Unigram\" is not supported"},
      {R"("type":"BertNormalizer")", R"("type":"NFKC")", "normalizer \"NFKC\" is not supported"},
      {R"("type":"BertNormalizer")", R"("type":"Sequence")", "normalizer \"Sequence\" is not supported"},
      {R"("type":"BertPreTokenizer")", R"("type":"Split")", "pre_tokenizer \"Split\" is not supported"},
      {R"("type":"BertProcessing")", R"("type":"ByteLevel")", "post_processor \"ByteLevel\" is not supported"},
  };
  for (const auto& c : cases) {
    const std::string e = error_of(file(c.from, c.to));
    EXPECT_NE(e.find(c.part), e.npos) << e;
    EXPECT_NE(e.find("give token ids as inputs"), e.npos) << e;
    EXPECT_EQ(Tokenizer::from_json(file(c.from, c.to)).error().kind, ErrorKind::kUnsupported);
  }
}

// As `tokenizers` tells the kind of an old file by its members.
TEST(Tokenizer, AModelWithoutATypeIsWordPieceByItsMembers) {
  EXPECT_EQ(Tokenizer::from_json(file(R"("type":"WordPiece",)", "")).value().encode("hello")->ids, (Ids{1, 6, 2}));
  for (const char* without : {R"("type":"WordPiece","unk_token":"[UNK]",)", R"("continuing_subword_prefix":"##",)"}) {
    std::string untyped = file(without, "");
    if (const size_t at = untyped.find(R"("type":"WordPiece",)"); at != untyped.npos) untyped.erase(at, 19);
    EXPECT_EQ(error_of(untyped).find("'model': model \"of no type\" is not supported"), 0u) << error_of(untyped);
  }
  const std::string bpe = file(R"("type":"WordPiece",)", R"("merges":[],)");
  EXPECT_EQ(Tokenizer::from_json(bpe).error().kind, ErrorKind::kUnsupported);
}

TEST(Tokenizer, AHugeFileIsRefusedByItsKindOrItsSize) {
  const auto huge = [](const char* type) {
    std::string s = format("{\"model\":{\"type\":\"%s\",\"merges\":[0", type);
    for (int i = 0; i < 700000; ++i) s += ",0";
    return s + "]}}";
  };
  EXPECT_NE(error_of(huge("BPE")).find("model \"BPE\" is not supported"), std::string::npos);
  EXPECT_EQ(Tokenizer::from_json(huge("WordPiece")).error().kind, ErrorKind::kMemory);
}

TEST(Tokenizer, WhatContradictsItselfIsRefused) {
  const struct {
    const char *from, *to, *part;
  } cases[] = {
      {R"("hello":6)", R"("hello":-6)", "'hello': token id out of range"},
      {R"("hello":6)", R"("hello":4294967296)", "'hello': token id out of range"},
      {R"("hello":6)", R"("hello":"6")", "'hello'"},
      {R"("hello":6)", R"("hello":6,"hello":6)", "'hello': duplicate key"},
      {R"("unk_token":"[UNK]")", R"("unk_token":"?")", "unk_token is not in the vocabulary"},
      {R"("max_input_chars_per_word":100)", R"("max_input_chars_per_word":1000000000)", "too large"},
      {R"("max_input_chars_per_word":100)", R"("max_input_chars_per_word":-1)", "integer >= 0"},
      {R"("id":1,)", R"("id":7,)", "'[CLS]': id of the added token differs"},
      {R"("rstrip":false,)", "", "'rstrip': member is missing"},
      {R"("truncation":null)", R"("truncation":{"max_length":1,"strategy":"LongestFirst","stride":0})",
       "leaves no room"},
      {R"("truncation":null)", R"("truncation":{"max_length":9,"strategy":"x","stride":0})", "unknown strategy"},
      {R"("truncation":null)", R"("truncation":{"max_length":9,"strategy":"LongestFirst","stride":0,"direction":"Up"})",
       "direction"},
      {R"("padding":null)",
       R"("padding":{"strategy":{"Fixed":99999999999},"direction":"Right","pad_id":0,"pad_type_id":0,"pad_token":"x"})",
       "'Fixed': padding out of range"},
      {R"("padding":null)",
       R"("padding":{"strategy":"BatchLongest","pad_to_multiple_of":-8,"pad_id":0,"pad_type_id":0,"pad_token":"x"})",
       "'pad_to_multiple_of': padding out of range"},
      {R"("type":"BertProcessing")", R"("type":"TemplateProcessing")", "'single': member is missing"},
      {R"("sep":["[SEP]",2])", R"("sep":["[SEP]"])", "'sep'"},
      {R"("decoder":null)", R"("decoder":null,"decoder":null)", "duplicate key"},
  };
  for (const auto& c : cases) {
    const std::string e = error_of(file(c.from, c.to));
    EXPECT_NE(e.find(c.part), e.npos) << "wanted " << c.part << ", got " << e;
  }
  for (const char* bad : {"", "[]", "null", "{}", "{\"model\":1}", "{\"model\":{\"type\":\"WordPiece\"}}"})
    EXPECT_NE(error_of(bad), "ok") << bad;
}

TEST(Tokenizer, TemplatesAreChecked) {
  const char* old = R"({"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]})";
  const auto with = [&](const char* single, const char* pair) {
    return error_of(file(old, format(R"({"type":"TemplateProcessing","single":%s,"pair":%s,"special_tokens":)"
                                     R"({"[SEP]":{"id":"[SEP]","ids":[2],"tokens":["[SEP]"]}}})",
                                     single, pair)));
  };
  const char* a = R"([{"Sequence":{"id":"A","type_id":0}}])";
  EXPECT_EQ(with(a, a), "ok");
  EXPECT_EQ(with(R"([{"SpecialToken":{"id":"[SEP]","type_id":0}}])", R"([{"Sequence":{"id":"B","type_id":1}}])"), "ok");
  EXPECT_NE(with(R"([{"Sequence":{"id":"B","type_id":0}}])", a).find("unknown sequence"), std::string::npos);
  EXPECT_NE(with(R"([{"SpecialToken":{"id":"[X]","type_id":0}}])", a).find("'[X]': member is missing"),
            std::string::npos);
  EXPECT_NE(with(R"([{"Loop":{"id":"A","type_id":0}}])", a).find("unknown piece"), std::string::npos);
  EXPECT_NE(with(R"([{"Sequence":{"id":"A","type_id":-1}}])", a).find("out of range"), std::string::npos);
}

TEST(Tokenizer, LongHostileTextsEnd) {
  const Tokenizer t = Tokenizer::from_json(file()).value();
  for (const char* unit :
       {"a", "\xCC\x81", " ", "[CLS", "\xE4\xB8\x80", "a,", "\xCC\x81\xCC\xA7", "\xF0\x9F\x98\x80"}) {
    std::string text;
    while (text.size() < 2000000) text += unit;
    EXPECT_TRUE(t.encode(text).ok());
  }
}

}  // namespace
}  // namespace peri::text
