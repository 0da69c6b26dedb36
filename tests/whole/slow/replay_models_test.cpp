// Every line of the proofs of the nine whole models replays.
#include "tests/places.hpp"
#include "tests/whole/replays.hpp"

namespace peri {
namespace {

class ReplayModels : public testing::TestWithParam<const char*> {};

TEST_P(ReplayModels, EveryStepIsOfferedWhatTheBuildHad) {
  expect_replays(std::string(tests::kBuildDir) + "/models/" + GetParam() + ".onnx", false);
}

INSTANTIATE_TEST_SUITE_P(Whole, ReplayModels,
                         testing::Values("resnet50", "mobilenet_v3_large", "efficientnet_b0", "unet",
                                         "deeplabv3_resnet50", "vit_b_16", "bert_base", "bert_large", "gpt2"));

}  // namespace
}  // namespace peri
