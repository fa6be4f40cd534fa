// One trial: what came out, its errors, its pictures, its settings and where it was run.

// Whether the address names something to open.
const namesOne = () => Boolean(state.trial) || (Boolean(state.cell) && !narrows());

function showTrial() {
  const dialog = byId("trial");
  if (!namesOne()) {
    if (dialog.open) dialog.close();
    return;
  }
  const found = state.trial ? findTrial(state.trial) : cellTrial();
  byId("trial-title").textContent = found ? `${modelTitle(found.row.model)} on ${found.row.task}` : `No such ${state.trial ? "trial" : "cell"}`;
  const body = byId("trial-body");
  if (found) fillTrial(body, found);
  else body.replaceChildren(make("p", {}, `This page has no ${state.trial ? `trial ${state.trial}` : `cell ${state.cell}`}. It may belong to another board.`));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  byId("trial-title").focus();
}

function closeTrial() {
  if (!namesOne()) return;
  choose(narrows() ? { trial: "" } : { trial: "", cell: "" });
  showTrial();
}

function fillTrial(body, { row, trial }) {
  const detail = detailOf(trial.id);
  const pictures = make("div", {}, make("p", { class: "quiet" }, "Loading pictures…"));
  body.replaceChildren(
    ...[
      make("p", { class: "quiet" }, `${row.equation.replace("--", "–")} · ${settingText(row)} · ${row.metric}${data.summary.boards.length > 1 ? ` · board ${boardName(row)}` : ""}`),
      row.note ? make("p", {}, row.note) : null,
      seedList(row, trial),
      make("p", { class: "quiet address" }, "Address of this cell, which stays: ", make("a", { href: cellAddress(row) }, cellAddress(row))),
      trial.status === "ok" ? null : make("p", { class: "bad" }, make("strong", {}, trial.status), `: ${trial.reason}`),
      make("div", { class: "charts" }, ...trialFigures(row, trial, detail)),
      make("h3", {}, "Best, median and worst test sample, and where errors are"),
      pictures,
      make("h3", {}, "Figures, settings, provenance"),
      make("div", { class: "facts" }, ...facts(trial, detail)),
    ].filter(Boolean),
  );
  picturesOf(trial.id).then((shown) => fillPictures(pictures, shown, trial));
}

function seedList(row, current) {
  const links = row.trials.map((trial) =>
    make("li", {}, make("a", { href: addressWith({ trial: trial.id }), "aria-current": trial.id === current.id ? "true" : null },
      `seed ${trial.seed}: ${known(trial.test_err) ? errorText(trial.test_err) : trial.status}`)));
  return make("ul", { class: "seeds", "aria-label": "Seeds of this row" }, ...links);
}

// ---------------------------------------------------------------- charts

function trialFigures(row, trial, detail) {
  const figures = [];
  if (detail?.errors.length) figures.push(distributionFigure(row, detail));
  if (detail?.curve.length) figures.push(curveFigure("Learning curve", "training loss", detail.curve));
  if (detail?.held_out.length) figures.push(curveFigure("Held-out error", `${row.metric} of held-out samples`, detail.held_out, "lines+markers"));
  if (detail?.by_step.length > 1) figures.push(stepFigure(row, detail));
  return figures;
}

function distributionFigure(row, detail) {
  const share = details().quantiles;
  const errors = detail.errors;
  const summary = `Errors of the test samples: best ${errorText(errors[0])}, median ${errorText(errors[10])}, worst ${errorText(errors.at(-1))}.`;
  return figure("Errors of the test samples", `share of samples below an error · ${summary.slice(summary.indexOf(":") + 2, -1)}`, summary, () => {
    const positive = errors.filter((error) => error > 0);
    const settings = layout({ title: row.metric, log: positive.length === errors.length }, { title: "share of test samples" });
    if (positive.length === errors.length) Object.assign(settings.xaxis, logTicks(errors));
    Object.assign(settings.yaxis, { tickformat: ".0%", range: [-0.02, 1.02] });
    const trace = { x: errors, y: share, mode: "lines", line: { color: themed("accent"), width: 2 }, hovertemplate: "%{y:.0%} of samples below %{x:.3g}<extra></extra>" };
    return { traces: [trace], settings };
  });
}

