// The charts of the page: error against cost, studies, learning curves. One chart per task and setting.

const COSTS = {
  fit_seconds: { title: "training time / s", timed: true },
  predict_ms: { title: "prediction time per sample / ms", timed: true },
  params_real: { title: "parameters" },
  fit_flops: { title: "FLOPs of training" },
  peak_memory_mb: { title: "peak memory / MB" },
};
const DEFAULT_COST = "fit_seconds";

function fillCosts() {
  byId("cost").replaceChildren(...Object.entries(COSTS).map(([value, { title }]) => make("option", { value }, title)));
  byId("cost").value = COSTS[state.cost] ? state.cost : DEFAULT_COST;
}

const modelsIn = (groups) => [...new Set(groups.flat().map((row) => row.model))];
const groupTitle = (row) => (data.summary.boards.length > 1 ? `${row.task} (${boardName(row)})` : row.task);

// ---------------------------------------------------------------- error against cost

function showPareto(rows) {
  const cost = COSTS[state.cost] ? state.cost : DEFAULT_COST;
  const usable = rows.filter((row) => row.status === "ok" && row[cost] > 0 && row.test_err_mean > 0);
  const groups = grouped(usable, (row) => row.group).filter((group) => group.length > 1);
  const shown = groups.slice(0, CHARTS_AT_MOST);
  const figures = shown.map((group) => paretoFigure(group, cost));
  showFigures(byId("pareto-body"), modelsIn(shown), figures, groups.length - shown.length,
    "A chart needs two models that ended well on one task and setting and have this cost.");
}

// The Pareto front: rows that no other row dominates in error and cost, from cheap to costly.
function front(rows, cost) {
  const error = (row) => (row.higher ? -row.test_err_mean : row.test_err_mean);
  const beaten = (row) => rows.some((other) =>
    other[cost] <= row[cost] && error(other) <= error(row) && (other[cost] < row[cost] || error(other) < error(row)));
  return rows.filter((row) => !beaten(row)).sort((a, b) => a[cost] - b[cost]);
}

// Times of different machines are not compared: the machine with most rows is shown, the others are counted.
function oneMachine(rows) {
  const machines = grouped(rows, (row) => row.hardware).sort((a, b) => b.length - a.length);
  return machines[0];
}

function paretoFigure(group, cost) {
  const rows = COSTS[cost].timed ? oneMachine(group) : group;
  const best = front(rows, cost);
  const left = group.length - rows.length;
  const subtitle = settingText(group[0]) + (left ? ` · ${left} rows of other machines left out` : "");
  const summary = `Error against ${COSTS[cost].title} on ${group[0].task}, ${rows.length} models. Not beaten in both: ${best.map((row) => modelTitle(row.model)).join(", ")}.`;
  return figure(groupTitle(group[0]), subtitle, summary, () => {
    const styles = modelStyles();
    const line = { x: best.map((row) => row[cost]), y: best.map((row) => row.test_err_mean), mode: "lines", line: { color: themed("quiet"), width: 1, dash: "dot", shape: "hv" }, hoverinfo: "skip" };
    const points = rows.map((row) => ({
      x: [row[cost]], y: [row.test_err_mean], mode: "markers", name: plotText(modelTitle(row.model)),
      marker: { color: styles.get(row.model).colour, symbol: styles.get(row.model).symbol, size: 11, line: { width: row.training_free ? 2 : 0 } },
      error_y: interval(row, styles.get(row.model).colour), hovertemplate: plotText(hoverText(row)).replaceAll("\n", "<br>") + "<extra></extra>",
    }));
    const settings = layout({ title: COSTS[cost].title, log: true }, { title: group[0].metric, log: true });
    Object.assign(settings.xaxis, logTicks(rows.map((row) => row[cost])));
    Object.assign(settings.yaxis, logTicks(errorRange(rows)));
    return { traces: [line, ...points], settings };
  });
}

// Room for the errors and, as far as they don't dwarf them, for their intervals (of two seeds they span decades).
function errorRange(rows) {
  const errors = rows.map((row) => row.test_err_mean);
  const [low, high] = [Math.min(...errors) / 3, Math.max(...errors) * 3];
  const ends = rows.flatMap((row) => [row.err_low, row.err_high]).filter((end) => end > 0);
  return [...errors, ...ends.map((end) => Math.min(high, Math.max(low, end)))];
}

const hoverText = (row) => [modelTitle(row.model), meanText(row.test_err_mean, row.test_err_std), `skill ${skillText(row.skill)}`,
  `${countText(row.params_real)} params, fit ${secondsText(row.fit_seconds)}, predict ${millisecondsText(row.predict_ms)}`].join("\n");

function interval(row, color) {
  if (!known(row.err_low) || !known(row.err_high)) return undefined;
  return { type: "data", symmetric: false, array: [row.err_high - row.test_err_mean], arrayminus: [row.test_err_mean - row.err_low], color, thickness: 1.2, width: 0 };
}

// ---------------------------------------------------------------- studies: one setting varies

