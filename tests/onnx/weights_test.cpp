// Weights in files: views without copies, external data that stays in its folder, files that lie about their size or
// are cut while mapped, tensor files in and out.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "onnx/tensor_file.hpp"
#include "tests/onnx/models.hpp"

namespace peri::onnx::tests {
namespace {

namespace fs = std::filesystem;
using P = pb::TensorProto;

class WeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "peri_onnx_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    top_ = name;
    dir_ = top_ + "/model";
    fs::create_directories(dir_ + "/sub");
  }
  void TearDown() override { fs::remove_all(top_); }

  static void put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  // y = x + w with w [4] f32 in external data.
  pb::ModelProto external(const std::vector<std::pair<std::string, std::string>>& entries) {
    pb::ModelProto m = model();
    input(m, "x", {"4"});
    output(m, "y", {"4"});
    node(m, "Add", {"x", "w"}, {"y"});
    P* t = initializer(m, "w", {4}, "");
    t->clear_raw_data();
    t->set_data_location(P::EXTERNAL);
    for (const auto& [key, value] : entries) {
      auto* e = t->add_external_data();
      e->set_key(key);
      e->set_value(value);
    }
    return m;
  }
  std::string external_error(const std::vector<std::pair<std::string, std::string>>& entries) {
    auto r = load(external(entries), dir_);
    return r.ok() ? "accepted" : r.error().text();
  }

  std::string top_, dir_;
};

TEST_F(WeightsTest, LargeEmbeddedWeightsAreViewsOfTheMappedFile) {
  pb::ModelProto m = model();
  input(m, "x", {"n", "2048"});
  untyped_output(m, "y");
  node(m, "MatMul", {"x", "w"}, {"y"});
  initializer(m, "w", {2048, 2048}, std::string(size_t{4} << 22, '\2'));
  const std::string path = dir_ + "/model.onnx";
  put(path, m.SerializeAsString());
  struct rusage before, after;
  ::getrusage(RUSAGE_SELF, &before);
  auto r = import_model(path);
  ::getrusage(RUSAGE_SELF, &after);
  ASSERT_TRUE(r.ok()) << r.error().text();
  ASSERT_EQ(r->files.size(), 1u);
  const auto bytes = r->graph.find("w")->constant->bytes();
  EXPECT_GE(bytes.data(), r->files[0]->data());
  EXPECT_LE(bytes.data() + bytes.size(), r->files[0]->data() + r->files[0]->size());
  // Faults of at most 1 MiB: the 16 MiB of weights were not touched.
  EXPECT_LT(after.ru_minflt - before.ru_minflt, 256);
  EXPECT_TRUE(r->check_files().ok());
  ASSERT_EQ(::truncate(path.c_str(), 4096), 0);
  volatile std::byte last = bytes.back();
  (void)last;
  Status cut = r->check_files();
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().kind, ErrorKind::kIo);
  EXPECT_EQ(cut.error().file, path);
}

// Files that a build maps: one that is touched stays the same, one that is written over does not.
TEST_F(WeightsTest, MappedFilesAreKnownByTheirBytesWhereTheyAreRemembered) {
  pb::ModelProto m = external({{"location", "w.bin"}, {"length", "16"}});
  const auto touch = [](const std::string& path) {
    const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  };
  const auto overwrite = [](const std::string& path, size_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('z');
  };
  const std::string model = dir_ + "/model.onnx", data = dir_ + "/w.bin";
  for (const std::string& changed : {model, data}) {
    put(data, std::string(16, 'x'));
    put(model, m.SerializeAsString());
    auto known = import_model(model, {.map_from_bytes = 1, .remember = true}),
         unknown = import_model(model, {.map_from_bytes = 1});
    ASSERT_TRUE(known.ok()) << known.error().text();
    ASSERT_EQ(known->files.size(), 2u);
    touch(changed);
    EXPECT_TRUE(known->check_files().ok()) << known->check_files().error().text();
    EXPECT_FALSE(unknown->check_files().ok());
    overwrite(changed, 4);
    ASSERT_FALSE(known->check_files().ok());
    EXPECT_NE(known->check_files().error().text().find("file was overwritten while it was in use"), std::string::npos);
  }
}

TEST_F(WeightsTest, ExternalDataIsMapped) {
  const float values[] = {0, 1, 2, 3, 4, 5, 6, 7};
  put(dir_ + "/w.bin", std::string(reinterpret_cast<const char*>(values), 32));
  put(dir_ + "/sub/w.bin", std::string(reinterpret_cast<const char*>(values), 16));
  auto r = load(external({{"location", "w.bin"}, {"offset", "8"}, {"length", "16"}}), dir_);
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->graph.find("w")->constant->f64(0), 2);
  EXPECT_EQ(r->files.size(), 1u);
  EXPECT_TRUE(r->check_files().ok());
  ASSERT_EQ(::truncate((dir_ + "/w.bin").c_str(), 20), 0);  // within its page
  EXPECT_FALSE(r->check_files().ok());
  ASSERT_EQ(::truncate((dir_ + "/w.bin").c_str(), 32), 0);
  EXPECT_EQ(external_error({{"location", "sub/w.bin"}}), "accepted");
  EXPECT_EQ(external_error({{"location", "w.bin"}, {"checksum", "x"}, {"offset", "16"}}), "accepted");
}

