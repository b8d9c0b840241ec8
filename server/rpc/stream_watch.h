// Looks after the streams of accepted requests: deadlines, and readers that
// take nothing.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_STREAM_WATCH_H_
#define PHITAP_SERVER_RPC_STREAM_WATCH_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/clock.h"

namespace phitap {

class WatchedStream {
 public:
  virtual ~WatchedStream() = default;
  // Ends the stream if its time is over.
  virtual void Check(absl::Time now) = 0;
};

struct StreamWatchOptions {
  // Outlives the watch.
  const Clock* clock = nullptr;
  // Time between two checks; infinite leaves them to CheckAll.
  absl::Duration period = absl::Milliseconds(250);
};

// Thread-safe.
class StreamWatch {
 public:
  explicit StreamWatch(StreamWatchOptions options);
  ~StreamWatch();

  // UNAVAILABLE once it is closed.
  absl::Status Add(std::weak_ptr<WatchedStream> stream, const void* key);
  void Remove(const void* key);
  void CheckAll();
  // Takes no streams from now on: those of callers that go on trying while the
  // server stops would keep it from ever being without any.
  void Close();
  // Blocks until no stream is left, for at most `patience`. Returns how many
  // are.
  int AwaitNone(absl::Duration patience = absl::InfiniteDuration());

 private:
  void CheckPeriodically();

  const StreamWatchOptions options_;
  std::mutex mutex_;  // Guards the next three.
  std::map<const void*, std::weak_ptr<WatchedStream>> streams_;
  bool closed_ = false;
  bool stopping_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_STREAM_WATCH_H_