const amount = (budget) => Number(String(budget).split("=")[1]);
const STUDIES = [
  { name: "n_train", title: "training samples", value: (row) => row.n_train },
  { name: "budget", title: "budget", value: (row) => amount(row.budget), within: (row) => String(row.budget).split("=")[0] },
  { name: "params_target", title: "parameters, matched", value: (row) => row.params_target },
];

function showStudies(rows) {
  const usable = rows.filter((row) => row.status === "ok" && row.test_err_mean > 0);
  const found = STUDIES.flatMap((study) => {
    const fixed = ["board", "task", "scale", "budget", "n_train", "params_target", "device"].filter((name) => name !== study.name);
    const key = (row) => JSON.stringify([...fixed.map((name) => row[name]), study.within ? study.within(row) : ""]);
    return grouped(usable.filter((row) => study.value(row) > 0), key)
      .filter((group) => new Set(group.map(study.value)).size > 1)
      .map((group) => ({ study, group }));
  });
  const shown = found.slice(0, CHARTS_AT_MOST);
  showFigures(byId("studies-body"), modelsIn(shown.map(({ group }) => group)), shown.map(({ study, group }) => studyFigure(study, group)),
    found.length - shown.length, "The rows shown hold no study: several train sizes, budgets or matched sizes of one task make one.");
}

function studyFigure(study, group) {
  const values = [...new Set(group.map(study.value))].sort((a, b) => a - b);
  const title = study.within ? `${study.title}, ${study.within(group[0])}` : study.title;
  const summary = `Error on ${group[0].task} against ${title}: ${values.join(", ")}.`;
  const fixed = study.name === "n_train" ? `${group[0].scale} · ${group[0].budget}` : `${group[0].scale} · n=${group[0].n_train}`;
  return figure(groupTitle(group[0]), fixed, summary, () => {
    const styles = modelStyles();
    const traces = grouped(group, (row) => row.model).map((rows) => {
      const line = [...rows].sort((a, b) => study.value(a) - study.value(b));
      const style = styles.get(line[0].model);
      return {
        x: line.map(study.value), y: line.map((row) => row.test_err_mean), mode: "lines+markers", name: plotText(modelTitle(line[0].model)),
        line: { color: style.colour, dash: style.dash, width: style.width }, marker: { color: style.colour, symbol: style.symbol, size: 8 },
        error_y: { type: "data", array: line.map((row) => row.test_err_std ?? 0), color: style.colour, thickness: 1, width: 3 },
        hovertemplate: line.map((row) => plotText(hoverText(row)).replaceAll("\n", "<br>") + "<extra></extra>"),
      };
    });
    const settings = layout({ title, log: true }, { title: group[0].metric, log: true });
    Object.assign(settings.xaxis, logTicks(values), { tickvals: values, ticktext: values.map(countText) });
    Object.assign(settings.yaxis, logTicks(group.flatMap((row) => [row.test_err_mean, row.test_err_mean + (row.test_err_std ?? 0)])));
    return { traces, settings };
  });
}

// ---------------------------------------------------------------- learning curves

function showLearning(rows) {
  const groups = grouped(rows.filter((row) => !row.training_free && row.n_seeds > 0), (row) => row.group);
  const shown = groups.slice(0, CHARTS_AT_MOST);
  showFigures(byId("learning-body"), modelsIn(shown), shown.flatMap(learningFigures), groups.length - shown.length, "No trained model among the rows shown has ended well.");
}

// The training loss, and next to it the error on held-out samples, if there are any.
function learningFigures(group) {
  const about = (what) => `${what} on ${group[0].task} against steps, ${plural(group.length, "model")}.`;
  const loss = figure(groupTitle(group[0]), `training loss · ${settingText(group[0])}`, about("Training loss"), () => learningChart(group, "curve", "training loss"));
  if (!group[0].held_out || !curvesOf(group, "held_out").length) return [loss];
  const error = () => learningChart(group, "held_out", `held-out ${group[0].metric}`, "lines+markers");
  return [loss, figure(groupTitle(group[0]), `held-out error · ${settingText(group[0])}`, about("Error on held-out samples"), error)];
}

// For each row, the curve of its first seed that ended well.
const curvesOf = (group, name) =>
  group.map((row) => [row, detailOf(row.trials.find((trial) => trial.status === "ok").id)[name]]).filter(([, curve]) => curve.length);

function learningChart(group, name, title, mode = "lines") {
  const styles = modelStyles();
  const curves = curvesOf(group, name);
  const traces = curves.map(([row, [steps, values]]) => ({
    x: steps, y: values, mode, name: plotText(modelTitle(row.model)), marker: { color: styles.get(row.model).colour, symbol: styles.get(row.model).symbol, size: 6 },
    line: { color: styles.get(row.model).colour, dash: styles.get(row.model).dash, width: styles.get(row.model).width },
    hovertemplate: `${plotText(modelTitle(row.model))}<br>step %{x}: %{y:.3g}<extra></extra>`,
  }));
  const settings = layout({ title: "step" }, { title, log: true });
  const values = curves.flatMap(([, curve]) => curve[1]).filter((value) => value > 0);
  if (values.length) Object.assign(settings.yaxis, logTicks(values));
  return { traces, settings };
}
