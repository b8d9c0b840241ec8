// Keeps the names of an answer's tensors apart.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_CAPTURES_CAPTURE_LABELS_H_
#define PHITAP_SERVER_PLAN_CAPTURES_CAPTURE_LABELS_H_

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

// The label of gradient number `index`, given or by default.
std::string GradientLabel(const v1::TraceRequest& request, int index);

// Labels of a request's captures, gradients and sweeps, given ones and those
// that default to a hook point's full name. Together with run, hook point, step
// and part a label names one tensor.
class CaptureLabels {
 public:
  // Takes the labels that are known from the request alone: given ones, and the
  // defaults of nodes, gradients and sweeps. INVALID_ARGUMENT for a repeated or
  // too long one.
  absl::Status AddGiven(const v1::TraceRequest& request, const Limits& limits);
  // Takes the default label of `point`, read by the unlabelled `capture` in
  // `run`. INVALID_ARGUMENT if another capture has the name already.
  absl::Status AddDefault(int capture, HookPoint point, int run,
                          absl::string_view run_label);

 private:
  absl::Status Take(const std::string& label, const std::string& given,
                    const std::string& owner, const Limits& limits);

  // Who has it: "captures[1]".
  absl::flat_hash_map<std::string, std::string> given_;
  // By full name and run.
  absl::flat_hash_map<std::pair<std::string, int>, int> defaults_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_CAPTURES_CAPTURE_LABELS_H_
