// Drawing with Plotly: one style, drawn lazily, and names that can't become markup.

const CHARTS_AT_MOST = 12;

const isDark = () => document.documentElement.dataset.theme === "dark";
const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// The library interprets some tags in its texts, so text from records is escaped.
const plotText = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

// What a model looks like here is what it looks like in figures: plots/looks.py chooses.
function modelStyles() {
  const looks = Object.entries(data.summary.looks);
  return new Map(looks.map(([model, look]) => [model, { ...look, colour: isDark() ? look.dark : look.colour }]));
}

const SHAPES = { circle: "M5 1A4 4 0 1 1 4.99 1Z", square: "M1.5 1.5H8.5V8.5H1.5Z", "triangle-up": "M5 1L9 8.5H1Z", diamond: "M5 .5L9.5 5L5 9.5L.5 5Z",
  "triangle-down": "M1 1.5H9L5 9Z", cross: "M3.5 1H6.5V3.5H9V6.5H6.5V9H3.5V6.5H1V3.5H3.5Z", x: "M2.5 1L5 3.5L7.5 1L9 2.5L6.5 5L9 7.5L7.5 9L5 6.5L2.5 9L1 7.5L3.5 5L1 2.5Z",
  pentagon: "M5 .5L9.5 4L7.8 9H2.2L.5 4Z", hexagon: "M2.7 1H7.3L9.6 5L7.3 9H2.7L.4 5Z", "triangle-left": "M1 5L8.5 1V9Z", "triangle-right": "M9 5L1.5 1V9Z",
  "diamond-tall": "M5 .3L8 5L5 9.7L2 5Z", octagon: "M3.2 1H6.8L9 3.2V6.8L6.8 9H3.2L1 6.8V3.2Z", star: "M5 .3L6.2 3.7H9.7L6.9 5.8L8 9.3L5 7.2L2 9.3L3.1 5.8L.3 3.7H3.8Z" };

function legend(models) {
  const styles = modelStyles();
  const items = models.map((model) => {
    const { colour, symbol } = styles.get(model);
    const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    icon.setAttribute("viewBox", "0 0 10 10");
    icon.setAttribute("aria-hidden", "true");
    const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
    shape.setAttribute("d", SHAPES[symbol.replace("-open", "")]);
    shape.setAttribute("fill", symbol.endsWith("-open") ? "none" : colour);
    shape.setAttribute("stroke", colour);
    icon.append(shape);
    return make("li", {}, icon, modelTitle(model));
  });
  return make("ul", { class: "legend", "aria-label": "Models in these charts" }, ...items);
}

function layout(x, y, more = {}) {
  const axis = (title, kind) => ({
    title: { text: plotText(title), font: { size: 12 }, standoff: 6 }, type: kind, gridcolor: themed("line"), linecolor: themed("quiet"),
    zeroline: false, ticks: "outside", tickcolor: themed("quiet"), ticklen: 4, exponentformat: "power", automargin: true, nticks: 7,
    ...(kind === "log" ? { dtick: null, minor: { showgrid: false } } : {}),
  });
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest",
    font: { family: "system-ui, sans-serif", size: 11.5, color: themed("ink") }, margin: { l: 55, r: 12, t: 8, b: 42 },
    hoverlabel: { bgcolor: themed("card"), bordercolor: themed("quiet"), font: { color: themed("ink") }, align: "left" },
    xaxis: axis(x.title, x.log ? "log" : "linear"), yaxis: axis(y.title, y.log ? "log" : "linear"), ...more,
  };
}

// Ticks of logarithmic axes: powers of ten, and over less than two decades a few between them.
function logTicks(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)].map(Math.log10);
  const padding = Math.max(0.08, 0.07 * (high - low));
  const range = [low - padding, high + padding];
  const span = range[1] - range[0];
  const steps = span < 0.7 ? [1, 1.5, 2, 3, 4, 5, 7] : span < 1.3 ? [1, 2, 3, 5] : span < 2.2 ? [1, 2, 5] : [1];
  const every = span < 8 ? 1 : Math.ceil(span / 6);
  const ticks = [];
  for (let power = Math.floor(range[0]); power <= Math.ceil(range[1]); power++) {
    if (span >= 2.2 && power % every) continue;
    ticks.push(...steps.map((step) => step * 10 ** power));
  }
  const shown = ticks.filter((tick) => Math.log10(tick) >= range[0] && Math.log10(tick) <= range[1]);
  return { range, tickmode: "array", tickvals: shown, ticktext: shown.map(tickText) };
}

function tickText(value) {
  if (value >= 0.01 && value < 1000) return String(Number(value.toPrecision(3)));
  const [digits, power] = value.toExponential(0).split("e");
  const raised = `10<sup>${Number(power)}</sup>`.replace("-", "−");
  return digits === "1" ? raised : `${digits}·${raised}`;
}

// ---------------------------------------------------------------- lazily

const waiting = new Map(); // element -> function that draws into it
const seen = new IntersectionObserver((entries) => entries.filter((e) => e.isIntersecting).forEach((e) => drawNow(e.target)), { rootMargin: "300px" });

function drawNow(element) {
  const draw = waiting.get(element);
  if (!draw) return;
  waiting.delete(element);
  seen.unobserve(element);
  const { traces, settings } = draw();
  Plotly.newPlot(element, traces, settings, { displayModeBar: false, responsive: true });
}

function drawWaiting() {
  [...waiting.keys()].forEach((element) => (element.isConnected ? drawNow(element) : waiting.delete(element)));
}

// A figure whose chart is drawn when it comes near the window; ``summary`` is the text for screen readers.
function figure(title, subtitle, summary, draw) {
  const chart = make("div", { class: "chart", role: "img", "aria-label": summary });
  waiting.set(chart, draw);
  seen.observe(chart);
  return make("figure", {}, make("figcaption", {}, title, subtitle ? make("small", {}, subtitle) : null), chart);
}

function showFigures(body, models, figures, left, nothing) {
  if (!figures.length) return body.replaceChildren(make("p", { class: "quiet" }, nothing));
  const note = left > 0 ? make("p", { class: "quiet" }, `${left} more: filter by task to see them.`) : null;
  body.replaceChildren(...[legend(models), make("div", { class: "charts" }, ...figures), note].filter(Boolean));
}
