// A forward under way.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_PASS_H_
#define PHITAP_SERVER_MODEL_PASS_H_

#include <ATen/core/Tensor.h>

#include <utility>

#include "server/model/hooks.h"
#include "server/model/rotary.h"
#include "server/model/wave.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"

namespace phitap {

class Arithmetic;

// Whose tokens it computes, how, where it stands and who watches. Everything
// that changes during a forward is in here; the model itself is const.
struct Pass {
  const ModelSpec& spec;
  Wave& wave;
  Arithmetic& numerics;
  Hooks& hooks;
  RotaryTables rotary = {};
  // Of the layer under way; −1 before the first and after the last.
  int layer = -1;

  bool Wants(Hook hook) const {
    return hooks.Wants({.hook = hook, .layer = layer});
  }
  // Shows the value and returns what to go on with.
  at::Tensor Show(Hook hook, at::Tensor value) const {
    return Show(hook, std::move(value), wave.layout());
  }
  at::Tensor Show(Hook hook, at::Tensor value,
                  const TokenLayout& layout) const {
    if (!Wants(hook)) return value;
    return hooks.Visit({.hook = hook, .layer = layer}, std::move(value),
                       layout);
  }

  bool WantsPattern(Hook hook, const PatternBlock& block) const {
    return hooks.WantsPattern({.hook = hook, .layer = layer}, block);
  }
  at::Tensor ShowPattern(Hook hook, const PatternBlock& block,
                         at::Tensor value) const {
    if (!WantsPattern(hook, block)) return value;
    return hooks.VisitPattern({.hook = hook, .layer = layer}, block,
                              std::move(value));
  }
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_PASS_H_
