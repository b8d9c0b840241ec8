#include "server/schedule/executor_table.h"

#include <utility>

#include "absl/status/status.h"

namespace phitap {

ExecutorTable::Use::Use(Use&& other) noexcept { *this = std::move(other); }

ExecutorTable::Use& ExecutorTable::Use::operator=(Use&& other) noexcept {
  if (this == &other) return *this;
  GiveUp();
  table_ = std::exchange(other.table_, nullptr);
  key_ = std::move(other.key_);
  executor_ = std::exchange(other.executor_, nullptr);
  return *this;
}

void ExecutorTable::Use::GiveUp() {
  ExecutorTable* const table = std::exchange(table_, nullptr);
  if (table == nullptr) return;
  executor_ = nullptr;
  std::lock_guard lock(table->mutex_);
  const auto entry = table->entries_.find(key_);
  if (entry == table->entries_.end()) return;
  if (--entry->second.use_count == 0) table->given_up_.notify_all();
}

void ExecutorTable::Add(const std::string& key,
                        std::unique_ptr<Executor> executor) {
  std::lock_guard lock(mutex_);
  entries_[key].executor = std::move(executor);
}

absl::StatusOr<ExecutorTable::Use> ExecutorTable::Take(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end() || entry->second.closed) {
    return absl::AbortedError("the model has just been taken away");
  }
  ++entry->second.use_count;
  Use use;
  use.table_ = this;
  use.key_ = key;
  use.executor_ = entry->second.executor.get();
  return use;
}

int64_t ExecutorTable::use_count(const std::string& key) const {
  std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  return entry == entries_.end() ? 0 : entry->second.use_count;
}

void ExecutorTable::Close(const std::string& key) {
  std::unique_lock lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return;
  entry->second.closed = true;
  given_up_.wait(lock, [&] {
    const auto still = entries_.find(key);
    return still == entries_.end() || still->second.use_count == 0;
  });
}

std::unique_ptr<Executor> ExecutorTable::Remove(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return nullptr;
  std::unique_ptr<Executor> executor = std::move(entry->second.executor);
  entries_.erase(entry);
  return executor;
}

Executor* ExecutorTable::Find(const std::string& key) const {
  std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  return entry == entries_.end() ? nullptr : entry->second.executor.get();
}

void ExecutorTable::Clear() {
  std::map<std::string, Entry> entries;
  {
    std::lock_guard lock(mutex_);
    entries.swap(entries_);
  }
  given_up_.notify_all();
}

}  // namespace phitap