// Against steps; ``what`` is measured, from its first value to its last.
function curveFigure(title, what, [steps, values], mode = "lines") {
  const summary = `${what[0].toUpperCase()}${what.slice(1)} from ${errorText(values[0])} to ${errorText(values.at(-1))}.`;
  return figure(title, `${what} against steps`, summary, () => {
    const settings = layout({ title: "step" }, { title: what, log: true });
    const positive = values.filter((value) => value > 0);
    if (positive.length) Object.assign(settings.yaxis, logTicks(positive));
    return { traces: [{ x: steps, y: values, mode, line: { color: themed("accent"), width: 2 }, hovertemplate: "step %{x}: %{y:.3g}<extra></extra>" }], settings };
  });
}

function stepFigure(row, detail) {
  const steps = detail.by_step.map((_, i) => i + 1);
  const summary = `Relative L2 of ${modelTitle(row.model)} at each of ${steps.length} steps, from ${errorText(detail.by_step[0])} to ${errorText(detail.by_step.at(-1))}.`;
  return figure("Error at each step", "relative L2, mean over test samples", summary, () => {
    const settings = layout({ title: "step" }, { title: "relative L2", log: true });
    const positive = detail.by_step.filter((error) => error > 0);
    if (positive.length) Object.assign(settings.yaxis, logTicks(positive));
    return { traces: [{ x: steps, y: detail.by_step, mode: "lines+markers", line: { color: themed("accent"), width: 2 }, hovertemplate: "step %{x}: %{y:.3g}<extra></extra>" }], settings };
  });
}

// ---------------------------------------------------------------- pictures

function fillPictures(place, shown, trial) {
  if ((state.trial ?? cellTrial()?.trial.id) !== trial.id) return; // the reader has opened another trial meanwhile
  if (!shown.length) {
    const why = trial.status === "ok" && !live
      ? "The pictures of this trial are not in this file, or its record has none: one trial per leaderboard row has its pictures here, best ranks first, while they fit."
      : "This trial has no pictures.";
    return place.replaceChildren(make("p", { class: "quiet" }, why));
  }
  place.replaceChildren(...shown.map(sampleFigure));
}

function sampleFigure(sample) {
  const numbers = Object.entries(sample.numbers).map(([name, value]) => `, ${name} = ${value}`).join("");
  const images = sample.panels.filter((panel) => panel.png);
  const curves = sample.panels.filter((panel) => panel.y);
  const about = sample.sample === null ? "|error| at each point, its mean and its largest over the test set" : `test sample ${sample.sample}, error ${errorText(sample.error)}${numbers}`;
  const caption = make("figcaption", {}, sample.name, make("small", {}, `${about}${images.length ? ` · ${sample.axes}` : ""}`));
  const lines = lineUp(images).map((line) => line.map((panel) => picture(panel, sample)));
  const [first = [], ...rest] = lines;
  return make("figure", {}, caption, ...[[...curvePanels(curves, sample), ...first], ...rest].map((line) => make("div", { class: "pictures" }, ...line)));
}

// One line for all if they are few; else the inputs on one, and each output field on one of its own.
function lineUp(images) {
  if (images.length <= 5) return [images];
  let line = 0;
  return grouped(images, (panel) => (panel.role === "truth" ? ++line : line));
}

function picture(panel, sample) {
  const alt = `${panel.title} of ${subject(sample)}, from ${panel.low} to ${panel.high}`;
  const bar = make("i", { class: panel.low === -panel.high ? "diverging" : "sequential" });
  return make("div", { class: "picture" }, make("small", {}, panel.title), make("img", { src: panel.png, alt }),
    make("div", { class: "scale" }, errorSign(panel.low), bar, errorSign(panel.high)));
}

const subject = (sample) => (sample.sample === null ? sample.name : `the ${sample.name} sample`);

const errorSign = (value) => (value < 0 ? `−${errorSign(-value)}` : value === 0 ? "0" : value >= 0.01 && value < 1000 ? String(Number(value.toPrecision(3))) : exponent(value, 1));

