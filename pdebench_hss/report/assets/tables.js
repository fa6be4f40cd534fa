// The tables: filters, overview, leaderboard, the paper's.

const ROWS_AT_FIRST = 200;
const COLUMNS_AT_MOST = 30;
const CELLS_AT_MOST = 2000;

const scrolling = (label, table) => make("div", { class: "scroll", role: "region", "aria-label": label, tabindex: 0 }, table);

const firstTrial = (row) => row.trials.find((trial) => trial.status === "ok") ?? row.trials[0];

// What an address of one cell opens.
function cellTrial() {
  const rows = state.cell ? cellRows() : [];
  return rows.length === 1 ? { row: rows[0], trial: firstTrial(rows[0]) } : null;
}

function trialLink(row, text, attributes = {}) {
  return make("a", { href: addressWith({ trial: firstTrial(row).id }), ...attributes }, text);
}

// ---------------------------------------------------------------- filters

function fillFilters() {
  for (const name of FILTERS.filter((filter) => filter !== "q")) {
    const select = document.forms.filters.elements[name];
    const values = [...new Set(data.summary.rows.map((row) => valueOf(row, name)))];
    if (name === "n_train") values.sort((a, b) => a - b);
    if (state[name] && !values.includes(state[name])) values.push(state[name]);
    const options = values.map((value) => make("option", { value }, name === "model" ? modelTitle(value) : value));
    select.replaceChildren(make("option", { value: "" }, "all"), ...options);
    select.closest("label").hidden = values.length < 2 && !state[name];
  }
}

function showFilters(rows) {
  for (const name of FILTERS) {
    const control = document.forms.filters.elements[name];
    if (control.value !== (state[name] ?? "")) control.value = state[name] ?? "";
    control.closest("label").classList.toggle("set", Boolean(state[name]));
  }
  const all = data.summary.rows.length;
  byId("count").textContent = rows.length === all ? plural(all, "row") : `${rows.length} of ${plural(all, "row")}`;
  byId("clear").hidden = !narrows() && !FILTERS.some((name) => state[name]);
  showMetric();
}

// ---------------------------------------------------------------- overview: models by tasks

function showOverview(rows) {
  const groups = [...new Map(rows.map((row) => [row.group, row])).values()];
  const body = byId("overview-body");
  byId("overview").hidden = groups.length < 2; // one task alone is what the leaderboard shows
  if (groups.length < 2) return body.replaceChildren();
  const models = grouped(rows, (row) => row.model).sort((a, b) => standing(a) - standing(b)).map((own) => own[0].model);
  if (groups.length > COLUMNS_AT_MOST || groups.length * models.length > CELLS_AT_MOST) {
    return body.replaceChildren(make("p", {}, `${models.length} models on ${groups.length} tasks and settings are too many for one table: filter to see it.`));
  }
  const best = new Map(grouped(rows.filter((row) => known(row.rank)), (row) => row.group).map((own) => [own[0].group, yardstick(own)]));
  const cells = new Map(rows.map((row) => [`${row.group} ${row.model}`, row]));
  const vary = ["scale", "budget", "n_train"].filter((name) => new Set(groups.map((row) => row[name])).size > 1);
  const head = make("tr", {}, make("th", { scope: "col" }, "Model"), ...groups.map((row) => groupHead(row, vary)));
  const lines = models.map((model) =>
    make("tr", {}, make("th", { scope: "row" }, modelTitle(model)), ...groups.map((g) => overviewCell(cells.get(`${g.group} ${model}`), best.get(g.group)))),
  );
  body.replaceChildren(
    scrolling("Table of the overview", make("table", { class: "matrix" }, make("thead", {}, head), make("tbody", {}, ...lines))),
  );
}

// What shades measure from: the best trained model. A baseline that is exact to rounding would make all others equally dark.
function yardstick(rows) {
  const trained = rows.filter((row) => !row.training_free);
  const errors = (trained.length ? trained : rows).map((row) => row.test_err_mean);
  return rows[0].higher ? Math.max(...errors) : Math.min(...errors);
}

// The order of models: by mean rank where they have one; baselines and failures come last.
function standing(rows) {
  const ranks = rows.map((row) => row.rank ?? 99);
  return ranks.reduce((a, b) => a + b, 0) / ranks.length;
}

function groupHead(row, vary) {
  const settings = vary.map((name) => (name === "n_train" ? `n=${row[name]}` : row[name])).join(" · ");
  const several = data.summary.boards.length > 1 ? `${boardName(row)} ` : "";
  return make("th", { scope: "col" }, breakable(row.task), make("small", {}, `${several}${settings}`));
}

