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
    const more = document.getElementById("more");
    const page = 12;
    let room = page;
    const show = () => {
      const wanted = [...new FormData(filters)].filter(([, value]) => value);
      const found = items.filter((item) => wanted.every(([name, value]) => item.dataset[name] === value));
      const shown = new Set(found.slice(0, room));
      for (const item of items) item.hidden = !shown.has(item);
      more.hidden = shown.size === found.length;
      count.textContent = `${found.length} of ${items.length} match, ${shown.size} shown`;
    };
    const restart = () => {
      room = page;
      show();
    };
    filters.hidden = false;
    filters.addEventListener("change", restart);
    filters.addEventListener("submit", (event) => event.preventDefault());
    filters.addEventListener("reset", () => setTimeout(restart));
    more.addEventListener("click", () => {
      const next = items.filter((item) => !item.hidden).length;
      room += page;
      show();
      items.filter((item) => !item.hidden)[next]?.focus();
    });
    show();
  }

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((details) => (details.open = true));
  });
  addEventListener("afterprint", () => closed.forEach((details) => (details.open = false)));
})();
