#include "server/trace/run_pass.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <variant>

#include "server/plan/order/reach.h"

namespace phitap {
namespace {

ForwardRow PromptAsk(const PlannedRun& run) {
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

RunSequence SequenceOf(const PlannedRun& run, const ModelSpec& spec) {
  return {.ids = run.ids,
          .prompt_length = static_cast<int64_t>(run.ids.size()),
          .window = spec.sliding_window,
          .hidden_positions = run.hidden_positions};
}

bool ReadsEveryPass(const ProgramNode& node) {
  return std::get<RunRead>(node.operation).passes == RunRead::Passes::kEvery;
}

// What takes part in a pass that knows its step and what it asks.
void AddParts(const PlanIndex::RunParts& parts, RunPass& pass) {
  const TracePlan& plan = *pass.wave_run.plan;
  TORCH_CHECK(
      pass.step == 0 || pass.ask.first_position > 0 || parts.latches.empty(),
      "a run with a latch cannot be computed again: what held at each "
      "of its tokens is not known any more");
  for (const int read : parts.reads) {
    const bool takes_part = pass.step == 0 || ReadsEveryPass(plan.nodes[read]);
    if (takes_part && pass.values->memory().nodes().Alive(read)) {
      pass.reads.push_back(read);
    }
  }
  const bool has_prompt = pass.ask.first_position == 0;
  for (const int write : parts.writes) {
    const StepSelection& steps = plan.writes[write].steps;
    const bool prompt = has_prompt && steps.prompt;
    if (prompt || (pass.step > 0 && steps.has_generated())) {
      pass.writes.push_back(write);
    }
  }
  for (const int capture : parts.captures) {
    if (StepIndexIn(plan.captures[capture], pass) >= 0) {
      pass.captures.push_back(capture);
    }
  }
}

}  // namespace

RunPass NextPass(const WaveRun& wave_run, NodeValues& values) {
  const ModelSpec& spec = values.rules().model.spec();
  const PlannedRun& run = wave_run.plan->runs[wave_run.run];
  RunPass pass{.wave_run = wave_run,
               .ask = PromptAsk(run),
               .values = &values,
               .generation = values.memory().GenerationOf(wave_run.run),
               .sequence = SequenceOf(run, spec)};
  if (pass.generation != nullptr) {
    pass.ask = pass.generation->NextRow();
    pass.sequence.ids = pass.generation->ids();
    pass.step = pass.generation->pass();
  }
  AddParts(values.memory().index().parts(wave_run.run), pass);
  return pass;
}

RunPass RecordedPass(const WaveRun& wave_run, NodeValues& values) {
  const ModelSpec& spec = values.rules().model.spec();
  const TracePlan& plan = *wave_run.plan;
  const PlanIndex& index = values.memory().index();
  const PlannedRun& run = plan.runs[wave_run.run];
  RunPass pass{.wave_run = wave_run,
               .ask = PromptAsk(run),
               .values = &values,
               .sequence = SequenceOf(run, spec),
               .reads = index.gradient(wave_run.gradient_pass).reads,
               .writes = index.parts(wave_run.run).writes};
  int layer_count = 0;
  Stage furthest = Stage::kInputs;
  for (const int node : pass.reads) {
    const auto& read = std::get<RunRead>(plan.nodes[node].operation);
    layer_count = std::max(layer_count, LayersFor(read.read_at, spec));
    furthest = std::max(furthest, StageOf(read.read_at.hook));
  }
  // kTransformers takes all positions where it takes any.
  static constexpr int64_t kFirst[] = {0};
  const absl::Span<const int64_t> all = kFirst;
  const absl::Span<const int64_t> none;
  pass.ask.layer_count = layer_count;
  pass.ask.tail_positions = all;
  pass.ask.norm_positions = furthest >= Stage::kNorm ? all : none;
  pass.ask.head_positions = furthest >= Stage::kHead ? all : none;
  return pass;
}

int StepIndexIn(const PlannedCapture& capture, const RunPass& pass) {
  const auto step =
      std::find(capture.steps.begin(), capture.steps.end(), pass.step);
  if (step == capture.steps.end()) return -1;
  const std::vector<int32_t>& tokens = capture.step_token_ids;
  if (pass.step > 0 && !tokens.empty() &&
      !std::binary_search(tokens.begin(), tokens.end(),
                          pass.sequence.ids.back())) {
    return -1;
  }
  return static_cast<int>(step - capture.steps.begin());
}

}  // namespace phitap
