#include "client/cli/traced_groups.h"

#include <set>
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

namespace {

// The tensors of one label and run; null: of no run.
std::vector<const client::TracedTensor*> TensorsOf(
    const client::Trace& trace, const std::string& label,
    const client::TracedRun* run) {
  const std::string run_label = run == nullptr ? "" : run->label;
  std::vector<const client::TracedTensor*> tensors;
  for (const client::TracedTensor* tensor : trace.FindAll({.label = label})) {
    if (tensor->descriptor.run() == run_label) tensors.push_back(tensor);
  }
  return tensors;
}

// Those tensors as at most two groups.
void AddGroups(const client::Trace& trace, const std::string& label,
               const v1::Capture* capture, const client::TracedRun* run,
               std::vector<TracedGroup>* groups) {
  TracedGroup prompt = {.title = label, .capture = capture, .run = run};
  if (run != nullptr) absl::StrAppend(&prompt.title, ", run ", run->label);
  TracedGroup generated = {
      .title = absl::StrCat(prompt.title, ", generated tokens"), .run = run};
  for (const client::TracedTensor* tensor : TensorsOf(trace, label, run)) {
    TracedGroup& group = tensor->descriptor.step() > 0 ? generated : prompt;
    group.tensors.push_back(tensor);
  }
  if (!prompt.tensors.empty()) groups->push_back(std::move(prompt));
  if (!generated.tensors.empty()) groups->push_back(std::move(generated));
}

// What a capture read in one run.
void AddCapture(const client::Trace& trace, const v1::Capture& capture,
                const client::TracedRun& run,
                std::vector<TracedGroup>* groups) {
  const auto merged =
      MergeSteps(capture, run, TensorsOf(trace, capture.label(), &run));
  if (merged == nullptr) {
    AddGroups(trace, capture.label(), &capture, &run, groups);
    return;
  }
  TracedGroup group = {
      .title = absl::StrCat(capture.label(), ", run ", run.label,
                            ", with the generated tokens"),
      .capture = &capture,
      .run = &merged->run,
      .merged = merged};
  for (const client::TracedTensor& tensor : merged->tensors) {
    group.tensors.push_back(&tensor);
  }
  groups->push_back(std::move(group));
}

bool IsCapture(absl::string_view label, const v1::TraceRequest& request) {
  for (const v1::Capture& capture : request.captures()) {
    if (capture.label() == label) return true;
  }
  return false;
}

}  // namespace

std::vector<TracedGroup> GroupTensors(const client::Trace& trace,
                                      const v1::TraceRequest& request) {
  std::vector<TracedGroup> groups;
  for (const v1::Capture& capture : request.captures()) {
    for (const client::TracedRun& run : trace.runs) {
      AddCapture(trace, capture, run, &groups);
    }
    AddGroups(trace, capture.label(), nullptr, nullptr, &groups);
  }
  // Gradients and sweeps, in the order in which they come.
  std::set<std::pair<std::string, std::string>> seen;
  for (const client::TracedTensor& tensor : trace.tensors) {
    const std::string& label = tensor.descriptor.label();
    const std::string& run = tensor.descriptor.run();
    if (IsCapture(label, request) || !seen.emplace(label, run).second) continue;
    AddGroups(trace, label, nullptr, run.empty() ? nullptr : trace.FindRun(run),
              &groups);
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
    // Labels of gradients and sweeps are their own.
    const auto capture = named.find(tensor->label());
    if (capture == named.end() || capture->second) continue;
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
