// The board through another metric: means over seeds, ranks and skill from the trials, as `leaderboard --metric` has them.

const ROUNDING = 1e-12; // of the field's size: smaller differences share a rank

const chosenMetric = () => data.summary.metrics.find(({ name }) => name === state.metric);

let seenRows = { metric: null, of: null, rows: new Map() };

// Each row as the chosen metric sees it; rows of tasks on which no trial has the metric are left out.
function throughMetric(rows) {
  const metric = chosenMetric();
  if (!metric) return rows;
  if (seenRows.metric !== metric || seenRows.of !== data.summary.rows) {
    const groups = grouped(data.summary.rows, (row) => row.group).flatMap((group) => seenGroup(group, metric));
    seenRows = { metric, of: data.summary.rows, rows: new Map(groups) };
  }
  const seen = rows.map((row) => seenRows.rows.get(row)).filter(Boolean);
  return grouped(seen, (row) => row.group).flatMap((group) => group.sort((a, b) => (a.rank ?? Infinity) - (b.rank ?? Infinity) || 0));
}

function seenGroup(group, metric) {
  const seen = group.map((row) => seenRow(row, metric));
  if (!seen.some((row) => row.n_seeds)) return [];
  const complete = seen.filter((row) => row.n_seeds && row.n_seeds === row.n_expected);
  rankRows(complete, metric);
  return group.map((row, i) => [row, seen[i]]);
}

function seenRow(row, metric) {
  const ended = row.trials.filter((trial) => trial.status === "ok");
  const values = ended.map((trial) => trial[metric.name]).filter(known);
  const mean = values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const without = row.status === "ok" && values.length < ended.length;
  return {
    ...row, text: undefined, metric: metric.name, higher: metric.higher, test_err_mean: mean, n_seeds: values.length,
    test_err_std: values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : null, err_low: null, err_high: null, rank: null, skill: null,
    ...(without ? { status: "missing", reason: `${metric.name} was not measured` } : {}),
  };
}

// Ranks from 1 on, shared within rounding; skill against the best training-free baseline.
function rankRows(rows, metric) {
  const sign = metric.higher ? -1 : 1;
  const ordered = [...rows].sort((a, b) => sign * (a.test_err_mean - b.test_err_mean));
  const size = median(rows.flatMap((row) => row.trials).map((trial) => trial[metric.name] / trial.relative_l2).filter((ratio) => known(ratio) && ratio > 0)) ?? 1;
  const rounding = ROUNDING * size;
  let first = null;
  ordered.forEach((row, i) => {
    if (!first || sign * (row.test_err_mean - first.test_err_mean) > rounding) { first = row; row.rank = i + 1; } else row.rank = first.rank;
  });
  const free = ordered.filter((row) => row.training_free);
  if (!free.length || !(free[0].test_err_mean > 0)) return;
  const baseline = free[0].test_err_mean;
  rows.forEach((row) => {
    const gain = metric.higher ? row.test_err_mean / baseline - 1 : 1 - row.test_err_mean / baseline;
    row.skill = Math.abs(row.test_err_mean - baseline) <= rounding ? 0 : gain;
  });
}

function median(values) {
  const ordered = [...values].sort((a, b) => a - b);
  return ordered.length ? (ordered[Math.floor((ordered.length - 1) / 2)] + ordered[Math.ceil((ordered.length - 1) / 2)]) / 2 : null;
}

// ---------------------------------------------------------------- the choice

function fillMetrics() {
  const select = document.forms.filters.elements.metric;
  const options = data.summary.metrics.map(({ name, title }) => make("option", { value: name }, title));
  select.replaceChildren(make("option", { value: "" }, "each task's own"), ...options);
  select.closest("label").hidden = options.length === 0;
}

function showMetric() {
  const select = document.forms.filters.elements.metric;
  const metric = chosenMetric();
  select.value = metric ? metric.name : "";
  select.closest("label").classList.toggle("set", Boolean(metric));
  byId("metric-note").hidden = !metric;
  byId("metric-note").textContent = metric ? `${metric.title}: ${metric.formula}. ${metric.higher ? "Higher" : "Lower"} is better.` : "";
}
