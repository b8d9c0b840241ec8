#include "client/cpp/trace_assembler.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/wire_dtype.h"
#include "server/base/status_macros.h"

namespace phitap::client {
namespace {

std::string Describe(const v1::TensorDescriptor& tensor) {
  return absl::StrCat("tensor ", tensor.tensor(), " (", tensor.hook_point(),
                      tensor.part().empty() ? "" : " ", tensor.part(),
                      " of run `", tensor.run(), "`)");
}

// Bytes that the shape comes to, or −1 where that is no sensible number.
int64_t BytesOf(const v1::TensorDescriptor& tensor, DType dtype) {
  int64_t bytes = SizeInBytes(dtype);
  for (const int64_t size : tensor.shape()) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

}  // namespace

absl::Status TraceAssembler::Add(const ReceivedResponse& response) {
  const v1::TraceResponse& message = response.message;
  if (has_summary_) {
    return absl::DataLossError("the stream goes on after its summary");
  }
  if (!has_header_ && !message.has_header()) {
    return absl::DataLossError("the stream does not begin with its header");
  }
  switch (message.message_case()) {
    case v1::TraceResponse::kHeader:
      return AddHeader(message.header());
    case v1::TraceResponse::kRunTokens:
      return AddRun(message.run_tokens());
    case v1::TraceResponse::kTensor:
      return AddTensor(message.tensor());
    case v1::TraceResponse::kChunk:
      return AddChunk(response);
    case v1::TraceResponse::kProgress:
    case v1::TraceResponse::kToken:
      return absl::OkStatus();
    case v1::TraceResponse::kSummary:
      return AddSummary(message.summary());
    case v1::TraceResponse::MESSAGE_NOT_SET:
      break;
  }
  return absl::DataLossError(
      "the stream has a message of a kind that this client does not know");
}

absl::Status TraceAssembler::AddHeader(const v1::TraceHeader& header) {
  if (has_header_) return absl::DataLossError("the stream has two headers");
  if (header.tensor_count() < 0 || header.size_bytes() < 0) {
    return absl::DataLossError("the stream's header has a negative count");
  }
  has_header_ = true;
  trace_.header = header;
  return absl::OkStatus();
}

absl::Status TraceAssembler::AddRun(const v1::RunTokens& run) {
  if (trace_.FindRun(run.run()) != nullptr) {
    return absl::DataLossError(absl::StrCat(
        "the stream has the tokens of run `", run.run(), "` twice"));
  }
  if (run.texts_size() != 0 && run.texts_size() != run.ids_size()) {
    return absl::DataLossError(absl::StrCat("run `", run.run(), "` has ",
                                            run.ids_size(), " tokens but ",
                                            run.texts_size(), " texts"));
  }
  trace_.runs.push_back({.label = run.run(),
                         .ids = {run.ids().begin(), run.ids().end()},
                         .texts = {run.texts().begin(), run.texts().end()}});
  return absl::OkStatus();
}

absl::Status TraceAssembler::CheckDescriptor(
    const v1::TensorDescriptor& tensor) const {
  const int32_t count = trace_.header.tensor_count();
  if (tensor.tensor() < 0 || tensor.tensor() >= count) {
    return absl::DataLossError(absl::StrCat(
        Describe(tensor), " is not one of the ", count, " announced"));
  }
  if (incoming_.count(tensor.tensor()) != 0) {
    return absl::DataLossError(
        absl::StrCat(Describe(tensor), " is described twice"));
  }
  if (trace_.FindRun(tensor.run()) == nullptr) {
    return absl::DataLossError(absl::StrCat(
        Describe(tensor), " is of a run whose tokens were not sent"));
  }
  if (tensor.size_bytes() > trace_.header.size_bytes() - announced_bytes_) {
    return absl::DataLossError(
        absl::StrCat(Describe(tensor), " brings the answer over the ",
                     trace_.header.size_bytes(), " bytes announced"));
  }
  return absl::OkStatus();
}

absl::Status TraceAssembler::AddTensor(const v1::TensorDescriptor& tensor) {
  RETURN_IF_ERROR(CheckDescriptor(tensor));
  absl::StatusOr<DType> dtype = FromWire(tensor.dtype());
  if (!dtype.ok()) {
    return absl::DataLossError(
        absl::StrCat(Describe(tensor), ": ", dtype.status().message()));
  }
  if (tensor.dimension_names_size() != tensor.shape_size()) {
    return absl::DataLossError(absl::StrCat(
        Describe(tensor), " has ", tensor.shape_size(), " dimensions and ",
        tensor.dimension_names_size(), " names for them"));
  }
  if (BytesOf(tensor, *dtype) != tensor.size_bytes()) {
    return absl::DataLossError(
        absl::StrCat(Describe(tensor), ": its shape and its ",
                     tensor.size_bytes(), " bytes disagree"));
  }
  ASSIGN_OR_RETURN(HostBuffer buffer,
                   HostBuffer::Allocate(tensor.size_bytes()));
  HostTensor value = {.dtype = *dtype,
                      .shape = {tensor.shape().begin(), tensor.shape().end()},
                      .bytes = buffer.bytes(),
                      .owner = buffer.owner()};
  std::unique_ptr<XXH3_state_t, StateDeleter> hash(XXH3_createState());
  XXH3_64bits_reset(hash.get());
  announced_bytes_ += tensor.size_bytes();
  incoming_.emplace(tensor.tensor(), Incoming{.descriptor = tensor,
                                              .value = std::move(value),
                                              .buffer = std::move(buffer),
                                              .hash = std::move(hash)});
  return absl::OkStatus();
}

absl::Status TraceAssembler::AddChunk(const ReceivedResponse& response) {
  const v1::TensorChunk& chunk = response.message.chunk();
  auto found = incoming_.find(chunk.tensor());
  if (found == incoming_.end()) {
    return absl::DataLossError(absl::StrCat(
        "a chunk of tensor ", chunk.tensor(), " came before its descriptor"));
  }
  Incoming& incoming = found->second;
  if (incoming.complete || chunk.offset_bytes() != incoming.received_bytes) {
    return absl::DataLossError(absl::StrCat(
        Describe(incoming.descriptor), ": a chunk at byte ",
        chunk.offset_bytes(), " where ", incoming.received_bytes, " of ",
        incoming.descriptor.size_bytes(), " bytes had come"));
  }
  for (const absl::Span<const std::byte> piece : response.chunk_data) {
    const int64_t size = static_cast<int64_t>(piece.size());
    if (size > incoming.descriptor.size_bytes() - incoming.received_bytes) {
      return absl::DataLossError(
          absl::StrCat(Describe(incoming.descriptor), " is longer than its ",
                       incoming.descriptor.size_bytes(), " bytes"));
    }
    // Hashed while the copy is still in the cache.
    std::byte* target =
        incoming.buffer.bytes().data() + incoming.received_bytes;
    std::memcpy(target, piece.data(), piece.size());
    XXH3_64bits_update(incoming.hash.get(), target, piece.size());
    incoming.received_bytes += size;
    received_bytes_ += size;
  }
  return CloseTensor(chunk, &incoming);
}

absl::Status TraceAssembler::CloseTensor(const v1::TensorChunk& chunk,
                                         Incoming* incoming) {
  const v1::TensorDescriptor& tensor = incoming->descriptor;
  const bool full = incoming->received_bytes == tensor.size_bytes();
  if (full != chunk.has_xxh3()) {
    return absl::DataLossError(absl::StrCat(
        Describe(tensor), ": ", full ? "no" : "a", " checksum after ",
        incoming->received_bytes, " of ", tensor.size_bytes(), " bytes"));
  }
  if (!full) return absl::OkStatus();
  const uint64_t hash = XXH3_64bits_digest(incoming->hash.get());
  if (hash != chunk.xxh3()) {
    return absl::DataLossError(absl::StrFormat(
        "%s: its bytes have the checksum %016x, the server sent %016x",
        Describe(tensor), hash, chunk.xxh3()));
  }
  incoming->hash.reset();
  incoming->complete = true;
  return absl::OkStatus();
}

absl::Status TraceAssembler::AddSummary(const v1::TraceSummary& summary) {
  has_summary_ = true;
  trace_.summary = summary;
  for (const v1::RunStatus& status : summary.runs()) {
    bool known = false;
    for (TracedRun& run : trace_.runs) {
      if (run.label != status.run()) continue;
      run.status = status;
      known = true;
    }
    if (!known) {
      return absl::DataLossError(absl::StrCat(
          "the summary is of a run `", status.run(), "` that was not sent"));
    }
  }
  if (static_cast<size_t>(summary.runs_size()) != trace_.runs.size()) {
    return absl::DataLossError(absl::StrCat("the summary has the status of ",
                                            summary.runs_size(), " of ",
                                            trace_.runs.size(), " runs"));
  }
  return CheckCounts();
}

bool TraceAssembler::RunFailed(absl::string_view label) const {
  const TracedRun* run = trace_.FindRun(label);
  return run != nullptr && run->status.code() != 0;
}

// Only a failed run may owe tensors.
absl::Status TraceAssembler::CheckCounts() const {
  int32_t complete = 0;
  int64_t complete_bytes = 0;
  for (const auto& [number, incoming] : incoming_) {
    if (incoming.complete) {
      ++complete;
      complete_bytes += incoming.descriptor.size_bytes();
    } else if (!RunFailed(incoming.descriptor.run())) {
      return absl::DataLossError(absl::StrCat(
          Describe(incoming.descriptor), " is short: ", incoming.received_bytes,
          " of ", incoming.descriptor.size_bytes(), " bytes"));
    }
  }
  bool any_failed = false;
  for (const TracedRun& run : trace_.runs) any_failed |= run.status.code() != 0;
  const v1::TraceSummary& summary = trace_.summary;
  if (complete != summary.tensor_count() ||
      (!any_failed && complete != trace_.header.tensor_count())) {
    return absl::DataLossError(absl::StrCat(
        complete, " tensors came; announced: ", trace_.header.tensor_count(),
        ", sent according to the summary: ", summary.tensor_count()));
  }
  if (complete_bytes != summary.size_bytes()) {
    return absl::DataLossError(
        absl::StrCat(complete_bytes, " bytes of tensors came, ",
                     summary.size_bytes(), " according to the summary"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Trace> TraceAssembler::Finish() && {
  if (!has_summary_) {
    return absl::DataLossError(absl::StrCat(
        "the stream ended without its summary, after ", received_bytes_,
        " bytes of tensors: nothing of it can be trusted"));
  }
  for (auto& [number, incoming] : incoming_) {
    if (!incoming.complete || RunFailed(incoming.descriptor.run())) continue;
    trace_.tensors.push_back({.descriptor = std::move(incoming.descriptor),
                              .value = std::move(incoming.value)});
  }
  return std::move(trace_);
}

}  // namespace phitap::client
