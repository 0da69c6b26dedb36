// Connections that a drain still accepts: those made before it may have sent a request, and are answered.
#pragma once

namespace peri::serve {

// Accepts by `one`, which says whether there was a connection, until there is none, or as many were taken as the kernel
// keeps: more have come since the drain began, and clients that go on to connect must not hold it up.
template <class One>
void accept_rest(int backlog, One one) {
  for (int k = 0; k <= backlog && one(); ++k) {}
}

}  // namespace peri::serve
