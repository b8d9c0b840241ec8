#include "client/cli/merged_steps.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace phitap::cli {
namespace {

using client::TracedTensor;

// The tensors of one hook point and part, by step.
using Steps = std::map<int32_t, const TracedTensor*>;

bool ReadsEveryPosition(const v1::Capture& capture) {
  const v1::Selection& selection = capture.selection();
  return capture.reduction().has_logit_lens() && !selection.has_positions() &&
         selection.token_ids().empty() && !selection.has_steps();
}

TracedTensor Joined(const Steps& steps) {
  const TracedTensor& first = *steps.begin()->second;
  std::vector<int64_t> shape = first.value.shape;
  std::vector<std::byte> bytes;
  shape[0] = 0;
  for (const auto& [step, tensor] : steps) {
    shape[0] += tensor->value.shape[0];
    bytes.insert(bytes.end(), tensor->value.bytes.begin(),
                 tensor->value.bytes.end());
  }
  TracedTensor joined = {.descriptor = first.descriptor};
  joined.descriptor.set_shape(0, shape[0]);
  joined.value = CopyOf(first.value.dtype, std::move(shape), bytes);
  return joined;
}

// The run as if its first generated tokens had been part of the prompt.
client::TracedRun RunWith(const client::TracedRun& run, size_t generated) {
  client::TracedRun longer = run;
  for (size_t i = 0; i < generated && i < run.generated.size(); ++i) {
    longer.ids.push_back(run.generated[i].id);
    if (!run.texts.empty()) longer.texts.push_back(run.generated[i].text);
  }
  return longer;
}

}  // namespace

std::shared_ptr<const MergedSteps> MergeSteps(
    const v1::Capture& capture, const client::TracedRun& run,
    const std::vector<const TracedTensor*>& tensors) {
  if (!ReadsEveryPosition(capture)) return nullptr;
  std::map<std::pair<std::string, std::string>, Steps> steps;
  size_t generated = 0;
  for (const TracedTensor* tensor : tensors) {
    const v1::TensorDescriptor& descriptor = tensor->descriptor;
    steps[{descriptor.hook_point(), descriptor.part()}].emplace(
        descriptor.step(), tensor);
    generated = std::max(generated, static_cast<size_t>(descriptor.step()));
  }
  if (generated == 0) return nullptr;
  auto merged = std::make_shared<MergedSteps>();
  merged->run = RunWith(run, generated);
  for (const TracedTensor* tensor : tensors) {
    const v1::TensorDescriptor& descriptor = tensor->descriptor;
    const Steps& same = steps[{descriptor.hook_point(), descriptor.part()}];
    // A hole would put later values under the wrong token.
    if (same.size() != generated + 1) return nullptr;
    if (descriptor.step() == 0) merged->tensors.push_back(Joined(same));
  }
  return merged;
}

}  // namespace phitap::cli