// Curves of one sample: inputs, truth with the prediction over it, errors.
function curvePanels(curves, sample) {
  const together = [["input", ["input"]], ["truth and prediction", ["truth", "prediction"]], ["error", ["error"]], ["mean and worst |error|", ["mean", "worst"]]];
  const shown = { "truth and prediction": "truth (line), prediction (dashed)", "mean and worst |error|": "|error|: mean (line), worst (dashed)" };
  return together.flatMap(([title, roles]) => {
    const chosen = curves.filter((panel) => roles.includes(panel.role));
    if (!chosen.length) return [];
    const chart = make("div", { class: "curve", role: "img", "aria-label": `${title} of ${subject(sample)} along the line` });
    waiting.set(chart, () => curveTraces(chosen));
    seen.observe(chart);
    return [make("div", { class: "picture wide" }, make("small", {}, shown[title] || title), chart)];
  });
}

function curveTraces(chosen) {
  const look = { input: { color: themed("quiet"), width: 1.5 }, truth: { color: themed("accent"), width: 2.5 }, prediction: { color: "#D55E00", width: 1.8, dash: "dash" }, error: { color: "#D55E00", width: 1.3 }, mean: { color: themed("accent"), width: 2 }, worst: { color: "#D55E00", width: 1.3, dash: "dash" } };
  const traces = chosen.map((panel) => ({ x: panel.y.map((_, i) => i / (panel.y.length - 1)), y: panel.y, mode: "lines", line: look[panel.role], name: plotText(panel.title), hovertemplate: `${plotText(panel.title)}: %{y:.3g}<extra></extra>` }));
  const settings = layout({ title: "" }, { title: "" }, { margin: { l: 8, r: 8, t: 8, b: 8 } });
  Object.assign(settings.xaxis, { showticklabels: false, title: "" });
  Object.assign(settings.yaxis, { nticks: 4, title: "", exponentformat: "e" });
  return { traces, settings };
}

// ---------------------------------------------------------------- facts

const factTable = (title, entries) => {
  const lines = Object.entries(entries).filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, typeof value === "object" ? JSON.stringify(value) : value)));
  return lines.length ? [make("table", {}, make("caption", { class: "quiet" }, title), make("tbody", {}, ...lines))] : [];
};

// Quantiles: the error below which some shares of the test samples stay.
function quantileFacts(errors) {
  const shares = details().quantiles;
  const name = (share) => (share === 0 ? "best" : share === 1 ? "worst" : share === 0.5 ? "median" : `${Math.round(100 * share)} % below`);
  const wanted = [0, 0.25, 0.5, 0.75, 0.9, 0.95, 1];
  return Object.fromEntries(wanted.map((share) => [name(share), errors[shares.findIndex((each) => Math.abs(each - share) < 1e-9)]]));
}

function facts(trial, detail) {
  const measured = Object.fromEntries(["test_err", ...data.summary.measured].map((name) => [name, trial[name]]));
  measured["held-out"] = trial.val_err;
  const cost = { "fit / s": trial.fit_seconds, "predict / ms per sample": trial.predict_ms, "peak memory / MB": trial.peak_memory_mb };
  if (!detail) return factTable("Metrics", measured);
  const speed = detail.serving;
  const range = (name) => (known(speed[name]) ? `${speed[name]} (${speed[`${name}_low`]} to ${speed[`${name}_high`]})` : null);
  const serving = { "latency of one input / ms": range("latency_ms"), "answers a second": range("throughput"), "in batches of": speed.best_batch };
  const spent = Object.fromEntries(Object.entries(detail.spent).map(([name, value]) => [`trained: ${name}`, value]));
  const started = detail.started ? new Date(1000 * detail.started).toISOString().slice(0, 16).replace("T", " ") + " UTC" : null;
  return [
    ...factTable("Metrics, full precision", measured),
    ...factTable("Errors over test samples", quantileFacts(detail.errors)),
    ...factTable("Cost", { ...cost, ...serving, ...spent, "parameters, real": detail.parameters.real, "parameters, entries": detail.parameters.numel, "parameters asked for": detail.parameters.target }),
    ...factTable("Settings", detail.settings),
    ...factTable("Data", detail.data),
    ...factTable("Machine", { ...detail.hardware, threads: detail.threads, started }),
    ...factTable("Trust", { level: trial.trust, "by machine": trial.trust_machine, on: trial.trust_when }),
    ...factTable("Versions", { ...detail.versions, ...detail.source, trial: trial.id }),
  ];
}
