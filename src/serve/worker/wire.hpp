// Messages between server and worker on their socket: orders to load a model, and results. A frame is a JSON text
// followed by bytes.
#pragma once

#include "base/json.hpp"
#include "serve/repository/repository.hpp"

namespace peri::serve {

struct Frame {
  Json json;
  std::shared_ptr<std::vector<std::byte>> bytes;  // tensors as a block; null: none
};

// kIo "closed": the other side has closed the socket.
Status send_frame(int socket, const std::string& json, std::span<const std::byte> bytes = {});
Result<Frame> receive_frame(int socket);

// The parts of an order that a worker needs. Errors of readers: kInvalid.
std::string order_text(const LoadOrder& order, uint32_t model);
Result<LoadOrder> read_order(const Json& json, uint32_t* model);

// The result of a load in a worker. Includes the servable's ports and slots.
struct LoadedThere {
  Loaded loaded;  // without the servable
  std::vector<plan::Port> inputs, outputs;
  int slots = 1;
};
std::string loaded_text(const Loaded& loaded);
Result<LoadedThere> read_loaded(const Frame& frame);

void add_error(const Error& error, JsonWriter* w);  // as a member "error"
Error read_error(const Json& error);

}  // namespace peri::serve
