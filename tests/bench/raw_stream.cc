#include "tests/bench/raw_stream.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/status_macros.h"
#include "server/base/tensor_hash.h"

namespace phitap {
namespace {

using client::HostBuffer;

constexpr size_t kPieceBytes = 1 << 20;

absl::Status SocketError(absl::string_view call) {
  return absl::InternalError(absl::StrCat(call, ": ", std::strerror(errno)));
}

// XXH3-64 of what was sent; 0 where the connection broke.
uint64_t SendAll(int socket, absl::Span<const std::byte> bytes) {
  TensorHash hash;
  while (!bytes.empty()) {
    absl::Span<const std::byte> piece = bytes.subspan(0, kPieceBytes);
    bytes.remove_prefix(piece.size());
    hash.Add(piece);
    while (!piece.empty()) {
      const ssize_t sent =
          send(socket, piece.data(), piece.size(), MSG_NOSIGNAL);
      if (sent <= 0) return 0;
      piece.remove_prefix(sent);
    }
  }
  return hash.Value();
}

// XXH3-64 of what came.
absl::StatusOr<uint64_t> ReceiveAll(int socket, absl::Span<std::byte> bytes) {
  TensorHash hash;
  while (!bytes.empty()) {
    const ssize_t received =
        recv(socket, bytes.data(), std::min(bytes.size(), kPieceBytes), 0);
    if (received <= 0) return SocketError("recv");
    hash.Add(bytes.subspan(0, received));
    bytes.remove_prefix(received);
  }
  return hash.Value();
}

struct SocketPair {
  int sender = -1;
  int receiver = -1;
};

absl::StatusOr<SocketPair> ConnectLoopback() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  SocketPair pair = {.sender = socket(AF_INET, SOCK_STREAM, 0)};
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (bind(listener, any, size) == 0 && listen(listener, 1) == 0 &&
      getsockname(listener, any, &size) == 0 &&
      connect(pair.sender, any, size) == 0) {
    pair.receiver = accept(listener, nullptr, nullptr);
  }
  const absl::Status failed = SocketError("loopback connection");
  close(listener);
  if (pair.receiver >= 0) return pair;
  close(pair.sender);
  return failed;
}

}  // namespace

RawStream::RawStream(HostBuffer source, int sender, int receiver)
    : source_(std::move(source)), sender_(sender), receiver_(receiver) {}

RawStream::RawStream(RawStream&& other) noexcept
    : source_(std::move(other.source_)),
      sender_(std::exchange(other.sender_, -1)),
      receiver_(std::exchange(other.receiver_, -1)) {}

RawStream::~RawStream() {
  if (sender_ >= 0) close(sender_);
  if (receiver_ >= 0) close(receiver_);
}

absl::StatusOr<RawStream> RawStream::Connect(int64_t size_bytes) {
  ASSIGN_OR_RETURN(HostBuffer source, HostBuffer::Allocate(size_bytes));
  ASSIGN_OR_RETURN(const SocketPair pair, ConnectLoopback());
  return RawStream(std::move(source), pair.sender, pair.receiver);
}

absl::StatusOr<absl::Duration> RawStream::Send() {
  const absl::Span<std::byte> source = source_.bytes();
  // Leaves only its end in the cache, which is sent last.
  std::memset(source.data(), 0x5a, source.size());
  ASSIGN_OR_RETURN(const HostBuffer received,
                   HostBuffer::Allocate(static_cast<int64_t>(source.size())));
  uint64_t sent_hash = 0;
  const absl::Time start = absl::Now();
  std::thread sender([&] { sent_hash = SendAll(sender_, source); });
  const absl::StatusOr<uint64_t> received_hash =
      ReceiveAll(receiver_, received.bytes());
  const absl::Duration elapsed = absl::Now() - start;
  sender.join();
  RETURN_IF_ERROR(received_hash.status());
  if (*received_hash != sent_hash) {
    return absl::DataLossError("the checksums of the two ends differ");
  }
  return elapsed;
}

}  // namespace phitap
