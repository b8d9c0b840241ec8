#include "server/rpc/stream_watch.h"

#include <utility>
#include <vector>

namespace phitap {

StreamWatch::StreamWatch(StreamWatchOptions options) : options_(options) {
  if (options_.period == absl::InfiniteDuration()) return;
  thread_ = std::thread([this] { CheckPeriodically(); });
}

StreamWatch::~StreamWatch() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StreamWatch::Add(std::weak_ptr<WatchedStream> stream, const void* key) {
  std::lock_guard lock(mutex_);
  streams_.emplace(key, std::move(stream));
}

void StreamWatch::Remove(const void* key) {
  {
    std::lock_guard lock(mutex_);
    streams_.erase(key);
  }
  changed_.notify_all();
}

void StreamWatch::CheckAll() {
  std::vector<std::weak_ptr<WatchedStream>> streams;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [key, stream] : streams_) streams.push_back(stream);
  }
  const absl::Time now = options_.clock->Now();
  for (const std::weak_ptr<WatchedStream>& weak : streams) {
    if (std::shared_ptr<WatchedStream> stream = weak.lock()) {
      stream->Check(now);
    }
  }
}

void StreamWatch::AwaitNone() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return streams_.empty(); });
}

void StreamWatch::CheckPeriodically() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, absl::ToChronoMilliseconds(options_.period),
                            [&] { return stopping_; })) {
        return;
      }
    }
    CheckAll();
  }
}

}  // namespace phitap
