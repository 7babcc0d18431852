"use strict";
(() => {
  const root = document.documentElement;

  const theme = document.getElementById("theme");
  const isDark = () =>
    (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const showTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  showTheme();

  const sortBy = (table, column, ascending) => {
    const body = table.tBodies[0];
    const key = (row) => row.cells[column].dataset.sort;
    const isNumeric = table.tHead.rows[0].cells[column].classList.contains("num");
    const compare = (a, b) => (isNumeric ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true }));
    const rows = [...body.rows].sort((first, second) => {
      const a = key(first);
      const b = key(second);
      if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
      return ascending ? compare(a, b) : compare(b, a);
    });
    body.append(...rows);
  };
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        // Numbers start with the largest, names with the first of the alphabet.
        const first = head.classList.contains("num") ? "descending" : "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const order = head.getAttribute("aria-sort") === first ? other : first;
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        sortBy(table, column, order === "ascending");
      });
    });
  }

  const filters = document.getElementById("filters");
  if (filters) {
    const items = [...document.querySelectorAll("#gallery .item")];
    const count = document.getElementById("filter-count");
    const show = () => {
      const wanted = [...new FormData(filters)].filter(([, value]) => value);
      for (const item of items) item.hidden = wanted.some(([name, value]) => item.dataset[name] !== value);
      count.textContent = `${items.filter((item) => !item.hidden).length} of ${items.length} shown`;
    };
    filters.hidden = false;
    filters.addEventListener("change", show);
    filters.addEventListener("submit", (event) => event.preventDefault());
    filters.addEventListener("reset", () => setTimeout(show));
    show();
  }

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((details) => (details.open = true));
  });
  addEventListener("afterprint", () => closed.forEach((details) => (details.open = false)));
})();
