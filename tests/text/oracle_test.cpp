// The tokenizer gives exactly what the pinned `tokenizers` package gives: on more than 10,000 lines of many scripts,
// for every flag of the file, and for every code point. tests/text/make_corpus.py makes texts and answers.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.hpp"
#include "tests/places.hpp"
#include "text/tokenizer.hpp"

namespace peri::text {
namespace {

namespace fs = std::filesystem;

// Reads the records that make_corpus.py writes.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return at_ == bytes_.size(); }
  template <class T>
  T number() {
    T v;
    PERI_CHECK(bytes_.size() - at_ >= sizeof v, "cases file is cut");
    std::memcpy(&v, bytes_.data() + at_, sizeof v);
    at_ += sizeof v;
    return v;
  }
  std::string text() {
    const uint32_t n = number<uint32_t>();
    PERI_CHECK(bytes_.size() - at_ >= n, "cases file is cut");
    at_ += n;
    return std::string(bytes_.substr(at_ - n, n));
  }
  Encoding answer() {
    Encoding e;
    for (uint32_t n = number<uint32_t>(); n > 0; --n) {
      e.ids.push_back(number<int32_t>());
      e.type_ids.push_back(number<int32_t>());
      e.attention_mask.push_back(number<int32_t>());
    }
    return e;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

std::string shown(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, 600))
    out += c >= 0x20 && c < 0x7f ? std::string(1, c) : format("\\x%02x", static_cast<unsigned char>(c));
  return out;
}

std::string shown(const Encoding& e) {
  std::string out;
  for (size_t i = 0; i < e.ids.size(); ++i)
    out += format(" %lld/%lld/%lld", static_cast<long long>(e.ids[i]), static_cast<long long>(e.type_ids[i]),
                  static_cast<long long>(e.attention_mask[i]));
  return out;
}

// Compares; counts texts. Gives up after a few failures, which is enough to see a cause.
struct Tally {
  int texts = 0, wrong = 0;
  void compare(const std::string& name, const std::string& text, const Encoding& want, const Encoding& got) {
    ++texts;
    if (want.ids == got.ids && want.type_ids == got.type_ids && want.attention_mask == got.attention_mask) return;
    if (++wrong <= 5) ADD_FAILURE() << name << ": " << shown(text) << "\nwant" << shown(want) << "\ngot " << shown(got);
  }
};

void run_cases(const fs::path& spec, Tally& tally) {
  const std::string name = spec.stem().string();
  Result<Tokenizer> tokenizer = Tokenizer::from_json(read_file(spec.string(), 100 << 20).value());
  ASSERT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.error().text();
  const std::string bytes = read_file(fs::path(spec).replace_extension("cases").string(), size_t{1} << 30).value();
  Reader in(bytes);
  while (!in.done()) {
    const int kind = in.number<uint8_t>();
    EncodeOptions options;
    options.special_tokens = in.number<uint8_t>() != 0;
    std::vector<std::string> texts(in.number<uint32_t>());
    for (std::string& t : texts) t = in.text();
    if (kind == 0) {
      tally.compare(name, texts[0], in.answer(), tokenizer->encode(texts[0], options).value());
    } else if (kind == 1) {
      tally.compare(name, texts[0] + " | " + texts[1], in.answer(),
                    tokenizer->encode_pair(texts[0], texts[1], options).value());
    } else if (kind == 2) {
      const std::vector<Encoding> got = tokenizer->encode_batch(texts, options).value();
      for (size_t i = 0; i < texts.size(); ++i) tally.compare(name, texts[i], in.answer(), got[i]);
    } else {
      const std::string want = in.text(), got = tokenizer->normalize(texts[0]).value();
      ++tally.texts;
      if (want != got && ++tally.wrong <= 5)
        ADD_FAILURE() << name << " normalises " << shown(texts[0]) << "\nwant " << shown(want) << "\ngot  "
                      << shown(got);
    }
    if (tally.wrong > 20) return;
  }
}

TEST(TokenizerOracle, SameIdsAsTheTokenizersPackage) {
  const std::string out = std::string(tests::kBuildDir) + "/text_oracle";
  const std::string root = tests::kSourceDir;
  const std::string command = "'" + root + "/.venv/bin/python' '" + root + "/tests/text/make_corpus.py' '" + out + "'";
  ASSERT_EQ(std::system(command.c_str()), 0) << "needs the environment of ./dev setup: " << command;
  Tally tally;
  int plain_lines = 0, specs = 0;
  for (const auto& entry : fs::directory_iterator(out)) {
    if (entry.path().extension() != ".json") continue;
    const int before = tally.texts;
    run_cases(entry.path(), tally);
    ++specs;
    if (entry.path().stem() == "plain") plain_lines = tally.texts - before;
  }
  std::printf("%d tokenizers, %d texts, %d wrong\n", specs, tally.texts, tally.wrong);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_GE(plain_lines, 10000);
  EXPECT_GE(specs, 20);
}

}  // namespace
}  // namespace peri::text
