// The measure of a stream: the same bytes through a bare TCP connection.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_BENCH_RAW_STREAM_H_
#define PHITAP_TESTS_BENCH_RAW_STREAM_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/host_buffer.h"

namespace phitap {

// A connection over the loopback interface, one thread at each end.
// Thread-compatible.
class RawStream {
 public:
  // RESOURCE_EXHAUSTED without memory, INTERNAL without sockets.
  static absl::StatusOr<RawStream> Connect(int64_t size_bytes);
  ~RawStream();
  RawStream(RawStream&& other) noexcept;
  RawStream& operator=(RawStream&&) = delete;

  // Sends size_bytes from memory that is not in the cache into memory that was
  // never touched, with their XXH3-64 taken at both ends, 1 MiB at a time; what
  // that took. DATA_LOSS where the two differ.
  absl::StatusOr<absl::Duration> Send();

 private:
  RawStream(client::HostBuffer source, int sender, int receiver);

  client::HostBuffer source_;
  int sender_ = -1;
  int receiver_ = -1;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_BENCH_RAW_STREAM_H_
