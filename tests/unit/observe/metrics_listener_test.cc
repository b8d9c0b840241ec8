#include "server/observe/metrics_listener.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What is answered to GET `path` at 127.0.0.1:PORT.
std::string Get(const std::string& address, const std::string& path) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&to), sizeof(to)),
            0);
  const std::string request =
      absl::StrCat("GET ", path,
                   " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(send(connection, request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char part[4096];
  for (ssize_t count = 0;
       (count = recv(connection, part, sizeof(part), 0)) > 0;)
    answer.append(part, static_cast<size_t>(count));
  close(connection);
  return answer;
}

TEST(MetricsListener, AnswersWithWhatIsCountedAndWhatIsReadThen) {
  Metrics metrics;
  double ready = 0;
  const auto listener = MetricsListener::Start(
      {.listen = "127.0.0.1:0", .metrics = &metrics, .samples = [&] {
         return std::vector<MetricSample>{
             {.metric = Metric::kReady, .value = ready}};
       }});
  ASSERT_TRUE(listener.ok()) << listener.status();
  metrics.CounterOf(Metric::kCalls, {"Trace", "OK"}).Increment();
  ready = 1;
  const std::string answer = Get((*listener)->address(), "/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(
      answer,
      HasSubstr("phitap_calls_total{code=\"OK\",method=\"Trace\"} 1\n"));
  EXPECT_THAT(answer, HasSubstr("phitap_ready 1\n"));
  EXPECT_THAT(Get((*listener)->address(), "/"), StartsWith("HTTP/1.1 404"));
}

TEST(MetricsListener, SaysWhereItCannotListen) {
  Metrics metrics;
  const auto none = [] { return std::vector<MetricSample>(); };
  const auto first = MetricsListener::Start(
      {.listen = "127.0.0.1:0", .metrics = &metrics, .samples = none});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = MetricsListener::Start(
      {.listen = (*first)->address(), .metrics = &metrics, .samples = none});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(second.status().message()),
              StartsWith(absl::StrCat("--metrics-listen: cannot listen on ",
                                      (*first)->address())));
}

}  // namespace
}  // namespace phitap
