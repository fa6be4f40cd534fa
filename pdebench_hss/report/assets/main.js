// Start, react to events, and on a served page poll for updates.

const POLL_MILLISECONDS = 2000;

function showPage() {
  const rows = chosenRows();
  const any = data.summary.rows.length > 0;
  byId("empty").hidden = rows.length > 0;
  byId("empty-reason").textContent = any ? "No row passes the filter." : live ? "Nothing has been recorded yet; trials appear here as they end." : "The board has no records yet. Make some with: pdebench-hss run";
  document.querySelectorAll("main > section:not(#empty):not(#reading)").forEach((section) => { section.hidden = rows.length === 0; });
  showFilters(rows);
  showOverview(rows);
  showLeaderboard(rows);
  showPaper(rows);
  laterCharts(rows);
}

// Charts wait for a pause in typing; the tables don't.
let chartTimer = 0;
function laterCharts(rows) {
  clearTimeout(chartTimer);
  chartTimer = setTimeout(() => { showPareto(rows); showStudies(rows); showLearning(rows); }, 60);
}

function showHeader() {
  const { boards, rows, version } = data.summary;
  const trials = rows.flatMap((row) => row.trials);
  const unfinished = trials.filter((trial) => trial.status !== "ok").length;
  const tasks = new Set(rows.map((row) => row.task)).size;
  const models = new Set(rows.map((row) => row.model)).size;
  showCaveats();
  const machines = new Set(rows.map((row) => row.hardware).filter(Boolean));
  byId("subtitle").textContent = `${boards.join(", ")} · ${plural(trials.length, "trial")} (${unfinished} without a result) · ${plural(models, "model")} on ${plural(tasks, "task")}`;
  byId("footer").textContent = `pdebench-hss ${version} · made from records alone · ${machines.size === 1 ? "all on machine" : "machines"} ${[...machines].join(", ") || "unknown"}`;
}

// What boards say against themselves: not converged, not tuned alike, of unlike size, of one seed.
function showCaveats() {
  const { boards, caveats } = data.summary;
  const box = byId("caveats");
  box.hidden = caveats.length === 0;
  box.querySelector("summary").textContent = `Read with care: ${plural(caveats.length, "reason")}`;
  const lines = caveats.map(({ board, text }) => make("li", {}, boards.length > 1 ? `${boards[board]}: ${text}` : text));
  box.querySelector("ul").replaceChildren(...lines);
}

function showAll() {
  showHeader();
  fillFilters();
  fillMetrics();
  fillCosts();
  showPage();
  showTrial();
}

// ---------------------------------------------------------------- theme and print

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = name === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} colours`);
}

function redraw() {
  if (!data.summary) return;
  laterCharts(chosenRows());
  if (byId("trial").open) showTrial();
}

let beforePrint = "";
addEventListener("beforeprint", () => {
  beforePrint = document.documentElement.dataset.theme;
  setTheme("light");
  const rows = chosenRows();
  showPareto(rows);
  showStudies(rows);
  showLearning(rows);
  drawWaiting();
});
addEventListener("afterprint", () => { setTheme(beforePrint); redraw(); });

// ---------------------------------------------------------------- events

function listen() {
  const form = document.forms.filters;
  const changed = (event) => { rowsShown = ROWS_AT_FIRST; choose({ [event.target.name]: event.target.value }); showPage(); };
  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  byId("clear").addEventListener("click", () => { choose(Object.fromEntries([...FILTERS, "cell"].map((name) => [name, ""]))); showPage(); form.elements.q.focus(); });
  byId("cost").addEventListener("change", (event) => { choose({ cost: event.target.value }); showPareto(chosenRows()); });
  byId("theme").addEventListener("click", () => { setTheme(isDark() ? "light" : "dark"); redraw(); });
  byId("trial-close").addEventListener("click", closeTrial);
  byId("trial").addEventListener("close", closeTrial);
  byId("trial").addEventListener("click", (event) => { if (event.target === byId("trial")) closeTrial(); });
  document.querySelectorAll("[data-jump]").forEach((link) => link.addEventListener("click", (event) => {
    event.preventDefault();
    const section = byId(link.dataset.jump);
    section.scrollIntoView();
    if (section.hasAttribute("tabindex")) section.focus({ preventScroll: true });
  }));
  addEventListener("hashchange", () => {
    const shown = () => JSON.stringify([...[...FILTERS, "metric"].map((name) => state[name]), narrows() && state.cell]);
    const before = shown();
    readAddress();
    if (shown() !== before) showPage();
    showTrial();
  });
}

// ---------------------------------------------------------------- live

let version = "";

async function poll() {
  const mark = byId("live");
  try {
    const answer = await fetch("data.json", { headers: version ? { "If-None-Match": version } : {}, cache: "no-store" });
    if (answer.status === 200) {
      version = answer.headers.get("ETag") ?? "";
      const news = await answer.json();
      takeSummary(news.summary);
      takeDetails(news.details);
      refresh();
    }
    mark.dataset.state = "on";
    mark.textContent = "● live";
  } catch {
    mark.dataset.state = "lost";
    mark.textContent = "○ server gone";
  }
  setTimeout(poll, POLL_MILLISECONDS);
}

// New records must not take the focus, the open trial or the place on the page from the reader.
function refresh() {
  showHeader();
  fillFilters();
  fillMetrics();
  const open = byId("trial").open;
  const place = scrollY;
  showPage();
  if (!open) { fillCosts(); showTrial(); }
  scrollTo({ top: place, behavior: "instant" });
}

setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
readAddress();
listen();
if (live) {
  byId("live").hidden = false;
  byId("picture-rule").hidden = true;
  poll();
} else {
  takeSummary(embedded("summary"));
  showAll();
}
