#include "server/schedule/wave_stack.h"

#include <algorithm>
#include <utility>

namespace phitap {
namespace {

// A wave is set aside for one that is at most such a part of what is left.
constexpr int64_t kClearlySmaller = 4;
// The fewest tokens of a layer, on average, for which it pays to be set aside:
// a layer of few tokens costs as much as one of none.
constexpr int64_t kMinTokens = 64;

}  // namespace

std::optional<WaveLimits> WaveStack::Room() const {
  if (levels_.empty()) return whole_;
  const Level& running = levels_.back();
  const WaveWork& work = running.wave->work();
  if (static_cast<int>(levels_.size()) == kMaxDepth || running.owed > 0 ||
      work.token_layers_left() < kMinTokens * work.layers_left()) {
    return std::nullopt;
  }
  WaveLimits room = whole_;
  room.max_token_layers = work.token_layers_left() / kClearlySmaller;
  for (const Level& level : levels_) {
    room.max_workspace_bytes -= level.wave->wave().size.workspace_bytes;
  }
  return room;
}

WavesUnderWay WaveStack::under_way() const {
  WavesUnderWay waves = {.count = static_cast<int>(levels_.size())};
  for (const Level& level : levels_) {
    const PassSize& size = level.wave->wave().size;
    waves.tokens += size.tokens;
    waves.workspace_bytes += size.workspace_bytes;
  }
  return waves;
}

void WaveStack::Push(std::unique_ptr<WaveUnderWay> wave) {
  if (!levels_.empty()) levels_.back().wave->NoteSetAside();
  levels_.push_back({.wave = std::move(wave)});
}

std::unique_ptr<WaveUnderWay> WaveStack::Step() {
  Level& running = levels_.back();
  const int64_t before = running.wave->work().token_layers_left();
  const bool more = running.wave->Step();
  running.owed -=
      std::max<int64_t>(before - running.wave->work().token_layers_left(), 1);
  if (more) return nullptr;
  std::unique_ptr<WaveUnderWay> ended = std::move(running.wave);
  levels_.pop_back();
  if (!levels_.empty()) {
    levels_.back().owed = std::max<int64_t>(ended->work().token_layers(), 1);
  }
  ended->Finish();
  return ended;
}

std::vector<std::unique_ptr<WaveUnderWay>> WaveStack::DropOver() {
  std::vector<std::unique_ptr<WaveUnderWay>> given_up;
  std::erase_if(levels_, [&](Level& level) {
    if (level.wave->DropOver()) return false;
    level.wave->GiveUp();
    given_up.push_back(std::move(level.wave));
    return true;
  });
  // The wave that runs now may have been set aside for one of these.
  if (!given_up.empty() && !levels_.empty()) {
    levels_.back().owed = std::max<int64_t>(levels_.back().owed, 1);
  }
  return given_up;
}

}  // namespace phitap
