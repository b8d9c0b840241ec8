#include "tests/unit/trace/rows_fixture.h"

#include <numeric>
#include <utility>

#include "tests/support/run_wave.h"
#include "tests/support/status_matchers.h"

namespace phitap {

bool RecordingSink::Cancelled(int run) const {
  const auto limit = cancel_after_.find(run);
  return limit != cancel_after_.end() && LayersDone(run) >= limit->second;
}

void RecordingSink::Deliver(int tensor, HostTensor value) {
  const bool is_new =
      bytes_
          .emplace(
              tensor,
              std::string(reinterpret_cast<const char*>(value.bytes.data()),
                          value.bytes.size()))
          .second;
  EXPECT_TRUE(is_new) << "tensor " << tensor << " came twice";
}

void RecordingSink::LayerDone(int run, int64_t token_count) {
  layers_[run].push_back(token_count);
}

void RecordingSink::DeliverToken(const GeneratedToken& token) {
  tokens_[token.run].push_back(token.id);
}

std::vector<int64_t> RecordingSink::TokensByLayer() const {
  std::vector<int64_t> sums;
  for (const auto& [run, layers] : layers_) {
    if (sums.size() < layers.size()) sums.resize(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) sums[i] += layers[i];
  }
  return sums;
}

int RecordingSink::LayersDone(int run) const {
  const auto found = layers_.find(run);
  return found == layers_.end() ? 0 : static_cast<int>(found->second.size());
}

std::vector<int32_t> RecordingSink::TokensOf(int run) const {
  const auto found = tokens_.find(run);
  return found == tokens_.end() ? std::vector<int32_t>() : found->second;
}

WavePlan Request::Wave(const std::vector<int>& which) const {
  std::vector<int> runs = which;
  if (runs.empty()) {
    runs.resize(plan->runs.size());
    std::iota(runs.begin(), runs.end(), 0);
  }
  WavePlan wave;
  for (const int run : runs) {
    wave.runs.push_back(
        {.plan = plan, .run = run, .sink = sink, .memory = memory});
  }
  return wave;
}

Request Rows::Ask(const std::string& request) {
  auto plan = engine_.Plan(request);
  EXPECT_THAT(plan, IsOk()) << request;
  return Ask(*plan);
}

Request Rows::Ask(Plan plan) {
  return {.plan = plan, .memory = engine_.executor().Begin(plan)};
}

std::vector<RowOutcome> Rows::Run(WavePlan wave) {
  std::vector<RowOutcome> outcomes = RunWave(engine_.executor(), wave);
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    WavePlan next;
    std::vector<size_t> going_on;
    for (size_t run = 0; run < outcomes.size(); ++run) {
      if (!outcomes[run].goes_on) continue;
      goes_on = true;
      going_on.push_back(run);
      next.runs.push_back(wave.runs[run]);
      next.runs.back().row = -1;
    }
    if (!goes_on) break;
    std::vector<RowOutcome> steps = RunWave(engine_.executor(), next);
    for (size_t i = 0; i < steps.size(); ++i) {
      outcomes[going_on[i]] = std::move(steps[i]);
    }
  }
  return outcomes;
}

void Rows::ExpectBytesOfRunsAlone(const Request& request, WavePlan wave) {
  for (const RowOutcome& outcome : Run(std::move(wave))) {
    EXPECT_THAT(outcome.status, IsOk());
  }
  const Request alone = Ask(request.plan);
  for (const RowOutcome& outcome : Run(alone.Wave())) {
    EXPECT_THAT(outcome.status, IsOk());
  }
  ASSERT_EQ(request.sink->bytes().size(), alone.sink->bytes().size());
  for (const auto& [tensor, bytes] : alone.sink->bytes()) {
    const PlannedTensor& planned = request.plan->tensors[tensor];
    EXPECT_EQ(request.sink->bytes().at(tensor), bytes)
        << planned.label << " of run " << planned.run << ", step "
        << planned.step;
  }
  for (int run = 0; run < static_cast<int>(request.plan->runs.size()); ++run) {
    EXPECT_EQ(request.sink->TokensOf(run), alone.sink->TokensOf(run)) << run;
  }
}

WaveRow WholeRow(const Request& request, int leader, int layer_count) {
  return RowBelow(request, leader, layer_count, /*parent=*/-1,
                  /*first_layer=*/0, /*first_position=*/0);
}

WaveRow RowBelow(const Request& request, int leader, int layer_count,
                 int parent, int first_layer, int64_t first_position) {
  const PlannedRun& run = request.plan->runs[leader];
  const auto token_count = static_cast<int64_t>(run.ids.size());
  WaveRow row{.leader = leader,
              .token_count = token_count,
              .first_layer = first_layer,
              .first_position = first_position,
              .parent = parent};
  for (const WriteExtent& write : run.sharing.writes) {
    if (write.first_layer >= first_layer) row.writes.push_back(write.write);
  }
  std::vector<int64_t> positions(token_count - first_position);
  std::iota(positions.begin(), positions.end(), first_position);
  row.reach = {.layer_count = layer_count,
               .tail_positions = positions,
               .norm_positions = positions,
               .head_positions = positions};
  return row;
}

}  // namespace phitap