function overviewCell(row, best) {
  if (!row) return make("td", { class: "quiet" }, NONE);
  const tone = row.status === "skipped" ? "quiet" : "bad"; // a model that does not apply has not failed
  if (!known(row.test_err_mean)) return make("td", { class: tone }, trialLink(row, row.status, { title: row.reason, class: tone }));
  const times = row.higher ? best / row.test_err_mean : row.test_err_mean / best;
  const behind = Math.min(8, Math.max(0, Math.log2(times) || 0));
  const cell = make("td", { title: `${modelTitle(row.model)} on ${row.task}: ${meanText(row.test_err_mean, row.test_err_std)}` }, trialLink(row, errorText(row.test_err_mean)));
  cell.style.background = `color-mix(in srgb, var(--heat) ${(4.5 * behind).toFixed(1)}%, transparent)`;
  if (row.rank === 1) cell.classList.add("best");
  if (row.status !== "ok") cell.append(make("span", { class: "bad", title: statusText(row) }, " *"));
  return cell;
}

// ---------------------------------------------------------------- leaderboard

// In their own order rows stand under their task; sorted by a column they are one list, and each names its task and, where
// they differ, its settings (``flat`` columns). ``result`` columns give way to the reason where there is no result.
const COLUMNS = [
  { name: "rank", title: "#", number: true, cell: (row) => row.rank ?? NONE },
  { name: "board", title: "Board", value: boardName, flat: true },
  { name: "task", title: "Task", class: "name", flat: true, cell: (row) => breakable(row.task) },
  { name: "model", title: "Model", class: "name", cell: modelCell },
  { name: "test_err_mean", title: "Error", number: true, result: true, cell: errorCell },
  { name: "skill", title: "Skill", number: true, result: true, cell: (row) => make("span", { class: row.skill > 0 ? "good" : null }, skillText(row.skill)) },
  { name: "params_real", title: "Params", number: true, optional: true, result: true, cell: (row) => (row.params_real ? countText(row.params_real) : NONE) },
  { name: "fit_seconds", title: "Fit", number: true, optional: true, result: true, cell: (row) => secondsText(row.fit_seconds) },
  { name: "predict_ms", title: "Predict", number: true, optional: true, result: true, cell: (row) => millisecondsText(row.predict_ms) },
  { name: "flops_step", title: "FLOPs/step", number: true, optional: true, result: true, cell: (row) => countText(row.flops_step) },
  { name: "peak_memory_mb", title: "Memory", number: true, optional: true, result: true, cell: (row) => memoryText(row.peak_memory_mb) },
  { name: "n_seeds", title: "Seeds", number: true, optional: true, cell: (row) => (row.n_seeds === row.n_expected ? row.n_seeds : `${row.n_seeds} of ${row.n_expected}`) },
  { name: "metric", title: "Metric", optional: true, flat: true },
  { name: "scale", title: "Scale", optional: true, flat: true },
  { name: "budget", title: "Budget", optional: true, flat: true },
  { name: "n_train", title: "Train size", number: true, optional: true, flat: true },
  { name: "params_target", title: "Size asked for", number: true, optional: true, flat: true, cell: (row) => countText(row.params_target) },
  { name: "trust", title: "Trust", optional: true, cell: trustCell },
];

// Under the name: the parts of training that are the model's own, and how many tries its options took.
function modelCell(row) {
  const link = trialLink(row, modelTitle(row.model));
  return row.note ? make("span", {}, link, make("small", { class: "note" }, row.note)) : link;
}

// The level, and under it by which machine and when.
function trustCell(row) {
  const [, level, where] = row.trust.match(/^(.*?)(?: \((.*)\))?$/s);
  return where ? make("span", {}, level, make("small", { class: "note" }, where)) : level;
}

function errorCell(row) {
  const text = meanText(row.test_err_mean, row.test_err_std);
  return row.status === "ok" ? text : make("span", {}, text, make("span", { class: "bad" }, make("br"), statusText(row)));
}

let rowsShown = ROWS_AT_FIRST;

function sorted(rows) {
  const name = (state.sort ?? "").replace(/^-/, "");
  const column = COLUMNS.find((candidate) => candidate.name === name);
  if (!column) return rows;
  const sign = state.sort.startsWith("-") ? -1 : 1;
  const value = column.value ?? ((row) => row[name]);
  const rank = (v) => (v === null || v === undefined ? 1 : 0); // what is missing comes last either way
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    return rank(x) - rank(y) || sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y) || 0;
  });
}

function showLeaderboard(rows) {
  const differs = (name) => name === "task" || new Set(data.summary.rows.map((row) => valueOf(row, name))).size > 1;
  const columns = COLUMNS.filter((column) => !column.flat || (state.sort && differs(column.name)));
  const ordered = sorted(rows);
  const shown = ordered.slice(0, rowsShown);
  const blocks = state.sort ? [shown] : grouped(shown, (row) => row.group);
  const bodies = blocks.map((block) => make("tbody", {}, state.sort ? null : groupLine(block[0], columns.length), ...block.map((row) => leaderboardRow(row, columns))));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...columns.map(columnHead))), ...bodies);
  const parts = [scrolling("Table of the leaderboard", table)];
  if (ordered.length > rowsShown) {
    const more = make("button", { type: "button", class: "more", id: "more" }, `Show all ${ordered.length} rows`);
    more.addEventListener("click", () => { rowsShown = Infinity; showLeaderboard(rows); });
    parts.push(more);
  }
  byId("leaderboard-body").replaceChildren(...parts);
}

