#include "server/trace/trace_executor.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <utility>

#include "server/base/dtype.h"
#include "server/base/status_macros.h"
#include "server/model/phi3.h"
#include "server/model/rotary.h"
#include "server/model/torch_guard.h"
#include "server/model/visibility.h"
#include "server/trace/gradient_wave.h"
#include "server/trace/kept_roots.h"
#include "server/trace/numerics_report.h"
#include "server/trace/request_memory.h"
#include "server/trace/trace_wave.h"

namespace phitap {
namespace {

class TraceExecutor final : public Executor {
 public:
  explicit TraceExecutor(std::unique_ptr<Phi3> model)
      : model_(std::move(model)), rotary_(model_->spec()) {}

  std::shared_ptr<TraceMemory> Begin(
      std::shared_ptr<const TracePlan> plan) override {
    return std::make_shared<RequestMemory>(std::move(plan), model_->spec(),
                                           rotary_);
  }

  std::unique_ptr<RunningWave> Start(WavePlan plan) override {
    if (plan.runs.size() == 1 && plan.runs.front().gradient_pass >= 0) {
      return std::make_unique<GradientWave>(*model_,
                                            std::move(plan.runs.front()));
    }
    return std::make_unique<TraceWave>(*model_, roots_, std::move(plan));
  }

  // Keys and values in whole tiles, and the residual stream.
  int64_t RootBytes(int layer_count, int64_t token_count) const override {
    const ModelSpec& spec = model_->spec();
    const int64_t lines = TileCount(token_count) * kTileLines;
    return SizeInBytes(model_->dtype()) * layer_count *
           (2 * lines * spec.num_kv_heads * spec.head_dim +
            token_count * spec.hidden_size);
  }

  void ForgetRoot(RootId root) override { roots_.Forget(root); }

 private:
  const std::unique_ptr<Phi3> model_;
  const Rotary rotary_;
  KeptRoots roots_;
};

}  // namespace

void ReadyComputeThread(int thread_count) { at::set_num_threads(thread_count); }

absl::StatusOr<LoadedModel> LoadModel(
    std::shared_ptr<const Checkpoint> checkpoint, const LoadOptions& options) {
  std::unique_ptr<Phi3> model;
  RETURN_IF_ERROR(RunGuarded([&]() -> absl::Status {
    if (options.run_on_compute_thread == nullptr) {
      ReadyComputeThread(options.thread_count);
    }
    ASSIGN_OR_RETURN(model, Phi3::Load(std::move(checkpoint), options.dtype,
                                       options.packing, options.on_weights));
    SetRowRule(options, *model);
    return absl::OkStatus();
  }));
  NumericsReport report = ReportOf(*model, options.thread_count);
  const WeightPacking packing =
      model->packed() ? WeightPacking::kPacked : WeightPacking::kNone;
  return LoadedModel{
      .executor = std::make_unique<TraceExecutor>(std::move(model)),
      .numerics = std::move(report),
      .packing = packing,
  };
}

}  // namespace phitap
