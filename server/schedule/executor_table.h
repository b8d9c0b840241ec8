// The executors of the models that are served, and which requests use each.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_EXECUTOR_TABLE_H_
#define PHITAP_SERVER_SCHEDULE_EXECUTOR_TABLE_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "server/plan/executor.h"

namespace phitap {

// By key, which is TracePlan::model: a model that is loaded anew has another
// executor, under another key.
using ExecutorMap = std::map<std::string, std::unique_ptr<Executor>>;

// The model's name in such a key: `NAME`, or `NAME#N` for the N-th executor.
inline std::string ModelNameOf(const std::string& executor) {
  return executor.substr(0, executor.find('#'));
}

// Thread-safe; the executors themselves are the compute thread's, but for their
// end, once they are taken out. Outlives the uses.
class ExecutorTable {
 public:
  // One request's hold on its executor, which stays until it is given up.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept;
    Use& operator=(Use&& other) noexcept;
    ~Use() { GiveUp(); }

    Executor& executor() const { return *executor_; }
    void GiveUp();

   private:
    friend class ExecutorTable;
    ExecutorTable* table_ = nullptr;
    std::string key_;
    Executor* executor_ = nullptr;
  };

  // There is none of that key yet.
  void Add(const std::string& key, std::unique_ptr<Executor> executor);
  // ABORTED where there is none, or it is about to go.
  absl::StatusOr<Use> Take(const std::string& key);
  // Those that use it; 0 where there is none.
  int64_t use_count(const std::string& key) const;

  // Has uses refused from now on, and blocks until the last one is given up.
  void Close(const std::string& key);
  // On the compute thread. Takes a closed one out; null where there is none.
  std::unique_ptr<Executor> Remove(const std::string& key);
  // On the compute thread; null where there is none.
  Executor* Find(const std::string& key) const;
  // On the compute thread, at its end: destroys all.
  void Clear();

 private:
  struct Entry {
    std::unique_ptr<Executor> executor;
    int64_t use_count = 0;
    bool closed = false;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::condition_variable given_up_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_EXECUTOR_TABLE_H_
