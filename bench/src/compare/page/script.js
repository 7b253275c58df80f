// The page is complete without this script: it makes tables sortable, and answers the questions.
(function () {
  "use strict";

  // Sorting

  function makeSortable(table) {
    for (const head of table.querySelectorAll("th[data-sort]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, head));
    }
  }

  function sort(table, head) {
    const descending = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.querySelectorAll("th[aria-sort]")) {
      other.removeAttribute("aria-sort");
    }
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const compare = head.dataset.sort === "number" ? compareNumbers : compareTexts;
    const column = head.cellIndex;
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort((a, b) => compare(a.cells[column], b.cells[column], descending ? -1 : 1));
    table.tBodies[0].append(...rows);
  }

  // What was not measured comes last in both directions.
  function compareNumbers(a, b, direction) {
    const [left, right] = [a, b].map((cell) => "value" in cell.dataset);
    if (!left || !right) {
      return Number(right) - Number(left);
    }
    return direction * (Number(a.dataset.value) - Number(b.dataset.value));
  }

  function compareTexts(a, b, direction) {
    return direction * a.textContent.localeCompare(b.textContent, "en", { numeric: true });
  }

  // Which should I take?

  const FIGURES = {
    cycle: { best: Math.min, name: "a cycle" },
    rate: { best: Math.max, name: "cycles a second" },
    "hand-over": { best: Math.min, name: "a hand-over" },
  };

  function values(form, name) {
    return new FormData(form).getAll(name).filter((value) => value !== "");
  }

  function figure(row, name) {
    const value = row.getAttribute("data-" + name);
    return value === null ? null : Number(value);
  }

  // The figure as the table shows it, in one of its last three columns.
  function shown(row, name) {
    const columns = Object.keys(FIGURES);
    return row.cells[row.cells.length - columns.length + columns.indexOf(name)].textContent;
  }

  function byFigure(name) {
    const better = FIGURES[name].best;
    return (a, b) => {
      const [left, right] = [figure(a, name), figure(b, name)];
      if (left === null || right === null) {
        return Number(left === null) - Number(right === null);
      }
      return left === right ? 0 : better(left, right) === left ? -1 : 1;
    };
  }

  function answer(form, rows, place) {
    const needs = [...values(form, "reach"), ...values(form, "need")];
    const owned = values(form, "run");
    const name = values(form, "sort")[0];
    const meets = (row) => {
      const met = row.dataset.meets.split(" ");
      return needs.every((need) => met.includes(need)) && (owned.length === 0 || owned.includes(row.dataset.backend));
    };
    const fitting = rows.filter(meets).sort(byFigure(name));
    place.replaceChildren(...(fitting.length === 0 ? nothing() : listed(fitting, name)));
  }

  function nothing() {
    const says = "No measured server gives all of this. Take back the need that matters least to you.";
    return [paragraph(says)];
  }

  function listed(rows, name) {
    const list = document.createElement("ol");
    for (const row of rows) {
      const item = document.createElement("li");
      item.textContent = row.dataset.server + ": " + shown(row, name);
      list.append(item);
    }
    const count = rows.length === 1 ? "One measured server fits" : rows.length + " measured servers fit";
    return [paragraph(count + ", with " + FIGURES[name].name + ", the fastest first:"), list];
  }

  function paragraph(text) {
    const element = document.createElement("p");
    element.textContent = text;
    return element;
  }

  function answerQuestions() {
    const form = document.getElementById("questions");
    const place = document.getElementById("answer");
    // Their order in the table may change, and nothing else of them.
    const rows = Array.from(document.querySelectorAll("#needs tbody tr"));
    const update = () => answer(form, rows, place);
    form.addEventListener("change", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
    place.hidden = false;
    update();
  }

  document.querySelectorAll("table").forEach(makeSortable);
  answerQuestions();
  document.documentElement.dataset.script = "done";
})();
