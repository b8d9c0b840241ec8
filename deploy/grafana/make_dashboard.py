#!/usr/bin/env python3
"""Writes dashboard.json, which Grafana imports: the panels are declared here, one call each.

usage: deploy/grafana/make_dashboard.py > deploy/grafana/dashboard.json
"""
# SPDX-License-Identifier: Apache-2.0

import json

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: Of every query: the servers that are chosen above.
HERE = 'job="$job", instance=~"$instance"'
COLUMNS = 24


def rate(metric: str, by: str, more: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{HERE}{more}}}[$__rate_interval]))"


def quantile(share: float, metric: str, by: str, more: str = "") -> str:
    return f"histogram_quantile({share}, {rate(metric + '_bucket', by + ', le', more)})"


def gauge(metric: str, more: str = "") -> str:
    return f"{metric}{{{HERE}{more}}}"


class Dashboard:
    """Panels in rows of 24 columns, left to right."""

    def __init__(self) -> None:
        self.panels: list[dict] = []
        self._x = self._y = self._height = 0

    def row(self, title: str) -> None:
        self._y += self._height
        self._x = self._height = 0
        self.panels.append({"id": len(self.panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
                            "gridPos": {"x": 0, "y": self._y, "w": COLUMNS, "h": 1}})
        self._y += 1

    def add(self, kind: str, title: str, help_text: str, unit: str, queries: dict[str, str], width: int, height: int = 8, **custom) -> None:
        """queries: by the legend of their lines."""
        if self._x + width > COLUMNS:
            self._y += self._height
            self._x = self._height = 0
        targets = [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": query, "legendFormat": legend,
                    **({"format": "table", "instant": True} if kind == "table" else {}), **({"instant": True} if kind == "stat" else {})}
                   for i, (legend, query) in enumerate(queries.items())]
        options = custom.pop("options", {})
        self.panels.append({
            "id": len(self.panels) + 1, "type": kind, "title": title, "description": help_text, "datasource": SOURCE, "targets": targets,
            "gridPos": {"x": self._x, "y": self._y, "w": width, "h": height},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0, **custom}, "overrides": []}, "options": options})
        self._x += width
        self._height = max(self._height, height)

    def lines(self, title: str, help_text: str, unit: str, queries: dict[str, str], width: int = 8, stacked: bool = False) -> None:
        style = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 30 if stacked else 8, "showPoints": "never",
                 "stacking": {"mode": "normal" if stacked else "none", "group": "A"}}
        self.add("timeseries", title, help_text, unit, queries, width, custom=style,
                 options={"tooltip": {"mode": "multi", "sort": "desc"}, "legend": {"displayMode": "list", "placement": "bottom"}})

    def figure(self, title: str, help_text: str, unit: str, query: str, steps: list[tuple[float | None, str]], **more) -> None:
        thresholds = {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}
        self.add("stat", title, help_text, unit, {"": query}, 4, 4, thresholds=thresholds, **more,
                 options={"colorMode": "background", "graphMode": "area", "reduceOptions": {"calcs": ["lastNotNull"]}})


def overview(board: Dashboard) -> None:
    board.row("Is it well?")
    words = [{"type": "value", "options": {"0": {"text": "not ready"}, "1": {"text": "ready"}}}]
    board.figure("Ready", "Whether health checks say SERVING", "none", f"min({gauge('phitap_ready')})", [(None, "red"), (1, "green")],
                 mappings=words)
    board.figure("Waiting", "Traces that wait", "none", f"sum({gauge('phitap_queued_requests')})",
                 [(None, "green"), (50, "yellow"), (150, "red")])
    board.figure("Wait, p99", "Of traces: from being taken on to the first wave", "s",
                 quantile(0.99, "phitap_queue_wait_seconds", "job"), [(None, "green"), (10, "yellow"), (30, "red")])
    board.figure("Refused", "Traces that were not taken on", "reqps", rate("phitap_refusals_total", "job"),
                 [(None, "green"), (0.1, "yellow"), (1, "red")])
    board.figure("Failed", "Traces that were taken on and ended with an error", "reqps",
                 rate("phitap_traces_total", "job", ', outcome="failed"'), [(None, "green"), (0.01, "yellow"), (0.1, "red")])
    board.figure("Compute thread busy", "Share of the time that it spends on waves", "percentunit",
                 f"avg(sum by (instance) (rate(phitap_compute_seconds_total{{{HERE}}}[$__rate_interval])))",
                 [(None, "green"), (0.8, "yellow"), (0.95, "red")])


