// The error of a device that is lost for good is there for whoever asks, until the process has ended.
#include "device/lost.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace peri::device {
namespace {

const char* const kText = "an error whose text is longer than what a string holds in itself";

// As a thread that still runs while the process ends: made before anything of the module, so gone after it.
struct Late {
  bool asks = false;
  ~Late() {
    if (!asks) return;
    const std::optional<Error> error = lost_device();
    std::_Exit(error && error->message == kText ? 0 : 3);
  }
};
Late late;

TEST(Lost, TheFirstErrorOutlivesTheStatics) {
  EXPECT_EXIT(
      {
        note_lost_device(Error(ErrorKind::kIo, kText));
        note_lost_device(Error(ErrorKind::kIo, "a later one"));
        late.asks = true;
        std::exit(1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_FALSE(lost_device()) << "here nothing was told";
}

}  // namespace
}  // namespace peri::device
