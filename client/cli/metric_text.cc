#include "client/cli/metric_text.h"

#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/quoted_text.h"
#include "server/base/status_macros.h"

namespace phitap::cli {

const char kMetricGrammar[] =
    "A metric is [NAME=]KIND[@position=N]:ARGUMENTS, of the prediction at the "
    "last position\nor at N\n"
    "  KIND         logit:TOKEN            its logit\n"
    "               logit-diff:TOKEN,TOKEN first minus second\n"
    "               prob:TOKEN             its probability; log-prob: its "
    "logarithm\n"
    "               kl:LABEL               divergence from that run's "
    "prediction\n"
    "  TOKEN        text, spaces included (`logit-diff: Mary, John`), or "
    "#ID\n";

namespace {

struct Word {
  const char* text;
  MetricWord word;
  size_t arguments;
};

constexpr std::array<Word, 5> kWords = {
    {{"logit", MetricWord::kLogit, 1},
     {"logit-diff", MetricWord::kLogitDifference, 2},
     {"prob", MetricWord::kProbability, 1},
     {"log-prob", MetricWord::kLogProbability, 1},
     {"kl", MetricWord::kKl, 1}}};

constexpr char kValidKinds[] =
    "logit:TOKEN, logit-diff:TOKEN,TOKEN, prob:TOKEN, log-prob:TOKEN or "
    "kl:LABEL";

const Word* FindWord(absl::string_view text) {
  for (const Word& word : kWords) {
    if (text == word.text) return &word;
  }
  return nullptr;
}

// KIND[@position=N]
absl::Status ReadHead(absl::string_view head, const QuotedText& quoted,
                      TypedMetric* metric, size_t* arguments) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(head, absl::MaxSplits('@', 1));
  const Word* word = FindWord(parts.first);
  if (word == nullptr) {
    return quoted.RefuseWord(parts.first, "a metric", kValidKinds);
  }
  metric->word = word->word;
  if (metric->label.empty()) metric->label = word->text;
  *arguments = word->arguments;
  if (parts.second.empty()) return absl::OkStatus();
  absl::string_view position = parts.second;
  int32_t number = 0;
  if (!absl::ConsumePrefix(&position, "position=") ||
      !absl::SimpleAtoi(position, &number)) {
    return quoted.RefuseWord(parts.second, "an option here", "position=N");
  }
  metric->position = number;
  return absl::OkStatus();
}

absl::StatusOr<int32_t> TokenOf(const std::string& argument,
                                const TokenLookup& lookup) {
  int32_t id = 0;
  if (argument.size() > 1 && argument.front() == '#' &&
      absl::SimpleAtoi(argument.substr(1), &id)) {
    return id;
  }
  return lookup(argument);
}

}  // namespace

absl::StatusOr<TypedMetric> ParseMetric(absl::string_view text) {
  const QuotedText quoted("--metric", std::string(text));
  TypedMetric metric = {.text = std::string(text)};
  const size_t colon = quoted.text().find(':');
  absl::string_view head = quoted.text().substr(0, colon);
  const size_t equals = head.substr(0, head.find('@')).find('=');
  if (equals != absl::string_view::npos) {
    metric.label = std::string(head.substr(0, equals));
    head.remove_prefix(equals + 1);
  }
  size_t count = 0;
  RETURN_IF_ERROR(ReadHead(head, quoted, &metric, &count));
  if (colon == absl::string_view::npos) {
    return quoted.Refuse(quoted.End(), "what it is of is missing", kValidKinds);
  }
  const absl::string_view arguments = quoted.text().substr(colon + 1);
  metric.arguments = absl::StrSplit(arguments, ',');
  bool has_empty = false;
  for (const std::string& argument : metric.arguments) {
    has_empty |= argument.empty();
  }
  if (metric.arguments.size() != count || has_empty) {
    return quoted.Refuse(
        arguments, absl::StrCat("it needs ", count, " of them"), kValidKinds);
  }
  if (metric.word == MetricWord::kKl) {
    metric.arguments[0] =
        std::string(absl::StripAsciiWhitespace(metric.arguments[0]));
  }
  return metric;
}

absl::StatusOr<client::Metric> ResolveMetric(const TypedMetric& typed,
                                             const TokenLookup& lookup) {
  client::Metric metric = {.label = typed.label, .position = typed.position};
  if (typed.word == MetricWord::kKl) {
    metric.kind = client::KlFromRun{.run = typed.arguments[0]};
    return metric;
  }
  ASSIGN_OR_RETURN(const int32_t first, TokenOf(typed.arguments[0], lookup));
  switch (typed.word) {
    case MetricWord::kLogitDifference: {
      ASSIGN_OR_RETURN(const int32_t second,
                       TokenOf(typed.arguments[1], lookup));
      metric.kind = client::LogitDifference{.token_id = first,
                                            .baseline_token_id = second};
      break;
    }
    case MetricWord::kProbability:
    case MetricWord::kLogProbability:
      metric.kind = client::Probability{
          .token_id = first, .log = typed.word == MetricWord::kLogProbability};
      break;
    default:
      metric.kind = client::Logit{.token_id = first};
  }
  return metric;
}

}  // namespace phitap::cli
