// Files: what is refused, what a hostile name can reach (nothing), a file cut while mapped, and writing whole or not.
#include "base/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace peri {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "peri_file_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    top_ = name;
    dir_ = top_ + "/model";
    fs::create_directories(dir_ + "/sub");
    put(top_ + "/secret", "secret");
    put(dir_ + "/a", "hello");
    put(dir_ + "/sub/b", "deep");
  }
  void TearDown() override { fs::remove_all(top_); }

  static void put(const std::string& path, std::string_view bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  // The text below dir_, or the error.
  std::string beneath(std::string_view name, Links links = Links::kNone) const {
    Result<Fd> fd = open_beneath(dir_, name, links);
    if (!fd.ok()) return fd.error().text();
    return read_file(*fd, name, 100).value();
  }
  size_t entries() const {
    size_t n = 0;
    for ([[maybe_unused]] const auto& e : fs::directory_iterator(dir_)) ++n;
    return n;
  }

  std::string top_, dir_;
};

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

// What forbids it: the file, or the first folder that may not be entered.
TEST_F(FileTest, WithoutPermission) {
  constexpr uid_t kOther = 65534;
  const fs::path before = fs::current_path();
  const uid_t user = ::geteuid();
  fs::create_directories(dir_ + "/sub/deep");
  put(dir_ + "/sub/deep/c", "c");
  ASSERT_EQ(::chmod((dir_ + "/a").c_str(), 0), 0);
  ASSERT_EQ(::chmod((dir_ + "/sub").c_str(), 0), 0);
  ASSERT_EQ(::chmod(dir_.c_str(), 0755), 0);
  fs::current_path(dir_);  // the folders above may be closed too
  if (user == 0) ASSERT_EQ(::seteuid(kOther), 0);
  const auto said = [](Result<Fd> fd) { return fd.ok() ? std::string("opened") : fd.error().text(); };
  const std::string file = said(open_file("a")), deep = said(open_file("sub/deep/c")),
                    below = said(open_beneath(".", "a", Links::kNone));
  if (user == 0) EXPECT_EQ(::seteuid(user), 0);
  fs::current_path(before);
  EXPECT_EQ(::chmod((dir_ + "/sub").c_str(), 0755), 0);
  const std::string who = "this user (" + std::to_string(user == 0 ? kOther : user) + ") may not ";
  EXPECT_EQ(file, "a: cannot open: Permission denied; " + who + "read it: give it the permission");
  EXPECT_EQ(deep,
            "sub/deep/c: cannot open: Permission denied; " + who + "enter the folder 'sub': give it the permission");
  EXPECT_EQ(below, "./a: cannot open: Permission denied; " + who + "read it: give it the permission");
}

TEST_F(FileTest, NoNameIsNoFile) {
  Result<Fd> fd = open_file("");
  ASSERT_FALSE(fd.ok());
  EXPECT_EQ(fd.error().text(), "file name is empty");
}

TEST_F(FileTest, ReadsWithACap) {
  EXPECT_EQ(read_file(dir_ + "/a", 5).value(), "hello");
  Result<std::string> r = read_file(dir_ + "/a", 4);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().kind, ErrorKind::kMemory);
  EXPECT_TRUE(has(r.error().text(), "expected at most 4 bytes, found 5 bytes")) << r.error().text();
  put(dir_ + "/empty", "");
  EXPECT_EQ(read_file(dir_ + "/empty", 10).value(), "");
  EXPECT_TRUE(has(read_file("/proc/self/status", 1 << 20).value(), "Name:"));
  EXPECT_FALSE(read_file("/proc/self/status", 10).ok());
}

