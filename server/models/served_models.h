// The models that requests can name, and how each is.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODELS_SERVED_MODELS_H_
#define PHITAP_SERVER_MODELS_SERVED_MODELS_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/clock.h"
#include "server/models/model_source.h"
#include "server/models/model_state.h"
#include "server/models/served_model.h"

namespace phitap {

// Thread-safe. Models stay as long as somebody holds them, whatever becomes of
// them here.
class ServedModels {
 public:
  // `clock` outlives it.
  explicit ServedModels(const Clock* clock) : clock_(clock) {}

  // The model of that name; with an empty name the only one. Errors are against
  // `field`: NOT_FOUND, with the nearest names and why it takes no requests, if
  // it is known; UNAVAILABLE, with how far it is, while it is being loaded;
  // INVALID_ARGUMENT for an empty name where there are several.
  absl::StatusOr<std::shared_ptr<const ServedModel>> Find(
      absl::string_view name, absl::string_view field = "model") const;

  // Those that take requests, in the order in which their loading began.
  std::vector<std::shared_ptr<const ServedModel>> all() const;
  // Of every model that was loaded or is to be, in the same order.
  std::vector<ModelState> states() const;
  std::optional<ModelState> StateOf(absl::string_view name) const;

  // Is told how each model is now, then of every change, in order. Must not
  // call back. Before the first change.
  void Observe(ModelObserver observer);

  // Begins a model: it is being loaded. ALREADY_EXISTS where one of that name
  // is not failed.
  absl::Status BeginLoading(const ModelSource& source);
  // Begins to load anew a model that is ready, and goes on to take requests.
  // NOT_FOUND; FAILED_PRECONDITION where it is not ready, or being reloaded.
  absl::StatusOr<ModelSource> BeginReloading(absl::string_view name);
  // How far it is.
  void SetStage(absl::string_view name, absl::string_view stage,
                double progress);
  // It takes requests from now on, in place of one of its name.
  void Serve(std::shared_ptr<const ServedModel> model);
  // It could not be loaded; one that was to be loaded anew stays.
  void Fail(absl::string_view name, const absl::Status& why);
  // It takes no requests from now on; returns it, or null if it had failed.
  // NOT_FOUND; FAILED_PRECONDITION while it is loaded or unloaded.
  absl::StatusOr<std::shared_ptr<const ServedModel>> BeginUnloading(
      absl::string_view name);
  // It is gone.
  void Remove(absl::string_view name);

 private:
  struct Entry {
    ModelState state;
    // Null unless it takes requests.
    std::shared_ptr<const ServedModel> model;
  };

  // All below with mutex_ held.
  Entry* EntryOf(absl::string_view name);
  const Entry* EntryOf(absl::string_view name) const;
  // The entry, or NOT_FOUND.
  absl::StatusOr<Entry*> KnownEntry(absl::string_view name);
  std::vector<std::string> ReadyNames() const;
  absl::Status NotReady(const Entry& entry, absl::string_view field) const;
  absl::Status NoneNamed(absl::string_view field) const;
  absl::Status Unknown(absl::string_view name, absl::string_view field) const;
  void SetStatus(Entry& entry, ModelStatus status);
  void Tell(const Entry& entry) const;

  const Clock* const clock_;
  mutable std::mutex mutex_;  // Guards the next two.
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<ModelObserver> observers_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODELS_SERVED_MODELS_H_
