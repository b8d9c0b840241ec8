#include "server/spec/hook_point.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace phitap {

bool HasLayer(Hook hook) { return EntryOf(hook).module != Module::kModel; }

absl::string_view ModulePath(Module module) {
  switch (module) {
    case Module::kModel:
      return "model";
    case Module::kLayer:
      return "layers.{i}";
    case Module::kSelfAttn:
      return "layers.{i}.self_attn";
    case Module::kMlp:
      return "layers.{i}.mlp";
  }
  return "";
}

std::string FullNamePattern(Hook hook) {
  const HookEntry& entry = EntryOf(hook);
  if (entry.module == Module::kModel) return std::string(entry.name);
  return absl::StrCat(ModulePath(entry.module), ".", entry.name);
}

std::string FullName(HookPoint point) {
  return absl::StrReplaceAll(FullNamePattern(point.hook),
                             {{"{i}", absl::StrCat(point.layer)}});
}

}  // namespace phitap
