#include "client/cli/traced_groups.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/text_width.h"
#include "client/cpp/positions.h"

namespace phitap::cli {

std::vector<const client::TracedTensor*> TracedGroup::Part(
    absl::string_view part) const {
  std::vector<const client::TracedTensor*> found;
  for (const client::TracedTensor* tensor : tensors) {
    if (tensor->descriptor.part() == part) found.push_back(tensor);
  }
  return found;
}

std::vector<int64_t> TracedGroup::Positions() const {
  return client::ResolvePositions(capture->selection(), run->ids);
}

std::string TracedGroup::TokenAt(int64_t position) const {
  const auto index = static_cast<size_t>(position);
  if (index < run->texts.size()) return TokenText(run->texts[index]);
  return absl::StrCat("#", run->ids[index]);
}

std::vector<TracedGroup> GroupTensors(const client::Trace& trace,
                                      const v1::TraceRequest& request) {
  std::vector<TracedGroup> groups;
  for (const v1::Capture& capture : request.captures()) {
    for (const client::TracedRun& run : trace.runs) {
      TracedGroup group = {.capture = &capture, .run = &run};
      group.tensors =
          trace.FindAll({.label = capture.label(), .run = run.label});
      if (!group.tensors.empty()) groups.push_back(std::move(group));
    }
  }
  return groups;
}

void RestoreDefaultLabels(const v1::TraceRequest& request,
                          const std::vector<bool>& is_named,
                          const std::vector<v1::TensorDescriptor*>& tensors) {
  std::map<std::string, std::string> capture_of_hook_point;
  std::map<std::string, bool> named;
  for (int i = 0; i < request.captures_size(); ++i) {
    named[request.captures(i).label()] = is_named[static_cast<size_t>(i)];
  }
  for (v1::TensorDescriptor* tensor : tensors) {
    if (named[tensor->label()]) continue;
    const auto [owner, is_new] =
        capture_of_hook_point.emplace(tensor->hook_point(), tensor->label());
    if (owner->second == tensor->label()) {
      tensor->set_label(tensor->hook_point());
    }
  }
}

std::string TokenNames::Of(int32_t id) const {
  const auto found = texts_.find(id);
  return found == texts_.end() ? absl::StrCat("#", id)
                               : TokenText(found->second);
}

}  // namespace phitap::cli
