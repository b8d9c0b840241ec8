#include "client/cli/progress_line.h"

#include <gtest/gtest.h>

namespace phitap::cli {
namespace {

TEST(ProgressText, TellsShareBytesAndRate) {
  EXPECT_EQ(ProgressText({.received_bytes = 1200000000,
                          .total_bytes = 2857142857,
                          .bytes_per_second = 2.31e9}),
            " 42%  1.20 GB of 2.86 GB  2.31 GB/s");
}

TEST(ProgressText, TellsWhatTheRequestWaitsFor) {
  v1::Progress server;
  server.set_queue_position(3);
  EXPECT_EQ(ProgressText({.server = server}), "  3 ahead of it");
  server.set_queue_position(0);
  server.set_layers_done(5);
  server.set_layers_total(32);
  EXPECT_EQ(ProgressText({.server = server}), "  layer 5 of 32");
}

}  // namespace
}  // namespace phitap::cli
