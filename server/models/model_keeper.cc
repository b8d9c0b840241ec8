#include "server/models/model_keeper.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/observe/log.h"

namespace phitap {
namespace {

constexpr size_t kMaxNameBytes = 128;

// A name is also a part of a health check's service, a label of metrics and a
// word on the command line.
absl::Status CheckName(absl::string_view name) {
  const auto usable = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
           c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kMaxNameBytes &&
      std::all_of(name.begin(), name.end(), usable)) {
    return absl::OkStatus();
  }
  return InvalidField(
      {.field = "name",
       .problem = absl::StrCat("\"", name.substr(0, kMaxNameBytes), "\""),
       .valid = "1 to 128 letters, digits, '-', '_' and '.'"});
}

}  // namespace

// Tells catalogue and observer; asks the keeper.
class ModelKeeper::Steps final : public LoadSteps {
 public:
  Steps(ModelKeeper& keeper, const ModelSource& source,
        const std::string& executor, Admission admission,
        const ModelObserver& observer)
      : keeper_(keeper),
        source_(source),
        executor_(executor),
        admission_(admission),
        observer_(observer) {}

  absl::Status Begin(absl::string_view stage, double progress) override {
    if (keeper_.stopping_) {
      return absl::CancelledError("the server is stopping");
    }
    keeper_.options_.models->SetStage(source_.name, stage, progress);
    Tell();
    return absl::OkStatus();
  }

  absl::Status Admit(int64_t weight_bytes) override {
    return keeper_.Admit(executor_, weight_bytes, admission_);
  }

  void Tell() const {
    if (observer_ == nullptr) return;
    const std::optional<ModelState> state =
        keeper_.options_.models->StateOf(source_.name);
    if (state.has_value()) observer_(*state);
  }

 private:
  ModelKeeper& keeper_;
  const ModelSource& source_;
  const std::string& executor_;
  const Admission admission_;
  const ModelObserver& observer_;
};

ModelKeeper::ModelKeeper(ModelKeeperOptions options)
    : options_(std::move(options)), folder_(options_.model_folder) {}

absl::Status ModelKeeper::LoadConfigured(const ModelSource& source) {
  RETURN_IF_ERROR(options_.models->BeginLoading(source));
  return LoadNow(source, Admission::kAlways, nullptr);
}

absl::Status ModelKeeper::Load(const ModelSource& source,
                               const ModelObserver& observer) {
  RETURN_IF_ERROR(CheckName(source.name));
  ASSIGN_OR_RETURN(
      std::string path,
      folder_.Resolve(source.path.empty() ? source.name : source.path));
  const ModelSource resolved = {.name = source.name, .path = std::move(path)};
  RETURN_IF_ERROR(options_.models->BeginLoading(resolved));
  return LoadNow(resolved, Admission::kIfItFits, observer);
}

absl::Status ModelKeeper::Reload(absl::string_view name,
                                 const ModelObserver& observer) {
  ASSIGN_OR_RETURN(const ModelSource source,
                   options_.models->BeginReloading(name));
  return LoadNow(source, Admission::kIfItFits, observer);
}

absl::Status ModelKeeper::LoadNow(const ModelSource& source,
                                  Admission admission,
                                  const ModelObserver& observer) {
  const std::string executor = NewExecutor(source.name);
  std::string replaced;
  Steps steps(*this, source, executor, admission, observer);
  {
    std::lock_guard one_at_a_time(loading_);
    absl::StatusOr<LoadedCheckpoint> loaded = options_.load(source, steps);
    if (!loaded.ok()) {
      Forget(executor);
      options_.models->Fail(source.name, loaded.status());
      Log(LogLevel::kWarning, "a model could not be loaded",
          {{log_field::kModel, source.name},
           {log_field::kError, std::string(loaded.status().message())}});
      return loaded.status();
    }
    replaced = options_.models->StateOf(source.name)->executor;
    Serve(*std::move(loaded), executor);
  }
  steps.Tell();
  if (!replaced.empty()) RemoveExecutor(replaced);
  return absl::OkStatus();
}

void ModelKeeper::Serve(LoadedCheckpoint loaded, const std::string& executor) {
  loaded.model.executor = executor;
  options_.scheduler->AddExecutor(executor, std::move(loaded.executor));
  options_.models->Serve(
      std::make_shared<const ServedModel>(std::move(loaded.model)));
}

absl::Status ModelKeeper::Unload(absl::string_view name) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const ServedModel> model,
                   options_.models->BeginUnloading(name));
  if (model != nullptr) RemoveExecutor(model->executor);
  options_.models->Remove(name);
  Log(LogLevel::kInfo, "unloaded", {{log_field::kModel, std::string(name)}});
  return absl::OkStatus();
}

std::vector<ModelState> ModelKeeper::states() const {
  std::vector<ModelState> states = options_.models->states();
  for (const ModelSource& source : folder_.List()) {
    const bool known = std::any_of(
        states.begin(), states.end(),
        [&](const ModelState& state) { return state.name == source.name; });
    if (!known) states.push_back({.name = source.name, .path = source.path});
  }
  std::sort(
      states.begin(), states.end(),
      [](const ModelState& a, const ModelState& b) { return a.name < b.name; });
  return states;
}

int64_t ModelKeeper::requests_of(const ModelState& state) const {
  return options_.scheduler->requests_of(state.executor);
}

void ModelKeeper::RemoveExecutor(const std::string& executor) {
  options_.scheduler->RemoveExecutor(executor);
  Forget(executor);
}

absl::Status ModelKeeper::Admit(const std::string& executor,
                                int64_t weight_bytes, Admission admission) {
  std::lock_guard lock(mutex_);
  int64_t loaded_bytes = 0;
  for (const auto& [other, bytes] : weight_bytes_) loaded_bytes += bytes;
  int64_t free_bytes = options_.max_weight_bytes - loaded_bytes;
  if (options_.free_bytes != nullptr) {
    free_bytes = std::min(free_bytes, options_.free_bytes());
  }
  if (admission == Admission::kIfItFits && weight_bytes > free_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the model needs ", weight_bytes, " bytes for its weights, and ",
        std::max<int64_t>(free_bytes, 0),
        " are free; unload another model first, or start the server with a "
        "larger --max-model-bytes"));
  }
  weight_bytes_[executor] = weight_bytes;
  return absl::OkStatus();
}

// "#" is in no name that is loaded at run time.
std::string ModelKeeper::NewExecutor(absl::string_view name) {
  std::lock_guard lock(mutex_);
  ++load_count_;
  return names_loaded_.emplace(name).second
             ? std::string(name)
             : absl::StrCat(name, "#", load_count_);
}

void ModelKeeper::Forget(const std::string& executor) {
  std::lock_guard lock(mutex_);
  weight_bytes_.erase(executor);
}

}  // namespace phitap
