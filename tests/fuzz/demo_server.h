// What planning looks things up in, without weights: the demo model, another
// kind of model, and tensors that requests name.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_FUZZ_DEMO_SERVER_H_
#define PHITAP_TESTS_FUZZ_DEMO_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "server/models/served_models.h"
#include "server/rpc/request_plan.h"
#include "server/tensors/named_tensors.h"
#include "tests/support/manual_clock.h"

namespace phitap {

// Immutable.
class DemoServer {
 public:
  static DemoServer& Get();

  // Of a caller that may keep tensors; with limits that an input of some
  // kilobytes can pass.
  PlanningParts parts();
  // What texts of requests can name: models, tensors, hook points.
  std::vector<std::string> words() const;

 private:
  DemoServer();

  ManualClock clock_;
  ServedModels models_{&clock_};
  std::unique_ptr<NamedTensors> tensors_;
  Identity caller_;
  Limits limits_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_FUZZ_DEMO_SERVER_H_
