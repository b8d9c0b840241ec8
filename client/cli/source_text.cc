#include "client/cli/source_text.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/capture_text.h"
#include "client/cli/number_text.h"
#include "client/cli/selection_text.h"
#include "client/cpp/safetensors_reader.h"
#include "server/base/status_macros.h"

namespace phitap::cli {

const char kSourceGrammar[] =
    "  SOURCE       0.5                        a number for every element\n"
    "               run=LABEL[:HOOK][@OPTION=VALUE]...  another run's value, "
    "at\n"
    "                 the same place or another; @read=before as it was "
    "before\n"
    "                 that run's own interventions\n"
    "               mean=LABEL,LABEL[:HOOK][@OPTION=VALUE]...  mean over "
    "runs,\n"
    "                 with @over-positions over positions as well\n"
    "               tensor=NAME                kept on the server, see `phitap "
    "tensors`\n"
    "               file=PATH[:KEY]            of a safetensors file\n"
    "               node=NAME, constant=NAME   of the --request\n";

namespace {

using client::Source;

constexpr char kValidSources[] =
    "a number, run=LABEL, mean=LABEL,LABEL, tensor=NAME, file=PATH, node=NAME "
    "or constant=NAME";
constexpr char kFileSource[] = "file=";

// LABELS[:HOOK][@OPTION[=VALUE]]…, split.
struct RunPart {
  absl::string_view labels;
  absl::string_view hook_point;
  client::Selection selection;
  v1::ReadTime read_time = v1::READ_TIME_UNSPECIFIED;
  bool over_positions = false;
};

absl::Status SetRunOption(absl::string_view option, const QuotedText& quoted,
                          RunPart* part) {
  const std::pair<absl::string_view, absl::string_view> pair =
      absl::StrSplit(option, absl::MaxSplits('=', 1));
  if (option == "over-positions") {
    part->over_positions = true;
    return absl::OkStatus();
  }
  if (pair.first == "read") {
    absl::StatusOr<v1::ReadTime> time =
        ParseReadTime(pair.second, quoted.flag());
    if (!time.ok()) return quoted.PointAt(option, time.status());
    part->read_time = *time;
    return absl::OkStatus();
  }
  return quoted.PointAt(
      option, SetSelectionOption(pair.first, pair.second, quoted.flag(),
                                 &part->selection));
}

absl::StatusOr<RunPart> ParseRunPart(absl::string_view value,
                                     const QuotedText& quoted) {
  RunPart part;
  const std::vector<absl::string_view> pieces = absl::StrSplit(value, '@');
  part.labels = pieces.front();
  const size_t colon = part.labels.find(':');
  if (colon != absl::string_view::npos) {
    part.hook_point = part.labels.substr(colon + 1);
    part.labels = part.labels.substr(0, colon);
  }
  for (size_t i = 1; i < pieces.size(); ++i) {
    RETURN_IF_ERROR(SetRunOption(pieces[i], quoted, &part));
  }
  return part;
}

absl::StatusOr<Source> ParseRunSource(absl::string_view value,
                                      const QuotedText& quoted, FileTensors*) {
  ASSIGN_OR_RETURN(RunPart part, ParseRunPart(value, quoted));
  if (part.over_positions) {
    return quoted.Refuse(value, "only a mean is over positions",
                         "mean=LABEL@over-positions");
  }
  return client::OfRun{.run = std::string(part.labels),
                       .hook_point = std::string(part.hook_point),
                       .selection = std::move(part.selection),
                       .read_time = part.read_time};
}

absl::StatusOr<Source> ParseMeanSource(absl::string_view value,
                                       const QuotedText& quoted, FileTensors*) {
  ASSIGN_OR_RETURN(RunPart part, ParseRunPart(value, quoted));
  if (part.read_time != v1::READ_TIME_UNSPECIFIED) {
    return quoted.Refuse(value, "a mean is of values after interventions",
                         "no @read");
  }
  return client::MeanOfRuns{.runs = absl::StrSplit(part.labels, ','),
                            .hook_point = std::string(part.hook_point),
                            .selection = std::move(part.selection),
                            .over_positions = part.over_positions};
}

absl::StatusOr<Source> ParseFileSource(absl::string_view value,
                                       const QuotedText& quoted,
                                       FileTensors* files) {
  const std::string name = absl::StrCat(kFileSource, value);
  if (files->count(name) == 0) {
    const size_t colon = value.rfind(':');
    const absl::string_view key =
        colon == absl::string_view::npos ? "" : value.substr(colon + 1);
    absl::StatusOr<HostTensor> tensor =
        client::ReadSafetensor(std::string(value.substr(0, colon)), key);
    if (!tensor.ok()) return quoted.PointAt(value, tensor.status());
    files->emplace(name, *std::move(tensor));
  }
  return client::Constant{.name = name};
}

template <typename Named>
absl::StatusOr<Source> ParseNamed(absl::string_view value,
                                  const QuotedText& quoted, FileTensors*) {
  if (value.empty()) return quoted.Refuse(value, "a name is missing", "a name");
  return Named{.name = std::string(value)};
}

using Parser = absl::StatusOr<Source> (*)(absl::string_view, const QuotedText&,
                                          FileTensors*);

Parser ParserOf(absl::string_view kind) {
  if (kind == "run") return ParseRunSource;
  if (kind == "mean") return ParseMeanSource;
  if (kind == "tensor") return ParseNamed<client::Kept>;
  if (kind == "file") return ParseFileSource;
  if (kind == "node") return ParseNamed<client::OfNode>;
  if (kind == "constant") return ParseNamed<client::Constant>;
  return nullptr;
}

// `:HOOK`, if any, and the options.
std::string PlaceText(absl::string_view hook_point,
                      const v1::Selection& selection) {
  return absl::StrCat(hook_point.empty() ? "" : ":", hook_point,
                      SelectionText(selection));
}

}  // namespace

absl::StatusOr<Source> ParseSource(absl::string_view word,
                                   const QuotedText& quoted,
                                   FileTensors* files) {
  const size_t equals = word.find('=');
  if (equals == absl::string_view::npos) {
    double number = 0;
    if (!absl::SimpleAtod(word, &number)) {
      return quoted.RefuseWord(word, "a value", kValidSources);
    }
    ASSIGN_OR_RETURN(number, quoted.Number(word));
    return number;
  }
  const Parser parser = ParserOf(word.substr(0, equals));
  if (parser == nullptr) {
    return quoted.RefuseWord(word, "a value", kValidSources);
  }
  return parser(word.substr(equals + 1), quoted, files);
}

std::string SourceText(const v1::EditSource& source) {
  switch (source.source_case()) {
    case v1::EditSource::kNumber:
      return absl::StrCat(source.number());
    case v1::EditSource::kRun: {
      const v1::RunValue& run = source.run();
      return absl::StrCat(
          "run=", run.run(), PlaceText(run.hook_point(), run.selection()),
          run.read_time() == v1::READ_TIME_BEFORE ? "@read=before" : "");
    }
    case v1::EditSource::kMeanOfRuns: {
      const v1::MeanOfRuns& mean = source.mean_of_runs();
      return absl::StrCat("mean=", absl::StrJoin(mean.runs(), ","),
                          PlaceText(mean.hook_point(), mean.selection()),
                          mean.over_positions() ? "@over-positions" : "");
    }
    case v1::EditSource::kTensorName:
      return absl::StrCat("tensor=", source.tensor_name());
    case v1::EditSource::kConstant:
      return absl::StartsWith(source.constant(), kFileSource)
                 ? source.constant()
                 : absl::StrCat("constant=", source.constant());
    case v1::EditSource::kNode:
      return absl::StrCat("node=", source.node());
    case v1::EditSource::kTensor: {
      const auto& sizes = source.tensor().shape();
      const std::vector<int64_t> shape(sizes.begin(), sizes.end());
      return absl::StrCat("(a tensor ", ShapeText(shape), ")");
    }
    case v1::EditSource::SOURCE_NOT_SET:
      break;
  }
  return "(nothing)";
}

}  // namespace phitap::cli
