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

  const find = document.getElementById("find");
  if (find) {
    const rows = [...document.querySelectorAll("tr[data-run]")];
    const count = document.getElementById("find-count");
    const narrow = () => {
      const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
    };
    document.getElementById("find-row").hidden = false;
    // The words outlast a reload.
    find.value = decodeURIComponent(location.hash.slice(1));
    find.addEventListener("input", () => {
      location.replace(`#${encodeURIComponent(find.value)}`);
      narrow();
    });
    find.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
    narrow();
    const ticked = () => rows.filter((row) => row.querySelector("input").checked).map((row) => row.dataset.run);
    const chosen = document.getElementById("chosen");
    const quoted = (name) => `'${name.replaceAll("'", "'\\''")}'`;
    if (chosen) {
      const before = chosen.textContent;
      document.getElementById("compare").addEventListener("change", () => {
        const names = ticked();
        const verb = names.length === 2 ? "compare" : "report";
        const command = `medtune ${verb} ${names.map(quoted).join(" ")} --out compared`;
        chosen.textContent = names.length > 1 ? `In that folder: ${command}` : before;
      });
    }
    const { refresh } = document.getElementById("runs").dataset;
    if (refresh) setInterval(() => ticked().length || document.hidden || location.reload(), 1000 * refresh);
  }

  const filters = document.getElementById("filters");
  if (filters) {
    const items = [...document.querySelectorAll("#gallery .item")];
    const count = document.getElementById("filter-count");
    const more = document.getElementById("more");
    const page = 12;
    let room = page;
    const paper = document.getElementById("paper");
    // An item belongs to several groups, one a line; of everything else it has one value.
    const fits = (item, name, value) => item.dataset[name].split("\n").includes(value);
    const show = () => {
      const wanted = [...new FormData(filters)].filter(([, value]) => value);
      const found = items.filter((item) => wanted.every(([name, value]) => fits(item, name, value)));
      const first = new Set(found.slice(0, room));
      // What is only further down the page is printed; what the filters leave out is not.
      for (const item of items) {
        item.hidden = !found.includes(item);
        item.classList.toggle("later", !item.hidden && !first.has(item));
      }
      more.hidden = first.size === found.length;
      count.textContent = `${found.length} of ${items.length} match, ${first.size} shown`;
      const named = wanted.map(([name, value]) => `${name} ${value}`).join(", ");
      paper.textContent = `On paper: ${named ? `${found.length} of the ${items.length} questions of this page (${named})` : `all ${items.length} questions of this page`}.`;
    };
    const restart = (rest) => {
      room = page;
      show();
      if (typeof rest === "string") count.textContent += `. ${rest}`;
    };
    filters.hidden = false;
    filters.addEventListener("change", restart);
    filters.addEventListener("submit", (event) => event.preventDefault());
    filters.addEventListener("reset", () => setTimeout(restart));
    more.addEventListener("click", () => {
      const next = items.filter((item) => !item.hidden && !item.classList.contains("later")).length;
      room += page;
      show();
      items.filter((item) => !item.hidden)[next]?.focus();
    });
    const choose = (name, value) => {
      for (const select of filters.querySelectorAll("select")) select.value = "";
      const select = filters.elements[name];
      if (select) select.value = value;
      return select;
    };
    for (const link of document.querySelectorAll("a[data-group], a[data-change]")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        const { group, change } = link.dataset;
        if (group) {
          const task = items.find((item) => fits(item, "group", group));
          if (group.startsWith("task=")) choose("task", task.dataset.task);
          else choose("group", group);
          filters.elements.outcome.value = "wrong";
        } else {
          choose("change", change);
        }
        restart(link.dataset.rest);
        document.getElementById("answers").scrollIntoView();
        items.find((item) => !item.hidden)?.focus({ preventScroll: true });
      });
    }
    show();
  }

  addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const zoom of document.querySelectorAll(".zoom[open]")) zoom.open = false;
  });

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open]):not(.zoom)")];
    closed.forEach((details) => (details.open = true));
  });
  addEventListener("afterprint", () => closed.forEach((details) => (details.open = false)));
})();