function groupLine(row, width) {
  const board = data.summary.boards.length > 1 ? `${boardName(row)} · ` : "";
  const setting = make("small", {}, ` ${board}${settingText(row)} · ${row.metric}`);
  return make("tr", { class: "group-line" }, make("th", { scope: "rowgroup", colspan: width }, `${row.equation.replace("--", "–")} `, make("code", {}, breakable(row.task)), setting));
}

const classesOf = (column) => [column.number && "number", column.class, column.optional && "optional"].filter(Boolean).join(" ") || null;

function leaderboardRow(row, columns) {
  const results = columns.filter((column) => column.result);
  const cells = columns.flatMap((column) => {
    if (column.result && !known(row.test_err_mean)) {
      return column === results[0] ? [make("td", { class: "reason bad", colspan: results.length }, statusText(row))] : [];
    }
    const content = column.cell ? column.cell(row) : column.value ? column.value(row) : row[column.name];
    return [make("td", { class: classesOf(column) }, content)];
  });
  return make("tr", {}, ...cells);
}

function columnHead(column) {
  const current = (state.sort ?? "").replace(/^-/, "") === column.name;
  const down = current && state.sort.startsWith("-");
  const button = make("button", { type: "button", "data-sort": column.name }, column.title);
  button.addEventListener("click", () => {
    choose({ sort: current && !down ? `-${column.name}` : current ? "" : column.name });
    showLeaderboard(chosenRows());
    document.querySelector(`[data-sort="${column.name}"]`).focus();
  });
  return make("th", { scope: "col", class: classesOf(column), "aria-sort": current ? (down ? "descending" : "ascending") : "none" }, button);
}

// ---------------------------------------------------------------- the paper's tables

function showPaper(rows) {
  if (chosenMetric()) return byId("paper-body").replaceChildren(make("p", { class: "quiet" }, "Printed tables are in each task's own metric: choose that to see them."));
  const shown = new Set(rows.map((row) => `${row.board} ${row.task} ${row.scale} ${row.budget} ${row.n_train}`));
  const parts = data.summary.papers.flatMap((paper) => {
    const run = paper.rows.filter((row) => shown.has(`${paper.board} ${row.task} ${row.scale} ${row.budget} ${row.n_train}`));
    return run.length ? [paperTable(paper, run)] : [];
  });
  if (!parts.length) parts.push(make("p", { class: "quiet" }, "None of the rows shown is in the paper's tables."));
  byId("paper-body").replaceChildren(...parts);
}

function paperTable(paper, run) {
  const scales = [...new Set(run.map((row) => row.scale))];
  const unlike = scales.some((scale) => scale !== "paper");
  const note = unlike
    ? `Ours at scale ${scales.join(", ")}; the published numbers at the paper's own sizes and budgets, so the two lines compare unlike things.`
    : "Ours at scale paper, the published setting.";
  const heads = paper.models.map((model) => make("th", { scope: "col", class: "number" }, modelTitle(model), make("small", {}, make("br"), "error (params)")));
  const lines = run.flatMap((row) => [paperLine(row, paper.models, "ours"), paperLine(row, paper.models, "paper")]);
  const table = make("table", { class: "paper" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Equation"), make("th", { scope: "col" }, "Setting"), ...heads)), make("tbody", {}, ...lines));
  const board = data.summary.boards.length > 1 ? `, ${data.summary.boards[paper.board]}` : "";
  const title = `${paper.title}${board}`;
  return make("div", {}, make("h3", {}, title), make("p", { class: "quiet" }, note), scrolling(title, table));
}

function paperLine(row, models, whose) {
  const prefix = whose === "paper" ? "paper_" : "";
  const errors = models.map((model) => row.cells[model][`${prefix}test_err`]);
  const levels = [...new Set(errors.filter(known))].sort((a, b) => a - b);
  const cells = models.map((model, i) => {
    const params = row.cells[model][`${prefix}params`];
    const mark = errors[i] === levels[0] ? "best" : errors[i] === levels[1] ? "second" : null;
    if (!known(errors[i])) return make("td", {}, NONE);
    const text = make("span", { class: mark }, whose === "paper" ? printedText(errors[i]) : errorText(errors[i]));
    return make("td", {}, text, known(params) ? make("small", {}, ` (${countText(params)})`) : null);
  });
  const head = whose === "ours" ? make("th", { scope: "rowgroup", rowspan: 2 }, row.equation.replace("--", "–")) : null;
  const setting = whose === "ours" ? `ours: ${settingText(row)}` : "paper";
  return make("tr", { class: `${whose}-row` }, head, make("td", { class: "quiet" }, setting), ...cells);
}
