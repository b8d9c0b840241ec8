// Tensors that callers keep on the server: steering vectors, dictionaries,
// means.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TENSORS_NAMED_TENSORS_H_
#define PHITAP_SERVER_TENSORS_NAMED_TENSORS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/host_tensor.h"

namespace phitap {

struct NamedTensorsOptions {
  // Where tensors are kept over a restart, one safetensors file each; empty
  // keeps them in memory alone.
  std::string state_dir;
  // Bytes of all tensors together.
  int64_t max_bytes = int64_t{4} << 30;
  // Outlives the store.
  const Clock* clock = nullptr;
};

struct NamedTensor {
  std::string name;
  HostTensor value;
  absl::Time create_time;
  bool persistent = false;
};

// Thread-safe. A tensor that was found lives on, whatever happens to its name.
class NamedTensors {
 public:
  // Reads what the state directory holds (mapped, not copied). An error names
  // the file and what is wrong with it.
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
  absl::Status Delete(absl::string_view name, absl::string_view field);
  // By name, those that begin with `prefix`; values share their bytes.
  std::vector<NamedTensor> List(absl::string_view prefix) const;

  int64_t used_bytes() const;
  int64_t max_bytes() const;

 private:
  struct Parts;
  explicit NamedTensors(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TENSORS_NAMED_TENSORS_H_