TEST_F(WeightsTest, ExternalDataCannotLeaveItsFolderOrLie) {
  put(dir_ + "/w.bin", std::string(32, '\0'));
  put(top_ + "/secret.bin", std::string(16, 's'));
  fs::create_symlink("../secret.bin", dir_ + "/link.bin");
  fs::create_directory_symlink("..", dir_ + "/up");
  fs::create_directory(dir_ + "/folder.bin");
  ASSERT_EQ(::mkfifo((dir_ + "/fifo.bin").c_str(), 0600), 0);
  for (const char* name : {"../secret.bin", "sub/../../secret.bin", "link.bin", "up/secret.bin", "", ".", "..",
                           "folder.bin", "fifo.bin", "missing.bin", "//w.bin"})
    EXPECT_NE(external_error({{"location", name}}), "accepted") << name;
  EXPECT_NE(external_error({{"location", top_ + "/secret.bin"}}), "accepted");
  // As a hub's cache has it: models--X/snapshots/REVISION/onnx/w.bin is a link into models--X/blobs.
  fs::create_directories(top_ + "/blobs");
  fs::copy_file(dir_ + "/w.bin", top_ + "/blobs/0a1b");
  fs::copy_file(dir_ + "/w.bin", top_ + "/blobs/xyz");
  fs::create_symlink("../secret.bin", top_ + "/blobs/0c");
  for (const auto& [name, target] : std::map<std::string, std::string>{{"hub.bin", "../blobs/0a1b"},
                                                                       {"sub/hub.bin", "../../blobs/0a1b"},
                                                                       {"odd.bin", "../blobs/xyz"},
                                                                       {"twice.bin", "../blobs/0c"},
                                                                       {"trick.bin", "../blobs/../secret.bin"},
                                                                       {"whole.bin", top_ + "/blobs/0a1b"}})
    fs::create_symlink(target, dir_ + "/" + name);
  EXPECT_EQ(external_error({{"location", "hub.bin"}}), "accepted");
  EXPECT_TRUE(load(external({{"location", "hub.bin"}}), dir_ + "/sub").ok()) << "a model deeper in the snapshot";
  for (const char* name : {"odd.bin", "twice.bin", "trick.bin", "whole.bin", "sub/hub.bin"})
    EXPECT_NE(external_error({{"location", name}}).find("symlink"), std::string::npos) << name;
  const std::string escaped = external_error({{"location", "../secret.bin"}});
  EXPECT_NE(escaped.find("'w'"), std::string::npos) << escaped;
  for (const char* bad : {"-1", "x", "0x10", "1e3", "17", "18446744073709551615", "9223372036854775807", " 1", ""})
    EXPECT_NE(external_error({{"location", "w.bin"}, {"offset", bad}}), "accepted") << bad;
  for (const char* bad : {"15", "17", "-16", "1152921504606846976"})
    EXPECT_NE(external_error({{"location", "w.bin"}, {"length", bad}}), "accepted") << bad;
  EXPECT_NE(external_error({{"location", "w.bin"}, {"location", "w.bin"}}).find("twice"), std::string::npos);
  EXPECT_NE(external_error({{"offset", "0"}}).find("without a location"), std::string::npos);
  pb::ModelProto both = external({{"location", "w.bin"}});
  both.mutable_graph()->mutable_initializer(0)->set_raw_data(std::string(16, '\0'));
  EXPECT_NE(error(both).find("twice"), std::string::npos);
}

// The file that is missing, the model that names it, and where it would have been found.
TEST_F(WeightsTest, ExternalDataBesideALinkToTheModel) {
  fs::create_directories(dir_ + "/its own");
  fs::create_directories(dir_ + "/links");
  const std::string real = dir_ + "/its own/model.onnx", link = dir_ + "/links/model.onnx";
  put(real, external({{"location", "w.bin"}}).SerializeAsString());
  fs::create_symlink("../its own/model.onnx", link);
  const auto said = [](const std::string& model) {
    auto r = import_model(model);
    return r.ok() ? "accepted" : r.error().text();
  };
  const std::string here =
      dir_ + "/links/w.bin: 'w': external data of " + link + ": cannot open: No such file or directory; ";
  EXPECT_EQ(said(link), here + "keep external data in the model's folder, as a plain file");
  put(dir_ + "/its own/w.bin", std::string(16, '\0'));
  EXPECT_EQ(said(real), "accepted");
  EXPECT_EQ(said(link), here + "the model is a link, beside which its data is looked for; give its own file: '" +
                            fs::canonical(real).string() + "'");
  put(dir_ + "/links/w.bin", std::string(16, '\0'));
  EXPECT_EQ(said(link), "accepted");
}

