// An HTTP/1.1 client on a socket of its own, for tests of the server's front end.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <utility>

#include "base/file.hpp"

namespace peri::serve {

class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    good_ = connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  bool send(const std::string& text) {
    return good_ && ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // Ends the sending side.
  void end() { shutdown(fd_.get(), SHUT_WR); }
  // Waits until data has arrived, which is not consumed.
  bool hears() const {
    char first = 0;
    return recv(fd_.get(), &first, 1, MSG_PEEK) == 1;
  }
  // Status and body of the next reply; 0: none.
  std::pair<int, std::string> read() {
    char piece[4096];
    while (true) {
      const size_t end = have_.find("\r\n\r\n");
      if (end != std::string::npos) {
        const size_t at = have_.find("Content-Length: ");
        const size_t body = at < end ? static_cast<size_t>(std::atoll(have_.c_str() + at + 16)) : 0;
        if (have_.size() >= end + 4 + body) {
          std::pair<int, std::string> out{std::atoi(have_.c_str() + 9), have_.substr(end + 4, body)};
          head = have_.substr(0, end);
          have_.erase(0, end + 4 + body);
          return out;
        }
      }
      const ssize_t n = recv(fd_.get(), piece, sizeof piece, 0);
      if (n <= 0) return {0, have_};
      have_.append(piece, static_cast<size_t>(n));
    }
  }
  std::string head;

 private:
  Fd fd_;
  bool good_ = false;
  std::string have_;
};

inline std::string post(const std::string& path, const std::string& body, const std::string& fields = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: a\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}
inline std::string get(const std::string& path, const std::string& fields = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
}

}  // namespace peri::serve
