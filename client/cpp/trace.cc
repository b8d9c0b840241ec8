#include "client/cpp/trace.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace phitap::client {
namespace {

constexpr size_t kNamesInAMessage = 8;

bool Matches(absl::string_view wanted, absl::string_view value) {
  return wanted.empty() || wanted == value;
}

bool Matches(const TensorKey& key, const v1::TensorDescriptor& tensor) {
  return Matches(key.label, tensor.label()) && Matches(key.run, tensor.run()) &&
         Matches(key.hook_point, tensor.hook_point()) &&
         Matches(key.part, tensor.part()) &&
         key.step.value_or(tensor.step()) == tensor.step();
}

std::string Describe(const TensorKey& key) {
  std::string text;
  const auto add = [&](absl::string_view name, absl::string_view value) {
    if (value.empty()) return;
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, " `", value, "`");
  };
  add("label", key.label);
  add("run", key.run);
  add("hook point", key.hook_point);
  add("part", key.part);
  if (key.step) add("step", absl::StrCat(*key.step));
  return text.empty() ? "any tensor" : text;
}

std::string Describe(const v1::TensorDescriptor& tensor) {
  return Describe({.label = tensor.label(),
                   .run = tensor.run(),
                   .hook_point = tensor.hook_point() == tensor.label()
                                     ? ""
                                     : tensor.hook_point(),
                   .part = tensor.part(),
                   .step = tensor.step() == 0 ? std::nullopt
                                              : std::optional(tensor.step())});
}

template <typename Tensors, typename Get>
std::string ListSome(const Tensors& tensors, Get get) {
  std::string text;
  for (size_t i = 0; i < tensors.size() && i < kNamesInAMessage; ++i) {
    absl::StrAppend(&text, text.empty() ? "" : "; ",
                    Describe(get(tensors[i]).descriptor));
  }
  if (tensors.size() > kNamesInAMessage) {
    absl::StrAppend(&text, "; and ", tensors.size() - kNamesInAMessage,
                    " more");
  }
  return text;
}

}  // namespace

std::string GeneratedText(const TracedRun& run) {
  std::string text;
  for (const GeneratedToken& token : run.generated) text += token.text;
  return text;
}

absl::StatusOr<const TracedTensor*> Trace::Find(const TensorKey& key) const {
  const std::vector<const TracedTensor*> found = FindAll(key);
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no tensor with ", Describe(key), "; the trace has: ",
                     ListSome(
                         tensors, [](const auto& t) -> auto& { return t; })));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(found.size(), " tensors match ", Describe(key), ": ",
                   ListSome(
                       found, [](const auto* t) -> auto& { return *t; })));
}

std::vector<const TracedTensor*> Trace::FindAll(const TensorKey& key) const {
  std::vector<const TracedTensor*> found;
  for (const TracedTensor& tensor : tensors) {
    if (Matches(key, tensor.descriptor)) found.push_back(&tensor);
  }
  return found;
}

const TracedRun* Trace::FindRun(absl::string_view label) const {
  for (const TracedRun& run : runs) {
    if (run.label == label) return &run;
  }
  return nullptr;
}

TracedRun* Trace::FindRun(absl::string_view label) {
  return const_cast<TracedRun*>(std::as_const(*this).FindRun(label));
}

bool Trace::AnyFailed(absl::string_view run) const {
  if (run.empty() && !failed_cells.empty()) return true;
  for (const TracedRun& traced : runs) {
    if (Matches(run, traced.label) && traced.status.code() != 0) return true;
  }
  return false;
}

}  // namespace phitap::client
