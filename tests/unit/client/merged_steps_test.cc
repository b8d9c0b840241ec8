#include "client/cli/merged_steps.h"

#include "client/cpp/float_values.h"
#include "tests/unit/client/proto_matchers.h"

namespace phitap::cli {
namespace {

using client::TracedTensor;
using testing::ElementsAre;

// Probabilities [rows, 1], each its step and row: 2.1 is row 1 of step 2.
TracedTensor Lens(const std::string& hook_point, int32_t step, int64_t rows) {
  std::vector<float> values;
  for (int64_t row = 0; row < rows; ++row) {
    values.push_back(static_cast<float>(step) +
                     0.25F * static_cast<float>(row));
  }
  TracedTensor tensor;
  tensor.value = CopyOf(DType::kF32, {rows, 1},
                        {reinterpret_cast<const std::byte*>(values.data()),
                         values.size() * sizeof(float)});
  tensor.descriptor.set_hook_point(hook_point);
  tensor.descriptor.set_step(step);
  tensor.descriptor.add_shape(rows);
  tensor.descriptor.add_shape(1);
  return tensor;
}

// Two layers of a prompt of two tokens, of which three more were generated.
struct Generated {
  client::TracedRun run = {.ids = {7, 8},
                           .texts = {"a", "b"},
                           .generated = {{.id = 9, .text = "c"},
                                         {.id = 10, .text = "d"},
                                         {.id = 11, .text = "e"}}};
  std::vector<TracedTensor> tensors = {Lens("x", 0, 2), Lens("y", 0, 2),
                                       Lens("x", 1, 1), Lens("y", 1, 1),
                                       Lens("x", 2, 1), Lens("y", 2, 1)};

  std::shared_ptr<const MergedSteps> Merged(const std::string& capture) const {
    std::vector<const TracedTensor*> pointers;
    for (const TracedTensor& tensor : tensors) pointers.push_back(&tensor);
    return MergeSteps(Parsed<v1::Capture>(capture), run, pointers);
  }
};

constexpr char kLens[] = "reduction { logit_lens { k: 1 } }";

TEST(MergeSteps, PutsEachStepBehindThePrompt) {
  const auto merged = Generated().Merged(kLens);
  ASSERT_NE(merged, nullptr);
  // The last token did not go through the model.
  EXPECT_THAT(merged->run.ids, ElementsAre(7, 8, 9, 10));
  EXPECT_THAT(merged->run.texts, ElementsAre("a", "b", "c", "d"));
  ASSERT_EQ(merged->tensors.size(), 2);
  EXPECT_EQ(merged->tensors[1].descriptor.hook_point(), "y");
  EXPECT_THAT(merged->tensors[0].value.shape, ElementsAre(4, 1));
  EXPECT_THAT(client::ElementsAt(merged->tensors[0].value, 0, 4),
              ElementsAre(0, 0.25, 1, 2));
}

TEST(MergeSteps, LeavesOtherCapturesAlone) {
  const Generated generated;
  EXPECT_EQ(generated.Merged(""), nullptr);
  EXPECT_EQ(generated.Merged("reduction { top_k { k: 1 } }"), nullptr);
  EXPECT_EQ(generated.Merged(std::string(kLens) +
                             "selection { positions { indices: -1 } }"),
            nullptr);
  EXPECT_EQ(generated.Merged(std::string(kLens) +
                             "selection { steps { indices: 1 } }"),
            nullptr);
  EXPECT_EQ(generated.Merged(std::string(kLens) + "selection { token_ids: 7 }"),
            nullptr);
}

TEST(MergeSteps, LeavesARunAloneThatDidNotGenerate) {
  Generated prompt;
  prompt.tensors.resize(2);
  EXPECT_EQ(prompt.Merged(kLens), nullptr);
}

TEST(MergeSteps, PutsNothingOverAHole) {
  Generated generated;
  generated.tensors.erase(generated.tensors.begin() + 3);
  EXPECT_EQ(generated.Merged(kLens), nullptr);
}

}  // namespace
}  // namespace phitap::cli