TEST_F(WeightsTest, SparseHugeFilesAreRefusedBeforeTheyAreRead) {
  const std::string path = dir_ + "/huge.onnx";
  put(path, relu_model().SerializeAsString());
  ASSERT_EQ(::truncate(path.c_str(), off_t{1} << 40), 0);
  auto r = import_model(path);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().text().find("external data"), std::string::npos) << r.error().text();
  ASSERT_EQ(::truncate(path.c_str(), off_t{1} << 30), 0);  // mapped: a zero tag ends it
  EXPECT_FALSE(import_model(path).ok());
  EXPECT_FALSE(import_model(dir_).ok());
  EXPECT_FALSE(import_model(dir_ + "/missing.onnx").ok());
}

TEST_F(WeightsTest, TensorFiles) {
  const Tensor t = Tensor::of_f32({2}, std::vector<float>{1, 2});
  ASSERT_TRUE(write_tensor_file(dir_ + "/t.pb", t, "t").ok());
  auto r = read_tensor_file(dir_ + "/t.pb");
  ASSERT_TRUE(r.ok()) << r.error().text();
  EXPECT_EQ(r->name, "t");
  EXPECT_TRUE(r->tensor.same_content(t));
  P p;
  p.set_data_type(P::INT8);
  p.add_dims(1);
  p.add_int32_data(-3);
  const std::string one = p.SerializeAsString();
  const std::string element = std::string("\x1a") + static_cast<char>(one.size()) + one;
  put(dir_ + "/s.pb", "\x10\x01" + element + element);
  auto s = read_sequence_file(dir_ + "/s.pb");
  ASSERT_TRUE(s.ok()) << s.error().text();
  ASSERT_EQ(s->size(), 2u);
  EXPECT_EQ((*s)[1].i64(0), -3);
  put(dir_ + "/map.pb", std::string("\x10\x04\x32\0", 4));
  EXPECT_EQ(read_sequence_file(dir_ + "/map.pb").error().kind, ErrorKind::kUnsupported);
  put(dir_ + "/bad.pb", one.substr(0, one.size() - 1));
  auto bad = read_tensor_file(dir_ + "/bad.pb");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().file, dir_ + "/bad.pb");
  put(dir_ + "/empty.pb", "");
  EXPECT_FALSE(read_tensor_file(dir_ + "/empty.pb").ok());
}

// An LSTM of bytes around the middle of their type stays one, whatever its functions; around another zero point, or of
// bytes that the run brings, it is one of float32.
TEST(Weights, BytesOfACellStayWhereTheyCan) {
  const auto ops = [](char zero, bool known, const std::string& function = "") {
    pb::ModelProto m = model();
    auto* o = m.add_opset_import();
    o->set_domain("com.microsoft");
    o->set_version(1);
    input(m, "x", {"t", "1", "3"});
    untyped_output(m, "y");
    initializer(m, "w", {1, 3, 8}, std::string(24, '\3'), pb::TensorProto::INT8);
    if (known)
      initializer(m, "r", {1, 2, 8}, std::string(16, '\2'), pb::TensorProto::INT8);
    else
      input(m, "r", {"1", "2", "8"}, pb::TensorProto::INT8);
    initializer(m, "s", {1}, std::string("\0\0\0\x3c", 4));
    initializer(m, "z", {1}, std::string(1, zero), pb::TensorProto::INT8);
    auto* n = node(m, "DynamicQuantizeLSTM", {"x", "w", "r", "", "", "", "", "", "s", "z", "s", "z"}, {"y"});
    n->set_domain("com.microsoft");
    auto* size = attr(n, "hidden_size", pb::AttributeProto::INT);
    size->set_i(2);
    if (!function.empty()) {
      auto* names = attr(n, "activations", pb::AttributeProto::STRINGS);
      for (int k = 0; k < 3; ++k) names->add_strings(function);
    }
    auto r = load(m);
    if (!r.ok()) return r.error().text();
    EXPECT_EQ(ir::type_text(r->graph.outputs[0]->type), "f32[t,1,1,2]");
    std::string out;
    for (const ir::Node* made : r->graph.nodes) out += made->op.find("lstm") == std::string::npos ? "" : made->op + " ";
    return out;
  };
  EXPECT_EQ(ops('\0', true), "dynamic_quantize_lstm ");
  EXPECT_EQ(ops('\0', true, "Softsign"), "dynamic_quantize_lstm ");
  EXPECT_EQ(ops('\1', true), "lstm ");
  EXPECT_EQ(ops('\0', false), "lstm ");
}

}  // namespace
}  // namespace peri::onnx::tests
