// Tensors that callers keep on the server: steering vectors, dictionaries,
// means.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TENSORS_NAMED_TENSORS_H_
#define PHITAP_SERVER_TENSORS_NAMED_TENSORS_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/host_tensor.h"

namespace phitap {

class StateFolder;

struct NamedTensorsOptions {
  // Where tensors are kept over a restart, one safetensors file each; empty
  // keeps them in memory alone.
  std::string state_dir;
  // Bytes of all tensors together.
  int64_t max_bytes = int64_t{4} << 30;
  // Outlives the store.
  const Clock* clock = nullptr;
  // Called, on a thread of the store, where a file could not be written or
  // removed: the error names it.
  std::function<void(const absl::Status&)> on_file_error;
};

struct NamedTensor {
  std::string name;
  HostTensor value;
  // When it was put.
  absl::Time create_time;
  // Whether it outlives the server: false without a state directory, and where
  // its file could not be written.
  bool persistent = false;
};

// Thread-safe. A tensor that was found lives on, whatever happens to its name;
// the bytes of one that has been replaced or deleted since are not counted any
// more.
class NamedTensors {
 public:
  // Reads what the state directory holds (mapped, not copied). An error names
  // the file and what is wrong with it; RESOURCE_EXHAUSTED where the files hold
  // more than `max_bytes`.
  static absl::StatusOr<std::unique_ptr<NamedTensors>> Open(
      NamedTensorsOptions options);
  // Blocks until what was put is on disk.
  ~NamedTensors();

  // Keeps `value` under `name`, replacing what was there; returns at once, the
  // file is written behind. INVALID_ARGUMENT against `field` for a name that is
  // none; RESOURCE_EXHAUSTED where the bytes do not fit.
  absl::Status Put(absl::string_view name, HostTensor value,
                   absl::string_view field);
  // Whether Put would refuse the name or so many bytes: before an upload.
  absl::Status CheckPut(absl::string_view name, int64_t size_bytes,
                        absl::string_view field) const;
  // NOT_FOUND against `field`, with the nearest names.
  absl::StatusOr<HostTensor> Find(absl::string_view name,
                                  absl::string_view field) const;
  // NOT_FOUND as Find. Its file is removed behind.
  absl::Status Delete(absl::string_view name, absl::string_view field);
  // By name, those whose names begin with `prefix`; values share their bytes.
  std::vector<NamedTensor> List(absl::string_view prefix) const;

  // The tensor and when it was put. NOT_FOUND as Find.
  absl::StatusOr<NamedTensor> Get(absl::string_view name,
                                  absl::string_view field) const;

  int64_t used_bytes() const;
  int64_t max_bytes() const;

 private:
  NamedTensors(NamedTensorsOptions options,
               std::unique_ptr<StateFolder> folder);

  // With mutex_ held.
  absl::Status CheckFits(absl::string_view name, int64_t size_bytes,
                         absl::string_view field) const;
  // Names that may have been meant; by far not all where there are many.
  std::vector<std::string> NamesNear(absl::string_view name) const;
  // Has the file of `name` brought up to what is kept under it.
  void WriteBehind(absl::string_view name);

  // The writing thread: until it is told to stop and nothing is left to write.
  void WriteFiles();
  void WriteFile(const std::string& name);
  // What is kept under `name` could not be written.
  void GiveUpFile(const std::string& name, const NamedTensor& tensor,
                  const absl::Status& error);

  const NamedTensorsOptions options_;
  // Null without a state directory. The writing thread's, once it runs.
  const std::unique_ptr<StateFolder> folder_;

  mutable std::mutex mutex_;  // Guards the next four.
  std::map<std::string, NamedTensor, std::less<>> tensors_;
  int64_t used_bytes_ = 0;
  // Names whose files are not what is kept under them, each once.
  std::deque<std::string> unwritten_;
  bool stopping_ = false;
  std::condition_variable changed_;
  std::thread writer_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TENSORS_NAMED_TENSORS_H_
