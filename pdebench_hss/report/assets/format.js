// Numbers as people read them. Short, but nothing is rounded to zero.

const NONE = "–";
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

const exponent = (value, digits) => value.toExponential(digits).replace("e+", "e").replace("-", "−");

function errorText(value) {
  if (!known(value)) return NONE;
  if (value === 0) return "0";
  return value >= 0.01 && value < 1000 ? value.toPrecision(4).replace(/e.*/, "") : exponent(value, 2);
}

// A mean and its deviation with the same power of ten, so that they can be compared at a glance.
function meanText(mean, deviation) {
  if (!known(mean)) return NONE;
  if (!known(deviation)) return errorText(mean);
  if (deviation === 0) return `${errorText(mean)} ± 0`;
  if (mean >= 0.01 && mean < 1000) {
    const decimals = Math.max(0, 3 - Math.floor(Math.log10(mean)));
    const text = deviation.toFixed(decimals);
    return `${mean.toFixed(decimals)} ± ${Number(text) === 0 && deviation > 0 ? exponent(deviation, 0) : text}`;
  }
  return `${exponent(mean, 2)} ± ${exponent(deviation, 0)}`;
}

// A printed number with the digits it was printed with: 3e-3, 0.294.
function printedText(value) {
  if (!known(value)) return NONE;
  return value >= 0.1 && value < 1000 ? String(value) : exponent(value);
}

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function countText(value) {
  if (!known(value)) return NONE;
  for (const [limit, unit] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "K"]]) {
    if (value >= limit) return `${(value / limit).toPrecision(3)} ${unit}`;
  }
  return String(Math.round(value));
}

function secondsText(value) {
  if (!known(value)) return NONE;
  if (value < 0.1) return `${(1000 * value).toPrecision(2)} ms`;
  if (value < 120) return `${value.toPrecision(value < 10 ? 2 : 3)} s`;
  return value < 7200 ? `${(value / 60).toPrecision(3)} min` : `${(value / 3600).toPrecision(3)} h`;
}

const millisecondsText = (value) => (known(value) ? secondsText(value / 1000) : NONE);
const memoryText = (value) => (known(value) ? `${value < 10 ? value.toPrecision(2) : Math.round(value)} MB` : NONE);

function skillText(value) {
  if (!known(value)) return NONE;
  if (value <= -10) return 1 - value < 1000 ? `${(1 - value).toFixed(0)}×` : `${(1 - value).toExponential(0)}×`; // of the baseline's error
  const percent = 100 * value;
  const rounded = percent > 99 && percent < 100 ? percent.toFixed(2) : percent.toFixed(0);
  return `${percent > 0 ? "+" : ""}${rounded} %`.replace("-", "−");
}

// fno[modes=4] -> FNO (modes=4), with the paper's names where it has one
function modelTitle(label) {
  const [base, options] = label.split("[");
  const title = (data.summary.titles[base] ?? base).replace("--", "–");
  return options ? `${title} (${options.replace(/\]$/, "")})` : title;
}

const statusText = (row) => (row.status === "ok" ? "" : `${row.status}: ${row.reason}`);

// A name that may wrap after its underscores.
const breakable = (text) => make("span", {}, ...text.split(/(?<=_)/).flatMap((part, i) => (i ? [make("wbr"), part] : [part])));

const samplesText = (row) => `n=${row.n_train}${row.held_out ? ` + ${row.held_out} held out` : ""}`;

const settingText = (row) => [row.scale, row.budget, samplesText(row), row.params_target && `${countText(row.params_target)} params`].filter(Boolean).join(" · ");
