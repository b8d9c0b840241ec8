#include "client/cpp/trace_assembler.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/closing_summary.h"
#include "client/cpp/wire_dtype.h"
#include "server/base/status_macros.h"

namespace phitap::client {
namespace {

std::string Describe(const v1::TensorDescriptor& tensor) {
  std::string text = absl::StrCat(
      "tensor ", tensor.tensor(), " (",
      tensor.hook_point().empty() ? tensor.label() : tensor.hook_point(),
      tensor.part().empty() ? "" : " ", tensor.part());
  if (!tensor.run().empty())
    absl::StrAppend(&text, " of run `", tensor.run(), "`");
  if (tensor.step() > 0) absl::StrAppend(&text, " at step ", tensor.step());
  return absl::StrCat(text, ")");
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
    case v1::TraceResponse::kToken:
      return AddToken(message.token());
    case v1::TraceResponse::kProgress:
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
  if (incoming_.count(tensor.tensor()) != 0) {
    return absl::DataLossError(
        absl::StrCat(Describe(tensor), " is described twice"));
  }
  // Numbers need not be dense: those of tensors that are kept on the server
  // instead are left out.
  const int32_t count = trace_.header.tensor_count();
  if (tensor.tensor() < 0 || incoming_.size() >= static_cast<size_t>(count)) {
    return absl::DataLossError(absl::StrCat(
        Describe(tensor), " is not one of the ", count, " announced"));
  }
  if (!tensor.run().empty() && trace_.FindRun(tensor.run()) == nullptr) {
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
  announced_bytes_ += tensor.size_bytes();
  incoming_.emplace(
      tensor.tensor(),
      Incoming{.tensor = {.descriptor = tensor, .value = std::move(value)},
               .buffer = std::move(buffer),
               .hash = std::make_unique<TensorHash>()});
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
  const v1::TensorDescriptor& tensor = incoming.tensor.descriptor;
  if (incoming.complete || chunk.offset_bytes() != incoming.received_bytes) {
    return absl::DataLossError(
        absl::StrCat(Describe(tensor), ": a chunk at byte ",
                     chunk.offset_bytes(), " where ", incoming.received_bytes,
                     " of ", tensor.size_bytes(), " bytes had come"));
  }
  for (const absl::Span<const std::byte> piece : response.chunk_data) {
    const int64_t size = static_cast<int64_t>(piece.size());
    if (size > tensor.size_bytes() - incoming.received_bytes) {
      return absl::DataLossError(absl::StrCat(Describe(tensor),
                                              " is longer than its ",
                                              tensor.size_bytes(), " bytes"));
    }
    // Hashed while the copy is still in the cache.
    std::byte* target =
        incoming.buffer.bytes().data() + incoming.received_bytes;
    std::memcpy(target, piece.data(), piece.size());
    incoming.hash->Add(absl::MakeConstSpan(target, piece.size()));
    incoming.received_bytes += size;
    received_bytes_ += size;
  }
  return CloseTensor(chunk, &incoming);
}

absl::Status TraceAssembler::CloseTensor(const v1::TensorChunk& chunk,
                                         Incoming* incoming) {
  const v1::TensorDescriptor& tensor = incoming->tensor.descriptor;
  const bool full = incoming->received_bytes == tensor.size_bytes();
  if (full != chunk.has_xxh3()) {
    return absl::DataLossError(absl::StrCat(
        Describe(tensor), ": ", full ? "no" : "a", " checksum after ",
        incoming->received_bytes, " of ", tensor.size_bytes(), " bytes"));
  }
  if (!full) return absl::OkStatus();
  const uint64_t hash = incoming->hash->Value();
  if (hash != chunk.xxh3()) {
    return absl::DataLossError(absl::StrFormat(
        "%s: its bytes have the checksum %016x, the server sent %016x",
        Describe(tensor), hash, chunk.xxh3()));
  }
  incoming->hash.reset();
  incoming->complete = true;
  if (on_tensor_ != nullptr) on_tensor_(incoming->tensor);
  return absl::OkStatus();
}

absl::Status TraceAssembler::AddToken(const v1::GeneratedToken& token) {
  TracedRun* run = trace_.FindRun(token.run());
  if (run == nullptr) {
    return absl::DataLossError(absl::StrCat("a token of run `", token.run(),
                                            "` whose prompt was not sent"));
  }
  const auto next = static_cast<int64_t>(run->generated.size()) + 1;
  if (token.step() != next) {
    return absl::DataLossError(
        absl::StrCat("run `", token.run(), "`: a token of step ", token.step(),
                     " where that of step ", next, " was to come"));
  }
  run->generated.push_back({.id = token.id(),
                            .text = token.text(),
                            .log_probability = token.log_probability()});
  return absl::OkStatus();
}

absl::Status TraceAssembler::AddSummary(const v1::TraceSummary& summary) {
  has_summary_ = true;
  RETURN_IF_ERROR(TakeSummary(summary, &trace_));
  CompleteTensors complete;
  for (const auto& [number, incoming] : incoming_) {
    const v1::TensorDescriptor& tensor = incoming.tensor.descriptor;
    if (incoming.complete) {
      ++complete.count;
      complete.size_bytes += tensor.size_bytes();
    } else if (!trace_.AnyFailed(tensor.run())) {
      return absl::DataLossError(
          absl::StrCat(Describe(tensor), " is short: ", incoming.received_bytes,
                       " of ", tensor.size_bytes(), " bytes"));
    }
  }
  return CheckAgainstSummary(complete, trace_);
}

absl::StatusOr<Trace> TraceAssembler::Finish() && {
  if (!has_summary_) {
    return absl::DataLossError(absl::StrCat(
        "the stream ended without its summary, after ", received_bytes_,
        " bytes of tensors: nothing of it can be trusted"));
  }
  for (auto& [number, incoming] : incoming_) {
    if (!incoming.complete) continue;
    const std::string& run = incoming.tensor.descriptor.run();
    if (!run.empty() && trace_.AnyFailed(run)) continue;
    trace_.tensors.push_back(std::move(incoming.tensor));
  }
  return std::move(trace_);
}

}  // namespace phitap::client
