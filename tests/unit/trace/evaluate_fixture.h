// Evaluates single operations beside a small model.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_TRACE_EVALUATE_FIXTURE_H_
#define PHITAP_TESTS_UNIT_TRACE_EVALUATE_FIXTURE_H_

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/checkpoint/checkpoint.h"
#include "server/model/phi3.h"
#include "server/trace/evaluate.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {

using Tensors = std::vector<at::Tensor>;
using Sizes = std::vector<int64_t>;

class EvaluateTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const TempFolder folder;
    TinyCheckpoint(TinyKind::kGroupedQueries, {.dtype = DType::kBF16})
        .Write(folder);
    auto checkpoint = Checkpoint::Open(folder.path());
    ASSERT_THAT(checkpoint, IsOk());
    auto model = Phi3::Load(*checkpoint, DType::kBF16);
    ASSERT_THAT(model, IsOk());
    model_ = std::move(*model);
  }
  static void TearDownTestSuite() { model_.reset(); }

  at::Tensor Value(Operation operation, const Tensors& inputs,
                   ForwardNumerics numerics) const {
    return Evaluate(
        {.operation = std::move(operation), .field = "program.nodes[3]"},
        inputs, {.model = *model_, .numerics = numerics});
  }
  at::Tensor Causal(Operation operation, const Tensors& inputs) const {
    return Value(std::move(operation), inputs, ForwardNumerics::kCausal);
  }

  inline static std::unique_ptr<Phi3> model_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_TRACE_EVALUATE_FIXTURE_H_
