// Every line of the proofs of the small models replays: the same candidates, the same refusals.
// label: cpu
#include "tests/places.hpp"
#include "tests/whole/replays.hpp"

namespace peri {
namespace {

TEST(Replay, EveryStepOfASmallModelIsOfferedWhatTheBuildHad) {
  for (const char* model : {"digits_cnn", "digits_transformer"})
    for (const bool measure : {false, true})
      expect_replays(std::string(tests::kSourceDir) + "/models/" + model + ".onnx", measure);
}

}  // namespace
}  // namespace peri
