// What hook points are called in nnterp and TransformerLens.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SPEC_HOOK_ALIASES_H_
#define PHITAP_SERVER_SPEC_HOOK_ALIASES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/spec/hook_point.h"

namespace phitap {

// The same numbers in the same layout, batch dimension aside.
struct HookAlias {
  Hook hook;
  absl::string_view name;  // "blocks.{i}.hook_resid_post"
};
absl::Span<const HookAlias> HookAliases();

// A name that must not stand in for a hook point, since a caller would get
// other numbers, or the same in another layout, without noticing.
struct FalseFriend {
  absl::string_view name;  // "blocks.{i}.attn.hook_q"
  // The hook point to ask for instead.
  Hook hook;
  // What the name means where it comes from.
  absl::string_view difference;
};
absl::Span<const FalseFriend> FalseFriends();

}  // namespace phitap

#endif  // PHITAP_SERVER_SPEC_HOOK_ALIASES_H_