def traffic(board: Dashboard) -> None:
    board.row("What is asked")
    board.lines("Traces by outcome", "That were taken on and have ended", "reqps",
                {"{{model}} {{outcome}}": rate("phitap_traces_total", "model, outcome")}, stacked=True)
    board.lines("Refusals by reason", "Traces that were not taken on", "reqps",
                {"{{reason}} ({{caller}})": rate("phitap_refusals_total", "reason, caller") + " > 0"})
    board.lines("Calls by method and code", "All calls", "reqps", {"{{method}} {{code}}": rate("phitap_calls_total", "method, code")})
    board.lines("Tokens", "Of traces that have ended", "short", {"{{model}} {{kind}} ({{caller}})": rate("phitap_tokens_total", "model, kind, caller")},
                stacked=True)
    board.lines("Runs", "Of traces that have finished; failed are those with an error of their own", "short",
                {"{{model}}": rate("phitap_runs_total", "model"), "{{model}} failed": rate("phitap_failed_runs_total", "model")})
    board.lines("Tensors sent", "Bytes, counted as their traces end", "Bps", {"{{model}} ({{caller}})": rate("phitap_sent_bytes_total", "model, caller")},
                stacked=True)


def times(board: Dashboard) -> None:
    board.row("How long it takes")
    board.lines("Whole traces", "From the beginning of a call to its end", "s",
                {f"p{percent}": quantile(percent / 100, "phitap_trace_stage_seconds", "job", ', stage="whole"') for percent in (50, 90, 99)})
    board.lines("Median of each stage", "Of traces that have finished", "s",
                {"{{stage}}": quantile(0.5, "phitap_trace_stage_seconds", "stage", ', stage!="whole"')})
    board.lines("p99 of each stage", "Of traces that have finished", "s",
                {"{{stage}}": quantile(0.99, "phitap_trace_stage_seconds", "stage", ', stage!="whole"')})


def engine(board: Dashboard) -> None:
    board.row("The engine")
    board.lines("Queue", "Traces that wait, and those in waves", "short",
                {"{{instance}} waiting": gauge("phitap_queued_requests"), "{{instance}} running": gauge("phitap_running_requests")})
    board.lines("Wait in the queue", "Counted as the first wave begins", "s",
                {f"p{percent}": quantile(percent / 100, "phitap_queue_wait_seconds", "job") for percent in (50, 90, 99)})
    board.lines("Waves under way", "All but one are set aside", "short",
                {"{{instance}} waves": gauge("phitap_waves_under_way"), "{{instance}} tokens": gauge("phitap_wave_tokens_under_way")})
    board.lines("Waves", "That began, by phase; and how often one was set aside for a smaller one", "short",
                {"{{phase}}": rate("phitap_wave_tokens_count", "phase"), "set aside": rate("phitap_waves_set_aside_total", "job"),
                 "steps": rate("phitap_wave_steps_total", "job")})
    board.lines("Tokens of a wave", "Mean, by phase", "short",
                {"{{phase}}": f"{rate('phitap_wave_tokens_sum', 'phase')} / {rate('phitap_wave_tokens_count', 'phase')}"})
    board.lines("Token-layers", "Computed, and saved by sharing and early stops", "short",
                {"computed": rate("phitap_token_layers_computed_total", "job"), "saved": rate("phitap_token_layers_saved_total", "job")}, stacked=True)


def memory(board: Dashboard) -> None:
    board.row("Memory, models, process")
    board.lines("Memory by kind", "In use", "bytes", {"{{kind}}": f"sum by (kind) ({gauge('phitap_memory_bytes')})"})
    board.lines("Share of its bound", "What does not fit is refused", "percentunit",
                {"{{kind}}": f"{gauge('phitap_memory_bytes')} / {gauge('phitap_memory_limit_bytes')}"})
    board.add("table", "Models", "And the state that each is in", "none",
              {"": f"{gauge('phitap_model_state')} == 1"}, 8)
    board.lines("Processor", "Cores in use", "short", {"{{instance}}": rate("process_cpu_seconds_total", "instance")})
    board.lines("Resident memory and files", "Of the process", "short",
                {"{{instance}} bytes": gauge("process_resident_memory_bytes"), "{{instance}} files": gauge("process_open_fds"),
                 "{{instance}} most files": gauge("process_max_fds")})
    board.add("table", "Builds", "What runs, and since when", "none",
              {"build": gauge("phitap_build_info"), "up": f"time() - {gauge('process_start_time_seconds')}"}, 8)


def variables() -> list[dict]:
    return [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
            {"name": "job", "type": "query", "label": "Job", "datasource": SOURCE, "query": "label_values(phitap_build_info, job)", "refresh": 2},
            {"name": "instance", "type": "query", "label": "Server", "datasource": SOURCE, "multi": True, "includeAll": True, "allValue": ".*",
             "query": 'label_values(phitap_build_info{job="$job"}, instance)', "refresh": 2}]


def main() -> None:
    board = Dashboard()
    for part in (overview, traffic, times, engine, memory):
        part(board)
    print(json.dumps({"title": "phitap", "uid": "phitap", "tags": ["phitap"], "schemaVersion": 38, "version": 1, "editable": True,
                      "refresh": "15s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser", "annotations": {"list": []},
                      "templating": {"list": variables()}, "panels": board.panels}, indent=1))


if __name__ == "__main__":
    main()
