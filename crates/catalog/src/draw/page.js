(() => {
  const input = document.getElementById("q"), count = document.getElementById("n"), status = document.getElementById("path");
  const packages = [...document.querySelectorAll("details")];
  const filter = () => {
    const words = input.value.trim().toLowerCase().split(/\s+/);
    let shown = 0;
    for (const item of packages) {
      item.hidden = !words.every(word => item.dataset.s.includes(word));
      if (!item.hidden) shown++;
    }
    count.textContent = shown === packages.length ? `${shown} packages` : `${shown} of ${packages.length} packages`;
  };
  input.addEventListener("input", filter);
  const toggle = open => packages.forEach(item => { if (!item.hidden) item.open = open; });
  document.getElementById("open").addEventListener("click", () => toggle(true));
  document.getElementById("close").addEventListener("click", () => toggle(false));
  document.addEventListener("keydown", event => {
    if (event.key === "/" && document.activeElement !== input) { event.preventDefault(); input.focus(); }
    if (event.key === "Escape") clear();
    const row = event.target.closest?.(".e"), step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (row && step) {
      event.preventDefault();
      row.parentNode.querySelectorAll(":scope > .e")[+row.dataset.i + step]?.focus();
    }
  });

  // One entry of each channel can be reached with the tab key, the others from there with the arrow keys.
  const prepare = item => {
    for (const channel of item.open ? item.querySelectorAll(".c:not([role])") : []) {
      channel.setAttribute("role", "list");
      channel.querySelectorAll(":scope > .e").forEach((row, i) => {
        row.setAttribute("role", "listitem");
        row.setAttribute("aria-label", row.firstElementChild.textContent);
        row.setAttribute("tabindex", i ? -1 : 0);
      });
    }
  };
  packages.forEach(item => { item.addEventListener("toggle", () => prepare(item)); prepare(item); });

  let hot = null;
  const clear = () => {
    if (!hot) return;
    hot.classList.remove("hot");
    hot.querySelectorAll(".on").forEach(item => item.classList.remove("on"));
    hot = null;
    status.textContent = "";
  };
  // Shows the way of a cluster that has the bundle of this row installed.
  const show = row => {
    clear();
    hot = row.parentNode;
    const rows = hot.querySelectorAll(":scope > .e"), steps = new Map(), path = [];
    for (let i = +row.dataset.i; ; ) {
      path.push(i);
      rows[i].classList.add("on");
      const next = rows[i].dataset.n;
      if (next === undefined || steps.has(i)) break;
      steps.set(i, +next);
      i = +next;
    }
    // A line says which entries it leads to and, as numbers and ranges of numbers, from which it comes.
    const spans = text => text.split(",").map(part => part.split("-").map(Number));
    const inside = (i, spans) => spans.some(([first, last = first]) => first <= i && i <= last);
    for (const line of hot.querySelectorAll("[data-k]")) {
      const [to, from] = line.dataset.k.split(" ").map(spans);
      if ([...steps].some(([i, next]) => inside(i, from) && inside(next, to))) line.classList.add("on");
    }
    hot.classList.add("hot");
    const label = i => (rows[i].querySelector(".ver") || rows[i].querySelector(".nam")).textContent;
    status.textContent = path.length > 1 ? path.map(label).join(" → ") : `${label(path[0])}: nothing to upgrade to`;
  };
  document.addEventListener("mouseover", event => {
    const row = event.target.closest(".e");
    if (row) show(row); else if (!event.target.closest(".c")) clear();
  });
  document.addEventListener("focusin", event => {
    const row = event.target.closest(".e");
    if (row) show(row); else clear();
  });
})();
