// Keeps the names of an answer's tensors apart.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_CAPTURE_LABELS_H_
#define PHITAP_SERVER_PLAN_CAPTURE_LABELS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/trace.pb.h"
#include "server/plan/limits.h"
#include "server/spec/hook_point.h"

namespace phitap {

// Labels of a request's captures, given ones and those that default to a hook
// point's full name. Together with run, hook point and part a label names one
// tensor.
class CaptureLabels {
 public:
  // Takes the given labels. INVALID_ARGUMENT for a repeated or too long one.
  absl::Status AddGiven(const v1::TraceRequest& request, const Limits& limits);
  // Takes the default label of `point`, read by the unlabelled `capture` in
  // `run`. INVALID_ARGUMENT if another capture has the name already.
  absl::Status AddDefault(int capture, HookPoint point, int run,
                          absl::string_view run_label);

 private:
  absl::flat_hash_map<std::string, int> given_;
  // By full name and run.
  absl::flat_hash_map<std::pair<std::string, int>, int> defaults_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_CAPTURE_LABELS_H_
