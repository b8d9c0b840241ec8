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

absl::Status StreamWatch::Add(std::weak_ptr<WatchedStream> stream,
                              const void* key) {
  std::lock_guard lock(mutex_);
  if (closed_) return absl::UnavailableError("the server is stopping");
  streams_.emplace(key, std::move(stream));
  return absl::OkStatus();
}

void StreamWatch::Remove(const void* key) {
  std::lock_guard lock(mutex_);
  streams_.erase(key);
  // With the lock: whoever awaits none may destroy the watch right after.
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

void StreamWatch::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

int StreamWatch::AwaitNone(absl::Duration patience) {
  std::unique_lock lock(mutex_);
  const auto none = [&] { return streams_.empty(); };
  if (patience == absl::InfiniteDuration()) {
    changed_.wait(lock, none);
  } else {
    changed_.wait_for(lock, absl::ToChronoNanoseconds(patience), none);
  }
  return static_cast<int>(streams_.size());
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
