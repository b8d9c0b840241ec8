// Loads, unloads and reloads models while others take requests.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODELS_MODEL_KEEPER_H_
#define PHITAP_SERVER_MODELS_MODEL_KEEPER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/models/load_steps.h"
#include "server/models/model_folder.h"
#include "server/models/model_state.h"
#include "server/models/served_models.h"
#include "server/schedule/scheduler.h"

namespace phitap {

struct ModelKeeperOptions {
  // Both outlive the keeper.
  ServedModels* models = nullptr;
  Scheduler* scheduler = nullptr;
  LoadCheckpoint load;
  std::string model_folder;
  // Of the weights of all models together.
  int64_t max_weight_bytes = std::numeric_limits<int64_t>::max();
  // What the machine has for weights beside those of models that are loaded;
  // null where nothing bounds it.
  std::function<int64_t()> free_bytes;
};

// Thread-safe. Its calls take as long as the work does; models are loaded one
// after another, since two would compete for memory and cores.
//
// A model is loaded on the calling thread. Of the compute thread's time it
// takes what LoadCheckpoint has to do there: the measurement of the row rule, a
// second at most, where none was made of a model of its shapes.
class ModelKeeper {
 public:
  explicit ModelKeeper(ModelKeeperOptions options);

  // Loads a model that the configuration names, whether or not memory is free
  // for it. The errors of LoadCheckpoint.
  absl::Status LoadConfigured(const ModelSource& source);
  // Loads the checkpoint at `path` in the model folder, telling `observer`
  // (which may be null) each change, the last of which is kReady. Errors:
  // INVALID_ARGUMENT for a name that cannot be used, those of
  // ModelFolder::Resolve and LoadCheckpoint, ALREADY_EXISTS, RESOURCE_EXHAUSTED
  // with the bytes that are needed and free, CANCELLED once stopped.
  absl::Status Load(const ModelSource& source, const ModelObserver& observer);
  // The same for a model that takes requests meanwhile: the new one takes over
  // those that come once it is ready, and blocks until those before have ended.
  // NOT_FOUND, and the errors of Load; then the old one stays.
  absl::Status Reload(absl::string_view name, const ModelObserver& observer);
  // Has requests for it refused, blocks until those that were accepted have
  // ended, and frees its memory. NOT_FOUND; FAILED_PRECONDITION while it is
  // being loaded or unloaded.
  absl::Status Unload(absl::string_view name);

  // All models that are loaded or to be, and those in the model folder, by
  // name.
  std::vector<ModelState> states() const;
  // Accepted requests of a model that have not ended.
  int64_t requests_of(const ModelState& state) const;

  // What is being loaded is given up at its next stage; nothing is loaded from
  // now on.
  void Stop() { stopping_ = true; }

 private:
  enum class Admission { kAlways, kIfItFits };
  class Steps;

  absl::Status LoadNow(const ModelSource& source, Admission admission,
                       const ModelObserver& observer);
  // Has it take requests. Returns the executor of the one in whose place.
  void Serve(LoadedCheckpoint loaded, const std::string& executor);
  void RemoveExecutor(const std::string& executor);
  absl::Status Admit(const std::string& executor, int64_t weight_bytes,
                     Admission admission);
  std::string NewExecutor(absl::string_view name);
  void Forget(const std::string& executor);

  const ModelKeeperOptions options_;
  const ModelFolder folder_;
  std::atomic<bool> stopping_ = false;
  // Held while a model is loaded.
  std::mutex loading_;
  mutable std::mutex mutex_;  // Guards all below.
  // By executor; admitted and not yet freed.
  std::map<std::string, int64_t> weight_bytes_;
  int64_t load_count_ = 0;
  std::set<std::string> names_loaded_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODELS_MODEL_KEEPER_H_