TEST_F(FileTest, RefusesWhatIsNoFile) {
  ASSERT_EQ(::mkfifo((dir_ + "/fifo").c_str(), 0600), 0);
  const int s = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, (dir_ + "/sock").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(s, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  for (const std::string& name :
       {dir_, dir_ + "/fifo", dir_ + "/sock", std::string("/dev/zero"), std::string("/dev/null")}) {
    Result<MappedFile> r = MappedFile::open(name);
    ASSERT_FALSE(r.ok()) << name;
    EXPECT_EQ(r.error().kind, ErrorKind::kInvalid) << name;
    EXPECT_TRUE(has(r.error().text(), "expected a regular file")) << r.error().text();
    EXPECT_FALSE(read_file(name, 100).ok());
  }
  for (const char* name : {"fifo", "sock", "sub"})
    EXPECT_TRUE(has(beneath(name), "expected a regular file")) << beneath(name);
  EXPECT_TRUE(has(beneath("fifo", Links::kHubCache), "FIFO"));
  ::close(s);
  EXPECT_EQ(MappedFile::open(dir_ + "/absent").error().kind, ErrorKind::kIo);
}

TEST_F(FileTest, BeneathOpensPlainNames) {
  EXPECT_EQ(beneath("a"), "hello");
  EXPECT_EQ(beneath("./a"), "hello");
  EXPECT_EQ(beneath("sub/b"), "deep");
  EXPECT_EQ(beneath("sub//./b"), "deep");
  put(dir_ + "/..x", "dots");
  EXPECT_EQ(beneath("..x"), "dots");
}

TEST_F(FileTest, BeneathRefusesEveryWayOut) {
  fs::create_symlink(top_ + "/secret", dir_ + "/absolute_link");
  fs::create_symlink("../secret", dir_ + "/link");
  fs::create_symlink("..", dir_ + "/up");
  fs::create_symlink("sub", dir_ + "/inside");
  fs::create_symlink("loop", dir_ + "/loop");
  for (Links links : {Links::kNone, Links::kHubCache})
    for (std::string_view name :
         {std::string_view("../secret"), std::string_view("sub/../../secret"), std::string_view("/etc/passwd"),
          std::string_view("//etc/passwd"), std::string_view(".."), std::string_view(""), std::string_view("."),
          std::string_view("a\0b", 3), std::string_view("up/secret"), std::string_view("inside/b"),
          std::string_view("sub/..")}) {
      Result<Fd> r = open_beneath(dir_, name, links);
      ASSERT_FALSE(r.ok()) << name;
      EXPECT_EQ(r.error().kind, ErrorKind::kInvalid) << r.error().text();
    }
  for (const char* name : {"link", "absolute_link", "loop"})
    EXPECT_TRUE(has(beneath(name), "symlink")) << beneath(name);
  EXPECT_FALSE(open_beneath(dir_, "a/b").ok());
  EXPECT_FALSE(open_beneath(dir_, std::string(5000, 'x')).ok());
  EXPECT_FALSE(open_beneath(dir_, std::string(300, 'x')).ok());
  EXPECT_FALSE(open_beneath(dir_, "C:\\secret").ok());
  EXPECT_FALSE(open_beneath(dir_, "http://host/secret").ok());
  EXPECT_FALSE(open_beneath(top_ + "/secret", "a").ok());
}

TEST_F(FileTest, HubCacheLinksAreFollowed) {
  fs::create_directories(top_ + "/blobs");
  fs::create_directories(top_ + "/snapshots/1/sub");
  put(top_ + "/blobs/0a1b", "blob");
  put(top_ + "/blobs/xyz", "not hex");
  dir_ = top_ + "/snapshots/1";
  fs::create_symlink("../../blobs/0a1b", dir_ + "/config.json");
  fs::create_symlink("../../../blobs/0a1b", dir_ + "/sub/config.json");
  fs::create_symlink("../../../blobs/xyz", dir_ + "/sub/odd");
  fs::create_symlink("../../../secret", dir_ + "/sub/out");
  fs::create_symlink("../../../blobs/../secret", dir_ + "/sub/trick");
  EXPECT_EQ(beneath("config.json", Links::kHubCache), "blob");
  EXPECT_EQ(beneath("sub/config.json", Links::kHubCache), "blob");
  EXPECT_TRUE(has(beneath("config.json"), "symlink"));
  for (const char* name : {"sub/config.json", "sub/odd", "sub/out", "sub/trick"})
    EXPECT_TRUE(has(beneath(name), "symlink")) << name;
  EXPECT_EQ(beneath("sub/odd", Links::kHubCache), "not hex");
  EXPECT_EQ(beneath("sub/out", Links::kHubCache), "secret") << "a link of the user's, as one beside config.json";
  fs::create_symlink("absent", dir_ + "/sub/broken");
  fs::create_symlink("..", dir_ + "/sub/folder");
  fs::create_symlink("../sub", dir_ + "/sub/way");
  EXPECT_TRUE(has(beneath("sub/broken", Links::kHubCache), "cannot open"));
  EXPECT_TRUE(has(beneath("sub/folder", Links::kHubCache), "a folder"));
  EXPECT_TRUE(has(beneath("sub/way/odd", Links::kHubCache), "goes through a symlink"));
}

TEST_F(FileTest, MapsAndMoves) {
  MappedFile a = MappedFile::open(dir_ + "/a").value();
  EXPECT_EQ(a.text(), "hello");
  MappedFile b = std::move(a);
  EXPECT_EQ(b.text(), "hello");
  EXPECT_EQ(b.name(), dir_ + "/a");
  EXPECT_TRUE(b.check().ok());
  put(dir_ + "/empty", "");
  MappedFile none = MappedFile::open(dir_ + "/empty").value();
  EXPECT_EQ(none.size(), 0u);
  EXPECT_TRUE(none.check().ok());
}

TEST_F(FileTest, AFileCutWhileMappedIsAnErrorAndNoCrash) {
  const std::string path = dir_ + "/big";
  put(path, std::string(1 << 20, 'x'));
  MappedFile cut = MappedFile::open(path).value();
  MappedFile whole = MappedFile::open(dir_ + "/a").value();
  ASSERT_EQ(::truncate(path.c_str(), 100), 0);
  size_t sums[2] = {0, 0};
  std::thread other([&] {
    for (char c : cut.text()) sums[1] += c == 'x';
  });
  for (char c : cut.text()) sums[0] += c == 'x';
  other.join();
  EXPECT_LE(sums[0], size_t{100});
  EXPECT_LE(sums[1], size_t{100});
  ASSERT_FALSE(cut.check().ok());
  EXPECT_EQ(cut.check().error().kind, ErrorKind::kIo);
  EXPECT_TRUE(has(cut.check().error().text(), "big: file was cut")) << cut.check().error().text();
  EXPECT_TRUE(whole.check().ok());
  put(path, "fresh");
  EXPECT_TRUE(MappedFile::open(path).value().check().ok());
}

// Within its last page a cut file reads as zeros, without a fault.
TEST_F(FileTest, AFileCutWithinItsLastPageIsAnErrorToo) {
  const std::string path = dir_ + "/small";
  put(path, std::string(100, 'x'));
  const MappedFile cut = MappedFile::open(path).value();
  EXPECT_TRUE(cut.check().ok());
  ASSERT_EQ(::rename(path.c_str(), (dir_ + "/moved").c_str()), 0);
  put(path, "another file of that name");
  EXPECT_TRUE(cut.check().ok());
  ASSERT_EQ(::rename((dir_ + "/moved").c_str(), path.c_str()), 0);
  ASSERT_EQ(::truncate(path.c_str(), 99), 0);
  ASSERT_FALSE(cut.check().ok());
  put(path, std::string(100, 'x'));
  EXPECT_FALSE(cut.check().ok());  // what was read meanwhile may be kept
}

// Gives a file a time of modification of its own, whatever the tick of the file system's clock.
void modify(const std::string& path, int64_t second) {
  const timespec times[2] = {{second, 0}, {second, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

// Writes over the file's bytes, which stay as many.
void overwrite(const std::string& path, const std::string& bytes) {
  const Fd fd(::open(path.c_str(), O_WRONLY));
  ASSERT_EQ(::pwrite(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
}

TEST_F(FileTest, AFileOverwrittenAtItsSizeIsAnError) {
  const std::string path = dir_ + "/same", moved = dir_ + "/elsewhere";
  for (const bool renamed : {false, true}) {
    put(path, std::string(100, 'x'));
    modify(path, 1'000'000'000);
    const MappedFile mapped = MappedFile::open(path).value();
    EXPECT_TRUE(mapped.check().ok());
    if (renamed) ASSERT_EQ(::rename(path.c_str(), moved.c_str()), 0);
    overwrite(renamed ? moved : path, std::string(100, 'y'));
    EXPECT_EQ(mapped.text(), std::string(100, 'y'));
    ASSERT_FALSE(mapped.check().ok());
    EXPECT_EQ(mapped.check().error().kind, ErrorKind::kIo);
    EXPECT_TRUE(has(mapped.check().error().text(), "same: file was overwritten")) << mapped.check().error().text();
    overwrite(renamed ? moved : path, std::string(100, 'x'));
    modify(renamed ? moved : path, 1'000'000'000);
    EXPECT_FALSE(mapped.check().ok());  // what was read meanwhile may be kept
  }
}

TEST_F(FileTest, AFileThatIsRecognizedMayHaveAnotherTime) {
  const std::string path = dir_ + "/known";
  put(path, std::string(100, 'x'));
  modify(path, 1'000'000'000);
  MappedFile mapped = MappedFile::open(path).value();
  int asked = 0;
  mapped.recognize([&asked](std::span<const std::byte> bytes) {
    ++asked;
    return bytes[0] == std::byte{'x'};
  });
  EXPECT_TRUE(mapped.check().ok());
  EXPECT_EQ(asked, 0);
  modify(path, 1'000'000'001);
  EXPECT_TRUE(mapped.check().ok());
  EXPECT_TRUE(mapped.check().ok());
  EXPECT_EQ(asked, 1);
  overwrite(path, "y");
  EXPECT_FALSE(mapped.check().ok());
}

// By the folder of the model, not by that of the process; also where so many are mapped that not all stay open.
TEST_F(FileTest, AFileMappedBelowAFolderIsCheckedThere) {
  put(dir_ + "/data", std::string(100, 'x'));
  modify(dir_ + "/data", 1'000'000'000);
  std::vector<MappedFile> others;
  for (const bool cut : {true, false, true, false}) {
    for (int k = 0; k < 70; ++k) others.push_back(MappedFile::open(dir_ + "/a").value());
    const MappedFile mapped = MappedFile::map(open_beneath(dir_, "data").value(), "data").value();
    EXPECT_TRUE(mapped.check().ok());
    if (cut)
      ASSERT_EQ(::truncate((dir_ + "/data").c_str(), 99), 0);
    else
      overwrite(dir_ + "/data", "y");
    ASSERT_FALSE(mapped.check().ok());
    EXPECT_EQ(mapped.check().error().file, "data");
    put(dir_ + "/data", std::string(100, 'x'));
    modify(dir_ + "/data", 1'000'000'000);
  }
}

TEST_F(FileTest, AFaultThatIsNotOursStaysFatal) {
  const std::string path = dir_ + "/big";
  put(path, std::string(1 << 16, 'x'));
  EXPECT_EXIT(
      {
        MappedFile ours = MappedFile::open(path).value();
        ::raise(SIGBUS);
        ::raise(SIGBUS);
        ::_exit(0);
      },
      [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; }, "");
}

TEST_F(FileTest, WritesWholeOrNotAtAll) {
  const std::string path = dir_ + "/out";
  ASSERT_TRUE(write_file_atomic(path, "one").ok());
  ASSERT_TRUE(write_file_atomic(path, "two").ok());
  EXPECT_EQ(read_file(path, 10).value(), "two");
  const size_t before = entries();
  {
    AtomicFile f = AtomicFile::create(path).value();
    ASSERT_TRUE(f.write("half").ok());
    AtomicFile moved = std::move(f);
  }
  EXPECT_EQ(read_file(path, 10).value(), "two");
  EXPECT_EQ(entries(), before);
  EXPECT_FALSE(write_file_atomic(dir_ + "/absent/out", "x").ok());
  EXPECT_FALSE(write_file_atomic(dir_ + "/sub", "x").ok());
  EXPECT_FALSE(write_file_atomic(dir_ + "/", "x").ok());
  EXPECT_FALSE(write_file_atomic("", "x").ok());
  EXPECT_FALSE(write_file_atomic("/dev/null", "x").ok());
}

// In a child that sees an empty /proc, as in a chroot. Such a process cannot name a file that has no name.
TEST_F(FileTest, WritesWithoutProc) {
  constexpr int kNotAllowed = 77;
  const std::string path = dir_ + "/out";
  put(path, "old");
  const size_t before = entries();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool hidden = ::unshare(::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
                        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                        ::mount("none", "/proc", "tmpfs", 0, nullptr) == 0;
    if (!hidden) ::_exit(kNotAllowed);
    {
      AtomicFile dropped = AtomicFile::create(path).value();
      if (!dropped.write("half").ok()) ::_exit(1);
    }
    if (entries() != before || read_file(path, 10).value() != "old") ::_exit(2);
    ::_exit(write_file_atomic(path, "new").ok() ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "no mount namespace";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(path, 10).value(), "new");
  EXPECT_EQ(entries(), before);
}

TEST_F(FileTest, WritingReplacesALinkAndNotItsTarget) {
  fs::create_symlink(top_ + "/secret", dir_ + "/out");
  ASSERT_TRUE(write_file_atomic(dir_ + "/out", "mine").ok());
  EXPECT_EQ(read_file(top_ + "/secret", 10).value(), "secret");
  EXPECT_EQ(read_file(dir_ + "/out", 10).value(), "mine");
}

TEST(PercentEncodeName, StaysInTheFolder) {
  EXPECT_EQ(percent_encode_name("logits_1.a-B"), "logits_1.a-B");
  EXPECT_EQ(percent_encode_name("../../etc/x"), "%2E.%2F..%2Fetc%2Fx");
  EXPECT_EQ(percent_encode_name(".."), "%2E.");
  EXPECT_EQ(percent_encode_name("/a b%"), "%2Fa%20b%25");
  EXPECT_EQ(percent_encode_name(std::string_view("\0\xC3\xA9", 3)), "%00%C3%A9");
}

TEST(PercentEncodeName, AFileSystemTakesIt) {
  EXPECT_EQ(percent_encode_name(std::string(230, 'a')), std::string(230, 'a'));
  const std::string many = percent_encode_name(std::string(300, 'a') + "1");
  EXPECT_EQ(many.substr(0, 201), std::string(200, 'a') + "-");
  EXPECT_EQ(many.size(), 217u);
  EXPECT_NE(many, percent_encode_name(std::string(300, 'a') + "2"));
  for (size_t shift = 0; shift < 3; ++shift) {
    const std::string cut = percent_encode_name(std::string(shift, 'a') + std::string(90, '/'));
    EXPECT_EQ(cut[cut.size() - 18], 'F') << cut;
  }
}

}  // namespace
}  // namespace peri
