// What the services are made of.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_SERVICE_PARTS_H_
#define PHITAP_SERVER_RPC_SERVICE_PARTS_H_

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/identity/quota_book.h"
#include "server/models/model_keeper.h"
#include "server/models/served_models.h"
#include "server/plan/limits.h"
#include "server/rpc/authenticator.h"
#include "server/rpc/prompt_log.h"
#include "server/rpc/service_metrics.h"
#include "server/rpc/stream_watch.h"
#include "server/rpc/worker_pool.h"
#include "server/schedule/scheduler.h"
#include "server/tensors/named_tensors.h"

namespace phitap {

struct ServiceLimits {
  Limits plan;
  // Of a trace whose client names no deadline, and the longest that any gets.
  absl::Duration default_deadline = absl::Minutes(10);
  absl::Duration max_deadline = absl::Hours(1);
  // A stream that takes nothing, or sends nothing, for so long is ended.
  absl::Duration stall_timeout = absl::Seconds(60);
  // Bytes of all tensors that are being uploaded, before they are kept.
  int64_t max_upload_bytes = int64_t{4} << 30;
};

// All outlive the service.
struct ServiceParts {
  const ServedModels* models = nullptr;
  ModelKeeper* keeper = nullptr;
  // Asks the server to stop.
  std::function<void()> ask_to_stop;
  Scheduler* scheduler = nullptr;
  NamedTensors* tensors = nullptr;
  // Who may call.
  const Authenticator* authenticator = nullptr;
  // What those that call by name have under way.
  QuotaBook* quotas = nullptr;
  // Parsing, tokenizing, planning, taking uploads.
  WorkerPool* planning = nullptr;
  // What administrators ask for, which may wait long.
  WorkerPool* administration = nullptr;
  // Hashing, encoding, writing.
  WorkerPool* delivery = nullptr;
  StreamWatch* watch = nullptr;
  ServiceMetrics* metrics = nullptr;
  const Clock* clock = nullptr;
  ServiceLimits limits;
  // Whether traces' prompts are logged.
  PromptLogging prompt_logging = PromptLogging::kOff;
  // Of the server.
  std::string version;
  absl::Time started_at;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_SERVICE_PARTS_H_
