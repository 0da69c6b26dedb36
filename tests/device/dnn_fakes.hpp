// What tests on the fake cuDNN share: its state, and that of the fake driver, is new before each and gone after it.
#pragma once

#include "tests/device/cuda_fakes.hpp"

namespace peri::device::tests {

class FakeDnn : public testing::Test {
 protected:
  void SetUp() override { reset(); }
  void TearDown() override { reset(); }
  static void reset() {
    Fakes::control<void()>("driver", "fake_reset")();
    Fakes::control<void()>("cudnn", "fake_dnn_reset")();
  }
  // fake_dnn_calls, fake_dnn_live, fake_dnn_runs, fake_dnn_shared
  static long count(const char* what) { return Fakes::control<long()>("cudnn", what)(); }
  static void fail(long call, int status) { Fakes::control<void(long, int)>("cudnn", "fake_dnn_fail")(call, status); }
  const Fakes fakes_{{"libcuda.so.1", "driver"}, {"libnvrtc.so.13", "nvrtc"}, {"libcudnn.so.9", "cudnn"}};
};

}  // namespace peri::device::tests
