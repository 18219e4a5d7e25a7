"use strict";
// Draws every figure of the page from its data, when it comes into view or before printing.
const data = JSON.parse(document.getElementById("figures").textContent);
const colors = ["#0969da", "#cf222e", "#1a7f37", "#9a6700", "#8250df", "#bf3989", "#57606a",
  "#1b7c83", "#bc4c00", "#3192aa", "#6e7781"];
const color = (i) => colors[i % colors.length];
const ink = getComputedStyle(document.body).color;
const options = { responsive: true, displaylogo: false, displayModeBar: false };

function layout(more) {
  return Object.assign({
    height: 320, margin: { l: 60, r: 10, t: 10, b: 45 }, font: { size: 12, color: ink },
    legend: { orientation: "h", y: -0.25 }, hovermode: "closest",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
  }, more);
}

function plot(holder, traces, more) {
  const div = document.createElement("div");
  holder.appendChild(div);
  Plotly.newPlot(div, traces, layout(more), options);
  return div;
}

const logarithmic = (title) => ({ title: { text: title }, type: "log", gridcolor: "#8884" });
const linear = (title) => ({ title: { text: title }, gridcolor: "#8884", zeroline: false });

const draw = {
  intervals(holder, figure) {
    const traces = figure.names.map((name, j) => ({
      type: "scatter", mode: "markers", name, x: figure.groups.map((g) => g.values[j][0]),
      y: figure.groups.map((g) => g.name), marker: { color: color(j), size: 7 },
      error_x: { type: "data", array: figure.groups.map((g) => g.values[j][1]), color: color(j) },
    }));
    plot(holder, traces, {
      height: 120 + 34 * figure.groups.length, xaxis: linear(figure.unit),
      yaxis: { automargin: true },
    });
  },

  distributions(holder, figure) {
    const traces = figure.groups.map((group, i) => ({
      type: "box", name: group.name, x: group.values, orientation: "h", boxpoints: "outliers",
      marker: { color: color(i), size: 3 }, line: { width: 1 }, boxmean: true,
    })).reverse();
    plot(holder, traces, {
      height: 90 + 34 * traces.length, showlegend: false, xaxis: logarithmic(figure.unit),
      yaxis: { automargin: true },
    });
  },

  along(holder, figure, verdict) {
    const tell = (event) => { verdict.textContent = event.points[0].customdata; };
    const lines = plot(holder, figure.series.map((one, i) => ({
      type: "scatter", mode: "lines+markers", name: one.name, x: one.time_s, y: one.error,
      customdata: one.verdict.map((text) => `${one.name}: ${text}`), hovertemplate: "%{customdata}",
      line: { width: 1, color: color(i) }, marker: { size: 6, color: color(i) },
      visible: i < 3 ? true : "legendonly",
    })), { height: 380, xaxis: linear("start of the window [s]"), yaxis: logarithmic(figure.unit) });
    lines.on("plotly_click", tell);
    const first = figure.series[0];
    const map = plot(holder, [{
      type: "scatter", mode: "lines+markers", x: first.position.map((p) => p[0]),
      y: first.position.map((p) => p[1]), customdata: first.verdict.map((v) => `${first.name}: ${v}`),
      hovertemplate: "%{customdata}", line: { width: 1, color: "#ccc" },
      marker: { size: 9, color: first.error, colorscale: "Viridis", showscale: true,
        colorbar: { title: { text: figure.unit }, thickness: 10 } },
    }], {
      height: 380, showlegend: false, xaxis: linear("x [m], from above"),
      yaxis: Object.assign(linear("y [m]"), { scaleanchor: "x" }),
    });
    map.on("plotly_click", tell);
    verdict.textContent = "Click a window to read its verdict.";
  },

  bins(holder, figure) {
    const all = figure.series.flatMap((one) => [...one.predicted, ...one.actual]).filter((v) => v > 0);
    const ends = [Math.min(...all) / 1.3, Math.max(...all) * 1.3];
    const traces = figure.series.map((one, i) => ({
      type: "scatter", mode: "lines+markers", name: one.name, x: one.predicted, y: one.actual,
      text: one.count.map((n) => `${n} windows`), marker: { color: color(i) },
    }));
    traces.push({ type: "scatter", mode: "lines", name: "y = x", x: ends, y: ends,
      line: { dash: "dash", color: "#57606a" } });
    plot(holder, traces, {
      height: 400, xaxis: logarithmic(`predicted sigma [${figure.unit}]`),
      yaxis: logarithmic(`rms error [${figure.unit}]`),
    });
  },

  growth(holder, figure) {
    const traces = figure.series.flatMap((one, i) => [
      { type: "scatter", mode: "lines+markers", name: one.name, x: one.time_s, y: one.rms,
        line: { color: color(i) } },
      { type: "scatter", mode: "lines", x: one.time_s, y: one.predicted, showlegend: false,
        name: `${one.name}, predicted`, line: { dash: "dash", color: color(i) } },
    ]);
    plot(holder, traces, { height: 400, xaxis: linear("time [s]"), yaxis: logarithmic(figure.unit) });
  },

  ellipses(holder, figure, verdict) {
    const shapes = figure.points.flatMap((point) => {
      const [[a, b], [, d]] = point.cov;
      const mean = (a + d) / 2, half = Math.hypot((a - d) / 2, b);
      const angle = 0.5 * Math.atan2(2 * b, a - d);
      const long = Math.sqrt(mean + half), short = Math.sqrt(Math.max(mean - half, 0));
      const outline = [];
      for (let i = 0; i <= 24; i++) {
        const t = 2 * Math.PI * i / 24;
        const u = long * Math.cos(t), v = short * Math.sin(t);
        outline.push([u * Math.cos(angle) - v * Math.sin(angle),
          u * Math.sin(angle) + v * Math.cos(angle)]);
      }
      return [...outline, [null, null]];
    });
    const traces = [
      { type: "scatter", mode: "lines", name: "stated 1-sigma ellipses", hoverinfo: "skip",
        x: shapes.map((p) => p[0]), y: shapes.map((p) => p[1]),
        line: { width: 1, color: "rgba(9,105,218,.15)" } },
      { type: "scatter", mode: "markers", name: "errors", x: figure.points.map((p) => p.error[0]),
        y: figure.points.map((p) => p.error[1]), customdata: figure.points.map((p) => p.label),
        hovertemplate: "%{customdata}", marker: { size: 5, color: "#cf222e" } },
    ];
    const div = plot(holder, traces, {
      height: 440, xaxis: linear("deg"), yaxis: Object.assign(linear("deg"), { scaleanchor: "x" }),
    });
    div.on("plotly_click", (event) => { verdict.textContent = event.points[0].customdata || ""; });
  },
};

function show(element) {
  if (element.dataset.drawn) return;
  element.dataset.drawn = "1";
  const figure = data[Number(element.dataset.figure)];
  draw[figure.kind](element.querySelector(".plots"), figure, element.querySelector(".verdict"));
}

const elements = document.querySelectorAll("figure[data-figure]");
const drawAll = () => elements.forEach(show);
if (location.hash === "#all" || !("IntersectionObserver" in window)) {
  drawAll();
} else {
  const seen = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => show(entry.target));
  }, { rootMargin: "400px" });
  elements.forEach((element) => seen.observe(element));
}
window.addEventListener("beforeprint", drawAll);
