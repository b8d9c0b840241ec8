// Loads checkpoints for the engine, telling the log how far it is.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_LOADER_H_
#define PHITAP_SERVER_CHECKPOINT_LOADER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/checkpoint/checkpoint.h"
#include "server/config.h"
#include "server/models/load_steps.h"
#include "server/row_rule_file.h"

namespace phitap {

// `status`, about the `--model` that names the source.
absl::Status NamingFlag(const ModelSource& source, const absl::Status& status);

// Used by one thread at a time.
class CheckpointLoader {
 public:
  // `config` outlives the loader.
  explicit CheckpointLoader(const ServerConfig& config);

  // Bytes that loading the model will take, before it is loaded. An error names
  // the `--model` that it is about.
  absl::StatusOr<int64_t> Survey(const ModelSource& source);
  // See LoadCheckpoint. What has to happen on the compute thread is handed to
  // `run_on_compute_thread`.
  absl::StatusOr<LoadedCheckpoint> Load(
      const ModelSource& source, LoadSteps& steps,
      std::function<absl::Status(std::function<void()>)> run_on_compute_thread);

 private:
  // What was surveyed under that path, once; else opens it.
  absl::StatusOr<std::shared_ptr<const Checkpoint>> OpenMapped(
      const std::string& path);
  absl::StatusOr<std::shared_ptr<const Checkpoint>> OpenAdmitted(
      const std::string& path, LoadSteps& steps);

  const ServerConfig& config_;
  RowRuleFile row_rules_;
  // By path.
  std::map<std::string, std::shared_ptr<const Checkpoint>> surveyed_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_LOADER_H_
