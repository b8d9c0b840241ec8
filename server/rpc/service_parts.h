// What the services are made of.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_SERVICE_PARTS_H_
#define PHITAP_SERVER_RPC_SERVICE_PARTS_H_

#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/plan/limits.h"
#include "server/rpc/served_models.h"
#include "server/rpc/stream_watch.h"
#include "server/rpc/worker_pool.h"
#include "server/schedule/scheduler.h"

namespace phitap {

struct ServiceLimits {
  Limits plan;
  // Of a trace whose client names no deadline, and the longest that any gets.
  absl::Duration default_deadline = absl::Minutes(10);
  absl::Duration max_deadline = absl::Hours(1);
  // A stream that takes nothing for so long is ended.
  absl::Duration stall_timeout = absl::Seconds(60);
};

// All outlive the service.
struct ServiceParts {
  const ServedModels* models = nullptr;
  Scheduler* scheduler = nullptr;
  // Parsing, tokenizing, planning.
  WorkerPool* planning = nullptr;
  // Hashing, encoding, writing.
  WorkerPool* delivery = nullptr;
  StreamWatch* watch = nullptr;
  const Clock* clock = nullptr;
  ServiceLimits limits;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_SERVICE_PARTS_H_
