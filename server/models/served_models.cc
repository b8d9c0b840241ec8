#include "server/models/served_models.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/retry_hint.h"
#include "server/base/status_macros.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

constexpr int kNamesToOffer = 5;
// While a model is being loaded.
constexpr absl::Duration kTryAgainIn = absl::Seconds(1);

std::string HowFar(const ModelState& state) {
  return absl::StrCat(state.stage, ", ",
                      static_cast<int>(std::lround(state.progress * 100)), "%");
}

absl::Status StillLoading(const ModelState& state, absl::string_view field) {
  return WithRetryHint(
      InvalidField({.field = std::string(field),
                    .problem = absl::StrCat("model \"", state.name,
                                            "\" is still loading (",
                                            HowFar(state), ")")},
                   absl::StatusCode::kUnavailable),
      kTryAgainIn);
}

absl::Status WrongState(const ModelState& state, absl::string_view problem,
                        absl::StatusCode code) {
  return InvalidField(
      {.field = "name",
       .problem = absl::StrCat("model \"", state.name, "\" ", problem)},
      code);
}

}  // namespace

absl::string_view Name(ModelStatus status) {
  switch (status) {
    case ModelStatus::kAvailable:
      return "available";
    case ModelStatus::kLoading:
      return "loading";
    case ModelStatus::kReady:
      return "ready";
    case ModelStatus::kUnloading:
      return "unloading";
    case ModelStatus::kFailed:
      return "failed";
  }
  return "failed";
}

absl::StatusOr<std::shared_ptr<const ServedModel>> ServedModels::Find(
    absl::string_view name, absl::string_view field) const {
  std::lock_guard lock(mutex_);
  if (name.empty()) {
    std::shared_ptr<const ServedModel> only;
    for (const auto& entry : entries_) {
      if (entry->model == nullptr) continue;
      if (only != nullptr) return NoneNamed(field);
      only = entry->model;
    }
    if (only != nullptr) return only;
    return NoneNamed(field);
  }
  const Entry* entry = EntryOf(name);
  if (entry == nullptr) return Unknown(name, field);
  if (entry->model == nullptr) return NotReady(*entry, field);
  return entry->model;
}

absl::Status ServedModels::NoneNamed(absl::string_view field) const {
  for (const auto& entry : entries_) {
    if (!ReadyNames().empty()) break;
    if (entry->state.status == ModelStatus::kLoading) {
      return StillLoading(entry->state, field);
    }
  }
  const std::vector<std::string> names = ReadyNames();
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("empty, and the server holds ", names.size(),
                               " models"),
       .valid = absl::StrJoin(NearestNames("", names, kNamesToOffer), ", ")});
}

absl::Status ServedModels::Unknown(absl::string_view name,
                                   absl::string_view field) const {
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("no model ", Quoted(name), " is loaded"),
       .valid = absl::StrJoin(NearestNames(name, ReadyNames(), kNamesToOffer),
                              ", ")},
      absl::StatusCode::kNotFound);
}

absl::Status ServedModels::NotReady(const Entry& entry,
                                    absl::string_view field) const {
  const ModelState& state = entry.state;
  if (state.status == ModelStatus::kLoading) return StillLoading(state, field);
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("model \"", state.name, "\" ",
                               state.status == ModelStatus::kFailed
                                   ? "could not be loaded"
                                   : "is being unloaded"),
       .valid = absl::StrJoin(
           NearestNames(state.name, ReadyNames(), kNamesToOffer), ", ")},
      absl::StatusCode::kNotFound);
}

std::vector<std::shared_ptr<const ServedModel>> ServedModels::all() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const ServedModel>> models;
  for (const auto& entry : entries_) {
    if (entry->model != nullptr) models.push_back(entry->model);
  }
  return models;
}

std::vector<ModelState> ServedModels::states() const {
  std::lock_guard lock(mutex_);
  std::vector<ModelState> states;
  for (const auto& entry : entries_) states.push_back(entry->state);
  return states;
}

std::optional<ModelState> ServedModels::StateOf(absl::string_view name) const {
  std::lock_guard lock(mutex_);
  const Entry* entry = EntryOf(name);
  if (entry == nullptr) return std::nullopt;
  return entry->state;
}

void ServedModels::Observe(ModelObserver observer) {
  std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) observer(entry->state);
  observers_.push_back(std::move(observer));
}

