// Any bytes on the socket between server and worker: no frame, or one that is an order, something loaded, an error,
// or none of them.
// links: serve
#include <sys/socket.h>

#include <cstdlib>

#include "base/file.hpp"
#include "serve/worker/wire.hpp"

using peri::serve::order_text;
using peri::serve::read_error;
using peri::serve::read_loaded;
using peri::serve::read_order;
using peri::serve::receive_frame;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 65536) return 0;  // a socket takes so much without a reader
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
  const peri::Fd near(ends[0]), far(ends[1]);
  if (size > 0 && send(far.get(), data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) std::abort();
  shutdown(far.get(), SHUT_WR);
  while (true) {
    const auto frame = receive_frame(near.get());
    if (!frame.ok()) return 0;
    if (const peri::Json* load = frame->json.find("load")) {
      uint32_t model = 0;
      const auto order = read_order(*load, &model);
      if (order.ok()) {
        const auto again = peri::parse_json(order_text(*order, model));
        if (!again.ok() || !read_order(*again->find("load"), &model).ok()) std::abort();
      }
    }
    const auto loaded = read_loaded(*frame);
    if (loaded.ok() && (loaded->slots < 1 || loaded->slots > 1024)) std::abort();
    if (const peri::Json* error = frame->json.find("error")) (void)read_error(*error).text();
  }
}
