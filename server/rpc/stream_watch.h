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

  void Add(std::weak_ptr<WatchedStream> stream, const void* key);
  void Remove(const void* key);
  void CheckAll();
  // Blocks until no stream is left.
  void AwaitNone();

 private:
  void CheckPeriodically();

  const StreamWatchOptions options_;
  std::mutex mutex_;  // Guards the next two.
  std::map<const void*, std::weak_ptr<WatchedStream>> streams_;
  bool stopping_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_STREAM_WATCH_H_
