#include "server/trace/trace_executor.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <map>
#include <utility>
#include <vector>

#include "server/base/dtype.h"
#include "server/base/status_macros.h"
#include "server/model/phi3.h"
#include "server/model/rotary.h"
#include "server/model/torch_guard.h"
#include "server/trace/numerics_report.h"
#include "server/trace/request_memory.h"
#include "server/trace/wave_pass.h"

namespace phitap {
namespace {

// Rows that must be run again together: those of one group of one request.
using Together = std::pair<const TraceMemory*, int>;
Together TogetherOf(const WaveRun& row) {
  const auto& memory = static_cast<const RequestMemory&>(*row.memory);
  return {row.memory.get(), memory.index().parts(row.run).group};
}

class TraceExecutor final : public Executor {
 public:
  explicit TraceExecutor(std::unique_ptr<Phi3> model)
      : model_(std::move(model)), rotary_(model_->spec()) {}

  std::shared_ptr<TraceMemory> Begin(
      std::shared_ptr<const TracePlan> plan) override {
    return std::make_shared<RequestMemory>(std::move(plan), model_->spec(),
                                           rotary_);
  }

  std::unique_ptr<RunningWave> Start(WavePlan plan) override;

  int64_t RootBytes(int layer_count, int64_t token_count) const override {
    const ModelSpec& spec = model_->spec();
    return SizeInBytes(model_->dtype()) * layer_count * token_count *
           (2 * spec.num_kv_heads * spec.head_dim + spec.hidden_size);
  }

  void ForgetRoot(RootId /*root*/) override {}

  std::vector<RowOutcome> Run(absl::Span<const WaveRun> rows) {
    if (rows.size() == 1 && rows.front().gradient_pass >= 0) {
      return {RunGradientPass(*model_, rows.front())};
    }
    std::vector<RowOutcome> outcomes(rows.size());
    std::map<Together, std::vector<size_t>> groups;
    std::vector<size_t> all;
    for (size_t i = 0; i < rows.size(); ++i) {
      groups[TogetherOf(rows[i])].push_back(i);
      all.push_back(i);
    }
    const absl::Status status = RunTogether(rows, all, outcomes);
    if (status.ok()) return outcomes;
    if (groups.size() == 1) {
      Fail(rows, all, status, outcomes);
      return outcomes;
    }
    // One group's failure must not be its neighbours': each is run again,
    // alone.
    for (const auto& [together, members] : groups) {
      const absl::Status alone = RunTogether(rows, members, outcomes);
      if (!alone.ok()) Fail(rows, members, alone, outcomes);
    }
    return outcomes;
  }

 private:
  // Not OK where the forward failed: then nothing has changed.
  absl::Status RunTogether(absl::Span<const WaveRun> rows,
                           const std::vector<size_t>& members,
                           std::vector<RowOutcome>& outcomes) {
    std::vector<RowOutcome> finished;
    RETURN_IF_ERROR(RunGuarded([&]() -> absl::Status {
      std::vector<WaveRun> wave_rows;
      for (const size_t i : members) wave_rows.push_back(rows[i]);
      WavePass wave(*model_, wave_rows);
      RETURN_IF_ERROR(wave.Forward());
      finished = wave.Finish();
      return absl::OkStatus();
    }));
    for (size_t i = 0; i < members.size(); ++i) {
      outcomes[members[i]] = std::move(finished[i]);
    }
    return absl::OkStatus();
  }

  static void Fail(absl::Span<const WaveRun> rows,
                   const std::vector<size_t>& members,
                   const absl::Status& status,
                   std::vector<RowOutcome>& outcomes) {
    for (const size_t i : members) {
      outcomes[i] = {.status = status};
      static_cast<RequestMemory&>(*rows[i].memory).EndRun(rows[i].run);
    }
  }

  std::unique_ptr<Phi3> model_;
  const Rotary rotary_;
};

class TraceWave final : public RunningWave {
 public:
  TraceWave(TraceExecutor& executor, WavePlan plan)
      : executor_(executor), plan_(std::move(plan)) {}

  bool Step() override {
    outcomes_ = executor_.Run(plan_.runs);
    return false;
  }
  std::vector<RowOutcome> Finish() override { return std::move(outcomes_); }
  std::vector<RootId> kept_roots() const override { return {}; }

 private:
  TraceExecutor& executor_;
  const WavePlan plan_;
  std::vector<RowOutcome> outcomes_;
};

std::unique_ptr<RunningWave> TraceExecutor::Start(WavePlan plan) {
  return std::make_unique<TraceWave>(*this, std::move(plan));
}

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
