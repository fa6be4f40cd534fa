// What is shown: the data of the page, and the choices of the reader, which live in the address.

const FILTERS = ["board", "task", "model", "kind", "scale", "budget", "n_train", "status", "q"];
const CHOICES = [...FILTERS, "cell", "metric", "sort", "cost", "trial"];
const live = document.documentElement.dataset.mode === "live";

const byId = (id) => document.getElementById(id);

// An element with attributes and children. Children are elements or text; text never becomes markup.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map((c) => (c instanceof Node ? c : String(c))));
  return element;
}

// ---------------------------------------------------------------- data

const data = { summary: null, details: null, pictures: null };

const embedded = (name) => JSON.parse(byId(`data-${name}`).textContent);

// Long tables are sent as columns.
function rowsOf(columns) {
  const names = Object.keys(columns);
  return (columns[names[0]] ?? []).map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

function takeSummary(packed) {
  const rows = rowsOf(packed.rows).map((row) => ({ ...row, trials: [] }));
  rowsOf(packed.trials).forEach((trial) => rows[trial.row].trials.push(trial));
  data.summary = { ...packed, rows };
}

function takeDetails(packed) {
  data.details = { ...packed, trials: new Map(rowsOf(packed.trials).map((trial) => [trial.id, trial])) };
}

// Details and pictures are large: they are read when something first needs them.
function details() {
  if (!data.details) takeDetails(embedded("details"));
  return data.details;
}

function detailOf(id) {
  const found = details().trials.get(id);
  if (!found) return null;
  const { pools } = details();
  const shared = Object.keys(pools).map((name) => [name, pools[name][found[name]]]);
  return { ...found, ...Object.fromEntries(shared) };
}

async function picturesOf(id) {
  if (live) {
    const answer = await fetch(`pictures/${encodeURIComponent(id)}.json`);
    return answer.ok ? answer.json() : [];
  }
  if (!data.pictures) data.pictures = embedded("pictures");
  return data.pictures[id] ?? [];
}

function findTrial(id) {
  for (const row of data.summary.rows) {
    const trial = row.trials.find((candidate) => candidate.id === id);
    if (trial) return { row, trial };
  }
  return null;
}

// ---------------------------------------------------------------- the reader's choices

let state = {};

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  state = Object.fromEntries(CHOICES.filter((name) => given.get(name)).map((name) => [name, given.get(name)]));
}

function addressWith(changes) {
  const next = { ...state, ...changes };
  const chosen = CHOICES.filter((name) => next[name]).map((name) => [name, next[name]]);
  return `#${new URLSearchParams(chosen)}`;
}

// The permanent address of a row's cell, written to be read.
const cellAddress = (row) => `#cell=${encodeURIComponent(row.cell).replaceAll("%2F", "/").replaceAll("%3D", "=").replaceAll("%2C", ",")}`;

// Rows of the cell that the address names, or of all below it if it is cut short.
function cellRows() {
  const rows = data.summary?.rows ?? [];
  const own = rows.filter((row) => row.cell === state.cell);
  return own.length ? own : rows.filter((row) => row.cell.startsWith(`${state.cell.replace(/\/$/, "")}/`));
}

// An address of a single cell opens it over the whole board; one of several narrows the board to them.
const narrows = () => Boolean(state.cell) && cellRows().length > 1;

// Filters replace the entry of the history, so that Back leaves the page; a trial is a link, and Back closes it.
function choose(changes) {
  history.replaceState(null, "", addressWith(changes));
  readAddress();
}

const textOf = (row) =>
  (row.text ??= [row.task, row.equation, row.model, row.scale, row.budget, row.n_train, row.metric, row.status, row.reason, row.note, boardName(row), kindOf(row)]
    .join(" ").toLowerCase());

const boardName = (row) => data.summary.boards[row.board];

const kindOf = (row) => (row.training_free ? "training-free" : "trained");

const valueOf = (row, name) => (name === "board" ? boardName(row) : name === "kind" ? kindOf(row) : String(row[name]));

function chosenRows() {
  const words = (state.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const exact = FILTERS.filter((name) => name !== "q" && state[name]);
  const among = narrows() ? cellRows() : data.summary.rows;
  const chosen = among.filter(
    (row) => exact.every((name) => valueOf(row, name) === state[name]) && words.every((word) => textOf(row).includes(word)),
  );
  return throughMetric(chosen);
}

// Rows by a key, in the order in which the keys first come.
function grouped(rows, key) {
  const groups = new Map();
  for (const row of rows) {
    const name = key(row);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  return [...groups.values()];
}
