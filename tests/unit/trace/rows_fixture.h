// Waves whose rows are laid out by hand, beside the same runs in rows of their
// own.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_TRACE_ROWS_FIXTURE_H_
#define PHITAP_TESTS_UNIT_TRACE_ROWS_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/plan/executor.h"
#include "server/plan/trace_plan.h"
#include "tests/unit/trace/engine.h"

namespace phitap {

using Plan = std::shared_ptr<const TracePlan>;

// Keeps the bytes of every tensor and what was computed; cancels runs.
class RecordingSink final : public ResultSink {
 public:
  bool Cancelled(int run) const override;
  void Deliver(int tensor, HostTensor value) override;
  void LayerDone(int run, int64_t token_count) override;
  void DeliverToken(const GeneratedToken& token) override;

  // Once so many of the run's layers are done.
  void CancelAfter(int run, int layers) { cancel_after_[run] = layers; }
  const std::map<int, std::string>& bytes() const { return bytes_; }
  // By layer, of all runs.
  std::vector<int64_t> TokensByLayer() const;
  int LayersDone(int run) const;
  std::vector<int32_t> TokensOf(int run) const;

 private:
  std::map<int, std::string> bytes_;
  std::map<int, std::vector<int64_t>> layers_;
  std::map<int, std::vector<int32_t>> tokens_;
  std::map<int, int> cancel_after_;
};

// A request under way.
struct Request {
  Plan plan;
  std::shared_ptr<TraceMemory> memory;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();

  // All of its runs, or those of `which`, in rows of their own.
  WavePlan Wave(const std::vector<int>& which = {}) const;
};

class Rows : public testing::Test {
 protected:
  explicit Rows(const Engine::Setting& setting = {}) : engine_(setting) {}

  Request Ask(const std::string& request);
  Request Ask(Plan plan);
  // Runs it to its end; generating runs go on in rows of their own. Returns the
  // last outcome of each run.
  std::vector<RowOutcome> Run(WavePlan wave);
  // Expects every run to end well with the bytes that it has in a row of its
  // own.
  void ExpectBytesOfRunsAlone(const Request& request, WavePlan wave);

  int layer_count() const {
    return static_cast<int>(engine_.spec().num_layers);
  }

  Engine engine_;
};

// Everything of the run, with all of its writes; its runs are the caller's to
// tell.
WaveRow WholeRow(const Request& request, int leader, int layer_count);
// The part of it from a layer and position on; `parent` is a row of the wave.
WaveRow RowBelow(const Request& request, int leader, int layer_count,
                 int parent, int first_layer, int64_t first_position);

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_TRACE_ROWS_FIXTURE_H_
