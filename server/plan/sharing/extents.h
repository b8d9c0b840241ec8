// Where in a run's rectangle of layers × positions something lies.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_SHARING_EXTENTS_H_
#define PHITAP_SERVER_PLAN_SHARING_EXTENTS_H_

#include <cstdint>

#include "server/plan/program.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"

namespace phitap {

// The smallest layer and the smallest position of it.
struct Corner {
  int layer = 0;
  int64_t position = 0;

  friend bool operator==(const Corner&, const Corner&) = default;
};

// From where on a write at a hook point is felt: see WriteExtent.
Corner WriteCorner(HookPoint point, const ResolvedSelection& selection,
                   const ModelSpec& spec);

// From where on a run's values must be its own to show a value: see
// RunSharing::first_asked_layer.
Corner ReadCorner(HookPoint read_at, const ResolvedSelection& selection,
                  int64_t token_count, const ModelSpec& spec);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_SHARING_EXTENTS_H_
