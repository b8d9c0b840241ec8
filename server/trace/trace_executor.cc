#include "server/trace/trace_executor.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <torch/version.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/model/phi3.h"
#include "server/model/torch_guard.h"
#include "server/trace/numerics_report.h"
#include "server/trace/tracer.h"

namespace phitap {
namespace {

ForwardOptions OptionsOf(const TracePlan& plan) {
  return {
      .numerics = plan.numerics == Numerics::kCausal
                      ? ForwardNumerics::kCausal
                      : ForwardNumerics::kTransformers,
      .attention = plan.attention == Attention::kSdpa
                       ? ForwardAttention::kSdpa
                       : ForwardAttention::kEager,
  };
}

ForwardRow RowOf(const PlannedRun& run) {
  return {
      .ids = run.ids,
      .position_ids = run.position_ids,
      .has_position_ids = run.has_position_ids,
      .hidden_positions = run.hidden_positions,
      .layer_count = run.reach.layer_count,
      .tail_positions = run.reach.tail_positions,
      .norm_positions = run.reach.norm_positions,
      .head_positions = run.reach.head_positions,
  };
}

// Keeps each tensor of a request from being delivered twice when a row is run
// again.
class OnceSink final : public ResultSink {
 public:
  OnceSink(std::shared_ptr<ResultSink> sink, size_t tensor_count)
      : sink_(std::move(sink)), delivered_(tensor_count, false) {}
  bool Cancelled(int run) const override { return sink_->Cancelled(run); }
  void Deliver(int tensor, HostTensor value) override {
    if (delivered_[tensor]) return;
    delivered_[tensor] = true;
    sink_->Deliver(tensor, std::move(value));
  }
  void LayerDone(int run, int64_t token_count) override {
    sink_->LayerDone(run, token_count);
  }
  void DeliverToken(const GeneratedToken& token) override {
    sink_->DeliverToken(token);
  }

 private:
  std::shared_ptr<ResultSink> sink_;
  std::vector<bool> delivered_;
};

class TraceExecutor final : public Executor {
 public:
  explicit TraceExecutor(std::unique_ptr<Phi3> model)
      : model_(std::move(model)) {}

  std::shared_ptr<TraceMemory> Begin(
      std::shared_ptr<const TracePlan> /*plan*/) override {
    return std::make_shared<TraceMemory>();
  }

  std::vector<RowOutcome> Run(absl::Span<const WaveRow> rows) override {
    std::vector<RowOutcome> outcomes;
    for (absl::Status& status : RunAll(rows)) {
      outcomes.push_back({.status = std::move(status)});
    }
    return outcomes;
  }

 private:
  std::vector<absl::Status> RunAll(absl::Span<const WaveRow> rows) {
    std::vector<WaveRow> once(rows.begin(), rows.end());
    for (WaveRow& row : once) {
      row.sink = std::make_shared<OnceSink>(row.sink, row.plan->tensors.size());
    }
    std::vector<absl::Status> statuses = RunTogether(once);
    const bool failed = std::any_of(
        statuses.begin(), statuses.end(), [](const absl::Status& status) {
          return !status.ok() && !absl::IsCancelled(status);
        });
    if (!failed || rows.size() == 1) return statuses;
    // One row's failure must not be its neighbours': each is run again, alone.
    for (size_t i = 0; i < once.size(); ++i) {
      statuses[i] = RunTogether({once[i]}).front();
    }
    return statuses;
  }

  std::vector<absl::Status> RunTogether(const std::vector<WaveRow>& rows) {
    Tracer tracer(*model_, rows);
    const absl::Status status = RunGuarded([&] {
      at::NoGradGuard no_grad;
      std::vector<ForwardRow> forward_rows;
      for (const WaveRow& row : rows) {
        forward_rows.push_back(RowOf(row.plan->runs[row.run]));
      }
      model_->Forward(forward_rows, OptionsOf(*rows.front().plan), tracer);
      return absl::OkStatus();
    });
    std::vector<absl::Status> statuses;
    for (int row = 0; row < static_cast<int>(rows.size()); ++row) {
      statuses.push_back(StatusOf(row, status, tracer));
    }
    return statuses;
  }

  static absl::Status StatusOf(int row, const absl::Status& forward,
                               const Tracer& tracer) {
    if (tracer.Dropped(row)) {
      return absl::CancelledError("nobody waits for the run any more");
    }
    if (forward.ok() && !tracer.Complete(row)) {
      return absl::InternalError(
          "the forward ended before every capture was made");
    }
    return forward;
  }

  std::unique_ptr<Phi3> model_;
};

}  // namespace

absl::StatusOr<LoadedModel> LoadModel(
    std::shared_ptr<const Checkpoint> checkpoint, const LoadOptions& options) {
  std::unique_ptr<Phi3> model;
  RETURN_IF_ERROR(RunGuarded([&]() -> absl::Status {
    at::set_num_threads(options.thread_count);
    ASSIGN_OR_RETURN(model, Phi3::Load(std::move(checkpoint), options.dtype));
    model->MeasureRowRule();
    return absl::OkStatus();
  }));
  NumericsReport report = ReportOf(*model, options.thread_count);
  return LoadedModel{
      .executor = std::make_unique<TraceExecutor>(std::move(model)),
      .numerics = std::move(report),
  };
}

}  // namespace phitap