absl::Status ServedModels::BeginLoading(const ModelSource& source) {
  std::lock_guard lock(mutex_);
  Entry* entry = EntryOf(source.name);
  if (entry != nullptr && entry->state.status != ModelStatus::kFailed) {
    return WrongState(
        entry->state,
        entry->state.status == ModelStatus::kLoading ? "is being loaded"
        : entry->state.status == ModelStatus::kReady ? "is loaded"
                                                     : "is being unloaded",
        absl::StatusCode::kAlreadyExists);
  }
  if (entry == nullptr) {
    entry = entries_.emplace_back(std::make_unique<Entry>()).get();
  }
  entry->state = {.name = source.name, .path = source.path, .stage = "queued"};
  SetStatus(*entry, ModelStatus::kLoading);
  Tell(*entry);
  return absl::OkStatus();
}

absl::StatusOr<ModelSource> ServedModels::BeginReloading(
    absl::string_view name) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Entry * entry, KnownEntry(name));
  ModelState& state = entry->state;
  if (state.status != ModelStatus::kReady || !state.stage.empty()) {
    return WrongState(state,
                      state.status == ModelStatus::kReady ? "is being reloaded"
                                                          : "is not loaded",
                      absl::StatusCode::kFailedPrecondition);
  }
  state.stage = "queued";
  state.progress = 0;
  Tell(*entry);
  return ModelSource{.name = state.name, .path = state.path};
}

void ServedModels::SetStage(absl::string_view name, absl::string_view stage,
                            double progress) {
  std::lock_guard lock(mutex_);
  Entry* entry = EntryOf(name);
  if (entry == nullptr) return;
  entry->state.stage = std::string(stage);
  entry->state.progress = progress;
  Tell(*entry);
}

void ServedModels::Serve(std::shared_ptr<const ServedModel> model) {
  std::lock_guard lock(mutex_);
  Entry* entry = EntryOf(model->name);
  if (entry == nullptr) {
    entry = entries_.emplace_back(std::make_unique<Entry>()).get();
    entry->state.name = model->name;
  }
  entry->state.weight_bytes = model->weight_bytes;
  entry->state.executor = model->executor;
  entry->model = std::move(model);
  SetStatus(*entry, ModelStatus::kReady);
  entry->state.stage.clear();
  entry->state.progress = 1;
  Tell(*entry);
}

void ServedModels::Fail(absl::string_view name, const absl::Status& why) {
  std::lock_guard lock(mutex_);
  Entry* entry = EntryOf(name);
  if (entry == nullptr) return;
  entry->state.stage.clear();
  if (entry->model != nullptr) {
    entry->state.progress = 1;
  } else {
    SetStatus(*entry, ModelStatus::kFailed);
    entry->state.failure = std::string(why.message());
  }
  Tell(*entry);
}

absl::StatusOr<std::shared_ptr<const ServedModel>> ServedModels::BeginUnloading(
    absl::string_view name) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(Entry * entry, KnownEntry(name));
  ModelState& state = entry->state;
  if (state.status == ModelStatus::kFailed) return nullptr;
  if (state.status != ModelStatus::kReady || !state.stage.empty()) {
    return WrongState(state,
                      state.status == ModelStatus::kUnloading
                          ? "is being unloaded"
                          : "is being loaded: wait until that has ended",
                      absl::StatusCode::kFailedPrecondition);
  }
  SetStatus(*entry, ModelStatus::kUnloading);
  Tell(*entry);
  return std::exchange(entry->model, nullptr);
}

void ServedModels::Remove(absl::string_view name) {
  std::lock_guard lock(mutex_);
  Entry* entry = EntryOf(name);
  if (entry == nullptr) return;
  SetStatus(*entry, ModelStatus::kAvailable);
  Tell(*entry);
  std::erase_if(entries_, [&](const auto& candidate) {
    return candidate.get() == entry;
  });
}

ServedModels::Entry* ServedModels::EntryOf(absl::string_view name) {
  return const_cast<Entry*>(std::as_const(*this).EntryOf(name));
}

const ServedModels::Entry* ServedModels::EntryOf(absl::string_view name) const {
  for (const auto& entry : entries_) {
    if (entry->state.name == name) return entry.get();
  }
  return nullptr;
}

absl::StatusOr<ServedModels::Entry*> ServedModels::KnownEntry(
    absl::string_view name) {
  Entry* entry = EntryOf(name);
  if (entry == nullptr) return Unknown(name, "name");
  return entry;
}

std::vector<std::string> ServedModels::ReadyNames() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) {
    if (entry->model != nullptr) names.push_back(entry->state.name);
  }
  return names;
}

void ServedModels::SetStatus(Entry& entry, ModelStatus status) {
  entry.state.status = status;
  entry.state.since = clock_->Now();
}

void ServedModels::Tell(const Entry& entry) const {
  for (const ModelObserver& observer : observers_) observer(entry.state);
}

}  // namespace phitap
