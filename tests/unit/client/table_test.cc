#include "client/cli/table.h"

#include <gtest/gtest.h>

namespace phitap::cli {
namespace {

TEST(Table, AlignsColumnsByDisplayWidth) {
  Table table = {.columns = {{.title = "token"},
                             {.title = "id", .align = Align::kRight},
                             {.title = "note"}}};
  table.AddRow({"日本", "7", "wide"});
  table.AddRow({"abc", "12345", ""});
  EXPECT_EQ(Render(table, Terminal()),
            "token     id  note\n"
            "日本       7  wide\n"
            "abc    12345\n");
}

TEST(Table, CutsTheColumnsThatMayShrinkToTheTerminal) {
  Table table = {.columns = {{.title = "name"},
                             {.title = "what it is", .may_shrink = true}}};
  table.AddRow({"layer_output", "residual stream leaving the block"});
  EXPECT_EQ(Render(table, {.width = 30, .interactive = true}),
            "name          what it is\n"
            "layer_output  residual stream…\n");
}

TEST(Table, CutsNothingInFilesAndPipes) {
  Table table = {.columns = {{.title = "a", .may_shrink = true}}};
  table.AddRow({std::string(300, 'x')});
  EXPECT_EQ(Render(table, {.width = 30}), "a\n" + std::string(300, 'x') + "\n");
}

TEST(Table, KeepsColumnsReadableInAVeryNarrowTerminal) {
  Table table = {.columns = {{.title = "name"},
                             {.title = "what it is", .may_shrink = true}}};
  table.AddRow({"layer_output", "residual stream"});
  EXPECT_EQ(Render(table, {.width = 10, .interactive = true}),
            "name          what it…\n"
            "layer_output  residua…\n");
}

TEST(Table, PaintsCellsIncludingTheirPadding) {
  Table table = {.columns = {{.title = "a"}, {.title = "b"}}};
  table.rows = {
      {{.text = "1", .style = {.background = Rgb{1, 2, 3}}}, {.text = "2"}}};
  table.columns[0].title = "abc";
  EXPECT_EQ(Render(table, {.colors = Colors::kTrue}),
            "\x1b[1mabc\x1b[0m  \x1b[1mb\x1b[0m\n"
            "\x1b[48;2;1;2;3m1  \x1b[0m  2\n");
}

}  // namespace
}  // namespace phitap::cli
