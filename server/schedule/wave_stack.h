// Waves that have been started: one runs, the others are set aside for it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_WAVE_STACK_H_
#define PHITAP_SERVER_SCHEDULE_WAVE_STACK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "server/schedule/engine_activity.h"
#include "server/schedule/wave_builder.h"
#include "server/schedule/wave_under_way.h"

namespace phitap {

// Between two layers a wave may be set aside for one that is clearly smaller
// than what is left of it, which runs to its end. Before the next such one it
// goes on by a layer at least, and by as much as that one was: so it has half
// of the time or more, and a small request waits for a layer of a large wave
// and the small ones before it. On the compute thread.
class WaveStack {
 public:
  // Waves under way.
  static constexpr int kMaxDepth = 3;

  // `whole` is what all waves under way may take.
  explicit WaveStack(WaveLimits whole) : whole_(whole) {}

  bool empty() const { return levels_.empty(); }
  WavesUnderWay under_way() const;
  // What a wave may take that is started now; none if none may be.
  std::optional<WaveLimits> Room() const;
  // Starts to run it, to be ended before the one that ran.
  void Push(std::unique_ptr<WaveUnderWay> wave);
  // One step of the wave that runs; there must be one. Returns the wave if that
  // was its last: it has finished.
  std::unique_ptr<WaveUnderWay> Step();
  // Gives up the waves none of whose requests is wanted any more, and frees
  // what the others hold for such requests. Returns those given up.
  std::vector<std::unique_ptr<WaveUnderWay>> DropOver();

 private:
  struct Level {
    std::unique_ptr<WaveUnderWay> wave;
    // Token-layers that it goes on by before it may be set aside.
    int64_t owed = 1;
  };

  const WaveLimits whole_;
  // The last one runs.
  std::vector<Level> levels_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_WAVE_STACK_H_
